// cuda/decode: short sequences, one token above all: each state is read once and written once.
//
// A block holds 16 to 128 columns of one head's state in registers, every thread some 16-byte words of
// it, all loaded before the first is used; then the recurrence runs over them token by token
// (tile_recurrence.cuh). No loop over states and no ring of buffers: what hides the latency is the
// number of blocks. Any head count, variants and gate encodings; head dims as compiled.
//
// Bound by: device memory, which one token moves through once in each direction; by latency with few
// heads and sequences; from some ten tokens on by the chain of steps, which long sequences leave to
// other forms.
#include <cuda_runtime.h>

#include <string>

#include "cuda/divisor.h"
#include "cuda/gated_delta/arguments.cuh"
#include "cuda/gated_delta/tile_recurrence.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/launch_plan.h"
#include "cuda/require.h"
#include "cuda/target.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

/// How a block's number is taken apart, and how it loads.
struct Grid {
  bool evict_last;                   ///< how the state is loaded
  Divisor tiles;                     ///< of a head
  Divisor value_heads;               ///< Hv
  Divisor value_heads_per_key_head;  ///< Hv / Hk
};

/// Block b: the values of tile b % tiles of value head (b / tiles) % Hv of sequence b / tiles / Hv.
template <typename State, StateLayout kLayout, int kKeyDim>
__global__ void __launch_bounds__(TileShape<State, kLayout, kKeyDim>::kThreads,
                                  TileShape<State, kLayout, kKeyDim>::kBlocks)
    decode_kernel(const GatedDeltaParams p, DType token_dtype, Grid grid) {
  using Recurrence = TileRecurrence<State, kLayout, kKeyDim>;
  using Shape = typename Recurrence::Shape;
  __shared__ typename Recurrence::Shared shared;
  const int thread = static_cast<int>(threadIdx.x);
  const std::uint32_t heads = grid.tiles.divide(blockIdx.x);
  const int head = static_cast<int>(grid.value_heads.remainder(heads));
  const int sequence = static_cast<int>(grid.value_heads.divide(heads));
  const int key_head =
      static_cast<int>(grid.value_heads_per_key_head.divide(static_cast<std::uint32_t>(head)));
  const int first_value = static_cast<int>(grid.tiles.remainder(blockIdx.x)) * Shape::kBlockValues;

  const SequenceSpan span = sequence_span(p, sequence);
  if (span.length == 0) return;
  if (span.is_padding()) {
    store_zero_outputs(p, span, head, first_value,
                       min(first_value + Shape::kBlockValues, p.value_head_dim), thread,
                       Shape::kThreads);
    return;
  }
  typename Recurrence::Tile tile(thread, first_value, p.value_head_dim);
  tile.load(p.pool, span.row, head, grid.evict_last);
  Recurrence(p, token_dtype, head, key_head, first_value, shared, tile)
      .run(span.first, span.length, [](std::int64_t, const auto&, float, const auto&) {});
  tile.store(p.pool, span.row, head);
}

// ---- host

/// What a plan launches.
struct Launch {
  void (*kernel)(GatedDeltaParams, DType, Grid) = nullptr;
  int block_values = 0;
  int threads = 0;
};

template <typename State, StateLayout kLayout, int kKeyDim>
Launch launch_of() {
  using Shape = TileShape<State, kLayout, kKeyDim>;
  return {decode_kernel<State, kLayout, kKeyDim>, Shape::kBlockValues, Shape::kThreads};
}

template <typename State, StateLayout kLayout>
Launch launch_of(std::int64_t key_head_dim) {
  switch (key_head_dim) {
    case 64:
      return launch_of<State, kLayout, 64>();
    case 96:
      return launch_of<State, kLayout, 96>();
    case 128:
      return launch_of<State, kLayout, 128>();
    case 192:
      return launch_of<State, kLayout, 192>();
    case 256:
      return launch_of<State, kLayout, 256>();
  }
  return {};
}

Launch launch_of(const Problem& problem) {
  return with_element_type(problem.state_dtype, [&](auto state) {
    using State = decltype(state);
    return problem.state_layout == StateLayout::kv
               ? launch_of<State, StateLayout::kv>(problem.key_head_dim)
               : launch_of<State, StateLayout::vk>(problem.key_head_dim);
  });
}

/// Whether the states are more than the L2 holds of a GPU that this is for (50 MB on an H200). Then
/// lines that have been read are written back later if they are the last to leave: 3 % less time
/// (float32, 128 and 512 sequences of 16/32 heads), against up to 10 % more with 16 sequences.
bool outgrows_l2(const Problem& problem) {
  constexpr std::int64_t kL2Bytes = std::int64_t{100} << 20;
  const std::int64_t state_bytes = problem.num_value_heads * problem.key_head_dim *
                                   problem.value_head_dim *
                                   static_cast<std::int64_t>(size_of(problem.state_dtype));
  return problem.num_sequences() * state_bytes > kL2Bytes;
}

