// Device code shared by the gated_delta kernels: elements, gates, addresses, sums over lanes.
// Included by .hip files only.
#pragma once

#include "hip/element_device.h"
#include "hip/gated_delta/params.h"
#include "hip/lanes_device.h"
#include "interface/stochastic_rounding.h"

namespace gdn::hip {

constexpr float kNormEpsilon = 1e-6f;

// ---- gates (docs/contract.md, section 1.1) ----

/// ln(1 + e^x) without overflow.
__device__ __forceinline__ float softplus(float x) {
  return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)));
}

/// What of the gates belongs to a value head, read once.
struct HeadGates {
  float A_log = 0.0f;
  float dt_bias = 0.0f;
};
__device__ __forceinline__ HeadGates head_gates(const GatedDeltaParams& p, int head) {
  if (p.A_log == nullptr) return {};
  return {p.A_log[head], p.dt_bias[head]};
}

/// g <= 0 from a token's gate input x; -inf is a reset. Far below zero softplus(x) is e^x, and one
/// exponential keeps exp(A_log) * softplus from being inf * 0. With a bound, exp(A_log) is held within
/// float32: where it would leave it the sigmoid has saturated for every argument but zero.
__device__ __forceinline__ float log_decay_from(const GatedDeltaParams& p, const HeadGates& head,
                                                float x) {
  switch (p.gate_encoding) {
    case GateEncoding::decay:
      return logf(x);
    case GateEncoding::neg_log_decay:
      return -x;
    case GateEncoding::logits: {
      const float biased = x + head.dt_bias;
      if (biased < -17.0f) return -expf(head.A_log + biased);
      return -expf(head.A_log) * softplus(biased);
    }
    case GateEncoding::bounded:
      return -p.decay_bound * sigmoid(expf(fminf(head.A_log, 88.0f)) * (x + head.dt_bias));
    case GateEncoding::log_decay:
      break;
  }
  return x;
}
__device__ __forceinline__ float decay_from(const GatedDeltaParams& p, const HeadGates& head,
                                            float x) {
  return p.gate_encoding == GateEncoding::decay ? x : expf(log_decay_from(p, head, x));
}
__device__ __forceinline__ float beta_from(const GatedDeltaParams& p, float x) {
  switch (p.beta_encoding) {
    case BetaEncoding::logit:
      return sigmoid(x);
    case BetaEncoding::logit2:
      return 2.0f * sigmoid(x);
    case BetaEncoding::beta:
      break;
  }
  return x;
}

__device__ __forceinline__ float log_decay_of(const GatedDeltaParams& p, std::int64_t token,
                                              int head) {
  return log_decay_from(p, head_gates(p, head), p.gate[token * p.gate_token_stride + head]);
}
__device__ __forceinline__ float decay_of(const GatedDeltaParams& p, std::int64_t token, int head) {
  return decay_from(p, head_gates(p, head), p.gate[token * p.gate_token_stride + head]);
}
/// With one decay for each key channel: gates [T, Hv, Dk], dt_bias [Hv, Dk].
__device__ __forceinline__ HeadGates channel_gates(const GatedDeltaParams& p, int head, int k) {
  if (p.A_log == nullptr) return {};
  return {p.A_log[head], p.dt_bias[head * p.key_head_dim + k]};
}
__device__ __forceinline__ float channel_gate(const GatedDeltaParams& p, std::int64_t token,
                                              int head, int k) {
  return p.gate[token * p.gate_token_stride + head * p.key_head_dim + k];
}
__device__ __forceinline__ float channel_decay_of(const GatedDeltaParams& p, std::int64_t token,
                                                  int head, int k) {
  return decay_from(p, channel_gates(p, head, k), channel_gate(p, token, head, k));
}
__device__ __forceinline__ float channel_log_decay_of(const GatedDeltaParams& p, std::int64_t token,
                                                      int head, int k) {
  return log_decay_from(p, channel_gates(p, head, k), channel_gate(p, token, head, k));
}
__device__ __forceinline__ float beta_of(const GatedDeltaParams& p, std::int64_t token, int head) {
  return beta_from(p, p.beta[token * p.beta_token_stride + head]);
}

// ---- addresses ----

__device__ __forceinline__ int key_head_of(const GatedDeltaParams& p, int head) {
  return p.group_reciprocal == 0
             ? head
             : static_cast<int>(__umulhi(static_cast<unsigned>(head), p.group_reciprocal));
}
template <typename Token>
__device__ __forceinline__ const Token* query_at(const GatedDeltaParams& p, std::int64_t token,
                                                 int key_head) {
  return static_cast<const Token*>(p.query) + token * p.query_token_stride +
         key_head * p.key_head_dim;
}
template <typename Token>
__device__ __forceinline__ const Token* key_at(const GatedDeltaParams& p, std::int64_t token,
                                               int key_head) {
  return static_cast<const Token*>(p.key) + token * p.key_token_stride + key_head * p.key_head_dim;
}
template <typename Token>
__device__ __forceinline__ const Token* value_at(const GatedDeltaParams& p, std::int64_t token,
                                                 int head) {
  return static_cast<const Token*>(p.value) + token * p.value_token_stride +
         head * p.value_head_dim;
}
__device__ __forceinline__ std::int64_t output_index(const GatedDeltaParams& p, std::int64_t token,
                                                     int head, int column) {
  return (token * p.num_value_heads + head) * p.value_head_dim + column;
}

