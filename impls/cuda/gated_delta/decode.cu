// cuda/decode: short sequences, one token above all: each state is read once and written once.
//
// A block holds 16 to 128 columns of one head's state in registers, every thread some 16-byte words of
// it, all loaded before the first is used; then the recurrence runs over them token by token
// (tile/recurrence.cuh). No loop over states and no ring of buffers: what hides the latency is the
// number of blocks. Any head count, variants and gate encodings; head dims as compiled.
//
// Bound by: device memory, which one token moves through once in each direction; by latency with few
// heads and sequences; from some ten tokens on by the chain of steps, which long sequences leave to
// other forms.
//
// States inside a call (`checkpoints`) are stored from the registers as their tokens have passed, and nothing is
// read again: their bytes are what they cost. decode_checkpoints.cu compiles the kernel for them.
//
// Reached, H200, 16/32 heads of 128, bfloat16 tokens, cold L2, 1 / 16 / 128 / 512 sequences of one token:
// float32 states in vk .0062 / .0228 / .1308 / .5098 ms, bfloat16 ones .0060 / .0155 / .0725 / .2703, of
// kv up to 15 % more; 128 sequences of 4 tokens .195 and .141 (data/measured/h200-2026-11-25). 16 sequences
// of 4 tokens with a checkpoint behind each .062 for .037 without (data/measured/h200-2026-11-26).
//
// Behind the convolution of a layer (gated_delta_layer/decode.cpp) it is launched to overlap it, where the card can
// (hopper/overlap.cuh): blocks ask for their tiles of states while the convolution runs, and wait for it before they
// read a token.
//
// Final states of 16 bits may be rounded by chance (tile/round_by_chance.cuh), which costs bfloat16 a fifth of the
// time above and float16 a third.
//
// Bfloat16 states are bound by neither instructions nor memory alone: schedulers issue in 62 % of the cycles, and the
// memory is idle for a third of the time. Lost: half as many words a thread (a fifth more); gates, betas and products
// made before the state is unpacked (.2906 for .2884, 512 sequences with logits); asking the L2, line by line, for
// the tile of the block 66 to 800 blocks ahead (bfloat16 .2919 or more for .2888; float32 .5054 for .5105 at best, at
// 264 blocks, and .634 at 800).
#include <cuda_runtime.h>

#include "cuda/gated_delta/arguments.cuh"
#include "cuda/gated_delta/decode_kernel.cuh"
#include "cuda/gated_delta/tile/launch.cuh"
#include "cuda/hopper/overlap.cuh"
#include "cuda/launch_plan.h"
#include "cuda/require.h"
#include "cuda/target.h"
#include "interface/operations/checkpoint_operands.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

Alignment alignment() {
  Alignment alignment = tile_alignment();
  alignment.operands.emplace_back(kCheckpointStates);
  return alignment;
}

/// Of float32 states of 192 MiB overlapping a convolution still gains; of 256 MiB it loses a tenth, and of 512, while
/// 16-bit states of 256 MiB gain (gated_delta_layer/decode.cpp). Why is not known.
bool gains_by_overlap(const Problem& problem) {
  constexpr std::int64_t kMostBytes = std::int64_t{192} << 20;
  const std::int64_t elements = problem.num_sequences() * problem.num_value_heads *
                                problem.key_head_dim * problem.value_head_dim;
  return problem.state_dtype != DType::float32 ||
         elements * static_cast<std::int64_t>(sizeof(float)) <= kMostBytes;
}

class Decode final : public Implementation {
 public:
  /// `behind`: its plans run behind another one that enqueues kernels, on one stream with nothing in between.
  explicit Decode(bool behind) : behind_(behind) {}

