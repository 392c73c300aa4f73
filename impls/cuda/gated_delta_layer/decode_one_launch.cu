// cuda/decode_one_launch of gated_delta_layer: convolution, recurrence and gated norm of short sequences, one token
// above all, by one kernel where cuda/decode takes two or three.
//
// Blocks and their tiles of states are those of cuda/decode (gated_delta/decode.cu). While its tile is under way a
// block convolves the channels that it needs into shared memory (convolved_step.cuh): the queries and keys of its key
// head and the values of its tile, which never go through memory and are not rounded. Then the recurrence runs over
// the tile, and the outputs are stored or, where the layer ends in the norm, kept in float32.
//
// Two things take more than one block. The windows of queries and keys, updated in place, are read by all tiles of
// all value heads of a key head; and the norm needs a whole value head. Blocks count themselves in when they have done
// their part, and the one that comes last moves these windows, or normalises the head. Nobody waits for anybody, so
// that blocks may run in any order. The counter then stands at zero again: the same plan may run anew, and so may a
// graph that was captured. Which block comes last changes no bits: windows are copied, and the sum of a head's squares
// is taken in one order. Where a tile is a whole head there is nothing to count for the norm.
//
// Sequences of several tokens go through the block token by token; one that is long is right, and slow.
//
// Bound by latency with few sequences. It was ahead of the chain's launches until those overlapped: H200, `gdnbench
// sweep`, cold L2, bfloat16 tokens, float32 states in vk, Dk = Dv = 128, gates and betas as logits, ms, this form and
// cuda/decode:
//
//     heads, sequences   16/32, 1       16/32, 4       16/32, 16      16/32, 64      16/32, 128     4/8, 16
//     without the norm   .0098 .0091    .0132 .0123    .0340 .0273    .1027 .0774    .1956 .1444    .0136 .0123
//     with it            .0110 .0110    .0146 .0143    .0352 .0289    .1042 .0797    .1955 .1474    .0148 .0142
//
// (this form at 64 and 128 as measured before). Cards on which launches do not overlap were not timed.
//
// With many every tile reads and convolves its key head's queries and keys again, with tiles of 32 values and Dk = 128
// 3 KB of float32 windows and 2 KB of weights beside its 16 KB of states, from the L2 but for the first. That is the
// likely reason for what is lost there; no counter was read.
#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/causal_conv1d/conv.cuh"
#include "cuda/gated_delta/arguments.cuh"
#include "cuda/gated_delta/decode_kernel.cuh"
#include "cuda/gated_delta/tile/launch.cuh"
#include "cuda/gated_delta_layer/convolved_step.cuh"
#include "cuda/gated_rms_norm/norm_rows.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/launch_plan.h"
#include "cuda/require.h"
#include "cuda/target.h"
#include "interface/operations/arguments_of_steps.h"
#include "interface/operations/convolution_operands.h"
#include "interface/operations/gated_delta_layer.h"
#include "interface/operations/gated_rms_norm.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

/// What the kernel takes beside the recurrence's.
struct LayerParams {
  ConvParams convolution;
  NormRows norm;  ///< its x is null: it lies in `unnormalised`, or in shared memory
  bool ends_in_norm = false;
  std::int32_t tiles = 1;         ///< of a head
  float* unnormalised = nullptr;  ///< [T, Hv, Dv], where a normalised head has several tiles
  // Blocks that have done their part; all zero between calls.
  unsigned int* windows_read = nullptr;     ///< [N, Hk], of a key head
  unsigned int* outputs_written = nullptr;  ///< [N, Hv], of a value head
};

/// Whether this block comes last of `blocks` that call it with this counter; all that they did before is then seen
/// by the thread that asks. Called by one thread, behind a barrier of its block.
__device__ __forceinline__ bool arrives_last(unsigned int* counter, int blocks) {
  if (blocks == 1) return true;
  const auto last = static_cast<unsigned int>(blocks - 1);
  __threadfence();
  const bool is_last = atomicInc(counter, last) == last;  // which sets it to zero
  __threadfence();
  return is_last;
}

