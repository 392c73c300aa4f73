// The second launch of cuda/channel_sm90 where sequences are in pieces (work_item.cuh): the states
// at the starts of pieces, S_p = S_(p-1) M_(p-1) + Z_(p-1) from the second piece on. Rows of S are
// independent, so that a block has 16 rows of one sequence and value head; each of its warps makes 16
// of their columns. M comes from memory straight into the registers that mma takes it from, a step
// ahead. Operands are in two parts of tf32, high and low, of which all products but that of the low
// parts are summed: as good as float32.
//
// Bound by: M through the L2 cache, 64 KB a step and block. Not measured yet.
#include <cuda_runtime.h>

#include "cuda/gated_delta/channel_sm90/launch.h"
#include "cuda/grid_blocks.h"
#include "cuda/hopper/barrier.cuh"
#include "cuda/hopper/launch_overlapping.cuh"
#include "cuda/hopper/matrix.cuh"
#include "cuda/shared_memory.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::channel_sm90 {

using namespace hopper;

namespace {

constexpr int kRows = 16, kWarpColumns = 16;  // of S: of a block, of a warp
constexpr int kChainThreads = 32 * kKeyDim / kWarpColumns;
constexpr int kStride = kKeyDim + 4;  // of rows in shared memory: no bank twice
constexpr int kSharedBytes = 2 * kRows * kStride * static_cast<int>(sizeof(float));
constexpr int kSteps = kKeyDim / 8;  // of mma over the rows of M

/// x as the sum of two floats, the first with the 10 bits of tf32.
__device__ __forceinline__ void split_tf32(float x, uint32_t& high, uint32_t& low) {
  high = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
  low = __float_as_uint(x - __uint_as_float(high));
}

/// Pieces of the sequences before this one. Whole warps.
__device__ __forceinline__ int pieces_before(const ChannelParams& a, int sequence, int lane) {
  int pieces = 0;
  for (int n = lane; n < sequence; n += 32)
    pieces += pieces_of(static_cast<int>(a.p.sequence_offsets[n + 1] - a.p.sequence_offsets[n]),
                        a.chunks_per_piece);
#pragma unroll
  for (int other = 1; other < 32; other *= 2) pieces += __shfl_xor_sync(~0u, pieces, other);
  return pieces;
}

/// This lane's elements of the 16 columns of M: of each step two rows, two columns.
struct Columns {
  float2 row[2 * kSteps];
  __device__ __forceinline__ void load(const float* M, int step) {
    row[2 * step] = *reinterpret_cast<const float2*>(M + 8 * step * kKeyDim);
    row[2 * step + 1] = *reinterpret_cast<const float2*>(M + (8 * step + 4) * kKeyDim);
  }
};

}  // namespace

