// hip/rows: gradients of the gated norm (docs/contract.md, section 1.13), in two launches.
//
// A row (a token's value head) by half a wave, which goes over it three times, the later times from
// the cache: for the sum of its squares; for d_z, the summands of d_weight and the sum of u g, with
// u = x / n and g = d_y weight gate(z); and for d_x = (g - u mean(u g)) / n. Lanes move 4 elements
// at a time where rows are at most 256 elements, whole packets and aligned, else one. Groups stride
// over rows; how many there are is read from sequence_offsets.
//
// Each half wave sums d_weight over its own rows: in registers where lanes move packets, else in
// its row of the workspace. The second kernel adds these rows up in a fixed order, without atomics,
// in float32 with what each addition rounds away added up beside it.
//
// Bound by: memory traffic, x, z and d_y read and d_x and d_z written once.
#include "hip/compensated_sum_device.h"
#include "hip/element_device.h"
#include "hip/gated_rms_norm/rows_device.h"
#include "hip/gated_rms_norm_backward/params.h"

namespace gdn::hip {
namespace {

constexpr int kRows = kNormThreads / kNormLanes;  ///< of a workgroup at a time

/// gate(z) and its slope. One of s = sigmoid(z) and 1 - s is 1 / (1 + e), the other e / (1 + e):
/// neither loses its digits, and nothing overflows.
struct Gate {
  float value, slope;
};
__device__ __forceinline__ Gate gate_and_slope(NormGateKind gate, float z) {
  const float e = expf(-fabsf(z));
  const float large = 1.0f / (1.0f + e), small = e * large;
  const float s = z >= 0.0f ? large : small, slope = large * small;
  if (gate == NormGateKind::silu) return {z * s, fmaf(z, slope, s)};
  return gate == NormGateKind::sigmoid ? Gate{s, slope} : Gate{2.0f * s, 2.0f * slope};
}

/// Held: packets of a lane whose sums are in registers; 0: in the workspace.
template <typename Token, int Count, int Held>
__device__ __forceinline__ void gradients(const NormGradientParams& b) {
  constexpr int kStep = kNormLanes * Count;
  using Tokens = Packet<Token, Count>;
  const NormParams& p = b.norm;
  const int lane = static_cast<int>(threadIdx.x) % kNormLanes;
  const int group = static_cast<int>(threadIdx.x) / kNormLanes;
  const std::int64_t num_rows = norm_row_count(p);
  const Token* const weight = static_cast<const Token*>(p.weight);
  float* const part = b.parts + (static_cast<std::int64_t>(blockIdx.x) * kRows + group) * p.width;
  float sums[Held == 0 ? 1 : Held][Count] = {};
  if (Held == 0) {
    for (int at = lane * Count; at < p.width; at += kStep) {
#pragma unroll
      for (int i = 0; i < Count; ++i) part[at + i] = 0.0f;
    }
  }
  // The halves of a wave stay together: shuffles are among all of its lanes.
  for (std::int64_t base = static_cast<std::int64_t>(blockIdx.x) * kRows; base < num_rows;
       base += static_cast<std::int64_t>(p.blocks) * kRows) {
    const NormRow row = norm_row(p, base + group, num_rows);
    const Token* const x = static_cast<const Token*>(p.x) + row.at(p.x_token_stride);
    const Token* const z = static_cast<const Token*>(p.z) + row.at(p.z_token_stride);
    const Token* const d_y = static_cast<const Token*>(b.d_y) + row.at(b.d_y_token_stride);
    Token* const d_x = static_cast<Token*>(b.d_x) + row.first;
    Token* const d_z = static_cast<Token*>(b.d_z) + row.first;
    const int end = row.exists ? p.width : 0;
    float squares = 0.0f;
    for (int at = lane * Count; at < end; at += kStep) {
      const Tokens xs = *reinterpret_cast<const Tokens*>(x + at);
#pragma unroll
      for (int i = 0; i < Count; ++i) squares = fmaf(to_float(xs.x[i]), to_float(xs.x[i]), squares);
    }
    const float scale = row_scale(p, sum_over_row(squares));
    float along = 0.0f;
    const auto behind = [&](int at, float* to) {
      const Tokens xs = *reinterpret_cast<const Tokens*>(x + at);
      const Tokens zs = *reinterpret_cast<const Tokens*>(z + at);
      const Tokens ys = *reinterpret_cast<const Tokens*>(d_y + at);
      const Tokens ws = *reinterpret_cast<const Tokens*>(weight + at);
#pragma unroll
      for (int i = 0; i < Count; ++i) {
        const Gate gate = gate_and_slope(p.gate, to_float(zs.x[i]));
        const float u = to_float(xs.x[i]) * scale, dy = to_float(ys.x[i]);
        const float of_gate = dy * to_float(ws.x[i]);
        to[i] = fmaf(dy * u, gate.value, to[i]);
        along = fmaf(u, of_gate * gate.value, along);
        store_as(d_z + at + i, of_gate * u * gate.slope);
      }
    };
    if (Held == 0) {
      for (int at = lane * Count; at < end; at += kStep) behind(at, part + at);
    } else {
#pragma unroll
      for (int k = 0; k < Held; ++k) {
        const int at = lane * Count + k * kStep;
        if (at < end) behind(at, sums[k]);
      }
    }
    const float mean = sum_over_row(along) / static_cast<float>(p.width);
    for (int at = lane * Count; at < end; at += kStep) {
      const Tokens xs = *reinterpret_cast<const Tokens*>(x + at);
      const Tokens zs = *reinterpret_cast<const Tokens*>(z + at);
      const Tokens ys = *reinterpret_cast<const Tokens*>(d_y + at);
      const Tokens ws = *reinterpret_cast<const Tokens*>(weight + at);
#pragma unroll
      for (int i = 0; i < Count; ++i) {
        const Gate gate = gate_and_slope(p.gate, to_float(zs.x[i]));
        const float g = to_float(ys.x[i]) * to_float(ws.x[i]) * gate.value;
        store_as(d_x + at + i, fmaf(-to_float(xs.x[i]) * scale, mean, g) * scale);
      }
    }
  }
#pragma unroll
  for (int k = 0; k < Held; ++k) {
    const int at = lane * Count + k * kStep;
    if (at >= p.width) continue;
#pragma unroll
    for (int i = 0; i < Count; ++i) part[at + i] = sums[k][i];
  }
}

struct PartSums {
  float sum[kNormThreads];
  float rest[kNormThreads];
};

/// A workgroup for kNormSumColumns of d_weight.
__device__ __forceinline__ void sum_weights(const NormGradientParams& b) {
  GDN_LDS(shared, PartSums);
  const int thread = static_cast<int>(threadIdx.x);
  const int column_of_group = thread % kNormSumColumns, row = thread / kNormSumColumns;
  const int column = static_cast<int>(blockIdx.x) * kNormSumColumns + column_of_group;
  const int width = b.norm.width, parts = b.norm.blocks * kRows;
  CompensatedSum sum;
  if (column < width) {
    for (int part = row; part < parts; part += kNormThreads / kNormSumColumns) {
      sum.add(b.parts[static_cast<std::int64_t>(part) * width + column]);
    }
  }
  shared.sum[thread] = sum.sum;
  shared.rest[thread] = sum.rest;
  __syncthreads();
  if (row > 0 || column >= width) return;
  for (int i = column_of_group + kNormSumColumns; i < kNormThreads; i += kNormSumColumns) {
    sum.add({shared.sum[i], shared.rest[i]});
  }
  b.d_weight[column] = sum.sum + sum.rest;
}

}  // namespace

#define GDN_NORM_GRADIENTS(suffix, Token)                                                      \
  extern "C" __global__ __launch_bounds__(kNormThreads) void norm_gradients_packets_##suffix(  \
      NormGradientParams b) {                                                                  \
    gradients<Token, kNormPacket, kNormHeldPackets>(b);                                        \
  }                                                                                            \
  extern "C" __global__ __launch_bounds__(kNormThreads) void norm_gradients_elements_##suffix( \
      NormGradientParams b) {                                                                  \
    gradients<Token, 1, 0>(b);                                                                 \
  }
GDN_NORM_GRADIENTS(f32, float)
GDN_NORM_GRADIENTS(f16, Half)
GDN_NORM_GRADIENTS(bf16, Bfloat16)

extern "C" __global__ __launch_bounds__(kNormThreads) void norm_gradients_sum(
    NormGradientParams b) {
  sum_weights(b);
}

}  // namespace gdn::hip
