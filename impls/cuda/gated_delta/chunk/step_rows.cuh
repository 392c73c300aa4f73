// Householder steps in chunks (DeltaProduct): to the chunkwise kernels the n steps of a token are n
// rows, tokens of their own, of which the first has the token's decay, the others none, and only
// the last an output. So a chunk holds C steps, wherever in a token it begins or ends, and every
// stage but those that read queries and write outputs takes rows for tokens. Kernels whose chunks
// must begin with a token have more rows than steps, the first of them empty.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/gated_delta/params.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

/// Device arrays, written by enqueue_step_rows.
struct StepRows {
  /// R: the rows of a token. The R - n before those of its steps are empty: of beta 0, and of keys
  /// the copies below know none. The token's decay is the first row's. 0: n.
  std::int32_t per_token = 0;
  std::int64_t* sequence_offsets = nullptr;  ///< [N + 1], in rows
  float* log_decay = nullptr;                ///< [T R, Hv]
  /// Dense copies, of those that come with something between their tokens, and betas decoded, where they come so or in
  /// another type: rows are taken to lie one behind the other. Null: the caller's own array.
  void* key = nullptr;    ///< [T n, Hk, Dk]
  void* value = nullptr;  ///< [T n, Hv, Dv]
  float* beta = nullptr;  ///< [T R, Hv]
};

/// Whether a token's steps follow the last token's without a gap.
bool keys_are_rows(const GatedDeltaParams& tokens);
bool values_are_rows(const GatedDeltaParams& tokens);
bool betas_are_rows(const GatedDeltaParams& tokens);

/// The same problem with rows for tokens; `steps` remains, for what belongs to whole tokens:
/// queries and outputs.
GatedDeltaParams params_of_step_rows(const GatedDeltaParams& tokens, const StepRows& rows);

/// `tokens` as made by make_params, of at most `token_capacity` tokens; keys and values of
/// `element_bytes` bytes an element, each token's and each copy aligned to 16 bytes.
void enqueue_step_rows(const GatedDeltaParams& tokens, const StepRows& rows,
                       std::int64_t element_bytes, std::int64_t token_capacity,
                       cudaStream_t stream);

#ifdef __CUDACC__

/// The tokens of a chunk's rows r = 0, 1, ... from row `first_row` of all, for kernels compiled
/// with and without steps.
template <bool kSteps>
struct RowTokens {
  std::int64_t first_token;  ///< row 0 is of it
  unsigned int first_step;   ///< and is this step of it
  unsigned int steps;

  __device__ RowTokens(const GatedDeltaParams& p, std::int64_t first_row)
      : first_token(kSteps ? first_row / p.steps : first_row),
        first_step(kSteps ? static_cast<unsigned int>(first_row % p.steps) : 0),
        steps(static_cast<unsigned int>(p.steps)) {}
  __device__ std::int64_t token(int r) const {
    if constexpr (!kSteps) return first_token + r;
    return first_token + (first_step + r) / steps;
  }
  /// Whether row r is its token's last step, after which the output is read.
  __device__ bool is_last(int r) const { return !kSteps || (first_step + r + 1) % steps == 0; }
};

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
