// The forms of channel_sm90: gated_delta forward with one decay per key channel, for Hopper (sm_90a). What
// it supports, and from a problem to a plan of one launch, or of three where sequences are cut into
// pieces; the kernel: kernel.cu.
#include <cuda_runtime.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "cuda/gated_delta/arguments.cuh"
#include "cuda/gated_delta/channel_sm90/channel_sm90.h"
#include "cuda/gated_delta/channel_sm90/launch.h"
#include "cuda/gated_delta/channel_sm90/planner.h"
#include "cuda/hopper/tensor_map.h"
#include "cuda/launch_plan.h"
#include "cuda/require.h"
#include "cuda/target.h"
#include "interface/operations/checkpoint_operands.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::GDN_CUDA_TARGET::channel_sm90 {
namespace {

/// Of an array [tokens, heads, 128] of 16-bit elements, in boxes of a chunk and `panels` panels.
CUtensorMap token_map(const void* base, std::int64_t tokens, std::int64_t token_stride, int heads,
                      int panels, DType dtype, const char* name) {
  return hopper::make_tensor_map(
      base, dtype,
      {{kPanel, 1, kPanel}, {tokens, token_stride, kChunk}, {2, kPanel, panels}, {heads, 128, 1}},
      name);
}

/// The copy engine brings gates that are dense within a token, tokens in multiples of 16 bytes.
/// Decays are read, and become log decays then: what decodes the others knows no logarithm.
GateForm gate_form(const GateParams& gates, DType token_dtype) {
  const NumberArray& gate = gates.gate;
  const bool full = gate.type == DType::float32;
  if ((!full && gate.type != token_dtype) || gate.inner_stride != 1 ||
      gate.stride % (full ? 4 : 8) != 0 || gate.stride < gates.num_value_heads * kKeyDim ||
      reinterpret_cast<std::uintptr_t>(gate.data) % 16 != 0 ||
      gates.gate_encoding == GateEncoding::decay)
    return GateForm::read;
  if (!full) return GateForm::halves;
  return gates.gate_encoding == GateEncoding::log_decay ? GateForm::log_decays : GateForm::floats;
}

const char* name_of(GateForm form) {
  switch (form) {
    case GateForm::log_decays:
      return "copied";
    case GateForm::floats:
    case GateForm::halves:
      return "copied_encoded";
    case GateForm::read:
      break;
  }
  return "read";
}

/// Of float32 gates [tokens, heads, 128], as pairs of 16-bit elements, whose bits a copy leaves as
/// they are: boxes of a chunk of one head, 128 bytes a row, as those of other arrays.
CUtensorMap gate_map(const NumberArray& gate, std::int64_t tokens, int heads, const char* name) {
  constexpr int kRow = 64, kHead = 2 * kKeyDim;  // elements
  return hopper::make_tensor_map(gate.data, DType::bfloat16,
                                 {{kRow, 1, kRow},
                                  {tokens, 2 * std::int64_t{gate.stride}, kChunk},
                                  {kHead / kRow, kRow, kHead / kRow},
                                  {heads, kHead, 1}},
                                 name);
}

ChannelLaunch make_launch(const GatedDeltaParams& p, std::int64_t tokens, DType token_dtype,
                          int multiprocessors, const std::string& name) {
  const std::int64_t output_token_stride = std::int64_t{p.num_value_heads} * kValueDim;
  ChannelLaunch launch{};
  launch.query =
      token_map(p.query, tokens, p.query_token_stride, p.num_key_heads, 1, token_dtype, "q");
  launch.key = token_map(p.key, tokens, p.key_token_stride, p.num_key_heads, 1, token_dtype, "k");
  launch.value =
      token_map(p.value, tokens, p.value_token_stride, p.num_value_heads, 2, token_dtype, "v");
  launch.output =
      token_map(p.output, tokens, output_token_stride, p.num_value_heads, 2, token_dtype, "output");
  launch.params.p = p;
  launch.params.gate_form = gate_form(p.gates, token_dtype);
  if (launch.params.gate_form == GateForm::halves) {
    launch.gate = token_map(p.gates.gate.data, tokens, p.gates.gate.stride, p.num_value_heads, 2,
                            token_dtype, "gate");
  } else if (launch.params.gate_form != GateForm::read) {
    launch.gate = gate_map(p.gates.gate, tokens, p.num_value_heads, "gate");
  }
  const unsigned int items = grid_blocks(std::int64_t{p.num_sequences} * p.num_value_heads, name);
  launch.params.items = static_cast<std::int32_t>(items);
  launch.blocks = std::min(items, static_cast<unsigned int>(multiprocessors));
  return launch;
}

/// The launches of sequences in pieces. The grid holds as many pieces as any lengths may have: how
/// many there are, the kernels find.
struct PiecesLaunches {
  ChannelLaunch transitions, pieces;