/// The norm of a token's head, whose values are `x`, by all threads of a block. Every warp sums the squares by itself.
template <int kThreads>
__device__ __forceinline__ void store_normalised(const GatedDeltaParams& p, const NormRows& norm,
                                                 DType token_dtype, std::int64_t token, int head,
                                                 const float* x) {
  float squares = 0;
  for (int v = static_cast<int>(threadIdx.x) % kWarp; v < norm.width; v += kWarp) {
    squares = fmaf(x[v], x[v], squares);
  }
  const float scale = row_scale(norm, sum_over<kWarp>(squares));
  for (int v = static_cast<int>(threadIdx.x); v < norm.width; v += kThreads) {
    const std::int64_t at = token * norm.z_token_stride + std::int64_t{head} * norm.width + v;
    const float z = load_element(norm.z, at, token_dtype);
    const float value = x[v] * scale * load_element(norm.weight, v, token_dtype);
    store_element(p.output, output_index(p, token, head, v), p.output_dtype,
                  value * gate_of<float>(norm.gate, z));
  }
}

/// Blocks that a multiprocessor is to hold. Of states in kv it is one less than of cuda/decode, where there are several:
/// else 32 to 72 bytes of a thread spill (Dk = 128, sm_90). Of float32 states in vk the convolution runs while all of
/// the tile's registers are taken.
template <typename Shape>
constexpr int resident_blocks() {
  constexpr bool kWide = sizeof(typename Shape::State) == sizeof(float);
  constexpr int kOthers = Shape::kByKeys ? (kWide ? 32 : 8) : (kWide ? 16 : 0);
  return Shape::blocks(kOthers) > 0 ? Shape::blocks(kOthers) : 1;
}

template <typename Case>
__global__ void __launch_bounds__(Case::Shape::kThreads, resident_blocks<typename Case::Shape>())
    layer_decode_kernel(const GatedDeltaParams p, const DecodeOptions options,
                        const LayerParams layer) {
  using Shape = typename Case::Shape;
  using Recurrence = TileRecurrence<Shape>;
  constexpr int kThreads = Shape::kThreads;
  __shared__ typename Recurrence::Shared shared;
  __shared__ typename Recurrence::Staged::Step step;
  __shared__ float outputs[Shape::kBlockValues];  // of a tile that is a whole head
  __shared__ bool is_last[2];
  const int thread = static_cast<int>(threadIdx.x);
  const TilePlace place = options.grid.place(Shape::kBlockValues);

  const SequenceSpan span = sequence_span(p, place.sequence);
  typename Recurrence::Tile tile(thread, place.first_value, p.value_head_dim);
  // Before it is known whether there are tokens, as in cuda/decode.
  if (!span.is_padding()) tile.load(p.pool, span.row, place.head, options.evict_last);
  Tile sequence;
  sequence.sequence_first = static_cast<int>(span.first);
  sequence.length = static_cast<int>(span.length);
  sequence.begin = 0;
  sequence.end = sequence.length;
  sequence.sequence = place.sequence;
  sequence.row = static_cast<int>(span.row);
  const ConvolvedStep<Shape> convolved(layer.convolution, p, place, sequence);
  if (span.is_padding()) {
    store_zero_outputs(p, span, place.head, place.first_value,
                       min(place.first_value + Shape::kBlockValues, p.value_head_dim), thread,
                       kThreads);
    convolved.show_zeros();
    return;
  }

  const bool whole_head = layer.tiles == 1;
  if (sequence.length > 0) {
    Recurrence recurrence(p, options.token_dtype, place, shared, tile);
    const auto make_gates = [&](std::int64_t token) {
      if (p.channel_decay) {
        Recurrence::Staged::stage_channels(p, place.head, token, step.channel_decay, thread,
                                           kThreads);
      }
      if (thread != kThreads - 1) return;  // which seldom has a vector of channels
      step.beta = beta_of(p.gates, token, place.head);
      step.decay = p.channel_decay ? 1.0f : decay_of(p.gates, token, place.head);
    };
    std::int64_t token = span.first;
    convolved.make_first(step);
    make_gates(token);
    __syncthreads();
    tile.unpack();
#pragma unroll 1
    for (int t = 0;;) {
      recurrence.run_made(step, [&](int value, float output) {
        const std::int64_t at = output_index(p, token, place.head, value);
        if (!layer.ends_in_norm) return store_element(p.output, at, p.output_dtype, output);
        if (!whole_head) {
          layer.unnormalised[at] = output;
        } else {
          outputs[value] = output;
        }
      });
      if (layer.ends_in_norm && whole_head) {
        __syncthreads();
        store_normalised<kThreads>(p, layer.norm, options.token_dtype, token, place.head, outputs);
      }
      if (++t == sequence.length) break;
      ++token;
      __syncthreads();  // the step has been read
      convolved.make(t, step);
      make_gates(token);
      __syncthreads();
    }
  }

  const bool moves = convolved.moves_windows();
  const bool counts_outputs = layer.ends_in_norm && !whole_head && sequence.length > 0;
  if (moves || counts_outputs) {
    __syncthreads();  // the block has read its windows and written its outputs
    if (thread == 0) {
      const std::int64_t key_head = std::int64_t{place.sequence} * p.num_key_heads + place.key_head;
      is_last[0] = moves && arrives_last(layer.windows_read + key_head,
                                         p.value_heads_per_key_head * layer.tiles);
    }
    if (thread == kWarp) {
      const std::int64_t head = std::int64_t{place.sequence} * p.num_value_heads + place.head;
      is_last[1] = counts_outputs && arrives_last(layer.outputs_written + head, layer.tiles);
    }
  }
  if (sequence.length > 0) store_final_state<true>(p, options, place.head, tile);
  if (!moves && !counts_outputs) return;
  __syncthreads();
  if (is_last[1]) {
#pragma unroll 1
    for (std::int64_t token = span.first; token < span.first + span.length; ++token) {
      store_normalised<kThreads>(p, layer.norm, options.token_dtype, token, place.head,
                                 layer.unnormalised + output_index(p, token, place.head, 0));
    }
  }
  if (!moves) return;
  convolved.move_value_windows();
  if (is_last[0]) convolved.move_key_windows();
}

