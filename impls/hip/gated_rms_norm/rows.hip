// hip/rows: the gated norm, a row (a token's value head) by half a wave.
//
// A row is gone over twice: for the sum of its squares, which 32 lanes add up by shuffles, and for
// its elements; the second time x comes from the cache. Lanes move 4 elements at a time where rows
// are whole packets of them and aligned, else one. Groups stride over rows; how many there are is
// read from sequence_offsets.
//
// Bound by: memory traffic, x and z read and y written once.
#include "hip/element_device.h"
#include "hip/gated_rms_norm/params.h"
#include "hip/gated_rms_norm/rows_device.h"

namespace gdn::hip {
namespace {

__device__ __forceinline__ float gate_of(NormGateKind gate, float z) {
  const float s = sigmoid(z);
  if (gate == NormGateKind::silu) return z * s;
  return gate == NormGateKind::sigmoid ? s : 2.0f * s;
}

template <typename Token, int Count>
__device__ __forceinline__ void rows(const NormParams& p) {
  constexpr int kRows = kNormThreads / kNormLanes;
  constexpr int kStep = kNormLanes * Count;
  using Tokens = Packet<Token, Count>;
  const int lane = static_cast<int>(threadIdx.x) % kNormLanes;
  const int group = static_cast<int>(threadIdx.x) / kNormLanes;
  const std::int64_t num_rows = norm_row_count(p);
  const Token* const weight = static_cast<const Token*>(p.weight);
  // The halves of a wave stay together: shuffles are among all of its lanes.
  for (std::int64_t base = static_cast<std::int64_t>(blockIdx.x) * kRows; base < num_rows;
       base += static_cast<std::int64_t>(p.blocks) * kRows) {
    const NormRow row = norm_row(p, base + group, num_rows);
    const Token* const x = static_cast<const Token*>(p.x) + row.at(p.x_token_stride);
    const Token* const z = static_cast<const Token*>(p.z) + row.at(p.z_token_stride);
    const int end = row.exists ? p.width : 0;
    float squares = 0.0f;
    for (int at = lane * Count; at < end; at += kStep) {
      const Tokens xs = *reinterpret_cast<const Tokens*>(x + at);
#pragma unroll
      for (int i = 0; i < Count; ++i) squares = fmaf(to_float(xs.x[i]), to_float(xs.x[i]), squares);
    }
    const float scale = row_scale(p, sum_over_row(squares));
    for (int at = lane * Count; at < end; at += kStep) {
      const Tokens xs = *reinterpret_cast<const Tokens*>(x + at);
      const Tokens zs = *reinterpret_cast<const Tokens*>(z + at);
      const Tokens ws = *reinterpret_cast<const Tokens*>(weight + at);
#pragma unroll
      for (int i = 0; i < Count; ++i) {
        const float value =
            to_float(xs.x[i]) * scale * to_float(ws.x[i]) * gate_of(p.gate, to_float(zs.x[i]));
        store_element(p.y, p.output_element, row.first + at + i, value);
      }
    }
  }
}

}  // namespace

#define GDN_NORM(suffix, Token)                                                                    \
  extern "C" __global__ __launch_bounds__(kNormThreads) void norm_packets_##suffix(NormParams p) { \
    rows<Token, kNormPacket>(p);                                                                   \
  }                                                                                                \
  extern "C" __global__ __launch_bounds__(kNormThreads) void norm_elements_##suffix(               \
      NormParams p) {                                                                              \
    rows<Token, 1>(p);                                                                             \
  }
GDN_NORM(f32, float)
GDN_NORM(f16, Half)
GDN_NORM(bf16, Bfloat16)

}  // namespace gdn::hip
