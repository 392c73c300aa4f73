// cuda/records of gated_delta_verify: drafts run as in cuda/decode of gated_delta, of whose tiles and
// arithmetic it is made, but the states stay as they are; of each step is kept what it did
// (tile/step_records.cuh), and commit does that again to the states of sequences that accepted something.
//
// Bound by: device memory, which verify reads the states from, and commit reads and writes them. Records
// are 4 % of a float32 state of 128 x 128 for 4 tokens, written once and read once. From 4 tokens on verify is
// bound by instructions, some 400 of a warp and token with 64 elements a thread, 256 of which are the products
// themselves (tile/recurrence.cuh), and by how many warps a multiprocessor has to take them from. So its tiles
// have 64 elements a thread where registers allow (TileUse::drafts), and where 512 threads leave 128 registers
// each they have them (other_registers() in verify_kernel.cuh).
//
// Measured by a bench of the two kernels alone, H100 80GB, the shape below with a flushed L2, verify of 128
// sequences of 2 / 4 / 8 tokens in microseconds, with the same bits in outputs, records and committed states:
//
//                        before              after
//     float32 vk   123 / 157 / 260     111 / 124 / 195     64 elements a thread for 32, 4 blocks for 5
//     float32 kv   127 / 160 / 273     111 / 131 / 235     sums as words, addresses found once
//     bfloat16 vk  109 / 141 / 231      80 / 107 / 183     4 blocks for 3
//     bfloat16 kv  190 / 252 / 373      98 / 129 / 203     2 blocks for 1; one left nothing to run at barriers
//
// The compiled tiles are these, but what has since been done to have fewer registers spilled (one index for
// output and record, a count of 32 bits) is not in the figures. Commit, which is as it was, takes 135, 137, 77
// and 88 us for 4 tokens where a part, all, nothing and any number are accepted in turns.
//
// Lost, in the same bench, 128 sequences of 4 tokens, in microseconds against the best that does without:
//   - Persistent blocks whose next tile comes to shared memory by cp.async meanwhile: verify, float32 vk 133
//     (124), kv 142 (131), bfloat16 vk 116 (107), kv 135 (129). With several blocks on a multiprocessor one
//     loads while others compute. It gains where there are as many blocks (float32 vk, three: 133 for 142), but
//     a fourth one gains more. Commit, float32 vk 140 (135), kv 139 (137); bfloat16 kv 78 (88) and vk 74 (77)
//     gain, but kv takes 30 for 28 with 32 sequences.
//   - Asking the L2 for the tile that lies a quarter to one wave of blocks ahead: verify, float32 vk with three
//     blocks 130 for 142, less than the fourth block gains and not tried with it; kv 137 (131), bfloat16 the
//     same; 2 to 6 % more where the tokens are asked for too. Commit, float32 139 to 172 (135, 137), bfloat16
//     vk 77 to 86 (77), kv 82 to 94 (88), the later figures at a whole wave.
//   - More blocks of fewer elements: bfloat16 vk with 32 elements a thread and 5 blocks 136 (107). Tighter
//     registers: float32 vk of 32 elements with 6 blocks 160, with 5 150; kv with 4 blocks 144, with 3 131.
//
// Reached, H200, 16/32 heads of 128, bfloat16 tokens, cold L2, verify and commit of 128 sequences of 2 / 4 / 8
// tokens: float32 states in vk .208 / .255 / .378 ms, bfloat16 ones .146 / .184 / .286; of 4 tokens verify
// takes .149 and .119 (data/measured/h200-2026-11-25, before what the table above measures). With it, on an H200,
// verify and commit of 4 tokens: float32 vk .222 (.254 before), kv .239 (.240), bfloat16 vk .170 (.185), kv .199
// (.264) ms.
#include <cuda_runtime.h>

#include "cuda/divisor.h"
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
  TileKernel<RecordOptions> verify;
  TileKernel<CommitOptions, IndexArray> commit;
  TileKernel<CommitsOptions, const CommitCall*> commits;
};

Kernels kernels_of(const Problem& problem) {
  return with_tile_case<Kernels>(problem, [](auto tile_case) -> Kernels {
    using Case = decltype(tile_case);
    using Drafts = typename Case::DraftShape;
    using Pass = typename Case::Shape;
    return {{verify_kernel<Drafts, StepRecords>, Drafts::kBlockValues, Drafts::kThreads},
            {commit_kernel<Pass>, Pass::kBlockValues, Pass::kThreads},
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

unsigned int record_blocks(const Problem& problem, int block_values, std::int64_t drafts = 1) {
  return grid_blocks(drafts * tile_blocks(problem, block_values), "cuda/records");
}

DraftLaunches launches_keeping_records(const Draft& draft) {
  const Problem& problem = draft.problem;
  const Kernels kernels = kernels_of(problem);
  const StepRecords records = record_places(problem).of(draft.kept);
  const RecordOptions verify_options = {problem.token_dtype,
                                        tile_grid(problem, kernels.verify.block_values), records};
  const CommitOptions commit_options = {tile_grid(problem, kernels.commit.block_values), records};
  const auto verify =
      [params = draft.params, kernel = kernels.verify, options = verify_options,
       blocks = record_blocks(problem, kernels.verify.block_values)](cudaStream_t stream) {
        launch_kernel(kernel.kernel, blocks, static_cast<unsigned int>(kernel.threads), 0, stream,
                      params, options);
      };
  const auto commit = [params = draft.params, kernel = kernels.commit, options = commit_options,
                       blocks = record_blocks(problem, kernels.commit.block_values),
                       accepted = draft.accepted](cudaStream_t stream) {
    launch_kernel(kernel.kernel, blocks, static_cast<unsigned int>(kernel.threads), 0, stream,
                  params, options, accepted);
  };
  return {verify, commit, kernels.verify.block_values, kernels.verify.threads};
}

LaunchPlan::Enqueue commits_of_records(const Draft& first, const CommitCall* calls,
                                       std::int64_t count) {
  const auto kernel = kernels_of(first.problem).commits;
  const CommitsOptions options = {tile_grid(first.problem, kernel.block_values),
                                  record_places(first.problem),
                                  Divisor(tile_blocks(first.problem, kernel.block_values))};
  return [=, params = first.params,
          blocks = record_blocks(first.problem, kernel.block_values, count)](cudaStream_t stream) {
    launch_kernel(kernel.kernel, blocks, static_cast<unsigned int>(kernel.threads), 0, stream,
                  params, options, calls);
  };
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
       .launches = launches_keeping_records,
       .commits = commits_of_records});
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
