// What the emulated grid promises: barriers and warp operations mean what CUDA says, and kernels
// that misuse them are reported. The kernels here are written as CUDA kernels are.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cuda/element.cuh"
#include "cuda/emulated/tests/failure.h"
#include "cuda/launch_kernel.cuh"
#include "cuda/ptx.cuh"

namespace gdn::cuda_emulated {
namespace {

using cuda_grid::ExecutionOptions;
using cuda_grid::expect_has;
using cuda_grid::failure_of;
using cuda_grid::ThreadOrder;

const std::vector<ExecutionOptions> kOrders = {{ThreadOrder::forward, 0},
                                               {ThreadOrder::reverse, 0},
                                               {ThreadOrder::random, 2},
                                               {ThreadOrder::random, 3}};

// Threads take their turns forward wherever a test asks for no other order.
class EmulatedGrid : public testing::Test {
 protected:
  EmulatedGrid() { cuda_grid::set_execution_options({}); }
};

// Each thread writes its place and, after the barrier if there is one, adds its neighbour's up.
template <bool kBarrier>
__global__ void neighbour_kernel(int* sums) {
  __shared__ int places[64];
  const int thread = static_cast<int>(threadIdx.x);
  places[thread] = 0;
  __syncthreads();
  places[thread] = thread + 1;
  if (kBarrier) __syncthreads();
  sums[blockIdx.x * blockDim.x + threadIdx.x] = places[thread] + places[(thread + 1) % 64];
}

std::vector<int> neighbour_sums(bool barrier, const ExecutionOptions& options) {
  cuda_grid::set_execution_options(options);
  std::vector<int> sums(3 * 64);
  launch_kernel(barrier ? neighbour_kernel<true> : neighbour_kernel<false>, 3, 64, 0, nullptr,
                sums.data());
  return sums;
}

TEST_F(EmulatedGrid, OrderOfThreadsChangesNothingWithBarriers) {
  std::vector<int> expected(3 * 64);
  for (int i = 0; i < 3 * 64; ++i) {
    expected[static_cast<std::size_t>(i)] = i % 64 + 1 + (i + 1) % 64 + 1;
  }
  for (const ExecutionOptions& order : kOrders) EXPECT_EQ(neighbour_sums(true, order), expected);
}

__global__ void empty_kernel() {}

// As a driver keeps one figure per kernel: what is said last counts.
TEST_F(EmulatedGrid, SharedMemoryBeyondWhatTheKernelIsAllowedIsReported) {
  const auto failure = [](std::size_t bytes) {
    return failure_of([&] { launch_kernel(empty_kernel, 1, 32, bytes, nullptr); });
  };
  EXPECT_EQ(failure(48 * 1024), "");
  expect_has(failure(48 * 1024 + 16), "49168 bytes of dynamic shared memory; it was allowed 49152");
  const auto allow = [](int bytes) {
    cudaFuncSetAttribute(empty_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  };
  allow(100000);
  EXPECT_EQ(failure(100000), "");
  allow(60000);
  expect_has(failure(100000), "it was allowed 60000");
}

// What a GPU of sm_90 cannot launch.
TEST_F(EmulatedGrid, ALaunchThatIsNotPossibleIsRefused) {
  constexpr std::size_t kMostBytes = 232448;
  std::atomic<int> runs = 0;
  const auto failure = [&](unsigned int blocks, unsigned int threads, std::size_t bytes) {
    return failure_of([&] { cuda_grid::enqueue_grid(blocks, threads, bytes, [&] { ++runs; }); });
  };
  expect_has(failure(0, 32, 0), "a launch of 0 blocks of 32 threads and 0 bytes");
  expect_has(failure(2, 0, 0), "a launch of 2 blocks of 0 threads and 0 bytes");
  expect_has(failure(1, 1025, 0), "a launch of 1 blocks of 1025 threads and 0 bytes");
  expect_has(failure(1, 32, kMostBytes + 1), "32 threads and 232449 bytes of shared memory");
  EXPECT_EQ(runs, 0);
  EXPECT_EQ(failure(1, 1024, kMostBytes), "");
  EXPECT_EQ(runs, 1024);
}

TEST_F(EmulatedGrid, AMissingBarrierShowsInEveryOrder) {
  const std::vector<int> right = neighbour_sums(true, {});
  for (const ExecutionOptions& order : kOrders) EXPECT_NE(neighbour_sums(false, order), right);
}

// Each thread notes its turns before and after a barrier. Of one block: nothing runs beside it.
__global__ void turns_kernel(std::vector<int>* turns) {
  turns->push_back(static_cast<int>(threadIdx.x));
  __syncthreads();
  turns->push_back(static_cast<int>(threadIdx.x));
}

TEST_F(EmulatedGrid, WarpsAndLanesGetTheirTurnsInTheOrderAskedFor) {
  constexpr int kThreads = 70;  // the last warp has 6 lanes
  const auto turns = [](const ExecutionOptions& options) {
    cuda_grid::set_execution_options(options);
    std::vector<int> log;
    launch_kernel(turns_kernel, 1, kThreads, 0, nullptr, &log);
    EXPECT_EQ(log.size(), 2u * kThreads);
    return log;
  };
  // Threads of a warp, in the order of their turns before or after the barrier.
  const auto of_warp = [](const std::vector<int>& log, int phase, int warp) {
    std::vector<int> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
      const int thread = log.at(static_cast<std::size_t>(phase * kThreads) + i);
      if (thread / 32 == warp) threads.push_back(thread);
    }
    return threads;
  };
  // Lanes come round one after the other, whichever is the first.
  const auto expect_round = [](const std::vector<int>& threads, int warp, int step) {
    const int size = std::min(32, kThreads - 32 * warp);
    ASSERT_EQ(static_cast<int>(threads.size()), size) << "warp " << warp;
    for (int i = 0; i < size; ++i)
      EXPECT_EQ(threads[static_cast<std::size_t>(i)] % 32,
                (threads[0] % 32 + step * i + size) % size)
          << "warp " << warp;
  };
  std::vector<int> wanted(kThreads);
  std::iota(wanted.begin(), wanted.end(), 0);
  for (const ThreadOrder order : {ThreadOrder::forward, ThreadOrder::reverse}) {
    if (order == ThreadOrder::reverse) std::reverse(wanted.begin(), wanted.end());
    const std::vector<int> log = turns({order, 0});
    EXPECT_EQ(std::vector<int>(log.begin(), log.begin() + kThreads), wanted);
    for (int warp = 0; warp < 3; ++warp)
      expect_round(of_warp(log, 1, warp), warp, order == ThreadOrder::reverse ? -1 : 1);
  }
  // In random order a warp begins with any lane; a seed gives the same again.
  for (const std::uint64_t seed : {2, 3}) {
    SCOPED_TRACE(seed);
    const std::vector<int> log = turns({ThreadOrder::random, seed});
    EXPECT_EQ(turns({ThreadOrder::random, seed}), log);
    EXPECT_NE(turns({ThreadOrder::random, seed + 10}), log);
    for (int warp = 0; warp < 3; ++warp) expect_round(of_warp(log, 0, warp), warp, 1);
  }
}

__global__ void one_warp_waits_kernel() {
  if (threadIdx.x < 32) named_barrier<1>(64);
}
__global__ void two_counts_kernel() { named_barrier<1>(threadIdx.x < 32 ? 64 : 32); }
__global__ void diverging_lanes_kernel(int* out) {
  int value = static_cast<int>(threadIdx.x);
  if (threadIdx.x % 2 == 0) {
    value = __shfl_xor_sync(~0u, value, 2);
  } else {
    __syncwarp();
  }
  out[threadIdx.x] = value;
}
__global__ void lane_leaves_kernel() {
  if (threadIdx.x == 5) return;
  __syncwarp();
}
// Every `step`-th byte from `first` to the end of what is watched behind 64 bytes.
__global__ void writes_past_shared_kernel(int first, int step) {
  GDN_DYNAMIC_SHARED_MEMORY(shared_bytes, 16);
  for (int byte = first; byte < 64 + 4096; byte += step) shared_bytes[byte] = 1;
}

TEST_F(EmulatedGrid, ReportsThreadsThatWaitForEver) {
  expect_has(failure_of([] { launch_kernel(one_warp_waits_kernel, 1, 64, 0, nullptr); }),
             "thread 0 at barrier 1, where 32 of 64 have come");
  expect_has(failure_of([] { launch_kernel(lane_leaves_kernel, 1, 32, 0, nullptr); }),
             "__syncwarp, where 31 lanes of warp 0 have come");
}

TEST_F(EmulatedGrid, ReportsABarrierOfTwoCounts) {
  expect_has(failure_of([] { launch_kernel(two_counts_kernel, 1, 64, 0, nullptr); }),
             "barrier 1 is waited for by");
}

TEST_F(EmulatedGrid, ReportsLanesThatMeetInDifferentOperations) {
  std::vector<int> out(32);
  expect_has(
      failure_of([&] { launch_kernel(diverging_lanes_kernel, 1, 32, 0, nullptr, out.data()); }),
      "lanes of warp 0 meet in __shfl_xor_sync and in __syncwarp");
}

TEST_F(EmulatedGrid, ReportsAWritePastTheDynamicSharedMemory) {
  const auto failure = [](int first, int step) {
    return failure_of(
        [&] { launch_kernel(writes_past_shared_kernel, 2, 32, 64, nullptr, first, step); });
  };
  constexpr int kOnce = 1 << 20;
  EXPECT_EQ(failure(63, kOnce), "");
  for (const int byte : {64, 65, 1000, 64 + 4095})
    for (const int step : {kOnce, 2, 1})
      expect_has(failure(byte, step),
                 "byte " + std::to_string(byte) + " of 64 of the dynamic shared memory is written");
}

TEST_F(EmulatedGrid, RunsOnAfterAFailure) {
  failure_of([] { launch_kernel(one_warp_waits_kernel, 1, 64, 0, nullptr); });
  EXPECT_EQ(neighbour_sums(true, {}), neighbour_sums(true, kOrders[1]));
}

__global__ void shuffles_kernel(int* out) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int* const own = out + 4 * threadIdx.x;
  own[0] = __shfl_xor_sync(~0u, lane, 5);
  own[1] = __shfl_sync(~0u, lane, 3, 8);
  own[2] = __shfl_up_sync(~0u, lane, 4);
  own[3] = __shfl_sync(~0u, lane, 31);
}

TEST_F(EmulatedGrid, ShufflesMoveWhatTheirDefinitionSays) {
  for (const ExecutionOptions& order : kOrders) {
    cuda_grid::set_execution_options(order);
    std::vector<int> out(4 * 64);
    launch_kernel(shuffles_kernel, 1, 64, 0, nullptr, out.data());
    for (int thread = 0; thread < 64; ++thread) {
      const int lane = thread % 32;
      const int* const own = out.data() + 4 * thread;
      EXPECT_EQ(own[0], lane ^ 5);
      EXPECT_EQ(own[1], lane / 8 * 8 + 3);
      EXPECT_EQ(own[2], lane < 4 ? lane : lane - 4);
      EXPECT_EQ(own[3], 31);
    }
  }
}

// The copy is visible only once its group has been waited for, and not before.
__global__ void late_copy_kernel(const float4* source, float* early, float* late) {
  GDN_DYNAMIC_SHARED_MEMORY(shared_bytes, 16);
  auto* const place = reinterpret_cast<float4*>(shared_bytes) + threadIdx.x;
  *place = make_float4(-1, -1, -1, -1);
  copy16_async_if(threadIdx.x != 1, place, source + threadIdx.x);
  commit_copies();
  wait_copies<1>();
  early[threadIdx.x] = place->x;
  wait_copies<0>();
  late[threadIdx.x] = place->x;
}

TEST_F(EmulatedGrid, AsynchronousCopiesArriveWhenWaitedForAndNotBefore) {
  std::vector<float4> source(32);
  for (int i = 0; i < 32; ++i) source[static_cast<std::size_t>(i)].x = static_cast<float>(10 + i);
  std::vector<float> early(32), late(32);
  launch_kernel(late_copy_kernel, 1, 32, 512, nullptr, source.data(), early.data(), late.data());
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(early[static_cast<std::size_t>(i)], -1.0f);
    EXPECT_EQ(late[static_cast<std::size_t>(i)], i == 1 ? 0.0f : static_cast<float>(10 + i));
  }
}

