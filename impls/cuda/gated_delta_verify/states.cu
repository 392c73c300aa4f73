// cuda/states of gated_delta_verify: drafts run as in cuda/decode of gated_delta, of whose tiles and
// arithmetic it is made, and the state behind each token is kept in the pool's dtype; commit copies that of
// the last accepted token to the pool and computes nothing.
//
// Bound by: device memory. Of a token and value head of 128 x 128, verify writes 64 KB of a float32 state or
// 32 KB of a bfloat16 one, beside the state that it reads once; commit reads one and writes one, whatever the
// number of accepted tokens.
//
// Floor at 4.8 TB/s, 16/32 heads of 128, bfloat16 tokens, 128 sequences of 4 tokens: verify moves 1.35 GB with
// float32 states and .68 GB with bfloat16 ones, .282 and .142 ms; commit, where every sequence accepts
// something, .54 and .27 GB, .112 and .056 ms.
//
// Reached, H200, the same shape with cold L2, verify and commit together: float32 states in vk .446 ms and in
// kv .449, bfloat16 ones .248 and .314; of 2 / 8 tokens float32 vk .301 / .749, bfloat16 vk .187 / .387.
// cuda/records takes .254, .240, .184 and .264 ms for 4 tokens, and for 8 half of what float32 states take here.
#include <cuda_runtime.h>

#include "cuda/divisor.h"
#include "cuda/gated_delta/tile/launch.cuh"
#include "cuda/gated_delta/tile/token_states.cuh"
#include "cuda/gated_delta_verify/drafts.h"
#include "cuda/gated_delta_verify/verify_kernel.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/target.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

using StateOptions = VerifyOptions<TokenStates>;

constexpr int kCopyThreads = 256;
constexpr int kThreadWords = 4;  ///< of 16 bytes, all under way at a time
constexpr int kBlockWords = kCopyThreads * kThreadWords;

/// The rows of the two pools as words of 16 bytes. The heads of a row lie side by side in both, in the
/// same order, so that a row is copied as one array.
struct CommitOptions {
  const uint4* kept;  ///< the states behind the tokens, rows of `row_words`
  uint4* pool;        ///< rows of `row_words`, a row begins every `pool_row_words`
  std::int64_t row_words;
  std::int64_t pool_row_words;
  Divisor parts;        ///< blocks of a row
  IndexArray accepted;  ///< [N]
};

__device__ __forceinline__ void commit_part(const GatedDeltaParams& p, const CommitOptions& options,
                                            std::uint32_t block) {
  const int sequence = static_cast<int>(options.parts.divide(block));
  const SequenceSpan span = sequence_span(p, sequence);
  const std::int64_t accepted = options.accepted[sequence];
  if (accepted == 0 || span.is_padding()) return;  // its row stays as it is
  const uint4* const from = options.kept + (span.first + accepted - 1) * options.row_words;
  uint4* const to = options.pool + span.row * options.pool_row_words;
  const std::int64_t first =
      static_cast<std::int64_t>(options.parts.remainder(block)) * kBlockWords + threadIdx.x;
  uint4 words[kThreadWords] = {};
#pragma unroll
  for (int i = 0; i < kThreadWords; ++i) {
    const std::int64_t at = first + i * kCopyThreads;
    if (at < options.row_words) words[i] = from[at];
  }
#pragma unroll
  for (int i = 0; i < kThreadWords; ++i) {
    const std::int64_t at = first + i * kCopyThreads;
    if (at < options.row_words) to[at] = words[i];
  }
}

__global__ void __launch_bounds__(kCopyThreads)
    commit_kernel(const GatedDeltaParams p, const CommitOptions options) {
  commit_part(p, options, blockIdx.x);
}

/// The same of several drafts, each by `blocks` blocks; the first one's parameters and options.
__global__ void __launch_bounds__(kCopyThreads)
    commits_kernel(const GatedDeltaParams first, const CommitOptions first_options,
                   const Divisor blocks, const CommitCall* const calls) {
  const CommitCall call = calls[blocks.divide(blockIdx.x)];
  CommitOptions options = first_options;
  options.kept = reinterpret_cast<const uint4*>(call.kept);
  options.pool = static_cast<uint4*>(call.pool);
  options.pool_row_words = call.pool_row_bytes / static_cast<std::int64_t>(sizeof(uint4));
  options.accepted = call.accepted;
  GatedDeltaParams p = first;
  p.sequence_offsets = call.sequence_offsets;
  p.slot_index = call.slot_index;
  commit_part(p, options, blocks.remainder(blockIdx.x));
}

