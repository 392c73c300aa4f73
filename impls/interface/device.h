// Device: where an implementation runs. Memory, copies, stream order, timing and the cache flush
// stand behind this interface, so that the harness holds one measuring and verifying path.
//
// A Device owns one in-order stream; plans enqueue on it. Every member checks the status of the
// backend's calls and throws Error(device_failure).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "interface/channel_quantization.h"
#include "interface/strided_copy.h"

namespace gdn {

struct DeviceInfo {
  std::string backend;  ///< "cpu", "cuda", "cuda-emulated", "hip", "gfx906-emulator"
  /// Description::backend of the implementations it runs: "cuda" of "cuda" and "cuda-emulated".
  std::string runs;
  bool emulated = false;        ///< a program on the host stands for the device
  bool has_own_memory = false;  ///< a card: its arrays are not host memory
  /// flush_cache_async() leaves nothing in the last-level cache (a CPU's may keep part).
  bool flush_is_certain = false;
  std::string name;             ///< as the driver names it: "NVIDIA H200"
  std::string driver_version;   ///< empty for the CPU
  std::string toolkit_version;  ///< of the compiler that built the kernels
  int index = 0;                ///< of several devices of one backend: "cuda:1" has 1
  int compute_capability = 0;   ///< 10 * major + minor for CUDA; 0 elsewhere
  int multiprocessors = 0;      ///< SMs, CUs or host threads
  std::int64_t memory_bytes = 0;
  std::int64_t l2_bytes = 0;   ///< of the last-level cache; 0: unknown
  bool modelled_time = false;  ///< times come from a model, never from a clock (emulators)
  bool has_time = true;        ///< false: time_launch throws Error(unsupported)
};

class Device;

/// Owning handle of device memory; empty after a move. Freed through its device.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(Device* device, void* data, std::int64_t bytes)
      : device_(device), data_(data), bytes_(bytes) {}
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    DeviceBuffer taken(std::move(other));
    swap(taken);
    return *this;
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer();

  void* data() const { return data_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  void swap(DeviceBuffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  Device* device_ = nullptr;
  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

/// One timed launch: device time, and the clock the device ran at meanwhile (0 = not known).
struct TimeSample {
  double time_ms = 0;
  double clock_mhz = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;

  /// Throws Error(out_of_memory) naming the bytes asked for and free. `bytes` may be 0.
  virtual DeviceBuffer allocate(std::int64_t bytes) = 0;
  virtual std::int64_t free_memory_bytes() const = 0;
  /// Ordered after everything enqueued before. upload() returns when `source` may change again,
  /// which may be before what is enqueued after it can begin; download() when the copy is done.
  virtual void upload(void* destination, const void* source, std::int64_t bytes) = 0;
  virtual void download(void* destination, const void* source, std::int64_t bytes) = 0;
  /// fingerprint_of() these bytes of device memory (at a multiple of 8), after everything enqueued
  /// before. As it is here it downloads them.
  virtual std::uint64_t fingerprint(const void* data, std::int64_t bytes);
  /// Stream-ordered, asynchronous.
  virtual void copy_async(void* destination, const void* source, std::int64_t bytes) = 0;
  virtual void fill_async(void* destination, unsigned char byte, std::int64_t bytes) = 0;
  /// Enqueues these copies on `stream`, which native_stream() gave, in any order among themselves: none
  /// reads what another one writes. Throws Error(unsupported) where the device has no kernel for it.
  virtual void enqueue_copies(std::span<const StridedCopy> copies, void* stream);
  /// Enqueues the quantization on `stream`, likewise: one launch at most. Throws Error(unsupported) where
  /// the device has no kernel for it.
  virtual void enqueue_quantization(const ChannelQuantization& quantization, void* stream);
  /// Waits for the stream; throws Error(device_failure) if anything enqueued failed.
  virtual void synchronize() = 0;
  /// Evicts the last-level cache (writes a buffer of its size, resets persisting lines); async.
  virtual void flush_cache_async() = 0;

  /// Device time of what `launch` enqueues, host latency excluded where the backend can (a kernel
  /// holds the stream until everything is queued). `prepare` is enqueued before, outside the time.
  virtual TimeSample time_launch(const std::function<void()>& prepare,
                                 const std::function<void()>& launch) = 0;

  /// Captures what `launch` enqueues and returns a function that replays it; nullptr where the
  /// backend has no graphs.
  virtual std::function<void()> capture(const std::function<void()>& launch) = 0;

  /// The stream plans enqueue on: cudaStream_t or hipStream_t as void*; nullptr for the CPU.
  virtual void* native_stream() const = 0;

  /// Measured once per process, cached: copy bandwidth (read + written bytes), matrix rate in
  /// 16-bit dense products with float32 accumulation, and float32 FMA rate. 0 = not measured here.
  struct Ceilings {
    double copy_tb_per_s = 0;
    double matrix_tflops = 0;
    double float32_tflops = 0;
  };
  virtual Ceilings ceilings() = 0;

  /// What the card's own sensors say now; NaN = not known here.
  struct Telemetry {
    /// Mean of the driver's last second.
    double power_w = std::numeric_limits<double>::quiet_NaN();
    double power_limit_w = std::numeric_limits<double>::quiet_NaN();
    double memory_clock_mhz = std::numeric_limits<double>::quiet_NaN();
    double temperature_c = std::numeric_limits<double>::quiet_NaN();
  };
  virtual Telemetry telemetry() { return {}; }

 protected:
  friend class DeviceBuffer;
  virtual void release(void* data) noexcept = 0;
};

/// Whether a backend can run here; the reason when it cannot.
struct BackendStatus {
  std::string backend;
  bool available = false;
  std::string detail;  ///< device name, or why it is absent: "built without CUDA (nvcc not found)"
};

/// A kind of device: one entry of the list in backends.cpp.
struct Backend {
  std::string name;  ///< as open_device() and --device take it
  std::string runs;  ///< DeviceInfo::runs of its devices
  bool has_own_memory = false;
  bool has_several = false;  ///< "cuda:1" names the second
  BackendStatus (*status)() = nullptr;
  std::unique_ptr<Device> (*open)(int index) = nullptr;  ///< null where the build lacks it
};
/// Every backend there is, in this build or not, in a fixed order.
const std::vector<Backend>& backends();
/// Throws Error(bad_input) with the nearest name.
const Backend& find_backend(const std::string& name);

/// A backend's name, with a number where it has several devices ("cuda:1"), or "best": the first
/// card there is, else the CPU. Throws Error(device_unavailable) with the reason, Error(bad_input)
/// for an unknown name.
std::unique_ptr<Device> open_device(const std::string& name);
/// "cpu | cuda | cuda:1 | ...", for help texts.
std::string device_names();

}  // namespace gdn
