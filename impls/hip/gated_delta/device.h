// Device code shared by the gated_delta kernels: elements, gates, addresses, sums over lanes.
// Included by .hip files only.
#pragma once

#include <hip/hip_runtime.h>

#include "hip/gated_delta/params.h"

namespace gdn::hip {

constexpr float kNormEpsilon = 1e-6f;
constexpr int kWave = 64;

// ---- elements
// ---------------------------------------------------------------------------------------

/// bfloat16 as stored: this card has no arithmetic in it.
struct Bfloat16 {
  unsigned short bits;
};

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(_Float16 x) { return static_cast<float>(x); }
__device__ __forceinline__ float to_float(Bfloat16 x) {
  return __builtin_bit_cast(float, static_cast<unsigned>(x.bits) << 16);
}

/// Round to nearest even; NaN stays NaN.
__device__ __forceinline__ Bfloat16 to_bfloat16(float x) {
  const unsigned bits = __builtin_bit_cast(unsigned, x);
  if (x != x) return {static_cast<unsigned short>(bits >> 16 | 0x40u)};
  return {static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}

/// Calls f with a null pointer of the element's type: f(static_cast<const float*>(nullptr)) and so
/// on. A uniform branch around code that is compiled once per type.
template <typename F>
__device__ __forceinline__ void with_element(Element element, F f) {
  if (element == Element::float32) {
    f(static_cast<const float*>(nullptr));
  } else if (element == Element::float16) {
    f(static_cast<const _Float16*>(nullptr));
  } else {
    f(static_cast<const Bfloat16*>(nullptr));
  }
}

template <typename T>
__device__ __forceinline__ T* mutable_array(const T*, void* array) {
  return static_cast<T*>(array);
}
__device__ __forceinline__ void store_as(float* to, float x) { *to = x; }
__device__ __forceinline__ void store_as(_Float16* to, float x) { *to = static_cast<_Float16>(x); }
__device__ __forceinline__ void store_as(Bfloat16* to, float x) { *to = to_bfloat16(x); }

/// Element `index` of an array whose type is known at run time only: uniform branches, used where a
/// kernel touches memory rarely (states) or last (outputs).
__device__ __forceinline__ float load_element(const void* array, Element element,
                                              std::int64_t index) {
  if (element == Element::float32) return static_cast<const float*>(array)[index];
  if (element == Element::float16) return to_float(static_cast<const _Float16*>(array)[index]);
  return to_float(static_cast<const Bfloat16*>(array)[index]);
}
__device__ __forceinline__ void store_element(void* array, Element element, std::int64_t index,
                                              float x) {
  if (element == Element::float32) {
    static_cast<float*>(array)[index] = x;
  } else if (element == Element::float16) {
    static_cast<_Float16*>(array)[index] = static_cast<_Float16>(x);
  } else {
    static_cast<Bfloat16*>(array)[index] = to_bfloat16(x);
  }
}

// ---- gates (contract section 1.1)
// -------------------------------------------------------------------

/// ln(1 + e^x) without overflow.
__device__ __forceinline__ float softplus(float x) {
  return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)));
}

__device__ __forceinline__ float sigmoid(float x) {
  const float e = expf(-fabsf(x));
  return (x >= 0.0f ? 1.0f : e) / (1.0f + e);
}

/// g <= 0 of a token at a value head; -inf is a reset. Far below zero softplus(x) is e^x, and one
/// exponential keeps exp(A_log) * softplus from being inf * 0.
__device__ __forceinline__ float log_decay_of(const GatedDeltaParams& p, std::int64_t token,
                                              int head) {
  const float x = p.gate[token * p.num_value_heads + head];
  switch (p.gate_input) {
    case GateInput::decay:
      return logf(x);
    case GateInput::neg_log_decay:
      return -x;
    case GateInput::logits: {
      const float biased = x + p.dt_bias[head];
      if (biased < -17.0f) return -expf(p.A_log[head] + biased);
      return -expf(p.A_log[head]) * softplus(biased);
    }
    case GateInput::log_decay:
      break;
  }
  return x;
}
__device__ __forceinline__ float decay_of(const GatedDeltaParams& p, std::int64_t token, int head) {
  if (p.gate_input == GateInput::decay) return p.gate[token * p.num_value_heads + head];
  return expf(log_decay_of(p, token, head));
}
__device__ __forceinline__ float beta_of(const GatedDeltaParams& p, std::int64_t token, int head) {
  const float x = p.beta[token * p.num_value_heads + head];
  return p.beta_is_logit != 0 ? sigmoid(x) : x;
}

// ---- addresses
// --------------------------------------------------------------------------------------

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
  const std::int64_t row = p.slot_index == nullptr ? sequence : p.slot_index[sequence];
  return {first, p.sequence_offsets[sequence + 1] - first, row};
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

// ---- sums over the 64 lanes of a wave
// ---------------------------------------------------------------

/// Butterfly of shuffles: each goes through the LDS crossbar (ds_bpermute). Every lane has the sum.
struct ShuffleSum {
  static __device__ __forceinline__ float sum(float x) {
#pragma unroll
    for (int distance = kWave / 2; distance > 0; distance /= 2) x += __shfl_xor(x, distance, kWave);
    return x;
  }
};

template <int control, int row_mask>
__device__ __forceinline__ float dpp_moved(float x) {
  return __builtin_bit_cast(float, __builtin_amdgcn_update_dpp(0, __builtin_bit_cast(int, x),
                                                               control, row_mask, 0xf, true));
}

/// Data-parallel primitives: the addend's lanes move inside the VALU. Sums of 16-lane rows by
/// shifts of 1, 2, 4 and 8, then across rows by the two broadcasts; lane 63 ends with the sum and
/// is read into a scalar register, from which every lane takes it.
struct DppSum {
  static __device__ __forceinline__ float sum(float x) {
    x += dpp_moved<0x111, 0xf>(x);  // row_shr:1
    x += dpp_moved<0x112, 0xf>(x);  // row_shr:2
    x += dpp_moved<0x114, 0xf>(x);  // row_shr:4
    x += dpp_moved<0x118, 0xf>(x);  // row_shr:8
    x += dpp_moved<0x142, 0xa>(x);  // row_bcast:15 into rows 1 and 3
    x += dpp_moved<0x143, 0xc>(x);  // row_bcast:31 into rows 2 and 3
    return __builtin_bit_cast(float, __builtin_amdgcn_readlane(__builtin_bit_cast(int, x), 63));
  }
};

}  // namespace gdn::hip