  const Description& description() const override {
    static const Description description = {
        .name = "cuda/decode",
        .operation = gated_delta_operation(),
        .honours =
            recurrence_options() + recurrence_variants() +
            HonouredFields{"output_slots", "checkpoints", "checkpoint_dtype", "state_rounding"},
        .gates_in_any_form = true,
        .backend = "cuda",
        .form = "recurrent",
        .summary =
            "a block's part of the state in registers, read and written once; for short "
            "sequences; bound by device memory",
        .resources = "",
        .min_compute_capability = 80,
        .rank = 15,
        .aligned = alignment(),
        // Every head dim, layout and state dtype, and every variant; checkpoints in every dtype.
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
            "gated_delta:heads=1/2,dim=128,seq=7x1,h0=normal,dtype=bf16,slots=padding,"
            "output_slots=other",
            "gated_delta:heads=2/6,dim=96x24,seq=3x2,dtype=f16,steps=3,out=f32",
            "gated_delta:heads=1/2,dim=192,seq=1+2,h0=normal,dtype=f32,state=f16,layout=vk",
            "gated_delta:heads=1/2,dim=128x136,seq=1+4+0+3+7,h0=normal,dtype=bf16,slots=padding,"
            "output_slots=other,layout=vk,checkpoints=3,checkpoint_dtype=bf16",
            "gated_delta:heads=1/2,dim=64x72,seq=4+1+0+6,h0=normal,dtype=f32,state=bf16,"
            "pool_pad=8,steps=2,decay=channel,checkpoints=4,checkpoint_dtype=f32",
            "gated_delta:heads=1/2,dim=96x40,seq=5x2,dtype=f16,ht=0,checkpoints=2,"
            "checkpoint_dtype=f16",
            "gated_delta:heads=1/2,dim=128,seq=7x1,h0=normal,dtype=bf16,state=f16,layout=vk,"
            "slots=padding,state_rounding=stochastic",
            "gated_delta:heads=1/2,dim=96x40,seq=3+1+0+2,h0=normal,dtype=bf16,state=bf16,"
            "pool_pad=8,state_rounding=stochastic"}};
    return description;
  }

  /// Above other forms where sequences are short. With one decay per key channel and states in vk,
  /// which cuda/channel_sm90 reads and writes across their rows, up to where that one crosses.
  int rank(const Problem& problem) const override {
    const bool across =
        problem.decay == DecayPer::channel && problem.state_layout == StateLayout::vk;
    const std::int64_t most = !across ? 4 : problem.state_dtype == DType::float32 ? 5 : 8;
    constexpr int kAboveOthers = 70;
    return problem.sequences.longest() <= most ? kAboveOthers : description().rank;
  }

  Support supports(const Problem& problem) const override {
    if (problem.checkpoints > 0 && problem.state_rounding == StateRounding::stochastic) {
      return Support::no("state_rounding=stochastic with checkpoints is not compiled");
    }
    return supports_tiles(problem);
  }

  std::int64_t workspace_bytes(const Problem&) const override { return 0; }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    const GatedDeltaParams params = make_params(problem, arguments);
    require_tile_alignment(params, problem);
    if (problem.checkpoints > 0 && problem.num_sequences() > 0) {
      require_pointer(params.checkpoints.states.data, 16, kCheckpointStates);
    }
    const DecodeLaunch launch = problem.checkpoints > 0 ? decode_checkpoints_launch(problem)
                                                        : decode_launch<false>(problem);
    DecodeGrid grid(problem, launch, arguments.indices(kRoundingSeed), description().name);
    const bool overlaps =
        behind_ && hopper::can_overlap(device.info()) && gains_by_overlap(problem);
    if (overlaps) grid.info.choice += " overlapping";
    return std::make_unique<LaunchPlan>(
        device, grid.info, std::vector<DeviceBuffer>{},
        [params, kernel = launch.kernel, grid, overlaps](cudaStream_t stream) {
          if (grid.blocks == 0) return;
          hopper::launch_behind(overlaps, kernel, grid.blocks, grid.threads, stream, params,
                                grid.options);
        });
  }

 private:
  bool behind_;
};

}  // namespace

const Implementation& gated_delta_decode() {
  static const Decode implementation(false);
  return implementation;
}

const Implementation& gated_delta_decode_behind() {
  static const Decode implementation(true);
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
