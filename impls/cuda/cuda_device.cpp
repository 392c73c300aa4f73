#include "cuda/cuda_device.h"

#include <cuda_runtime.h>

#include <cstdint>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "cuda/ceilings.h"
#include "cuda/channel_quantization.h"
#include "cuda/check.h"
#include "cuda/fingerprint.h"
#include "cuda/staging.h"
#include "cuda/stream_timer.h"
#include "cuda/strided_copy.h"
#include "cuda/telemetry.h"
#include "interface/error.h"

namespace gdn::cuda {
namespace {

constexpr int kLowestComputeCapability = 80;  // of the PTX in this build

std::string dotted(int value, int unit) {
  return std::to_string(value / unit) + "." + std::to_string(value % unit);
}

/// Devices the driver shows, or its own words in `reason` and 0.
int device_count(std::string& reason) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    cudaGetLastError();
    reason = std::string("no usable CUDA device: the driver says '") + cudaGetErrorString(status) +
             "' (" + cudaGetErrorName(status) + ")";
    return 0;
  }
  if (count == 0) reason = "the CUDA driver shows no device";
  return count;
}

int compute_capability(int index) {
  int major = 0;
  int minor = 0;
  GDN_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index));
  GDN_CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index));
  return 10 * major + minor;
}

std::string device_name(int index) {
  cudaDeviceProp properties{};
  GDN_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
  return properties.name;
}

std::string too_old(int index) {
  return device_name(index) + " has compute capability " + dotted(compute_capability(index), 10) +
         "; this build needs " + dotted(kLowestComputeCapability, 10) + " or later";
}

