// Bound by: device memory, from which the states of the sequences that accepted something come and to which
// they go. Records are 4 % of a float32 state of 128 x 128 for 4 tokens, read once. What was measured is in
// records.cu.
#include <cuda_runtime.h>

#include "cuda/divisor.h"
#include "cuda/gated_delta/tile/launch.cuh"
#include "cuda/gated_delta/tile/replay.cuh"
#include "cuda/gated_delta_verify/record_commits.h"
#include "cuda/launch_kernel.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

/// What commit takes beside the problem. Its tiles are not those of verify: its states pass through once.
struct CommitOptions {
  TileGrid grid;
  StepRecords kept;
};

/// `pool_again()`: the pool once more, to be stored to.
template <typename Shape, typename Pool>
__device__ __forceinline__ void commit_tile(const GatedDeltaParams& p, const StepRecords& kept,
                                            const IndexArray& accepted_tokens,
                                            const TilePlace& place, const Pool& pool_again) {
  const SequenceSpan span = sequence_span(p, place.sequence);
  const std::int64_t accepted = accepted_tokens[place.sequence];
  if (accepted == 0 || span.is_padding()) return;  // its row stays as it is
  __shared__ StagedRecords<Shape> staged;
  StateTile<Shape> tile(static_cast<int>(threadIdx.x), place.first_value, p.value_head_dim);
  tile.load(p.pool, span.row, place.head, false);
  replay_steps(p, kept, place, span.first, accepted, staged, tile);
  tile.store(pool_again(), span.row, place.head);
}

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::blocks())
    commit_kernel(const GatedDeltaParams p, const CommitOptions options,
                  const IndexArray accepted_tokens) {
  commit_tile<Shape>(p, options.kept, accepted_tokens, options.grid.place(Shape::kBlockValues),
                     [&]() -> const StatePool& { return p.pool; });
}

/// Where the arrays of the records of a problem lie: bytes behind the first one.
struct RecordPlaces {
  std::int64_t u;
  std::int64_t decay;
  DType key_dtype;
  __host__ __device__ StepRecords of(char* kept) const {
    return {kept, reinterpret_cast<float*>(kept + u), reinterpret_cast<float*>(kept + decay),
            key_dtype};
  }
};

/// The same of several drafts, each by `blocks` blocks.
struct CommitsOptions {
  TileGrid grid;
  RecordPlaces places;
  Divisor blocks;
};

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::blocks())
    commits_kernel(const GatedDeltaParams first, const CommitsOptions options,
                   const CommitCall* const calls) {
  using State = typename Shape::State;
  const CommitCall call = calls[options.blocks.divide(blockIdx.x)];
  const std::uint32_t block = options.blocks.remainder(blockIdx.x);
  const auto pool_again = [&] {
    // Of the block's number anew: no register holds it while the steps are done.
    auto number = static_cast<std::uint32_t>(blockIdx.x);
    asm volatile("" : "+r"(number));
    return params_of<State>(first, calls[options.blocks.divide(number)]).pool;
  };
  commit_tile<Shape>(params_of<State>(first, call), options.places.of(call.kept), call.accepted,
                     options.grid.place(Shape::kBlockValues, block), pool_again);
}

// ---- host

template <typename... Arguments>
struct TileKernel {
  void (*kernel)(GatedDeltaParams, Arguments...) = nullptr;
  int block_values = 0;
  int threads = 0;
};
struct Kernels {
  TileKernel<CommitOptions, IndexArray> commit;
  TileKernel<CommitsOptions, const CommitCall*> commits;
};

Kernels kernels_of(const Problem& problem) {
  return with_tile_case<Kernels>(problem, [](auto tile_case) -> Kernels {
    using Pass = typename decltype(tile_case)::Shape;
    return {{commit_kernel<Pass>, Pass::kBlockValues, Pass::kThreads},
            {commits_kernel<Pass>, Pass::kBlockValues, Pass::kThreads}};
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

RecordPlaces record_places(const Problem& problem) {
  const RecordBytes bytes(problem);
  return {bytes.key, bytes.key + bytes.u, problem.token_dtype};
}

}  // namespace

std::int64_t record_bytes(const Problem& problem) { return RecordBytes(problem).all(); }

StepRecords kept_records(const Draft& draft) { return record_places(draft.problem).of(draft.kept); }

LaunchPlan::Enqueue commit_of_records(const Draft& draft, const char* name) {
  const auto kernel = kernels_of(draft.problem).commit;
  const CommitOptions options = {tile_grid(draft.problem, kernel.block_values),
                                 kept_records(draft)};
  const unsigned int blocks = grid_blocks(tile_blocks(draft.problem, kernel.block_values), name);
  return [=, params = draft.params, accepted = draft.accepted](cudaStream_t stream) {
    launch_kernel(kernel.kernel, blocks, static_cast<unsigned int>(kernel.threads), 0, stream,
                  params, options, accepted);
  };
}

LaunchPlan::Enqueue commits_of_records(const Draft& first, const CommitCall* calls,
                                       std::int64_t count, const char* name) {
  const auto kernel = kernels_of(first.problem).commits;
  const std::int64_t each = tile_blocks(first.problem, kernel.block_values);
  const CommitsOptions options = {tile_grid(first.problem, kernel.block_values),
                                  record_places(first.problem), Divisor(each)};
  return [=, params = first.params, blocks = grid_blocks(count * each, name)](cudaStream_t stream) {
    launch_kernel(kernel.kernel, blocks, static_cast<unsigned int>(kernel.threads), 0, stream,
                  params, options, calls);
  };
}

}  // namespace gdn::GDN_CUDA_TARGET