// D = A B + C through the registers of a warp, elements placed as the PTX ISA's tables say.
template <typename Element>
__global__ void product_kernel(const float* A, const float* B, const float* C, float* D) {
  const int lane = static_cast<int>(threadIdx.x), g = lane / 4, t = lane % 4;
  if constexpr (std::is_same_v<Element, float>) {
    const auto a = [&](int m, int k) { return __float_as_uint(A[8 * m + k]); };
    const std::uint32_t registers[4] = {a(g, t), a(g + 8, t), a(g, t + 4), a(g + 8, t + 4)};
    float sums[4];
    for (int i = 0; i < 4; ++i) sums[i] = C[8 * (g + 8 * (i / 2)) + 2 * t + i % 2];
    mma_m16n8k8_tf32(sums, registers, __float_as_uint(B[8 * t + g]),
                     __float_as_uint(B[8 * (t + 4) + g]));
    for (int i = 0; i < 4; ++i) D[8 * (g + 8 * (i / 2)) + 2 * t + i % 2] = sums[i];
  } else {
    const auto pair = [](float low, float high) {
      return static_cast<std::uint32_t>(from_float<Element>(low).bits) |
             static_cast<std::uint32_t>(from_float<Element>(high).bits) << 16;
    };
    const auto a = [&](int m, int k) { return pair(A[16 * m + k], A[16 * m + k + 1]); };
    const auto b = [&](int k) { return pair(B[8 * k + g], B[8 * (k + 1) + g]); };
    const std::uint32_t registers[4] = {a(g, 2 * t), a(g + 8, 2 * t), a(g, 2 * t + 8),
                                        a(g + 8, 2 * t + 8)};
    float sums[4];
    for (int i = 0; i < 4; ++i) sums[i] = C[8 * (g + 8 * (i / 2)) + 2 * t + i % 2];
    mma_m16n8k16<Element>(sums, registers, b(2 * t), b(2 * t + 8));
    for (int i = 0; i < 4; ++i) D[8 * (g + 8 * (i / 2)) + 2 * t + i % 2] = sums[i];
  }
}

