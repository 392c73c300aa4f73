// cuda/records of gated_delta_verify: drafts run as in cuda/decode of gated_delta, of whose tiles and
// arithmetic it is made, but the states stay as they are; of each step is kept what it did
// (tile/step_records.cuh), and commit does that again to the states of sequences that accepted something.
//
// Bound by: device memory, which verify reads the states from, and commit reads and writes them. Records
// are 4 % of a float32 state of 128 x 128 for 4 tokens, written once and read once. From 4 tokens on verify is
// bound by instructions, some 420 of a warp and token with 64 elements a thread (tile/recurrence.cuh), and by
// the loads that none of them covers: a block loads its tile, and then it computes.
//
// Reached, H200, 16/32 heads of 128, bfloat16 tokens, cold L2, verify and commit of 128 sequences of 2 / 4 / 8
// tokens: float32 states in vk .208 / .255 / .378 ms, bfloat16 ones .146 / .184 / .286; of 4 tokens verify
// takes .149 and .119 (data/measured/h200-2026-11-25).
#include <cuda_runtime.h>

#include "cuda/gated_delta/tile/launch.cuh"
#include "cuda/gated_delta/tile/replay.cuh"
#include "cuda/gated_delta/tile/step_records.cuh"
#include "cuda/gated_delta_verify/drafts.h"
#include "cuda/gated_delta_verify/verify_kernel.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

using RecordOptions = VerifyOptions<StepRecords>;

template <typename Case>
__global__ void __launch_bounds__(Case::Shape::kThreads, Case::Shape::blocks())
    commit_kernel(const GatedDeltaParams p, const RecordOptions options,
                  const IndexArray accepted_tokens) {
  const TilePlace place = options.grid.place(Case::Shape::kBlockValues);
  const SequenceSpan span = sequence_span(p, place.sequence);
  const std::int64_t accepted = accepted_tokens[place.sequence];
  if (accepted == 0 || span.is_padding()) return;  // its row stays as it is
  __shared__ StagedRecords<typename Case::Shape, Case::kKeyDim> staged;
  StateTile<typename Case::State, Case::kLayout, Case::kKeyDim> tile(
      static_cast<int>(threadIdx.x), place.first_value, p.value_head_dim);
  tile.load(p.pool, span.row, place.head, false);
  replay_steps(p, options.kept, place, span.first, accepted, staged, tile);
  tile.store(p.pool, span.row, place.head);
}

// ---- host

struct Kernels {
  void (*verify)(GatedDeltaParams, RecordOptions) = nullptr;
  void (*commit)(GatedDeltaParams, RecordOptions, IndexArray) = nullptr;
  int block_values = 0;
  int threads = 0;
};

Kernels kernels_of(const Problem& problem) {
  return with_tile_case<Kernels>(problem, [](auto tile_case) -> Kernels {
    using Case = decltype(tile_case);
    return {verify_kernel<Case, StepRecords>, commit_kernel<Case>, Case::Shape::kBlockValues,
            Case::Shape::kThreads};
  });
}

/// Bytes of the records of a problem, each array at a multiple of 256.
struct RecordBytes {
  std::int64_t key, u, decay;
  explicit RecordBytes(const Problem& p) {
    const auto rounded = [](std::int64_t bytes) { return (bytes + 255) / 256 * 256; };
    const std::int64_t steps = p.total_tokens() * p.steps;
    constexpr std::int64_t kFloat = sizeof(float);
    key = rounded(steps * p.num_key_heads * p.key_head_dim *
                  static_cast<std::int64_t>(size_of(p.token_dtype)));
    u = rounded(steps * p.num_value_heads * p.value_head_dim * kFloat);
    decay = rounded(p.total_tokens() * p.num_value_heads * p.gates_per_head() * kFloat);
  }
  std::int64_t all() const { return key + u + decay; }
};

DraftLaunches launches_keeping_records(const Draft& draft) {
  const Problem& problem = draft.problem;
  const Kernels kernels = kernels_of(problem);
  const RecordBytes bytes(problem);
  const RecordOptions options = {
      problem.token_dtype,
      tile_grid(problem, kernels.block_values),
      {draft.kept, reinterpret_cast<float*>(draft.kept + bytes.key),
       reinterpret_cast<float*>(draft.kept + bytes.key + bytes.u), problem.token_dtype}};
  const unsigned int blocks =
      grid_blocks(tile_blocks(problem, kernels.block_values), "cuda/records");
  const auto threads = static_cast<unsigned int>(kernels.threads);
  const auto verify = [=, params = draft.params](cudaStream_t stream) {
    launch_kernel(kernels.verify, blocks, threads, 0, stream, params, options);
  };
  const auto commit = [=, params = draft.params, accepted = draft.accepted](cudaStream_t stream) {
    launch_kernel(kernels.commit, blocks, threads, 0, stream, params, options, accepted);
  };
  return {verify, commit, kernels.block_values, kernels.threads};
}

}  // namespace

const Implementation& gated_delta_verify_records() {
  static const DraftImplementation implementation(
      {.name = "cuda/records",
       .form = "records",
       .summary = "keeps what each draft token did to the state and replays it at commit; bound "
                  "by device memory",
       .rank = 20,
       .kept_bytes = [](const Problem& problem) { return RecordBytes(problem).all(); },
       .launches = launches_keeping_records});
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
