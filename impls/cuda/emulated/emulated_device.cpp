#include "cuda/emulated/emulated_device.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cuda/channel_quantization.h"
#include "cuda/emulated/grid.h"
#include "cuda/strided_copy.h"
#include "interface/error.h"

namespace gdn::cuda_emulated {
namespace {

constexpr std::size_t kAlignment = 256;  // as cudaMalloc

class EmulatedDevice final : public Device {
 public:
  explicit EmulatedDevice(int index) {
    info_.backend = kBackend;
    info_.runs = "cuda";
    info_.emulated = info_.flush_is_certain = true;
    info_.index = index;
    info_.name = "CUDA kernels on the CPU";
    info_.compute_capability = 90;  // Hopper's instructions have their stand-ins too
    info_.multiprocessors = 16;     // enough for planners that split work to split it
    info_.memory_bytes =
        static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
    info_.has_time = false;
  }

  const DeviceInfo& info() const override { return info_; }
  std::int64_t free_memory_bytes() const override {
    return static_cast<std::int64_t>(sysconf(_SC_AVPHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  }

  DeviceBuffer allocate(std::int64_t bytes) override {
    const std::size_t rounded =
        (static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)) + kAlignment - 1) / kAlignment *
        kAlignment;
    void* const data = bytes >= 0 ? std::aligned_alloc(kAlignment, rounded) : nullptr;
    if (data == nullptr) {
      throw Error(ErrorKind::out_of_memory, std::string(kBackend) + ": " + std::to_string(bytes) +
                                                " bytes asked for, " +
                                                std::to_string(free_memory_bytes()) + " free");
    }
    return DeviceBuffer(this, data, bytes);
  }
  void upload(void* destination, const void* source, std::int64_t bytes) override {
    copy_async(destination, source, bytes);
  }
  void download(void* destination, const void* source, std::int64_t bytes) override {
    copy_async(destination, source, bytes);
  }
  void copy_async(void* destination, const void* source, std::int64_t bytes) override {
    if (bytes > 0) std::memmove(destination, source, static_cast<std::size_t>(bytes));
  }
  void fill_async(void* destination, unsigned char byte, std::int64_t bytes) override {
    if (bytes > 0) std::memset(destination, byte, static_cast<std::size_t>(bytes));
  }
  void enqueue_copies(std::span<const StridedCopy> copies, void* stream) override {
    enqueue_strided_copies(copies, static_cast<cudaStream_t>(stream));
  }
  void enqueue_quantization(const ChannelQuantization& quantization, void* stream) override {
    enqueue_channel_quantization(quantization, static_cast<cudaStream_t>(stream));
  }
  void synchronize() override {}        // launches run at once
  void flush_cache_async() override {}  // no cache is modelled

  TimeSample time_launch(const std::function<void()>&, const std::function<void()>&) override {
    throw Error(ErrorKind::unsupported,
                std::string(kBackend) +
                    ": has no clock; it checks results: use verify, run, or sweep --no-time");
  }
  std::function<void()> capture(const std::function<void()>& launch) override {
    return cuda_grid::capture_grids(launch);
  }
  void* native_stream() const override { return nullptr; }
  Ceilings ceilings() override { return {}; }

 protected:
  void release(void* data) noexcept override { std::free(data); }

 private:
  DeviceInfo info_;
};

}  // namespace

BackendStatus status() { return {kBackend, true, "CUDA kernels on the CPU; checks results"}; }

std::unique_ptr<Device> open(int index) {
  using cuda_grid::ThreadOrder;
  cuda_grid::set_execution_options({index == 0   ? ThreadOrder::forward
                                    : index == 1 ? ThreadOrder::reverse
                                                 : ThreadOrder::random,
                                    static_cast<std::uint64_t>(index)});
  return std::make_unique<EmulatedDevice>(index);
}

/// What kernels' host code asks of a CUDA device (cuda/cuda_device.h).
int device_index(const Device&) { return 0; }

}  // namespace gdn::cuda_emulated