template <typename Element>
void expect_product(int depth) {
  std::mt19937 random(7);
  // Small integers: every product and sum is exact, in any order.
  const auto values = [&](int count) {
    std::vector<float> made(static_cast<std::size_t>(count));
    for (float& value : made) value = static_cast<float>(static_cast<int>(random() % 17) - 8);
    return made;
  };
  const std::vector<float> A = values(16 * depth), B = values(depth * 8), C = values(16 * 8);
  std::vector<float> D(16 * 8);
  launch_kernel(product_kernel<Element>, 1, 32, 0, nullptr, A.data(), B.data(), C.data(), D.data());
  for (int m = 0; m < 16; ++m) {
    for (int n = 0; n < 8; ++n) {
      float sum = C[static_cast<std::size_t>(8 * m + n)];
      for (int k = 0; k < depth; ++k) {
        sum += A[static_cast<std::size_t>(depth * m + k)] * B[static_cast<std::size_t>(8 * k + n)];
      }
      EXPECT_EQ(D[static_cast<std::size_t>(8 * m + n)], sum) << m << "," << n;
    }
  }
}

TEST_F(EmulatedGrid, ProductsPlaceElementsAsThePtxTablesSay) {
  expect_product<__half>(16);
  expect_product<__nv_bfloat16>(16);
  expect_product<float>(8);
}

