#include "hip/hip_device.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "hip/code_objects.h"
#include "hip/kernel_launcher.h"
#include "hip/quantization.h"
#include "hip/row_copies.h"
#include "hip/runtime_library.h"
#include "hip/support.h"
#include "interface/error.h"

namespace gdn::hip {
namespace {

// Calls a runtime function and checks its status.
#define GDN_HIP_CALL(function, ...) runtime_.check(runtime_.function##_(__VA_ARGS__), #function)

constexpr char kArchitecture[] = "gfx906";
constexpr std::int64_t kL2Bytes = std::int64_t{4} << 20;  // the runtime does not always tell

/// HIP device numbers of the gfx906 cards; or why there are none.
std::vector<int> gfx906_devices(const HipRuntime& runtime, std::string& reason) {
  std::vector<int> devices;
  if (!runtime.problem.empty()) {
    reason = runtime.problem;
    return devices;
  }
  int count = 0;
  const hipError_t status = runtime.hipGetDeviceCount_(&count);
  if (status != hipSuccess || count == 0) {
    reason = status == hipSuccess ? "the HIP runtime shows no device"
                                  : std::string("no usable HIP device: the runtime says '") +
                                        runtime.hipGetErrorString_(status) + "' (" +
                                        runtime.hipGetErrorName_(status) + ")";
    return devices;
  }
  std::string others;
  for (int index = 0; index < count; ++index) {
    hipDeviceProp_t properties{};
    runtime.check(runtime.hipGetDeviceProperties_(&properties, index), "hipGetDeviceProperties");
    const std::string architecture = properties.gcnArchName;
    if (architecture.substr(0, architecture.find(':')) == kArchitecture) {
      devices.push_back(index);
    } else {
      others += (others.empty() ? "" : ", ") + architecture;
    }
  }
  if (devices.empty()) reason = "no gfx906 among the HIP devices (" + others + ")";
  return devices;
}

class HipDevice final : public Device, public KernelLauncher {
 public:
  HipDevice(const HipRuntime& runtime, int device) : runtime_(runtime), device_(device) {
    GDN_HIP_CALL(hipSetDevice, device_);
    hipDeviceProp_t properties{};
    GDN_HIP_CALL(hipGetDeviceProperties, &properties, device_);
    int driver = 0;
    GDN_HIP_CALL(hipDriverGetVersion, &driver);
    info_.backend = info_.runs = "hip";
    info_.has_own_memory = info_.flush_is_certain = true;
    info_.name = std::string(properties.name) + " (" + properties.gcnArchName + ")";
    info_.driver_version = std::to_string(driver);
    info_.toolkit_version = code_object_compiler();
    info_.multiprocessors = properties.multiProcessorCount;
    info_.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
    info_.l2_bytes = properties.l2CacheSize > 0 ? properties.l2CacheSize : kL2Bytes;
    GDN_HIP_CALL(hipStreamCreateWithFlags, &stream_, hipStreamNonBlocking);
    GDN_HIP_CALL(hipEventCreate, &start_);
    GDN_HIP_CALL(hipEventCreate, &stop_);
    void* flag = nullptr;
    GDN_HIP_CALL(hipHostMalloc, &flag, sizeof(std::int32_t), hipHostMallocCoherent);
    hold_flag_ = static_cast<std::int32_t*>(flag);
    // Twice the cache: every line of it is replaced.
    flush_bytes_ = 2 * info_.l2_bytes;
    GDN_HIP_CALL(hipMalloc, &flush_buffer_, static_cast<std::size_t>(flush_bytes_));
    register_launcher(stream_, this);
  }
  ~HipDevice() override {
    unregister_launcher(stream_);
    (void)runtime_.hipSetDevice_(device_);
    (void)runtime_.hipStreamSynchronize_(stream_);
    for (const auto& [name, module] : modules_) (void)runtime_.hipModuleUnload_(module);
    (void)runtime_.hipFree_(flush_buffer_);
    (void)runtime_.hipHostFree_(hold_flag_);
    (void)runtime_.hipEventDestroy_(start_);
    (void)runtime_.hipEventDestroy_(stop_);
    (void)runtime_.hipStreamDestroy_(stream_);
  }

  const DeviceInfo& info() const override { return info_; }