/// One sequence as a workgroup sees it.
struct Span {
  std::int64_t first;  ///< token
  std::int64_t length;
  std::int64_t row;  ///< of the state pool; -1 = padding: no state, outputs zero
};
__device__ __forceinline__ Span span_of(const GatedDeltaParams& p, int sequence) {
  const std::int64_t first = p.sequence_offsets[sequence];
  const std::int64_t row = p.slot_index ? p.slot_index[sequence] : sequence;
  return {first, p.sequence_offsets[sequence + 1] - first, row};
}

/// The 16 bits of float16 or bfloat16.
__device__ __forceinline__ std::uint16_t rounded_by_chance(Element element, float x,
                                                           std::uint32_t random) {
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  return element == Element::float16 ? round_to_float16(bits, random)
                                     : round_to_bfloat16(bits, random);
}

__device__ __forceinline__ std::int64_t state_index(const GatedDeltaParams& p, std::int64_t row,
                                                    int head, int k, int v) {
  return row * p.state_row_stride +
         static_cast<std::int64_t>(head) * p.key_head_dim * p.value_head_dim +
         static_cast<std::int64_t>(k) * p.state_key_stride +
         static_cast<std::int64_t>(v) * p.state_value_stride;
}
__device__ __forceinline__ float load_state(const GatedDeltaParams& p, std::int64_t row, int head,
                                            int k, int v) {
  if (p.read_state == 0) return 0.0f;
  return load_element(p.state_pool, p.state_element, state_index(p, row, head, k, v));
}
__device__ __forceinline__ void store_state(const GatedDeltaParams& p, std::int64_t row, int head,
                                            int k, int v, float x) {
  if (p.write_state == 0) return;
  store_element(p.state_pool, p.state_element, state_index(p, row, head, k, v), x);
}

/// The same to a pool of 16 bits, by stochastic rounding.
__device__ __forceinline__ void store_state_by_chance(const GatedDeltaParams& p, std::int64_t row,
                                                      int head, int k, int v, float x,
                                                      std::uint32_t seed) {
  if (p.write_state == 0) return;
  const auto at = static_cast<std::uint32_t>(state_index(p, 0, head, k, v));
  const RoundingBits random = rounding_bits(seed, at / kRoundingGroup);
  static_cast<std::uint16_t*>(p.state_pool)[state_index(p, row, head, k, v)] =
      rounded_by_chance(p.state_element, x, random.of(static_cast<int>(at % kRoundingGroup)));
}

/// N elements of a row from k on, zeros beyond `limit`.
template <int N, typename T>
__device__ __forceinline__ Packet<T, N> load_packet(const GatedDeltaParams& p, const T* row, int k,
                                                    int limit) {
  if (p.packets != 0) return load_inside<T, N>(k < limit, row, static_cast<unsigned>(k));
  Packet<T, N> packet;
#pragma unroll
  for (int e = 0; e < N; ++e) {
    packet.x[e] = load_inside<T, 1>(k + e < limit, row, static_cast<unsigned>(k + e)).x[0];
  }
  return packet;
}
/// Four output columns from `index` on, `limit` of them or more within the row.
__device__ __forceinline__ void store_columns(const GatedDeltaParams& p, std::int64_t index,
                                              int limit, const float (&values)[4]) {
  with_element(p.output_element, [&](auto* type) {
    using T = std::remove_cv_t<std::remove_pointer_t<decltype(type)>>;
    T* const output = mutable_array(type, p.output) + index;
    Packet<T, 4> packet;
#pragma unroll
    for (int e = 0; e < 4; ++e) store_as(&packet.x[e], values[e]);
    if (p.packets != 0) {
      store_packet(output, packet);
      return;
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (e < limit) output[e] = packet.x[e];
    }
  });
}

// ---- sums over the lanes of a wave ----

/// Butterfly of shuffles: each goes through the LDS crossbar (ds_bpermute). Every lane has the sum.
struct ShuffleSum {
  static __device__ __forceinline__ float sum(float x) {
#pragma unroll
    for (int distance = kWave / 2; distance > 0; distance /= 2) x += shuffle_xor(x, distance);
    return x;
  }
};

/// Data-parallel primitives: the addend's lanes move inside the VALU. Sums of 16-lane rows by
/// shifts of 1, 2, 4 and 8, then across rows by the two broadcasts; the last lane ends with the
/// sum and is read into a scalar register, from which every lane takes it.
struct DppSum {
  static __device__ __forceinline__ float sum(float x) {
    x += dpp_moved<0x111, 0xf>(x);                             // row_shr:1
    x += dpp_moved<0x112, 0xf>(x);                             // row_shr:2
    x += dpp_moved<0x114, 0xf>(x);                             // row_shr:4
    x += dpp_moved<0x118, 0xf>(x);                             // row_shr:8
    x += dpp_moved<0x142, 0xa>(x);                             // row_bcast:15 into rows 1 and 3
    if constexpr (kWave == 64) x += dpp_moved<0x143, 0xc>(x);  // row_bcast:31 into rows 2 and 3
    return read_lane<kWave - 1>(x);
  }
};

/// Over the 8 lanes of equal lane / 8: neighbours, pairs, then the two quads. Every lane has the
/// sum.
__device__ __forceinline__ float sum_of_groups(float x) {
  x += dpp_moved<0xb1, 0xf>(x);   // quad_perm:[1,0,3,2]
  x += dpp_moved<0x4e, 0xf>(x);   // quad_perm:[2,3,0,1]
  x += dpp_moved<0x141, 0xf>(x);  // row_half_mirror
  return x;
}

}  // namespace gdn::hip
