// hip/naive: the token recurrence of docs/contract.md, section 1.1, as it is written, for reading.
//
// One lane owns one column v of one head's state: Dk floats in a global-memory workspace, rows Dv
// apart, so that a wave's accesses are contiguous. For every token it sweeps the column twice:
// decay and dot with k, then update and dot with q. Any Dk and Dv.
//
// Bound by: 16 bytes of state traffic per state element and token (read and write, twice), and one
// memory round trip after another along a sequence.
#include "hip/gated_delta/device.h"

namespace gdn::hip {
namespace {

constexpr int kThreads = 64;

/// Grid: x = tiles of 64 columns, y = value head, z = sequence.
template <typename Token>
__device__ __forceinline__ void naive(const GatedDeltaParams& p) {
  const int head = static_cast<int>(blockIdx.y), sequence = static_cast<int>(blockIdx.z);
  const int key_head = key_head_of(p, head);
  const int v = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  const Span span = span_of(p, sequence);
  if (v >= p.value_head_dim || span.length == 0) return;
  const int Dk = p.key_head_dim, Dv = p.value_head_dim;
  const std::int64_t end = span.first + span.length;
  if (span.row < 0) {
    for (std::int64_t token = span.first; token < end; ++token) {
      store_element(p.output, p.output_element, output_index(p, token, head, v), 0.0f);
    }
    return;
  }
  float* const state =  // [Dk], elements Dv apart
      p.workspace + (static_cast<std::int64_t>(sequence) * p.num_value_heads + head) * Dk * Dv + v;
  for (int k = 0; k < Dk; ++k) {
    state[static_cast<std::int64_t>(k) * Dv] = load_state(p, span.row, head, k, v);
  }
  for (std::int64_t token = span.first; token < end; ++token) {
    const Token* const query = query_at<Token>(p, token, key_head);
    const Token* const key = key_at<Token>(p, token, key_head);
    float query_factor = p.scale, key_factor = 1.0f;
    if (p.normalize_qk != 0) {
      float query_squares = 0.0f, key_squares = 0.0f;
      for (int k = 0; k < Dk; ++k) {
        const float q = to_float(query[k]), x = to_float(key[k]);
        query_squares = fmaf(q, q, query_squares);
        key_squares = fmaf(x, x, key_squares);
      }
      query_factor = p.scale / sqrtf(query_squares + kNormEpsilon);
      key_factor = 1.0f / sqrtf(key_squares + kNormEpsilon);
    }
    const float decay = decay_of(p, token, head);
    float predicted = 0.0f;  // S^T k, of the decayed state
    for (int k = 0; k < Dk; ++k) {
      float& s = state[static_cast<std::int64_t>(k) * Dv];
      s *= decay;
      predicted = fmaf(s, to_float(key[k]) * key_factor, predicted);
    }
    const float value = to_float(value_at<Token>(p, token, head)[v]);
    const float correction = beta_of(p, token, head) * (value - predicted);
    float output = 0.0f;
    for (int k = 0; k < Dk; ++k) {
      float& s = state[static_cast<std::int64_t>(k) * Dv];
      s = fmaf(to_float(key[k]) * key_factor, correction, s);
      output = fmaf(s, to_float(query[k]), output);
    }
    store_element(p.output, p.output_element, output_index(p, token, head, v),
                  output * query_factor);
  }
  for (int k = 0; k < Dk; ++k) {
    store_state(p, span.row, head, k, v, state[static_cast<std::int64_t>(k) * Dv]);
  }
}

}  // namespace

extern "C" {
__global__ __launch_bounds__(kThreads) void naive_f32(GatedDeltaParams p) { naive<float>(p); }
__global__ __launch_bounds__(kThreads) void naive_f16(GatedDeltaParams p) { naive<Half>(p); }
__global__ __launch_bounds__(kThreads) void naive_bf16(GatedDeltaParams p) { naive<Bfloat16>(p); }
}

}  // namespace gdn::hip
