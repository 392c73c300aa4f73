#include <cuda_runtime.h>

#include "cuda/check.h"
#include "cuda/stream_timer.h"

namespace gdn::cuda {
namespace {

constexpr std::uint64_t kHoldLimitNanoseconds = 1'000'000'000;

__device__ std::uint64_t globaltimer() {
  std::uint64_t value;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value)::"memory");
  return value;
}

__global__ void hold_kernel(volatile std::uint32_t* released, volatile std::uint32_t* given_up,
                            std::uint32_t ticket) {
  const std::uint64_t begin = globaltimer();
  while (static_cast<std::int32_t>(*released - ticket) < 0) {
    if (globaltimer() - begin > kHoldLimitNanoseconds) {
      *given_up = ticket;
      __threadfence_system();
      return;
    }
  }
}

// One thread per block, a block per multiprocessor. globaltimer ticks every 32 ns to 1 us: waiting
// for a tick puts both ends of the interval on an edge, so the clock is right for short kernels
// too.
__global__ void stamp_kernel(StreamTimer::Stamp* stamps, int multiprocessors) {
  unsigned int sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  const std::uint64_t first = globaltimer();
  std::uint64_t now = first;
  for (int tries = 0; now == first && tries < 100000; ++tries) now = globaltimer();
  const std::uint64_t cycles = static_cast<std::uint64_t>(clock64());
  if (sm < static_cast<unsigned int>(multiprocessors)) {
    // One 16-byte store: two blocks on one multiprocessor never mix their pairs.
    *reinterpret_cast<ulonglong2*>(&stamps[sm]) = make_ulonglong2(now, cycles);
  }
}

// Lets the stream go whatever happens while it is held.
class Release {
 public:
  Release(volatile std::uint32_t* flag, std::uint32_t ticket) : flag_(flag), ticket_(ticket) {}
  ~Release() { now(); }
  Release(const Release&) = delete;
  Release& operator=(const Release&) = delete;
  void now() { *flag_ = ticket_; }

 private:
  volatile std::uint32_t* flag_;
  std::uint32_t ticket_;
};

}  // namespace

StreamTimer::StreamTimer(cudaStream_t stream, int multiprocessors)
    : stream_(stream), multiprocessors_(multiprocessors) {
  const std::size_t bytes = 2 * sizeof(Stamp) * static_cast<std::size_t>(multiprocessors);
  try {
    void* memory = nullptr;
    GDN_CUDA_CHECK(cudaHostAlloc(&memory, sizeof(Flags), cudaHostAllocMapped));
    flags_ = static_cast<Flags*>(memory);
    flags_->released = 0;
    flags_->given_up = 0;
    GDN_CUDA_CHECK(cudaHostGetDevicePointer(&memory, flags_, 0));
    device_flags_ = static_cast<Flags*>(memory);
    GDN_CUDA_CHECK(cudaMalloc(&memory, bytes));
    stamps_ = static_cast<Stamp*>(memory);
    GDN_CUDA_CHECK(cudaHostAlloc(&memory, bytes, cudaHostAllocDefault));
    host_stamps_ = static_cast<Stamp*>(memory);
    GDN_CUDA_CHECK(cudaEventCreate(&start_));
    GDN_CUDA_CHECK(cudaEventCreate(&stop_));
    // Both kernels are loaded here, not while the stream is held.
    stamp_kernel<<<1, 1, 0, stream_>>>(stamps_, multiprocessors_);
    hold_kernel<<<1, 1, 0, stream_>>>(&device_flags_->released, &device_flags_->given_up, 0);
    GDN_CUDA_CHECK(cudaGetLastError());
    GDN_CUDA_CHECK(cudaStreamSynchronize(stream_));
  } catch (...) {
    release_resources();
    throw;
  }
}

StreamTimer::~StreamTimer() { release_resources(); }

void StreamTimer::release_resources() noexcept {
  if (stop_ != nullptr) cudaEventDestroy(stop_);
  if (start_ != nullptr) cudaEventDestroy(start_);
  if (host_stamps_ != nullptr) cudaFreeHost(host_stamps_);
  if (stamps_ != nullptr) cudaFree(stamps_);
  if (flags_ != nullptr) cudaFreeHost(flags_);
}

TimeSample StreamTimer::time(const std::function<void()>& prepare,
                             const std::function<void()>& launch) {
  TimeSample sample;
  if (take(prepare, launch, sample) || take(prepare, launch, sample)) return sample;
  throw Error(
      ErrorKind::device_failure,
      "time_launch: the stream was held for 1 s before everything was queued, twice; what "
      "is timed must not wait for the device nor enqueue more launches than its queue holds");
}

bool StreamTimer::take(const std::function<void()>& prepare, const std::function<void()>& launch,
                       TimeSample& sample) {
  const std::size_t stamp_bytes = 2 * sizeof(Stamp) * static_cast<std::size_t>(multiprocessors_);
  ++ticket_;
  if (prepare) prepare();
  GDN_CUDA_CHECK(cudaMemsetAsync(stamps_, 0, stamp_bytes, stream_));
  {
    Release release(&flags_->released, ticket_);
    hold_kernel<<<1, 1, 0, stream_>>>(&device_flags_->released, &device_flags_->given_up, ticket_);
    stamp_kernel<<<static_cast<unsigned int>(multiprocessors_), 1, 0, stream_>>>(stamps_,
                                                                                 multiprocessors_);
    GDN_CUDA_CHECK(cudaGetLastError());
    GDN_CUDA_CHECK(cudaEventRecord(start_, stream_));
    launch();
    GDN_CUDA_CHECK(cudaEventRecord(stop_, stream_));
    stamp_kernel<<<static_cast<unsigned int>(multiprocessors_), 1, 0, stream_>>>(
        stamps_ + multiprocessors_, multiprocessors_);
    GDN_CUDA_CHECK(cudaGetLastError());
    GDN_CUDA_CHECK(
        cudaMemcpyAsync(host_stamps_, stamps_, stamp_bytes, cudaMemcpyDeviceToHost, stream_));
    release.now();
  }
  GDN_CUDA_CHECK(cudaStreamSynchronize(stream_));
  if (flags_->given_up == ticket_) return false;
  float milliseconds = 0;
  GDN_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start_, stop_));
  sample.time_ms = static_cast<double>(milliseconds);
  sample.clock_mhz = clock_mhz();
  return true;
}

double StreamTimer::clock_mhz() const {
  const Stamp* before = host_stamps_;
  const Stamp* after = host_stamps_ + multiprocessors_;
  for (int sm = 0; sm < multiprocessors_; ++sm) {  // all run at one clock: the first seen twice
    if (before[sm].nanoseconds == 0 || after[sm].nanoseconds <= before[sm].nanoseconds) continue;
    return 1e3 * static_cast<double>(after[sm].cycles - before[sm].cycles) /
           static_cast<double>(after[sm].nanoseconds - before[sm].nanoseconds);
  }
  return 0;
}

}  // namespace gdn::cuda
