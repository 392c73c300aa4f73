// The argument block of the gated_delta_backward kernels, shared by host and device code. Plain C++:
// fixed widths, the same layout for both compilers.
#pragma once

#include <cstdint>

#include "hip/gated_delta/params.h"

namespace gdn::hip {

/// Gradients that are sums, d_q and d_k over value heads among them, go through the workspace as
/// summands of each token, value head and tile of 32 columns: sums.hip adds them in a fixed order.
struct BackwardParams {
  /// The forward call. Its pool is the initial state and only read; its output is d_v. `packets` is
  /// of d_output and of the gradients' pools too.
  GatedDeltaParams delta;
  const void* d_output;       ///< [T, Hv, Dv] in the token dtype
  const void* d_final_state;  ///< as the pool
  void* d_initial_state;      ///< as the pool
  void* d_query;              ///< [T, Hk, Dk] in the token dtype
  void* d_key;                ///< the same
  float* d_gate;              ///< [T, Hv], of the gates as they are encoded
  float* d_beta;              ///< [T, Hv], of the betas as they are encoded
  float* d_A_log;             ///< [Hv], null where the encoding has none
  float* d_dt_bias;           ///< likewise
  float* checkpoints;         ///< [T / segment, Hv, tiles] states, as registers hold them
  float* kept;  ///< [blocks, segment] states, and r of each lane's columns behind each
  float*
      initial;  ///< [items] initial states, in the registers' order as all states of the workspace
  float* gradient;     ///< [items] D: of the final state, at last of the initial one
  float* key_parts;    ///< [tiles, T, Hv, 2, key_width]: d_q and d_k of unit vectors
  float* gate_parts;   ///< [tiles, T, Hv, 2]: d_log_decay, or with gate=decay d_decay; d_beta
  float* A_log_terms;  ///< [T, Hv], null without d_A_log
  std::int64_t d_output_token_stride;
  std::int64_t tokens;  ///< T that the plan was made for
  std::int32_t num_key_heads;
  std::int32_t value_heads_per_key_head;
  std::int32_t read_final_gradient;
  std::int32_t key_width;     ///< Dk, up to a multiple of 4
  std::int32_t tiles;         ///< of a head
  std::int32_t segment_log2;  ///< tokens
  std::uint32_t items;        ///< tiles of all sequences
  std::uint32_t blocks;       ///< workgroups of the launch
};
static_assert(sizeof(BackwardParams) == sizeof(GatedDeltaParams) + 18 * 8 + 8 * 4);

/// Of the chunkwise form. Chunks of C tokens of all sequences lie in slots, as ChunkwiseParams has
/// them; a slot has its keys and queries for every key head, all else for every value head. Rows
/// are D wide, the kernel's Dk, or value_width, Dv up to a multiple of 4: zeros beyond Dk and Dv.
/// Rows of tokens that a chunk does not have are zeros as well.
struct BackwardChunkParams {
  BackwardParams backward;
  float* query;       ///< [C, D]: of unit length if asked for, and scaled
  float* key;         ///< [C, D]: of unit length if asked for
  float* d_output;    ///< [C, value_width]
  float* of_state;    ///< [C, D]: L^-1 diag(beta gamma) K
  float* of_d_state;  ///< [C, D]: L^-T diag(gamma_C / gamma) K
  float* written;     ///< [C, value_width]: L^-1 diag(beta) V, behind the chains V'
  float* d_written;   ///< [C, value_width]: L^-T P^T dO, behind the chains Y
  float* pairs;       ///< [C, C + 4]: TwoTriangles, below the diagonal without beta
  float* gates;       ///< ChunkGates
  float* state;       ///< [value_width, D]: S before the chunk
  float* d_state;     ///< [value_width, D]: D behind it
  std::int32_t value_width;
  std::int32_t column_tiles;  ///< of 128
};
static_assert(sizeof(BackwardChunkParams) == sizeof(BackwardParams) + 12 * 8);

constexpr int kBackwardSumThreads = 256;  ///< of a workgroup of sums.hip

}  // namespace gdn::hip
