#include <cuda_runtime.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "cuda/allow_shared_memory.h"
#include "cuda/ceilings.h"
#include "cuda/check.h"

namespace gdn::cuda {
namespace {

constexpr int kRuns = 7;

// ---- copy

// Four independent 16-byte loads in flight per thread.
__global__ void copy_kernel(const uint4* __restrict__ source, uint4* __restrict__ destination,
                            std::int64_t count) {
  constexpr int kUnroll = 4;
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * blockDim.x * kUnroll + threadIdx.x;
  uint4 values[kUnroll];
#pragma unroll
  for (int i = 0; i < kUnroll; ++i) {
    const std::int64_t at = first + static_cast<std::int64_t>(i) * blockDim.x;
    if (at < count) values[i] = source[at];
  }
#pragma unroll
  for (int i = 0; i < kUnroll; ++i) {
    const std::int64_t at = first + static_cast<std::int64_t>(i) * blockDim.x;
    if (at < count) destination[at] = values[i];
  }
}

// ---- matrix rate

// Each warpgroup (128 threads) multiplies [64, 64] by [64, 256] per iteration, whichever
// instruction does it: 2 * 64 * 64 * 256 operations.
constexpr int kMatrixThreads = 256;
constexpr double kMatrixOperationsPerIteration = 2.0 * 64 * 64 * 256 * (kMatrixThreads / 128);
constexpr int kTileBytesA = 64 * 64 * 2;   // one per warpgroup
constexpr int kTileBytesB = 256 * 64 * 2;  // shared by both
constexpr int kMatrixSharedBytes = kTileBytesA * (kMatrixThreads / 128) + kTileBytesB + 1024;

// Two bf16 values of magnitude 0.5 to 1 with random signs and mantissas: products neither vanish
// nor overflow, and the multipliers toggle as on real data.
__device__ std::uint32_t random_bf16x2(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  x ^= x >> 16;
  return (x & 0x807f807fu) | 0x3f003f00u;
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// K-major tile of 64 bf16 (128 bytes) per row, 128-byte swizzle, 1024 bytes between 8-row groups.
__device__ std::uint64_t tile_descriptor(const void* tile) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(tile));
  return static_cast<std::uint64_t>((address & 0x3ffff) >> 4) | (1ull << 16) | (64ull << 32) |
         (1ull << 62);
}
#define GDN_R4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define GDN_R16(d, i) GDN_R4(d, i), GDN_R4(d, i + 4), GDN_R4(d, i + 8), GDN_R4(d, i + 12)
#define GDN_R64(d, i) GDN_R16(d, i), GDN_R16(d, i + 16), GDN_R16(d, i + 32), GDN_R16(d, i + 48)
__device__ void multiply_m64n256k16(float (&d)[128], std::uint64_t a, std::uint64_t b) {
  asm volatile(
      "{wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,"
      "%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
      "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,"
      "%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,"
      "%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,"
      "%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127},"
      "%128,%129,1,1,1,0,0;}"
      : GDN_R64(d, 0), GDN_R64(d, 64)
      : "l"(a), "l"(b));
}
#undef GDN_R64
#undef GDN_R16
#undef GDN_R4
#elif defined(__CUDA_ARCH__)
__device__ void multiply_m16n8k16(float* d, const std::uint32_t (&a)[4], std::uint32_t b0,
                                  std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

__global__ void __launch_bounds__(kMatrixThreads, 1)
    matrix_rate_kernel(int iterations, float* sink) {
  extern __shared__ unsigned char raw[];
  float d[128] = {};
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  auto* tiles = reinterpret_cast<unsigned char*>((reinterpret_cast<std::uintptr_t>(raw) + 1023) &
                                                 ~std::uintptr_t{1023});
  auto* words = reinterpret_cast<std::uint32_t*>(tiles);
  for (int i = threadIdx.x; i < (kMatrixSharedBytes - 1024) / 4; i += blockDim.x) {
    words[i] = random_bf16x2(static_cast<std::uint32_t>(i) + 1);
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const int warpgroup = threadIdx.x / 128;
  const std::uint64_t b = tile_descriptor(tiles);
  const std::uint64_t a = tile_descriptor(tiles + kTileBytesB + warpgroup * kTileBytesA);
  for (int i = 0; i < iterations; ++i) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < 4; ++k)
      multiply_m64n256k16(d, a + 2 * k, b + 2 * k);  // 16 columns: 32 bytes
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
#elif defined(__CUDA_ARCH__)
  std::uint32_t a[4][4];
  std::uint32_t b[8];
  for (int i = 0; i < 16; ++i) a[i / 4][i % 4] = random_bf16x2(threadIdx.x * 32 + i);
  for (int i = 0; i < 8; ++i) b[i] = random_bf16x2(threadIdx.x * 32 + 16 + i);
  for (int i = 0; i < iterations; ++i) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
#pragma unroll
      for (int n = 0; n < 32; ++n) multiply_m16n8k16(d + 4 * n, a[k], b[n % 8], b[(n + k + 1) % 8]);
    }
  }
#endif
  float sum = 0;
  for (int i = 0; i < 128; ++i) sum += d[i];
  if (sum == 1.2345f) *sink = sum;  // keeps the products; practically never written
}