  DeviceBuffer allocate(std::int64_t bytes) override {
    select();
    if (bytes == 0) return DeviceBuffer(this, nullptr, 0);
    void* data = nullptr;
    if (runtime_.hipMalloc_(&data, static_cast<std::size_t>(bytes)) != hipSuccess) {
      (void)runtime_.hipGetLastError_();
      throw Error(ErrorKind::out_of_memory, info_.name + ": " + std::to_string(bytes) +
                                                " bytes asked for, " +
                                                std::to_string(free_memory_bytes()) + " free");
    }
    return DeviceBuffer(this, data, bytes);
  }
  std::int64_t free_memory_bytes() const override {
    select();
    std::size_t free = 0, total = 0;
    GDN_HIP_CALL(hipMemGetInfo, &free, &total);
    return static_cast<std::int64_t>(free);
  }
  void upload(void* destination, const void* source, std::int64_t bytes) override {
    copy(destination, source, bytes, hipMemcpyHostToDevice);
    synchronize();
  }
  void download(void* destination, const void* source, std::int64_t bytes) override {
    copy(destination, source, bytes, hipMemcpyDeviceToHost);
    synchronize();
  }
  void copy_async(void* destination, const void* source, std::int64_t bytes) override {
    copy(destination, source, bytes, hipMemcpyDeviceToDevice);
  }
  void fill_async(void* destination, unsigned char byte, std::int64_t bytes) override {
    if (bytes == 0) return;
    select();
    GDN_HIP_CALL(hipMemsetAsync, destination, byte, static_cast<std::size_t>(bytes), stream_);
  }
  void enqueue_copies(std::span<const StridedCopy> copies, void* stream) override {
    for (const StridedCopy& copy : copies) {
      if (!launch_row_copy(*this, copy)) Device::enqueue_copies({&copy, 1}, stream);
    }
  }
  void enqueue_quantization(const ChannelQuantization& quantization, void*) override {
    launch_quantization(*this, quantization);
  }
  void synchronize() override {
    select();
    GDN_HIP_CALL(hipStreamSynchronize, stream_);
    GDN_HIP_CALL(hipGetLastError);
  }
  void flush_cache_async() override { fill_async(flush_buffer_, 0, flush_bytes_); }

  TimeSample time_launch(const std::function<void()>& prepare,
                         const std::function<void()>& launch) override {
    if (prepare) prepare();
    // A kernel polls a host flag at the head of the stream until everything is queued behind it, so
    // that the time between the events holds no host latency.
    std::atomic_ref<std::int32_t> flag(*hold_flag_);
    flag.store(0, std::memory_order_release);
    const HoldParams hold{hold_flag_, kMaxPolls};
    this->launch("hold_stream", {1, 1, 1}, {64, 1, 1}, &hold, sizeof(hold));
    GDN_HIP_CALL(hipEventRecord, start_, stream_);
    try {
      launch();
    } catch (...) {
      flag.store(1, std::memory_order_release);
      throw;
    }
    GDN_HIP_CALL(hipEventRecord, stop_, stream_);
    flag.store(1, std::memory_order_release);
    GDN_HIP_CALL(hipEventSynchronize, stop_);
    float time_ms = 0;
    GDN_HIP_CALL(hipEventElapsedTime, &time_ms, start_, stop_);
    return {time_ms, 0};
  }

  std::function<void()> capture(const std::function<void()>& launch) override {
    select();
    GDN_HIP_CALL(hipStreamBeginCapture, stream_, hipStreamCaptureModeThreadLocal);
    hipGraph_t graph = nullptr;
    try {
      launch();
    } catch (...) {
      (void)runtime_.hipStreamEndCapture_(stream_, &graph);
      throw;
    }
    GDN_HIP_CALL(hipStreamEndCapture, stream_, &graph);
    hipGraphExec_t executable = nullptr;
    GDN_HIP_CALL(hipGraphInstantiate, &executable, graph, nullptr, nullptr, 0);
    GDN_HIP_CALL(hipGraphDestroy, graph);
    const std::shared_ptr<hipGraphExec> owner(
        executable, [this](hipGraphExec_t held) { (void)runtime_.hipGraphExecDestroy_(held); });
    return [this, owner] { GDN_HIP_CALL(hipGraphLaunch, owner.get(), stream_); };
  }

  void* native_stream() const override { return stream_; }

  Ceilings ceilings() override {
    if (!ceilings_measured_) {
      ceilings_ = measure_ceilings();
      ceilings_measured_ = true;
    }
    return ceilings_;
  }

  void launch(const std::string& kernel, Extent grid, Extent block, const void* arguments,
              std::size_t argument_bytes) override {
    select();
    std::vector<char> block_of_arguments(argument_bytes);
    std::memcpy(block_of_arguments.data(), arguments, argument_bytes);
    void* config[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, block_of_arguments.data(),
                      HIP_LAUNCH_PARAM_BUFFER_SIZE, &argument_bytes, HIP_LAUNCH_PARAM_END};
    const hipError_t status =
        runtime_.hipModuleLaunchKernel_(function(kernel), grid.x, grid.y, grid.z, block.x, block.y,
                                        block.z, 0, stream_, nullptr, config);
    runtime_.check(status, ("hipModuleLaunchKernel " + kernel).c_str());
  }

 protected:
  void release(void* data) noexcept override {
    (void)runtime_.hipSetDevice_(device_);
    (void)runtime_.hipFree_(data);
  }

 private:
  static constexpr std::int64_t kMaxPolls = 20'000'000;  // seconds, should the host die meanwhile

