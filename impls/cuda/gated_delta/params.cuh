// What kernels of gated_delta take, and what they read by it. Apart from arguments.cuh, which makes it
// from what a caller gave, so that files that hold kernels alone need not read the interface's arguments
// and devices: nvcc reads every header twice.
#pragma once

#include <cstdint>

#include "cuda/element.cuh"
#include "cuda/gated_delta/state_io.cuh"
#include "cuda/gates.cuh"
#include "cuda/target.h"
#include "interface/dtype.h"
#include "interface/index_array.h"

namespace gdn::GDN_CUDA_TARGET {

/// States inside the call, which are written as a pool is whose row is that of a sequence's checkpoint.
struct Checkpoints {
  std::int32_t count = 0;  ///< of each sequence
  IndexArray tokens;       ///< [N, count]: after how many; 0, or rising within a sequence
  StatePool states;        ///< [N * count] rows
};

/// Passed to kernels by value. Token arrays are in the problem's token dtype; a token's heads are
/// contiguous.
struct GatedDeltaParams {
  const void* query = nullptr;          ///< [T, Hk, Dk]
  const void* key = nullptr;            ///< [T, Hk, Dk]; with n steps per token [T, n, Hk, Dk]
  const void* value = nullptr;          ///< [T, Hv, Dv]; with n steps per token [T, n, Hv, Dv]
  std::int64_t query_token_stride = 0;  ///< elements, never 0 here
  std::int64_t key_token_stride = 0;
  std::int64_t value_token_stride = 0;
  GateParams gates;
  IndexArray sequence_offsets;   ///< [N + 1]
  IndexArray slot_index;         ///< [N] or none: sequence n has row n
  IndexArray output_slot_index;  ///< [N] or none: sequence n writes the row that it reads
  StatePool pool;
  Checkpoints checkpoints;
  void* output = nullptr;  ///< [T, Hv, Dv], dense
  DType output_dtype = DType::float32;
  std::int32_t num_sequences = 0;    ///< N
  std::int32_t num_key_heads = 0;    ///< Hk
  std::int32_t num_value_heads = 0;  ///< Hv
  std::int32_t value_heads_per_key_head = 1;
  std::int32_t key_head_dim = 0;    ///< Dk
  std::int32_t value_head_dim = 0;  ///< Dv
  float scale = 1;
  bool normalize_qk = false;
  bool additive_update = false;  ///< UpdateRule::additive
  bool channel_decay = false;    ///< DecayPer::channel
  std::int32_t steps = 1;        ///< n Householder steps per token
};

#ifdef __CUDACC__

/// What l2 normalisation adds under the root: x / sqrt(sum x^2 + 1e-6).
constexpr float kNormEpsilon = 1e-6f;

/// Where one sequence lies, read from device memory.
struct SequenceSpan {
  std::int64_t first;   ///< its first token, counted over all sequences
  std::int64_t length;  ///< tokens; 0 leaves the pool row as it is
  std::int64_t row;     ///< of the state pool; -1 = padding: no state, outputs zero
  __device__ bool is_padding() const { return row < 0; }
};

__device__ __forceinline__ SequenceSpan sequence_span(const GatedDeltaParams& p, int sequence) {
  const std::int64_t first = p.sequence_offsets[sequence];
  return {first, p.sequence_offsets[sequence + 1] - first,
          p.slot_index ? p.slot_index[sequence] : sequence};
}

/// The pool row that the sequence's final state goes to; negative: none. Looked up where the state is
/// stored, so that no register holds it from the start.
__device__ __forceinline__ std::int64_t output_row(const GatedDeltaParams& p, int sequence,
                                                   std::int64_t row) {
  return p.output_slot_index ? p.output_slot_index[sequence] : row;
}

/// A sequence's tokens from one checkpoint to the next and to its end, walked by every thread alike:
///     CheckpointWalk walk(p, sequence, span.length);
///     do {
///       for (tokens of the sequence from walk.begin to walk.end) ...
///       walk.store(p, [&](const StatePool& states, std::int64_t row) { store the state there });
///     } while (walk.next(p));
/// Zeros of checkpoints that are not wanted are store_absent_checkpoints()'s.
class CheckpointWalk {
 public:
  std::int64_t begin = 0;
  std::int64_t end = 0;