  PiecesLaunches(const ChannelLaunch& whole, std::int64_t piece_heads, int multiprocessors)
      : transitions(whole), pieces(whole) {
    const auto blocks = [&](std::int64_t items) {
      return static_cast<unsigned int>(std::min<std::int64_t>(items, multiprocessors));
    };
    transitions.blocks = blocks(2 * piece_heads);
    pieces.blocks = blocks(piece_heads);
  }
  void enqueue_all(DType token_dtype, cudaStream_t stream) const {
    enqueue_transitions(transitions, token_dtype, stream);
    enqueue_chain(transitions.params, stream);
    enqueue_pieces(pieces, token_dtype, stream);
  }
};

Shape shape_of(const Problem& problem) {
  return {.lengths = problem.sequences.lengths, .value_heads = problem.num_value_heads};
}

class ChannelSm90 final : public Implementation {
 public:
  /// `chunks_per_piece`: none for the planner's choice, 0 for sequences whole.
  ChannelSm90(const std::string& name, std::optional<int> chunks_per_piece)
      : chunks_per_piece_(chunks_per_piece) {
    description_.name = name;
    description_.operation = gated_delta_operation();
    description_.honours = recurrence_options() + HonouredFields{"decay", "output_slots",
                                                                 "checkpoints", "checkpoint_dtype"};
    description_.gates_in_any_form = true;
    description_.backend = "cuda";
    description_.form = "fused";
    description_.summary =
        is_planned()
            ? "one decay per key channel by wgmma and TMA, chunks of 16 tokens, in one "
              "persistent launch; long sequences in pieces where there are few heads"
            : "as cuda/channel_sm90, sequences never split: same bits alone and in a batch";
    description_.resources = "sm_90a, 225 KB shared memory";
    description_.min_compute_capability = 90;
    description_.exact_compute_capability = 90;
    description_.rank = is_planned() ? 60 : 50;
    description_.aligned = token_alignment();
    description_.examples = {
        "gated_delta:heads=1/2,dim=128,seq=20+3,decay=channel,h0=normal,dtype=bf16",
        "gated_delta:heads=2/4,dim=128,seq=150+16,decay=channel,dtype=f16,layout=vk",
        "gated_delta:heads=1/2,dim=128,seq=37+0+21,decay=channel,dtype=bf16,h0=normal,state=bf16,"
        "slots=padding,norm=1,keys=unnormalised,gates=reset,gate=decay,beta=logit",
        "gated_delta:heads=1/2,dim=128,seq=37+3+9+0+1,decay=channel,dtype=bf16,h0=normal,"
        "slots=permuted,output_slots=other",
        "gated_delta:heads=1/2,dim=128,seq=37+3+0+21,decay=channel,dtype=bf16,h0=normal,norm=1,"
        "slots=padding,checkpoints=3",
        "gated_delta:heads=1/2,dim=128,seq=41,decay=channel,dtype=f16,layout=vk,checkpoints=2,"
        "checkpoint_dtype=bf16"};
    // where sequences are split depends on how many there are beside
    description_.batch_invariant = !is_planned();
  }

  const Description& description() const override { return description_; }

  /// Above cuda/decode, even where that one is above others (kernel.cu): float32 states in kv from 3
  /// tokens on, as chunks take as long whether they are full or not. Not where states inside such calls are
  /// wanted: each is a chunk's end.
  int rank(const Problem& problem) const override {
    if (!is_planned()) return description_.rank;
    constexpr int kAboveDecode = 75;
    return problem.state_layout == StateLayout::kv && problem.state_dtype == DType::float32 &&
                   problem.sequences.longest() >= 3 && problem.checkpoints == 0
               ? kAboveDecode
               : description_.rank;
  }

  Support supports(const Problem& problem) const override {
    if (problem.decay != DecayPer::channel)
      return Support::no("one decay per head: only one per key channel");
    if (problem.key_head_dim != kKeyDim || problem.value_head_dim != kValueDim)
      return Support::no("head dims " + std::to_string(problem.key_head_dim) + "x" +
                         std::to_string(problem.value_head_dim) + ": only 128x128");
    if (problem.token_dtype == DType::float32)
      return Support::no("float32 tokens: only bfloat16 and float16");
    if (problem.effective_output_dtype() != problem.token_dtype)
      return Support::no("output in another dtype than the tokens'");
    if (problem.chunk != 0 && problem.chunk != kChunk)
      return Support::no("chunk " + std::to_string(problem.chunk) + ": only 16");
    if (problem.total_tokens() > 2147483647 - kChunk) return Support::no("more than 2^31 tokens");
    return Support::yes();
  }