// ---- float32 rate

constexpr int kFmaChains = 16;
constexpr int kFmaThreads = 512;

__global__ void __launch_bounds__(kFmaThreads)
    fma_rate_kernel(int iterations, float factor, float addend, float* sink) {
  float x[kFmaChains];
#pragma unroll
  for (int i = 0; i < kFmaChains; ++i) x[i] = static_cast<float>(threadIdx.x + i);
  for (int n = 0; n < iterations; ++n) {
#pragma unroll
    for (int repeat = 0; repeat < 8; ++repeat) {
#pragma unroll
      for (int i = 0; i < kFmaChains; ++i) x[i] = fmaf(x[i], factor, addend);
    }
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kFmaChains; ++i) sum += x[i];
  if (sum == 1.2345f) *sink = sum;
}

double median_ms(StreamTimer& timer, const std::function<void()>& launch) {
  launch();  // loads the kernel and raises the clock
  GDN_CUDA_CHECK(cudaGetLastError());
  GDN_CUDA_CHECK(cudaDeviceSynchronize());
  std::vector<double> times;
  for (int run = 0; run < kRuns; ++run) times.push_back(timer.time({}, launch).time_ms);
  std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
  return times[kRuns / 2];
}

struct CudaFree {
  void operator()(void* memory) const { cudaFree(memory); }
};
using Scratch = std::unique_ptr<void, CudaFree>;

/// Null when the device has not that much memory left.
Scratch try_allocate(std::size_t bytes) {
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  GDN_CUDA_CHECK(status);
  return Scratch(memory);
}

double copy_tb_per_s(cudaStream_t stream, const DeviceInfo& info, StreamTimer& timer) {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  GDN_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  // A gigabyte, less on a full device, but never so little that the L2 would serve it.
  const std::size_t bytes =
      std::min<std::size_t>(std::size_t{1} << 30, free_bytes / 4) & ~std::size_t{15};
  if (bytes < 8 * static_cast<std::size_t>(info.l2_bytes)) return 0;
  const Scratch source = try_allocate(bytes);
  const Scratch destination = try_allocate(bytes);
  if (!source || !destination) return 0;
  GDN_CUDA_CHECK(cudaMemsetAsync(source.get(), 0x5a, bytes, stream));
  const auto count = static_cast<std::int64_t>(bytes / 16);
  const auto blocks = static_cast<unsigned int>((count + 1023) / 1024);
  const double ms = median_ms(timer, [&] {
    copy_kernel<<<blocks, 256, 0, stream>>>(static_cast<const uint4*>(source.get()),
                                            static_cast<uint4*>(destination.get()), count);
  });
  return 2.0 * static_cast<double>(bytes) / ms * 1e-9;
}

}  // namespace

Device::Ceilings measure_ceilings(cudaStream_t stream, const DeviceInfo& info, StreamTimer& timer) {
  Device::Ceilings ceilings;
  ceilings.copy_tb_per_s = copy_tb_per_s(stream, info, timer);
  const Scratch sink = try_allocate(sizeof(float));
  if (!sink) return ceilings;
  const auto blocks = static_cast<unsigned int>(info.multiprocessors);

  allow_shared_memory(matrix_rate_kernel, kMatrixSharedBytes);
  constexpr int kMatrixIterations = 20000;
  const double matrix_ms = median_ms(timer, [&] {
    matrix_rate_kernel<<<blocks, kMatrixThreads, kMatrixSharedBytes, stream>>>(
        kMatrixIterations, static_cast<float*>(sink.get()));
  });
  ceilings.matrix_tflops =
      kMatrixOperationsPerIteration * kMatrixIterations * blocks / matrix_ms * 1e-9;

  constexpr int kFmaIterations = 20000;
  const double fma_ms = median_ms(timer, [&] {
    fma_rate_kernel<<<2 * blocks, kFmaThreads, 0, stream>>>(kFmaIterations, 0.999f, 1e-3f,
                                                            static_cast<float*>(sink.get()));
  });
  ceilings.float32_tflops =
      2.0 * 8 * kFmaChains * kFmaThreads * 2.0 * blocks * kFmaIterations / fma_ms * 1e-9;
  return ceilings;
}

}  // namespace gdn::cuda