/// "580.159.04 (CUDA 13.0)": the kernel module's version where Linux shows it.
std::string driver_version() {
  int version = 0;
  GDN_CUDA_CHECK(cudaDriverGetVersion(&version));
  const std::string cuda =
      "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  std::ifstream module("/sys/module/nvidia/version");
  std::string text;
  if (module >> text) return text + " (" + cuda + ")";
  return cuda;
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int index) : index_(index) {
    activate();
    cudaDeviceProp properties{};
    GDN_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
    info_.backend = info_.runs = "cuda";
    info_.has_own_memory = info_.flush_is_certain = true;
    info_.name = properties.name;
    info_.index = index;
    info_.driver_version = driver_version();
    info_.toolkit_version = "CUDA " GDN_CUDA_TOOLKIT_VERSION;  // nvcc's
    info_.compute_capability = 10 * properties.major + properties.minor;
    info_.multiprocessors = properties.multiProcessorCount;
    info_.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
    info_.l2_bytes = properties.l2CacheSize;
    char pci_bus_id[32] = {};
    GDN_CUDA_CHECK(cudaDeviceGetPCIBusId(pci_bus_id, sizeof pci_bus_id, index));
    pci_bus_id_ = pci_bus_id;
    GDN_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    open_pool();
  }

  ~CudaDevice() override {
    cudaSetDevice(index_);
    timer_.reset();
    if (flush_buffer_ != nullptr) release(flush_buffer_);
    if (fingerprint_ != nullptr) release(fingerprint_);
    cudaStreamDestroy(stream_);
  }

  const DeviceInfo& info() const override { return info_; }
  void* native_stream() const override { return stream_; }

  DeviceBuffer allocate(std::int64_t bytes) override {
    if (bytes < 0) throw_bad_input("allocate: " + std::to_string(bytes) + " bytes asked for");
    if (bytes == 0) return DeviceBuffer(this, nullptr, 0);
    activate();
    return DeviceBuffer(this, allocate_raw(bytes), bytes);
  }

  std::int64_t free_memory_bytes() const override {
    activate();
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    GDN_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
    return static_cast<std::int64_t>(free_bytes) + kept_by_pool();
  }

  void upload(void* destination, const void* source, std::int64_t bytes) override {
    activate();
    staging_.upload(destination, source, bytes, stream_);
  }
  void download(void* destination, const void* source, std::int64_t bytes) override {
    activate();
    staging_.download(destination, source, bytes, stream_);
  }
  std::uint64_t fingerprint(const void* data, std::int64_t bytes) override {
    activate();
    if (fingerprint_ == nullptr) fingerprint_ = allocate_raw(sizeof(std::uint64_t));
    enqueue_fingerprint(data, bytes, static_cast<std::uint64_t*>(fingerprint_), stream_);
    std::uint64_t sum = 0;
    download(&sum, fingerprint_, sizeof sum);
    return sum;
  }
  void copy_async(void* destination, const void* source, std::int64_t bytes) override {
    if (bytes == 0) return;
    activate();
    GDN_CUDA_CHECK(cudaMemcpyAsync(destination, source, static_cast<std::size_t>(bytes),
                                   cudaMemcpyDeviceToDevice, stream_));
  }

  void fill_async(void* destination, unsigned char byte, std::int64_t bytes) override {
    if (bytes == 0) return;
    activate();
    GDN_CUDA_CHECK(cudaMemsetAsync(destination, byte, static_cast<std::size_t>(bytes), stream_));
  }

  void enqueue_copies(std::span<const StridedCopy> copies, void* stream) override {
    activate();
    enqueue_strided_copies(copies, static_cast<cudaStream_t>(stream));
  }
  void enqueue_quantization(const ChannelQuantization& quantization, void* stream) override {
    activate();
    enqueue_channel_quantization(quantization, static_cast<cudaStream_t>(stream));
  }

  void synchronize() override {
    activate();
    GDN_CUDA_CHECK(cudaStreamSynchronize(stream_));
  }

  // Writing as many bytes as the L2 holds evicts what was there; lines an earlier kernel marked
  // persisting would survive that, so they are made ordinary first.
  void flush_cache_async() override {
    activate();
    if (flush_buffer_ == nullptr) flush_buffer_ = allocate_raw(info_.l2_bytes);
    GDN_CUDA_CHECK(cudaCtxResetPersistingL2Cache());
    GDN_CUDA_CHECK(
        cudaMemsetAsync(flush_buffer_, 0, static_cast<std::size_t>(info_.l2_bytes), stream_));
  }

  TimeSample time_launch(const std::function<void()>& prepare,
                         const std::function<void()>& launch) override {
    activate();
    return timer().time(prepare, launch);
  }

  std::function<void()> capture(const std::function<void()>& launch) override {
    activate();
    GDN_CUDA_CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    cudaGraph_t graph = nullptr;
    try {
      launch();
    } catch (...) {
      cudaStreamEndCapture(stream_, &graph);  // the launch's error is the one to report
      if (graph != nullptr) cudaGraphDestroy(graph);
      cudaGetLastError();
      throw;
    }
    GDN_CUDA_CHECK(cudaStreamEndCapture(stream_, &graph));
    const std::unique_ptr<CUgraph_st, decltype(&cudaGraphDestroy)> graph_owner(graph,
                                                                               &cudaGraphDestroy);
    cudaGraphExec_t executable = nullptr;
    GDN_CUDA_CHECK(cudaGraphInstantiate(&executable, graph, 0));
    const std::shared_ptr<CUgraphExec_st> owner(executable, &cudaGraphExecDestroy);
    GDN_CUDA_CHECK(cudaGraphUpload(executable, stream_));
    return [this, owner] {
      activate();
      GDN_CUDA_CHECK(cudaGraphLaunch(owner.get(), stream_));
    };
  }

  Telemetry telemetry() override { return read_telemetry(pci_bus_id_); }

  Ceilings ceilings() override {
    static std::mutex mutex;
    static std::map<int, Ceilings> measured;  // by device index: once per process
    const std::lock_guard<std::mutex> lock(mutex);
    const auto found = measured.find(index_);
    if (found != measured.end()) return found->second;
    activate();
    return measured[index_] = measure_ceilings(stream_, info_, timer());
  }

 protected:
  void release(void* data) noexcept override {
    cudaSetDevice(index_);
    if (pool_ == nullptr) {
      cudaFree(data);
    } else {
      cudaFreeAsync(data, stream_);
    }
  }

 private:
  void activate() const { GDN_CUDA_CHECK(cudaSetDevice(index_)); }

  StreamTimer& timer() {
    if (!timer_) timer_ = std::make_unique<StreamTimer>(stream_, info_.multiprocessors);
    return *timer_;
  }

  // Freed memory stays with the process: a verification takes and frees thousands of buffers, each
  // of which would else be the driver's work and a wait for the whole device.
  void open_pool() {
    int supported = 0;
    GDN_CUDA_CHECK(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, index_));
    if (supported == 0) return;
    GDN_CUDA_CHECK(cudaDeviceGetDefaultMemPool(&pool_, index_));
    std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
    GDN_CUDA_CHECK(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep));
  }

  std::int64_t kept_by_pool() const {
    if (pool_ == nullptr) return 0;
    std::uint64_t reserved = 0;
    std::uint64_t used = 0;
    GDN_CUDA_CHECK(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &reserved));
    GDN_CUDA_CHECK(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrUsedMemCurrent, &used));
    return static_cast<std::int64_t>(reserved) - static_cast<std::int64_t>(used);
  }

  void* allocate_raw(std::int64_t bytes) {
    void* data = nullptr;
    const auto size = static_cast<std::size_t>(bytes);
    const cudaError_t status =
        pool_ == nullptr ? cudaMalloc(&data, size) : cudaMallocAsync(&data, size, pool_, stream_);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw Error(ErrorKind::out_of_memory,
                  info_.name + ": " + std::to_string(bytes) + " bytes asked for, " +
                      std::to_string(free_memory_bytes()) + " bytes free");
    }
    GDN_CUDA_CHECK(status);
    return data;
  }

  int index_;
  DeviceInfo info_;
  std::string pci_bus_id_;
  cudaStream_t stream_ = nullptr;
  cudaMemPool_t pool_ = nullptr;  // of the process; null where the device has none
  void* flush_buffer_ = nullptr;
  void* fingerprint_ = nullptr;
  Staging staging_;
  std::unique_ptr<StreamTimer> timer_;
};

}  // namespace

BackendStatus status() {
  std::string reason;
  const int count = device_count(reason);
  for (int index = 0; index < count; ++index) {
    if (compute_capability(index) >= kLowestComputeCapability) {
      return {"cuda", true,
              device_name(index) + ", compute capability " + dotted(compute_capability(index), 10)};
    }
    reason = too_old(index);
  }
  return {"cuda", false, reason};
}

std::unique_ptr<Device> open(int index) {
  std::string reason;
  const int count = device_count(reason);
  if (count == 0) throw Error(ErrorKind::device_unavailable, "device 'cuda': " + reason);
  if (index < 0 || index >= count) {
    throw Error(ErrorKind::device_unavailable, "device 'cuda:" + std::to_string(index) +
                                                   "': this machine has " + std::to_string(count) +
                                                   " CUDA device(s), numbered from 0");
  }
  if (compute_capability(index) < kLowestComputeCapability) {
    throw Error(ErrorKind::device_unavailable,
                "device 'cuda:" + std::to_string(index) + "': " + too_old(index));
  }
  return std::make_unique<CudaDevice>(index);
}

int device_index(const Device& device) {
  if (device.info().backend != "cuda") {
    throw_bad_input("a CUDA device was expected, not " + device.info().backend);
  }
  return device.info().index;
}

}  // namespace gdn::cuda