// ---- host

struct LayerLaunch {
  void (*kernel)(GatedDeltaParams, DecodeOptions, LayerParams) = nullptr;
  int block_values = 0;
  int threads = 0;
};

LayerLaunch layer_launch(const Problem& problem) {
  return with_tile_case<LayerLaunch>(problem, [](auto tile_case) -> LayerLaunch {
    using Case = decltype(tile_case);
    return {layer_decode_kernel<Case>, Case::Shape::kBlockValues, Case::Shape::kThreads};
  });
}

std::int64_t tiles_of_head(const Problem& problem, const LayerLaunch& launch) {
  return (problem.value_head_dim + launch.block_values - 1) / launch.block_values;
}
std::int64_t counter_bytes(const Problem& problem) {
  return problem.num_sequences() * (problem.num_key_heads + problem.num_value_heads) *
         static_cast<std::int64_t>(sizeof(unsigned int));
}
/// 0 where no outputs wait for the rest of their head.
std::int64_t unnormalised_bytes(const Problem& problem, const LayerLaunch& launch) {
  if (!problem.gated_norm || tiles_of_head(problem, launch) == 1) return 0;
  return problem.total_tokens() * problem.num_value_heads * problem.value_head_dim *
         static_cast<std::int64_t>(sizeof(float));
}

/// Whether threads take vectors of channels, of windows and weights as most models have them.
bool takes_vectors(const ConvParams& p) {
  bool aligned = true;
  for (const void* pointer :
       {p.input, p.weight, p.bias, p.window_in, static_cast<const void*>(p.window_out)}) {
    aligned = aligned && reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
  }
  return aligned && p.ordinary && p.width == kVectorWidth &&
         p.input_layout == ConvLayout::channels && p.input_token_stride % 4 == 0;
}

GatedRmsNormArguments norm_arguments(const Problem& problem, const Arguments& arguments) {
  GatedRmsNormArguments a;
  a.z = arguments.input("z");
  a.z_token_stride = token_stride_of("z", problem, arguments);
  a.weight = arguments.input("norm_weight");
  a.sequence_offsets = arguments.indices("sequence_offsets");
  return a;
}