  std::int64_t workspace_bytes(const Problem& problem) const override {
    if (problem.total_tokens() == 0 || problem.checkpoints > 0) return 0;
    const Shape shape = shape_of(problem);
    if (is_planned()) return most_workspace_bytes(shape);
    return cuts(shape, *chunks_per_piece_) ? pieces_bytes(shape, *chunks_per_piece_) : 0;
  }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    const GatedDeltaParams params = make_params(problem, arguments);
    require_token_alignment(params, problem.token_dtype, 16);
    PlanInfo info;
    info.chunk = kChunk;
    if (problem.total_tokens() == 0) {
      info.choice = "no tokens";
      return std::make_unique<LaunchPlan>(device, info, std::vector<DeviceBuffer>{},
                                          [&device, states = params.checkpoints.states.data,
                                           bytes = checkpoint_state_bytes(problem)](cudaStream_t) {
                                            device.fill_async(states, 0, bytes);
                                          });
    }
    require_pointer(params.output, 16, "output");
    const int multiprocessors = device.info().multiprocessors;
    ChannelLaunch launch = make_launch(params, problem.total_tokens(), problem.token_dtype,
                                       multiprocessors, description_.name);
    const Shape shape = shape_of(problem);
    const int chunks = chunks_per_piece(problem, multiprocessors);
    const std::string gates = std::string(" gates=") + name_of(launch.params.gate_form);
    if (cuts(shape, chunks)) {
      DeviceBuffer states = device.allocate(state_bytes(shape, chunks)),
                   transitions = device.allocate(state_bytes(shape, chunks)),
                   early_chunks = device.allocate(early_chunk_bytes(shape, chunks));
      launch.params.chunks_per_piece = chunks;
      launch.params.states = static_cast<float*>(states.data());
      launch.params.transitions = static_cast<float*>(transitions.data());
      launch.params.early_chunks = static_cast<std::int32_t*>(early_chunks.data());
      const PiecesLaunches launches(launch, piece_heads(shape, chunks), multiprocessors);
      info.launches = 3;
      info.choice = "piece_chunks=" + std::to_string(chunks) +
                    " blocks=" + std::to_string(launches.pieces.blocks) + gates;
      std::vector<DeviceBuffer> workspaces;
      workspaces.push_back(std::move(states));
      workspaces.push_back(std::move(transitions));
      workspaces.push_back(std::move(early_chunks));
      return std::make_unique<LaunchPlan>(
          device, info, std::move(workspaces),
          [launches, dtype = problem.token_dtype](cudaStream_t stream) {
            launches.enqueue_all(dtype, stream);
          });
    }
    info.launches = 1;
    info.choice = "piece_chunks=0 blocks=" + std::to_string(launch.blocks) + gates;
    const auto enqueue_whole = problem.checkpoints > 0 ? enqueue_checkpoints : enqueue;
    return std::make_unique<LaunchPlan>(
        device, info, std::vector<DeviceBuffer>{},
        [launch, enqueue_whole, dtype = problem.token_dtype](cudaStream_t stream) {
          enqueue_whole(launch, dtype, stream);
        });
  }

 private:
  bool is_planned() const { return !chunks_per_piece_.has_value(); }
  /// Of the problem; 0: sequences stay whole, as they do with checkpoints.
  int chunks_per_piece(const Problem& problem, int multiprocessors) const {
    if (problem.checkpoints > 0) return 0;
    return is_planned() ? choose(shape_of(problem), costs_h200, multiprocessors)
                        : *chunks_per_piece_;
  }
  static bool cuts(const Shape& shape, int chunks) { return chunks > 0 && can_cut(shape, chunks); }

  std::optional<int> chunks_per_piece_;
  Description description_;
};

}  // namespace

const Implementation& planned() {
  static const ChannelSm90 implementation("cuda/channel_sm90", std::nullopt);
  return implementation;
}

const Implementation& invariant() {
  static const ChannelSm90 implementation("cuda/channel_sm90_invariant", 0);
  return implementation;
}

std::unique_ptr<Implementation> in_pieces(int chunks) {
  return std::make_unique<ChannelSm90>("cuda/channel_sm90_pieces_of_" + std::to_string(chunks),
                                       chunks);
}

}  // namespace gdn::GDN_CUDA_TARGET::channel_sm90
