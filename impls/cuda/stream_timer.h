// Device time of what a function enqueues on a stream, host launch latency excluded.
//
// Enqueued in this order: prepare() | hold | stamp | start event | launch() | stop event | stamp.
// The hold kernel spins on a flag in mapped host memory that is raised once everything is queued,
// so that the time between the two events is the device's alone. It gives up after kHoldLimit
// (a launch() that waits for the stream, or whose first call loads its module, would otherwise
// never return); such a sample is taken once more and then refused. The stamps read globaltimer and
// clock64 of every multiprocessor outside the interval; cycles over time is the clock it ran at.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>

#include "interface/device.h"

namespace gdn::cuda {

class StreamTimer {
 public:
  /// Of the current device. The stream must outlive the timer.
  StreamTimer(cudaStream_t stream, int multiprocessors);
  ~StreamTimer();
  StreamTimer(const StreamTimer&) = delete;
  StreamTimer& operator=(const StreamTimer&) = delete;

  /// Waits for the stream. Throws Error(device_failure) if the hold was given up twice.
  TimeSample time(const std::function<void()>& prepare, const std::function<void()>& launch);

  struct Stamp {
    std::uint64_t nanoseconds;  ///< globaltimer, read at one of its ticks
    std::uint64_t cycles;       ///< clock64 of this multiprocessor
  };

 private:
  /// Mapped host memory: `released` is the last ticket let go, `given_up` the last that timed out.
  struct Flags {
    volatile std::uint32_t released;
    volatile std::uint32_t given_up;
  };
  bool take(const std::function<void()>& prepare, const std::function<void()>& launch,
            TimeSample& sample);
  double clock_mhz() const;
  void release_resources() noexcept;

  cudaStream_t stream_;
  int multiprocessors_;
  std::uint32_t ticket_ = 0;
  Flags* flags_ = nullptr;
  Flags* device_flags_ = nullptr;
  Stamp* stamps_ = nullptr;       ///< device, [2, multiprocessors]: before, after
  Stamp* host_stamps_ = nullptr;  ///< pinned, as stamps_
  cudaEvent_t start_ = nullptr;
  cudaEvent_t stop_ = nullptr;
};

}  // namespace gdn::cuda