  void select() const { GDN_HIP_CALL(hipSetDevice, device_); }
  void copy(void* destination, const void* source, std::int64_t bytes, hipMemcpyKind kind) {
    if (bytes == 0) return;
    select();
    GDN_HIP_CALL(hipMemcpyAsync, destination, source, static_cast<std::size_t>(bytes), kind,
                 stream_);
  }
  hipFunction_t function(const std::string& kernel) {
    const auto known = functions_.find(kernel);
    if (known != functions_.end()) return known->second;
    const EmbeddedCodeObject& object = code_object_of(kernel);
    auto module = modules_.find(object.name);
    if (module == modules_.end()) {
      hipModule_t loaded = nullptr;
      GDN_HIP_CALL(hipModuleLoadData, &loaded, object.elf.data());
      module = modules_.emplace(object.name, loaded).first;
    }
    hipFunction_t found = nullptr;
    GDN_HIP_CALL(hipModuleGetFunction, &found, module->second, kernel.c_str());
    functions_[kernel] = found;
    return found;
  }
  double best_time_ms(const std::function<void()>& launch) {
    double best = 0;
    for (int i = 0; i < 5; ++i) {
      const double time_ms = time_launch({}, launch).time_ms;
      if (i == 1 || (i > 1 && time_ms < best)) best = time_ms;  // the first run warms up
    }
    return best;
  }
  Ceilings measure_ceilings() {
    constexpr std::uint32_t kBlocks = 60 * 32;
    constexpr std::int64_t kThreads = std::int64_t{kBlocks} * 256;
    Ceilings result;
    const std::int64_t bytes = 256 * 1024 * 1024;
    const DeviceBuffer source = allocate(bytes), destination = allocate(bytes);
    const CopyParams copy{source.data(), destination.data(), bytes / 16, kThreads};
    const double copy_ms = best_time_ms([&] {
      this->launch("copy_words", {kBlocks, 1, 1}, {256, 1, 1}, &copy, sizeof(copy));
    });
    result.copy_tb_per_s = 2.0 * static_cast<double>(bytes) / (copy_ms * 1e9);
    const DeviceBuffer sink = allocate(kThreads * 4);
    const FmaParams fma{sink.as<float>(), 400};
    const double fma_ms = best_time_ms([&] {
      this->launch("fma_chain", {kBlocks, 1, 1}, {256, 1, 1}, &fma, sizeof(fma));
    });
    const double flops = 2.0 * static_cast<double>(kThreads) * kFmaPerRound * fma.rounds;
    result.float32_tflops = flops / (fma_ms * 1e9);
    return result;  // no matrix units on this card
  }

  const HipRuntime& runtime_;
  int device_;
  DeviceInfo info_;
  hipStream_t stream_ = nullptr;
  hipEvent_t start_ = nullptr;
  hipEvent_t stop_ = nullptr;
  std::int32_t* hold_flag_ = nullptr;
  void* flush_buffer_ = nullptr;
  std::int64_t flush_bytes_ = 0;
  std::map<std::string, hipModule_t> modules_;
  std::map<std::string, hipFunction_t> functions_;
  bool ceilings_measured_ = false;
  Ceilings ceilings_;
};

BackendStatus status_of(const HipRuntime& runtime) {
  std::string reason;
  const std::vector<int> devices = gfx906_devices(runtime, reason);
  if (devices.empty()) return {"hip", false, reason};
  hipDeviceProp_t properties{};
  runtime.check(runtime.hipGetDeviceProperties_(&properties, devices.front()),
                "hipGetDeviceProperties");
  return {"hip", true, std::string(properties.name) + " (" + properties.gcnArchName + ")"};
}

/// Kept open: devices refer to it. Devices may be opened on several threads.
const HipRuntime& runtime_named(const std::string& library) {
  static std::mutex mutex;
  static std::map<std::string, HipRuntime> opened;
  const std::lock_guard lock(mutex);
  const auto found = opened.find(library);
  return found != opened.end() ? found->second
                               : opened.emplace(library, open_hip_runtime(library)).first->second;
}

std::unique_ptr<Device> open_device_of(const HipRuntime& runtime, int index) {
  std::string reason;
  const std::vector<int> devices = gfx906_devices(runtime, reason);
  if (devices.empty()) throw Error(ErrorKind::device_unavailable, "device 'hip': " + reason);
  if (index < 0 || index >= static_cast<int>(devices.size())) {
    throw Error(ErrorKind::device_unavailable, "device 'hip:" + std::to_string(index) +
                                                   "': this machine has " +
                                                   std::to_string(devices.size()) + " gfx906");
  }
  return std::make_unique<HipDevice>(runtime, devices[static_cast<std::size_t>(index)]);
}

}  // namespace

BackendStatus status() { return status_of(hip_runtime()); }

BackendStatus status_with(const std::string& library) { return status_of(runtime_named(library)); }

std::unique_ptr<Device> open(int index) { return open_device_of(hip_runtime(), index); }

std::unique_ptr<Device> open_with(const std::string& library, int index) {
  return open_device_of(runtime_named(library), index);
}

}  // namespace gdn::hip