class DecodeOneLaunch final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "cuda/decode_one_launch",
        .operation = gated_delta_layer_operation(),
        .honours =
            recurrence_options() + recurrence_variants() + convolution_options() +
            convolution_window_options() +
            HonouredFields{"weights", "gated_norm", "norm_gate", "norm_eps", "state_rounding"},
        .gates_in_any_form = true,
        .backend = "cuda",
        .form = "recurrent",
        .summary =
            "convolution, a block's part of the state in registers and the norm in one launch; for "
            "few sequences of a token",
        .resources = "",
        .min_compute_capability = 80,
        .rank = 1,
        .aligned = {{"initial_state"}, 16},
        // Tiles that are a head and parts of one, windows in every form, one token and several.
        .examples = {
            "gated_delta_layer:heads=1/2,dim=64,seq=5x1,h0=normal,dtype=bf16,layout=vk",
            "gated_delta_layer:heads=2/4,dim=128,seq=1+0+1+1,h0=normal,dtype=bf16,layout=vk,"
            "gate=logits,beta=logit,gated_norm=1,slots=padding,bias=1",
            "gated_delta_layer:heads=1/3,dim=96x80,seq=1+2+0+4,h0=normal,dtype=f32,state=bf16,"
            "slots=permuted,gate=logits,pool_pad=8",
            "gated_delta_layer:heads=1/2,dim=64x136,seq=3+1,dtype=f32,gate=logits,gated_norm=1,"
            "norm_gate=sigmoid,norm_eps=1e-5,conv_in_place=0",
            "gated_delta_layer:heads=2/2,dim=128x64,seq=4x1,h0=normal,dtype=f16,state=f16,"
            "decay=channel,width=2,act=none",
            "gated_delta_layer:heads=1/2,dim=192x64,seq=2x1+3,h0=normal,dtype=bf16,state=bf16,"
            "layout=vk,fresh=1,window_layout=channels,window_length=5,weights=f32,bias=1",
            "gated_delta_layer:heads=1/1,dim=256x72,seq=2x1,h0=normal,dtype=bf16,state=f16,"
            "layout=vk,state_rounding=stochastic,conv_layout=time",
            "gated_delta_layer:heads=1/2,dim=256x40,seq=1+0+2,dtype=f16,window=written,"
            "update=additive,out=f32,norm_gate=sigmoid2,gated_norm=1"}};
    return description;
  }

  /// Above cuda/decode where every sequence has one token at most, there are few of them, and the layer ends in the norm:
  /// what it saves is launches, and with many sequences every tile's own convolution costs more. On Hopper, where the
  /// chain's launches overlap, it is up to 4 % behind there (head of this file). Below all others elsewhere.
  int rank(const Problem& problem) const override {
    constexpr std::int64_t kMostTokens = 1,
                           kMostHeads = 256;  // between the 128 that win and the 512 that lose
    constexpr int kAboveDecode = 71;
    const bool few = problem.num_sequences() * problem.num_value_heads <= kMostHeads;
    return few && problem.gated_norm && problem.sequences.longest() <= kMostTokens
               ? kAboveDecode
               : description().rank;
  }

  Support supports(const Problem& problem) const override { return supports_tiles(problem); }

  std::int64_t workspace_bytes(const Problem& problem) const override {
    return counter_bytes(problem) + unnormalised_bytes(problem, layer_launch(problem));
  }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    require_operands(problem, arguments);
    GatedDeltaParams params = make_params(problem, recurrence_arguments(problem, arguments));
    params.normalize_qk = true;  // always a step of the layer
    if (params.pool.read || params.pool.write)
      require_pointer(params.pool.data, 16, "the state pool");
    const LayerLaunch launch = layer_launch(problem);

    LayerParams layer;
    layer.convolution = make_conv_params(problem, convolution_arguments(problem, arguments));
    layer.convolution.whole = takes_vectors(layer.convolution);
    layer.ends_in_norm = problem.gated_norm;
    if (problem.gated_norm) layer.norm = norm_rows(problem, norm_arguments(problem, arguments));
    layer.tiles = static_cast<std::int32_t>(tiles_of_head(problem, launch));
    std::vector<DeviceBuffer> workspaces;
    workspaces.push_back(device.allocate(counter_bytes(problem)));
    layer.windows_read = static_cast<unsigned int*>(workspaces.back().data());
    layer.outputs_written = layer.windows_read + problem.num_sequences() * problem.num_key_heads;
    if (const std::int64_t bytes = unnormalised_bytes(problem, launch); bytes > 0) {
      workspaces.push_back(device.allocate(bytes));
      layer.unnormalised = static_cast<float*>(workspaces.back().data());
    }

    DecodeGrid grid(problem, launch, arguments.indices(kRoundingSeed), description().name);
    grid.info.choice +=
        std::string(" channels=") + (layer.convolution.whole ? "vectors" : "elements");
    auto plan = std::make_unique<LaunchPlan>(
        device, grid.info, std::move(workspaces),
        [params, layer, kernel = launch.kernel, grid](cudaStream_t stream) {
          if (grid.blocks == 0) return;
          launch_kernel(kernel, grid.blocks, grid.threads, 0, stream, params, grid.options, layer);
        });
    device.fill_async(layer.windows_read, 0,
                      counter_bytes(problem));  // behind the plan's own, which are NaN
    return plan;
  }
};

}  // namespace

const Implementation& gated_delta_layer_decode_one_launch() {
  static const DecodeOneLaunch implementation;
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
