// Kernels with a fault each, and their sound twins: what the emulator and the budgets must tell
// apart.
#include <hip/hip_runtime.h>

namespace {
template <bool barrier>
__device__ void reverse(int* out) {
  __shared__ int values[256];
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (barrier) __syncthreads();
  out[threadIdx.x] = values[255 - threadIdx.x];
}

/// The sum of 64 lanes, or what code written for 32-lane waves makes of it.
template <int lanes>
__device__ void sum(int* out) {
  int x = static_cast<int>(threadIdx.x) + 1;
  for (int distance = lanes / 2; distance > 0; distance /= 2) x += __shfl_xor(x, distance, 64);
  out[threadIdx.x] = x;
}
}  // namespace

extern "C" {
__global__ __launch_bounds__(256) void reverse_without_barrier(int* out) { reverse<false>(out); }
__global__ __launch_bounds__(256) void reverse_sound(int* out) { reverse<true>(out); }

__global__ __launch_bounds__(64) void sum_of_half_waves(int* out) { sum<32>(out); }
__global__ __launch_bounds__(64) void sum_sound(int* out) { sum<64>(out); }

__global__ __launch_bounds__(64) void tail_unguarded(int* out, int) { out[threadIdx.x] = 1; }
__global__ __launch_bounds__(64) void tail_sound(int* out, int count) {
  if (static_cast<int>(threadIdx.x) < count) out[threadIdx.x] = 1;
}

__global__ __launch_bounds__(128) void barrier_of_one_wave(int* out) {
  if (threadIdx.x < 64) {
    __syncthreads();
    out[threadIdx.x] = 1;
  }
}

__global__ __launch_bounds__(64) void lds_never_written(int* out) {
  __shared__ int values[64];
  if (out == nullptr) values[threadIdx.x] = 1;
  out[threadIdx.x] = values[threadIdx.x];
}

/// 120 values that live at once, where 1024 threads leave each lane 64 registers.
__global__ __launch_bounds__(1024) void registers_spilled(int* out) {
  int values[120];
#pragma unroll
  for (int i = 0; i < 120; ++i) values[i] = out[i * 1024 + static_cast<int>(threadIdx.x)];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 120; ++i) out[i * 1024 + static_cast<int>(threadIdx.x)] = values[119 - i];
}

/// An array indexed at run time cannot live in registers.
__global__ __launch_bounds__(64) void array_in_scratch(int* out, int count) {
  int values[64];
  for (int i = 0; i < 64; ++i) values[i] = out[i];
  for (int i = 0; i < count; ++i) values[values[i] & 63] += i;
  for (int i = 0; i < 64; ++i) out[i] = values[(i * count) & 63];
}
}