__global__ void __launch_bounds__(kChainThreads) chain_kernel(const ChannelParams a) {
  GDN_DYNAMIC_SHARED_MEMORY(raw, 16);
  auto* const shared = reinterpret_cast<float*>(raw);  // [2][kRows][kStride]
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int group = static_cast<int>(blockIdx.x) % (kValueDim / kRows),
            of_all = static_cast<int>(blockIdx.x) / (kValueDim / kRows);
  const int head = of_all % a.p.num_value_heads, sequence = of_all / a.p.num_value_heads;
  wait_for_prerequisites();  // blocks without work, too: the next kernel waits for this one alone
  launch_dependents();
  const auto length =
      static_cast<int>(a.p.sequence_offsets[sequence + 1] - a.p.sequence_offsets[sequence]);
  const int pieces = pieces_of(length, a.chunks_per_piece);
  if (pieces < 3 || (a.p.slot_index && a.p.slot_index[sequence] < 0)) return;
  const int first = pieces_before(a, sequence, lane);

  // This lane's elements of S: rows lane / 4 and 8 more, four columns.
  const int row = lane / 4, column = warp * kWarpColumns + 4 * (lane % 4);
  const int64_t each = matrix_offset(a, 1, 0);  // from a slot to the next
  float* state = a.states + matrix_offset(a, first + 1, head) +
                 static_cast<int64_t>(kRows * group + row) * kKeyDim + column;
  // Of M: rows lane % 4 and 4 more of a step, columns 2 (lane / 4) of the warp's, and the next one:
  // one of each for two products of 8 columns, so that the sums are four columns in a row.
  const float* M = a.transitions + matrix_offset(a, first + 1, head) + (lane % 4) * kKeyDim +
                   warp * kWarpColumns + 2 * (lane / 4);
  const auto load = [](const float* from) { return *reinterpret_cast<const float4*>(from); };
  // A state is made where the next piece needs one, and is there already where this one needs none.
  const int32_t* const early = a.early_chunks + int64_t{first} * a.p.num_value_heads + head;
  const auto needs_state = [&](int piece) {
    return early[int64_t{piece} * a.p.num_value_heads] < 0;
  };
  Columns columns;
  int in_columns = 0;  // the piece whose M is there
  int products = 0;
  float4 upper = load(state), lower = load(state + 8 * kKeyDim);
  bool needs = needs_state(1), next_needs = needs_state(2);
#pragma unroll 1
  for (int piece = 1; piece < pieces - 1; piece++) {
    const bool makes = needs && next_needs, takes = !needs && next_needs;
    needs = next_needs;
    next_needs = piece < pieces - 2 && needs_state(piece + 2);
    if (makes && in_columns != piece) {
#pragma unroll
      for (int step = 0; step < kSteps; step++) columns.load(M, step);
    }
    state += each;
    if (piece < pieces - 2) M += each;  // else loaded again, in vain
    if (takes) upper = load(state), lower = load(state + 8 * kKeyDim);
    if (!makes) continue;
    in_columns = piece + 1;
    float* const S = shared + (products++ & 1) * kRows * kStride;
    *reinterpret_cast<float4*>(S + row * kStride + column) = upper;
    *reinterpret_cast<float4*>(S + (row + 8) * kStride + column) = lower;
    const float4 upper_zero = load(state), lower_zero = load(state + 8 * kKeyDim);
    __syncthreads();
    float high[2][4] = {}, low[2][4] = {};
#pragma unroll
    for (int step = 0; step < kSteps; step++) {
      const float2 m0 = columns.row[2 * step], m1 = columns.row[2 * step + 1];
      columns.load(M, step);
      uint32_t s_high[4], s_low[4];
#pragma unroll
      for (int i = 0; i < 4; i++)
        split_tf32(S[(row + 8 * (i & 1)) * kStride + 8 * step + 4 * (i >> 1) + lane % 4], s_high[i],
                   s_low[i]);
      const float of_rows[2][2] = {{m0.x, m1.x}, {m0.y, m1.y}};
#pragma unroll
      for (int half = 0; half < 2; half++) {
        uint32_t m_high[2], m_low[2];
        split_tf32(of_rows[half][0], m_high[0], m_low[0]);
        split_tf32(of_rows[half][1], m_high[1], m_low[1]);
        mma_m16n8k8_tf32(high[half], s_high, m_high[0], m_high[1]);
        mma_m16n8k8_tf32(low[half], s_low, m_high[0], m_high[1]);
        mma_m16n8k8_tf32(low[half], s_high, m_low[0], m_low[1]);
      }
    }
    const auto sum = [&](int half, int i, float zero) {
      return high[half][i] + (low[half][i] + zero);
    };
    upper = make_float4(sum(0, 0, upper_zero.x), sum(1, 0, upper_zero.y), sum(0, 1, upper_zero.z),
                        sum(1, 1, upper_zero.w));
    lower = make_float4(sum(0, 2, lower_zero.x), sum(1, 2, lower_zero.y), sum(0, 3, lower_zero.z),
                        sum(1, 3, lower_zero.w));
    *reinterpret_cast<float4*>(state) = upper;
    *reinterpret_cast<float4*>(state + 8 * kKeyDim) = lower;
  }
}

void enqueue_chain(const ChannelParams& params, cudaStream_t stream) {
  const unsigned int blocks =
      static_cast<unsigned int>(params.items) * static_cast<unsigned int>(kValueDim / kRows);
  launch_overlapping(chain_kernel, blocks, kChainThreads, kSharedBytes, stream, params);
}

}  // namespace gdn::GDN_CUDA_TARGET::channel_sm90
