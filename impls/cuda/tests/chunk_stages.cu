#include <cmath>
#include <limits>

#include "chunk_stages.h"
#include "cuda/check.h"
#include "cuda/gated_delta/chunk/triangular_inverse.cuh"
#include "cuda/target.h"
#include "interface/error.h"

namespace gdn::test {
namespace {

using namespace gdn::GDN_CUDA_TARGET;

/// Device memory holding `values`, freed at the end of the scope.
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<float>& values) : bytes_(values.size() * sizeof(float)) {
    GDN_CUDA_CHECK(cudaMalloc(&data_, bytes_));
    GDN_CUDA_CHECK(cudaMemcpy(data_, values.data(), bytes_, cudaMemcpyHostToDevice));
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  float* data() const { return static_cast<float*>(data_); }
  std::vector<float> values() const {
    std::vector<float> result(bytes_ / sizeof(float));
    GDN_CUDA_CHECK(cudaMemcpy(result.data(), data_, bytes_, cudaMemcpyDeviceToHost));
    return result;
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

template <int C>
__global__ void __launch_bounds__(2 * C) invert_kernel(const float* L, float* T) {
  extern __shared__ float4 shared[];
  auto* const tile = reinterpret_cast<float*>(shared);
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int warp = thread / 32;
  for (int i = thread; i < C * C; i += 2 * C) {
    tile[i / C * kTriangleStride<C> + i % C] = i % C <= i / C ? L[i] : NAN;
  }
  __syncthreads();
  invert_diagonal_block<C>(tile, warp, lane);
  __syncthreads();
  substitute_block_column<C>(tile, warp, lane, [&](int i, const Accumulator& block) {
    for (int e = 0; e < 8; ++e) {
      T[(16 * i + fragment_row(lane, e)) * C + 16 * warp + fragment_column(lane, e)] =
          block.value[e];
    }
  });
}

template <int C>
void launch_invert(const float* L, float* T) {
  constexpr int kBytes = C * kTriangleStride<C> * static_cast<int>(sizeof(float));
  GDN_CUDA_CHECK(
      cudaFuncSetAttribute(invert_kernel<C>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  invert_kernel<C><<<1, 2 * C, kBytes>>>(L, T);
  GDN_CUDA_CHECK(cudaGetLastError());
}

__global__ void __launch_bounds__(32)
    multiply_kernel(const float* A, const float* B, float* sums, int columns, bool transposed) {
  __shared__ float a_tile[16 * tile_stride(16)];
  __shared__ float b_tile[16 * tile_stride(16)];
  const int lane = static_cast<int>(threadIdx.x);
  Accumulator acc = zero_accumulator();
  for (int first = 0; first < columns; first += 16) {
    for (int i = lane; i < 256; i += 32) {
      const int row = i / 16;
      const int column = i % 16;
      a_tile[row * tile_stride(16) + column] = A[row * columns + first + column];
      const int at = transposed ? column * tile_stride(16) + row : row * tile_stride(16) + column;
      b_tile[at] = B[row * columns + first + column];
    }
    __syncwarp();
    const auto b = transposed ? load_fragment_transposed(b_tile, tile_stride(16), 0, 0, lane)
                              : load_fragment(b_tile, tile_stride(16), 0, 0, lane);
    multiply_add(acc, load_fragment(a_tile, tile_stride(16), 0, 0, lane), b);
    __syncwarp();
  }
  for (int e = 0; e < 8; ++e) {
    sums[fragment_row(lane, e) * 16 + fragment_column(lane, e)] = acc.value[e];
  }
}

}  // namespace

std::vector<float> invert_unit_lower_on_cuda(const std::vector<float>& L, int C) {
  const DeviceArray input(L);
  const DeviceArray output(std::vector<float>(L.size(), std::numeric_limits<float>::quiet_NaN()));
  switch (C) {
    case 16:
      launch_invert<16>(input.data(), output.data());
      break;
    case 32:
      launch_invert<32>(input.data(), output.data());
      break;
    case 64:
      launch_invert<64>(input.data(), output.data());
      break;
    case 128:
      launch_invert<128>(input.data(), output.data());
      break;
    default:
      throw_bad_input("C: expected 16, 32, 64 or 128");
  }
  return output.values();
}

std::vector<float> multiply_blocks_on_cuda(const std::vector<float>& A, const std::vector<float>& B,
                                           bool transposed) {
  const DeviceArray a(A);
  const DeviceArray b(B);
  const DeviceArray sums(std::vector<float>(256));
  multiply_kernel<<<1, 32>>>(a.data(), b.data(), sums.data(), static_cast<int>(A.size() / 16),
                             transposed);
  GDN_CUDA_CHECK(cudaGetLastError());
  return sums.values();
}

}  // namespace gdn::test