// ---- host

struct VerifyKernel {
  void (*kernel)(GatedDeltaParams, StateOptions) = nullptr;
  int block_values = 0;
  int threads = 0;
};

VerifyKernel verify_kernel_of(const Problem& problem) {
  return with_tile_case<VerifyKernel>(problem, [](auto tile_case) -> VerifyKernel {
    using Case = decltype(tile_case);
    return {verify_kernel<typename Case::Shape, TokenStates>, Case::Shape::kBlockValues,
            Case::Shape::kThreads};
  });
}

/// Elements of a token's states, of all heads.
std::int64_t row_elements(const Problem& p) {
  return p.num_value_heads * p.key_head_dim * p.value_head_dim;
}

/// Nothing is kept where nothing can be committed.
std::int64_t state_bytes(const Problem& p) {
  return p.final_state ? p.total_tokens() * row_elements(p) *
                             static_cast<std::int64_t>(size_of(p.state_dtype))
                       : 0;
}

TokenStates token_states(const Draft& draft) {
  TokenStates states{draft.params.pool};
  states.pool.data = draft.kept;
  states.pool.row_stride = row_elements(draft.problem);
  return states;
}

/// Blocks that a row of so many words takes.
std::int64_t row_parts(std::int64_t words) { return (words + kBlockWords - 1) / kBlockWords; }

CommitOptions commit_options(const Draft& draft) {
  const Problem& problem = draft.problem;
  const auto elements = static_cast<std::int64_t>(sizeof(uint4) / size_of(problem.state_dtype));
  const std::int64_t row_words = row_elements(problem) / elements;  // Dv is a multiple of 8
  return {reinterpret_cast<const uint4*>(draft.kept),
          static_cast<uint4*>(draft.params.pool.data),
          row_words,
          problem.state_row_stride() / elements,
          Divisor(row_parts(row_words)),
          draft.accepted};
}

/// Of a commit.
std::int64_t copy_blocks(const Problem& problem, const CommitOptions& options) {
  return problem.num_sequences() * row_parts(options.row_words);
}

const char* const kStatesName = "cuda/states";

DraftLaunches launches_keeping_states(const Draft& draft) {
  const Problem& problem = draft.problem;
  const VerifyKernel verifier = verify_kernel_of(problem);
  const StateOptions options = {problem.token_dtype, tile_grid(problem, verifier.block_values),
                                token_states(draft)};
  const CommitOptions committed = commit_options(draft);
  const unsigned int verify_blocks =
      grid_blocks(tile_blocks(problem, verifier.block_values), kStatesName);
  const unsigned int commit_blocks = grid_blocks(copy_blocks(problem, committed), kStatesName);
  const auto verify = [=, params = draft.params](cudaStream_t stream) {
    launch_kernel(verifier.kernel, verify_blocks, static_cast<unsigned int>(verifier.threads), 0,
                  stream, params, options);
  };
  const auto commit = [=, params = draft.params](cudaStream_t stream) {
    launch_kernel(commit_kernel, commit_blocks, static_cast<unsigned int>(kCopyThreads), 0, stream,
                  params, committed);
  };
  return {verify, commit, verifier.block_values, verifier.threads};
}

LaunchPlan::Enqueue commits_of_states(const Draft& first, const CommitCall* calls,
                                      std::int64_t count) {
  const CommitOptions options = commit_options(first);
  const std::int64_t each = copy_blocks(first.problem, options);
  return [=, params = first.params, blocks = Divisor(each),
          all_blocks = grid_blocks(count * each, kStatesName)](cudaStream_t stream) {
    launch_kernel(commits_kernel, all_blocks, static_cast<unsigned int>(kCopyThreads), 0, stream,
                  params, options, blocks, calls);
  };
}

}  // namespace

const Implementation& gated_delta_verify_states() {
  static const DraftImplementation implementation(
      {.name = kStatesName,
       .form = "states",
       .keeps = "states",
       .summary = "keeps the state behind each draft token, of which commit copies one; bound by "
                  "writing them to device memory",
       .rank = 10,
       .supports = supports_tiles,
       .honours = recurrence_options() + recurrence_variants(),
       .examples = tile_draft_examples(),
       .kept_bytes = state_bytes,
       .launches = launches_keeping_states,
       .commits = commits_of_states});
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