class Decode final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "cuda/decode",
        .operation = gated_delta_operation(),
        .honours = recurrence_options() + recurrence_variants(),
        .backend = "cuda",
        .form = "recurrent",
        .summary =
            "a block's part of the state in registers, read and written once; for short "
            "sequences; bound by device memory",
        .resources = "",
        .min_compute_capability = 80,
        .rank = 15,
        // Every head dim, layout and state dtype, and every variant.
        .examples = {
            "gated_delta:heads=2/4,dim=128,seq=5x1,h0=normal,dtype=bf16",
            "gated_delta:heads=2/4,dim=128,seq=3+1,h0=normal,dtype=bf16,state=bf16,layout=vk",
            "gated_delta:heads=1/3,dim=96x80,seq=7+1+0+4,h0=normal,dtype=f32,state=bf16,layout=vk,"
            "slots=permuted,gate=logits,norm=1",
            "gated_delta:heads=2/2,dim=64,seq=3+2,h0=normal,dtype=f16,steps=2,decay=channel,"
            "layout=vk",
            "gated_delta:heads=1/2,dim=192x136,seq=2+1+9,h0=normal,dtype=bf16,slots=padding,"
            "pool_pad=16,norm=1,gate=logits,beta=logit",
            "gated_delta:heads=1/2,dim=256x72,seq=2+5,h0=normal,dtype=f32,state=f16,norm=1,"
            "decay=channel",
            "gated_delta:heads=1/1,dim=256x72,seq=2+5,h0=normal,dtype=f32,layout=vk,"
            "update=additive",
            "gated_delta:heads=2/6,dim=96x24,seq=3x2,dtype=f16,steps=3,out=f32",
            "gated_delta:heads=1/2,dim=192,seq=1+2,h0=normal,dtype=f32,state=f16,layout=vk"}};
    return description;
  }

  /// Above every other form where sequences are short.
  int rank(const Problem& problem) const override {
    constexpr std::int64_t kShort = 4;
    constexpr int kAboveAll = 70;
    return problem.sequences.longest() <= kShort ? kAboveAll : description().rank;
  }

  Support supports(const Problem& problem) const override {
    const Launch launch = launch_of(problem);
    if (launch.kernel == nullptr) {
      return Support::no("Dk=" + std::to_string(problem.key_head_dim) +
                         ": compiled for 64, 96, 128, 192 and 256");
    }
    const auto words = static_cast<std::int64_t>(16 / size_of(problem.state_dtype));
    if (problem.value_head_dim % 8 != 0) {
      return Support::no("Dv=" + std::to_string(problem.value_head_dim) + ": a multiple of 8");
    }
    if (problem.state_row_stride() % words != 0) {
      return Support::no("pool rows are not whole 16-byte words");
    }
    return Support::yes();
  }

  std::int64_t workspace_bytes(const Problem&) const override { return 0; }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    const GatedDeltaParams params = make_params(problem, arguments);
    require_token_alignment(params, problem.token_dtype, 16);
    if (params.pool.read || params.pool.write) {
      require_pointer(params.pool.data, 16, "the state pool");
    }
    const Launch launch = launch_of(problem);
    const std::int64_t tiles =
        (problem.value_head_dim + launch.block_values - 1) / launch.block_values;
    const unsigned int blocks =
        grid_blocks(problem.num_sequences() * problem.num_value_heads * tiles, description().name);
    const bool evict_last = outgrows_l2(problem);
    const Grid grid = {evict_last, Divisor(tiles), Divisor(problem.num_value_heads),
                       Divisor(params.value_heads_per_key_head)};
    PlanInfo info;
    info.launches = blocks > 0 ? 1 : 0;
    info.choice = "columns=" + std::to_string(launch.block_values) +
                  " threads=" + std::to_string(launch.threads) +
                  " loads=" + (evict_last ? "evict_last" : "plain");
    return std::make_unique<LaunchPlan>(
        device, info, std::vector<DeviceBuffer>{},
        [params, launch, blocks, grid, dtype = problem.token_dtype](cudaStream_t stream) {
          if (blocks == 0) return;
          launch_kernel(launch.kernel, blocks, static_cast<unsigned int>(launch.threads), 0, stream,
                        params, dtype, grid);
        });
  }
};

}  // namespace

const Implementation& gated_delta_decode() {
  static const Decode implementation;
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