  __device__ CheckpointWalk(const GatedDeltaParams& p, int sequence, std::int64_t length)
      : end(length), sequence_(sequence), length_(length) {
    if (p.checkpoints.count > 0) find(p);
  }
  template <typename Store>
  __device__ void store(const GatedDeltaParams& p, Store store) const {
    if (at_ < p.checkpoints.count) store(p.checkpoints.states, row(p));
  }
  /// Whether there are tokens left.
  __device__ bool next(const GatedDeltaParams& p) {
    if (end == length_) return false;
    begin = end;
    ++at_;
    find(p);
    return true;
  }

 private:
  __device__ std::int64_t row(const GatedDeltaParams& p) const {
    return static_cast<std::int64_t>(sequence_) * p.checkpoints.count + at_;
  }
  __device__ void find(const GatedDeltaParams& p) {
    for (end = length_; at_ < p.checkpoints.count; ++at_) {
      const std::int64_t tokens = p.checkpoints.tokens[row(p)];
      if (tokens == 0) continue;
      end = tokens;
      return;
    }
  }

  int sequence_;
  int at_ = 0;
  std::int64_t length_;
};

/// store_zeros(row) for each of the sequence's checkpoints that are not wanted: all of them without tokens or a
/// row. Counts are loaded whatever the span is, which need not have arrived by then.
template <typename StoreZeros>
__device__ __forceinline__ void store_absent_checkpoints(const GatedDeltaParams& p, int sequence,
                                                         const SequenceSpan& span,
                                                         StoreZeros store_zeros) {
  for (int j = 0; j < p.checkpoints.count; ++j) {
    const std::int64_t row = static_cast<std::int64_t>(sequence) * p.checkpoints.count + j;
    const std::int64_t tokens = p.checkpoints.tokens[row];
    if (tokens != 0 && span.length > 0 && !span.is_padding()) continue;
    store_zeros(row);
  }
}

/// The same to a head's columns [v_begin, v_end).
__device__ __forceinline__ void store_absent_checkpoints(const GatedDeltaParams& p, int sequence,
                                                         const SequenceSpan& span, int head,
                                                         int v_begin, int v_end, int thread,
                                                         int num_threads) {
  store_absent_checkpoints(p, sequence, span, [&](std::int64_t row) {
    store_state_tile(p.checkpoints.states, row, head, v_begin, v_end, thread, num_threads,
                     [](int, int) { return 0.0f; });
  });
}

/// Pointers to one head's vector of a token; Dk or Dv elements.
template <typename T>
__device__ __forceinline__ const T* query_at(const GatedDeltaParams& p, std::int64_t token,
                                             int key_head) {
  return static_cast<const T*>(p.query) + token * p.query_token_stride +
         static_cast<std::int64_t>(key_head) * p.key_head_dim;
}
template <typename T>
__device__ __forceinline__ const T* key_at(const GatedDeltaParams& p, std::int64_t token,
                                           int key_head) {
  return static_cast<const T*>(p.key) + token * p.key_token_stride +
         static_cast<std::int64_t>(key_head) * p.key_head_dim;
}
template <typename T>
__device__ __forceinline__ const T* value_at(const GatedDeltaParams& p, std::int64_t token,
                                             int value_head) {
  return static_cast<const T*>(p.value) + token * p.value_token_stride +
         static_cast<std::int64_t>(value_head) * p.value_head_dim;
}

/// The same of one of a token's steps.
template <typename T>
__device__ __forceinline__ const T* key_at(const GatedDeltaParams& p, std::int64_t token, int step,
                                           int key_head) {
  return key_at<T>(p, token, step * p.num_key_heads + key_head);
}
template <typename T>
__device__ __forceinline__ const T* value_at(const GatedDeltaParams& p, std::int64_t token,
                                             int step, int value_head) {
  return value_at<T>(p, token, step * p.num_value_heads + value_head);
}

/// Element index of output[token, head, v].
__device__ __forceinline__ std::int64_t output_index(const GatedDeltaParams& p, std::int64_t token,
                                                     int value_head, int v) {
  return (token * p.num_value_heads + value_head) * p.value_head_dim + v;
}

/// Zeros to output[first .. first + length, head, v_begin .. v_end] by num_threads threads: what a
/// padding sequence gets.
__device__ __forceinline__ void store_zero_outputs(const GatedDeltaParams& p,
                                                   const SequenceSpan& span, int value_head,
                                                   int v_begin, int v_end, int thread,
                                                   int num_threads) {
  const int columns = v_end - v_begin;
  for (std::int64_t i = thread; i < span.length * columns; i += num_threads) {
    store_element(p.output,
                  output_index(p, span.first + i / columns, value_head,
                               v_begin + static_cast<int>(i % columns)),
                  p.output_dtype, 0.0f);
  }
}

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