__global__ void matrices_kernel(const std::uint16_t* matrices, std::uint32_t* plain,
                                std::uint32_t* transposed) {
  const std::uint16_t* const row = matrices + 8 * threadIdx.x;  // row lane % 8 of matrix lane / 8
  std::uint32_t pairs[4];
  load_matrices(pairs, row);
  for (int i = 0; i < 4; ++i) plain[4 * threadIdx.x + i] = pairs[i];
  load_matrices_transposed(pairs, row);
  for (int i = 0; i < 4; ++i) transposed[4 * threadIdx.x + i] = pairs[i];
}

TEST_F(EmulatedGrid, MatrixLoadsGiveEachLaneItsPairs) {
  std::vector<std::uint16_t> matrices(4 * 64);
  std::iota(matrices.begin(), matrices.end(), std::uint16_t{0});
  std::vector<std::uint32_t> plain(128), transposed(128);
  launch_kernel(matrices_kernel, 1, 32, 0, nullptr, matrices.data(), plain.data(),
                transposed.data());
  for (unsigned int lane = 0; lane < 32; ++lane) {
    for (unsigned int i = 0; i < 4; ++i) {
      const auto element = [&](unsigned int row, unsigned int column) {
        return 64 * i + 8 * row + column;
      };
      const unsigned int g = lane / 4, t = lane % 4;
      EXPECT_EQ(plain[4 * lane + i], element(g, 2 * t) | element(g, 2 * t + 1) << 16);
      EXPECT_EQ(transposed[4 * lane + i], element(2 * t, g) | element(2 * t + 1, g) << 16);
    }
  }
}

}  // namespace
}  // namespace gdn::cuda_emulated
