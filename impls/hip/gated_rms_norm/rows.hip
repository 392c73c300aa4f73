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
  const std::int64_t num_rows = p.sequence_offsets[p.num_sequences] * p.num_value_heads;
  const Token* const weight = static_cast<const Token*>(p.weight);
  // The halves of a wave stay together: shuffles are among all of its lanes.
  for (std::int64_t base = static_cast<std::int64_t>(blockIdx.x) * kRows; base < num_rows;
       base += static_cast<std::int64_t>(p.blocks) * kRows) {
    const bool exists = base + group < num_rows;
    const std::int64_t row = base + group, first = row * p.width;
    const std::int64_t token = row / p.num_value_heads;
    const std::int64_t in_token = row % p.num_value_heads * p.width;
    const Token* const x = static_cast<const Token*>(p.x) + token * p.x_token_stride + in_token;
    const Token* const z = static_cast<const Token*>(p.z) + token * p.z_token_stride + in_token;
    const int end = exists ? p.width : 0;
    float squares = 0.0f;
    for (int at = lane * Count; at < end; at += kStep) {
      const Tokens xs = *reinterpret_cast<const Tokens*>(x + at);
#pragma unroll
      for (int i = 0; i < Count; ++i) squares = fmaf(to_float(xs.x[i]), to_float(xs.x[i]), squares);
    }
#pragma unroll
    for (int mask = kNormLanes / 2; mask > 0; mask /= 2) squares += shuffle_xor(squares, mask);
    const float scale = 1.0f / sqrtf(squares / static_cast<float>(p.width) + p.eps);
    for (int at = lane * Count; at < end; at += kStep) {
      const Tokens xs = *reinterpret_cast<const Tokens*>(x + at);
      const Tokens zs = *reinterpret_cast<const Tokens*>(z + at);
      const Tokens ws = *reinterpret_cast<const Tokens*>(weight + at);
#pragma unroll
      for (int i = 0; i < Count; ++i) {
        const float value =
            to_float(xs.x[i]) * scale * to_float(ws.x[i]) * gate_of(p.gate, to_float(zs.x[i]));
        store_element(p.y, p.output_element, first + at + i, value);
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
