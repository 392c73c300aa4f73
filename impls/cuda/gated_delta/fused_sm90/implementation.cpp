// The registered implementations: what they support, and from a problem to a plan: the planner
// chooses (planner.h), the workspace is allocated, and what each kernel takes is made (launches.h).
#include <cuda_runtime.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cuda/gated_delta/arguments.cuh"
#include "cuda/gated_delta/chunk/step_rows.cuh"
#include "cuda/gated_delta/chunk_sm90/supports_head_dims.h"
#include "cuda/gated_delta/fused_sm90/fused_sm90.h"
#include "cuda/gated_delta/fused_sm90/launches.h"
#include "cuda/launch_plan.h"
#include "cuda/require.h"
#include "cuda/target.h"
#include "interface/operations/checkpoint_operands.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {
namespace {

constexpr const Costs& kCosts = costs_h200;  // of the one card that these kernels are planned for

/// The one-launch form's whole workspace.
constexpr std::int64_t kCounterBytes = 16;

bool is_square(const Problem& problem) {
  return problem.key_head_dim == kKeyDim && problem.value_head_dim == kValueDim;
}

/// Of a token.
TokenRows rows_of(const Problem& problem) { return token_rows(static_cast<int>(problem.steps)); }

/// In rows.
Shape shape_of(const Problem& problem) {
  std::vector<std::int64_t> lengths = problem.sequences.lengths;
  for (std::int64_t& length : lengths) length <<= rows_of(problem).log2;
  return {.lengths = std::move(lengths),
          .key_heads = problem.num_key_heads,
          .value_heads = problem.num_value_heads,
          .has_initial_state = problem.initial_state != InitialState::absent,
          .value_panels = value_panels(static_cast<int>(problem.value_head_dim)),
          .may_be_one_launch = is_square(problem),
          .rows = rows_of(problem)};
}

/// The one-launch kernel alone has states inside a call.
bool is_in_one_launch(Form form, const Problem& problem) {
  return form == Form::one_launch || problem.checkpoints > 0;
}

Choice choice_of(Form form, const Problem& problem, const Shape& shape, int multiprocessors) {
  if (is_in_one_launch(form, problem)) {
    Choice choice;
    choice.one_launch = true;
    return choice;
  }
  return choose(shape, kCosts, multiprocessors, /*may_split=*/form == Form::planned);
}

/// Device memory, kept as long as the plan.
class Buffers {
 public:
  explicit Buffers(Device& device) : device_(device) {}
  /// Null for no bytes.
  template <typename T>
  T* allocate(std::int64_t bytes) {
    if (bytes == 0) return nullptr;
    buffers_.push_back(device_.allocate(bytes));
    return static_cast<T*>(buffers_.back().data());
  }
  std::vector<DeviceBuffer> take() { return std::move(buffers_); }

 private:
  Device& device_;
  std::vector<DeviceBuffer> buffers_;
};

Workspace allocate_workspace(Buffers& buffers, const Shape& shape, const Choice& choice) {
  const WorkspaceBytes bytes =
      workspace_bytes(shape, choice.in_pieces(), piece_heads(shape, choice.far));
  Workspace work;
  work.records = buffers.allocate<std::uint8_t>(bytes.records);
  work.order = buffers.allocate<int>(bytes.order);
  work.next_item = work.order + shape.sequences();
  work.transition_bound = buffers.allocate<float>(bytes.bounds);
  if (choice.in_pieces()) {
    work.decision = buffers.allocate<int>(bytes.flags);
    work.first_state_ready = work.decision + 1;
    work.needs_transition =
        work.first_state_ready + 2 * shape.slices() * shape.sequences() * shape.value_heads;
  }
  work.piece_states = buffers.allocate<float>(bytes.states);
  work.saved_states = buffers.allocate<float>(bytes.saved);
  work.transitions = buffers.allocate<std::uint8_t>(bytes.transitions);
  return work;
}

/// What a plan adds where tokens have several rows: a launch in front that makes the rows' gates and offsets.
struct RowsLaunch {
  GatedDeltaParams tokens;
  StepRows rows;
  std::int64_t token_bytes = 0, tokens_at_most = 0;
};

struct RowsBytes {
  std::int64_t offsets = 0, numbers = 0;  ///< numbers: log decays, and betas
};
RowsBytes rows_bytes(const Problem& problem) {
  if (problem.steps == 1) return {};
  return {8 * (problem.num_sequences() + 1),
          4 * (problem.total_tokens() << rows_of(problem).log2) * problem.num_value_heads};
}

/// Of several rows a token; `operands` then becomes the rows'.
RowsLaunch rows_launch(const Problem& problem, GatedDeltaParams& operands, Buffers& buffers) {
  const RowsBytes bytes = rows_bytes(problem);
  const int rows_of_token = 1 << rows_of(problem).log2;
  RowsLaunch launch;
  launch.tokens = operands;
  launch.rows.per_token = rows_of_token;
  launch.rows.sequence_offsets = buffers.allocate<std::int64_t>(bytes.offsets);
  launch.rows.log_decay = buffers.allocate<float>(bytes.numbers);
  if (rows_of_token > problem.steps || !betas_are_rows(operands) ||
      operands.gates.beta_encoding != BetaEncoding::beta)  // which the kernels read best
    launch.rows.beta = buffers.allocate<float>(bytes.numbers);
  launch.token_bytes = static_cast<std::int64_t>(size_of(problem.token_dtype));
  launch.tokens_at_most = problem.total_tokens();
  operands = params_of_step_rows(operands, launch.rows);
  return launch;
}

/// A plan's kernels, behind those that make its rows.
std::function<void(cudaStream_t)> behind_rows(const std::optional<RowsLaunch>& rows,
                                              std::function<void(cudaStream_t)> kernels) {
  if (!rows) return kernels;
  return [rows = *rows, kernels = std::move(kernels)](cudaStream_t stream) {
    // Keys and values are copied by maps that know where a token's steps lie.
    enqueue_step_rows(rows.tokens, rows.rows, rows.token_bytes, rows.tokens_at_most, stream);
    kernels(stream);
  };
}

/// The launches of a plan with records in memory, in their order.
struct Launches {
  PrepareLaunch prepare;
  std::optional<PiecesLaunch> pieces;  // where sequences are split
  ChainLaunch near;                    // for all gates, unless there are two
  std::optional<ChainLaunch> far;

  explicit Launches(const LaunchArgs& args) : prepare(prepare_launch(args)) {
    const Choice& choice = args.choice;
    if (choice.in_pieces()) pieces = pieces_launch(args);
    near = chain_launch(args, choice.near,
                        choice.two_chains() ? Serves::near_gates : Serves::any_gates);
    if (choice.two_chains()) far = chain_launch(args, choice.far, Serves::far_gates);
  }
  int count() const { return 2 + (pieces ? 1 : 0) + (far ? 1 : 0); }
  void enqueue_all(DType token_dtype, cudaStream_t stream) const {
    enqueue(prepare, token_dtype, stream);
    if (pieces) enqueue(*pieces, token_dtype, stream);
    enqueue(near, token_dtype, stream);
    if (far) enqueue(*far, token_dtype, stream);
  }
};

std::unique_ptr<Plan> plan_one_launch(LaunchArgs& args, const Problem& problem, PlanInfo info,
                                      Device& device) {
  Buffers buffers(device);
  std::optional<RowsLaunch> rows;
  if (problem.steps > 1) rows = rows_launch(problem, args.operands, buffers);
  int* const next_item = buffers.allocate<int>(kCounterBytes);
  const OneLaunch launch = one_launch(args, next_item);
  info.launches = rows ? 2 : 1;
  info.choice = describe(args.choice, launch.blocks);
  auto plan = std::make_unique<LaunchPlan>(
      device, info, buffers.take(),
      behind_rows(rows, [launch, token_dtype = problem.token_dtype](cudaStream_t stream) {
        enqueue(launch, token_dtype, stream);
      }));
  device.fill_async(next_item, 0, kCounterBytes);  // every run leaves it at 0
  return plan;
}

std::unique_ptr<Plan> plan_launches(LaunchArgs& args, const Problem& problem, PlanInfo info,
                                    Device& device) {
  Buffers buffers(device);
  std::optional<RowsLaunch> rows;
  if (problem.steps > 1) rows = rows_launch(problem, args.operands, buffers);
  args.work = allocate_workspace(buffers, args.shape, args.choice);
  const Launches launches(args);
  info.launches = launches.count() + (rows ? 1 : 0);
  info.choice = describe(args.choice, launches.near.blocks);
  return std::make_unique<LaunchPlan>(
      device, info, buffers.take(),
      behind_rows(rows, [launches, token_dtype = problem.token_dtype](cudaStream_t stream) {
        launches.enqueue_all(token_dtype, stream);
      }));
}

class FusedSm90 final : public Implementation {
 public:
  explicit FusedSm90(Form form) : form_(form) {
    description_.operation = gated_delta_operation();
    description_.honours = recurrence_options() + HonouredFields{"steps", "output_slots",
                                                                 "checkpoints", "checkpoint_dtype"};
    description_.gates_in_any_form = true;
    description_.backend = "cuda";
    description_.form = "fused";
    switch (form) {
      case Form::planned:
        description_.name = "cuda/fused_sm90";
        description_.summary =
            "wgmma and TMA, state in registers: one persistent launch where there are many heads; "
            "else chunk operands in parallel, then the chain, long sequences split";
        break;
      case Form::invariant:
        description_.name = "cuda/fused_sm90_invariant";
        description_.summary =
            "as cuda/fused_sm90, sequences never split: same bits alone and in a batch";
        break;
      case Form::one_launch:
        description_.name = "cuda/fused_sm90_one_launch";
        description_.summary = "as cuda/fused_sm90, always in one persistent launch";
        break;
    }
    description_.resources = "sm_90a, 227 KB shared memory";
    description_.min_compute_capability = 90;
    description_.rank = form == Form::planned ? 60 : 50;
    description_.aligned = token_alignment();
    description_.aligned.operands.emplace_back(kCheckpointStates);
    description_.examples = {"gated_delta:heads=1/2,dim=128,seq=20+3,h0=normal,dtype=bf16",
                             "gated_delta:heads=1/2,dim=128,seq=150,dtype=f16,layout=vk",
                             "gated_delta:heads=1/2,dim=128,seq=70+3+9+0+1,dtype=bf16,h0=normal,"
                             "slots=permuted,output_slots=other",
                             "gated_delta:heads=1/2,dim=128,seq=70+3+9+0+1,dtype=bf16,h0=normal,"
                             "slots=padding,checkpoints=3",
                             "gated_delta:heads=1/2,dim=128,seq=80+3+9+0+1,dtype=bf16,h0=normal,"
                             "slots=padding,steps=2",
                             "gated_delta:heads=1/2,dim=128,seq=40+7,dtype=f16,norm=1,steps=3,"
                             "gate=logits,beta=logit2"};
    description_.exact_compute_capability = 90;
    // where sequences are split depends on how many there are beside
    description_.batch_invariant = form != Form::planned;
  }

  const Description& description() const override { return description_; }

  /// Below the token recurrences where states inside short sequences are wanted: each is a chunk's end.
  int rank(const Problem& problem) const override {
    constexpr std::int64_t kTokensOfDrafts = 16;
    constexpr int kBelowOthers = 15;
    const bool is_by_token =
        problem.checkpoints > 0 && problem.sequences.longest() <= kTokensOfDrafts;
    return is_by_token ? kBelowOthers : description_.rank;
  }

  Support supports(const Problem& problem) const override {
    if (const Support dims = supports_head_dims(problem); !dims) return dims;
    if (is_in_one_launch(form_, problem) && !is_square(problem))
      return Support::no("head dims " + std::to_string(problem.key_head_dim) + "x" +
                         std::to_string(problem.value_head_dim) +
                         (problem.checkpoints > 0 ? ", with states inside the call" : "") +
                         ": only 128x128");
    if (problem.token_dtype == DType::float32)
      return Support::no("float32 tokens: only bfloat16 and float16");
    if (problem.effective_output_dtype() != problem.token_dtype)
      return Support::no("output in another dtype than the tokens'");
    if (problem.chunk != 0 && problem.chunk != kChunk)
      return Support::no("chunk " + std::to_string(problem.chunk) + ": only 64");
    if (problem.total_tokens() << rows_of(problem).log2 > 2147483647 - kChunk)
      return Support::no("more than 2^31 " + std::string(problem.steps > 1 ? "steps" : "tokens"));
    if (problem.steps > 1 && problem.checkpoints > 0)
      return Support::no("several steps per token, with states inside the call");
    if (is_in_one_launch(form_, problem) && problem.num_sequences() > kMostOrderedSequences)
      return Support::no(std::to_string(problem.num_sequences()) + " sequences: at most " +
                         std::to_string(kMostOrderedSequences));
    return Support::yes();
  }

  std::int64_t workspace_bytes(const Problem& problem) const override {
    if (problem.total_tokens() == 0) return 0;
    const RowsBytes rows = rows_bytes(problem);
    const std::int64_t of_rows = rows.offsets + 2 * rows.numbers;
    if (is_in_one_launch(form_, problem)) return of_rows + kCounterBytes;
    return of_rows +
           most_workspace_bytes(shape_of(problem), /*may_split=*/form_ == Form::planned).total();
  }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    LaunchArgs args;
    args.operands = make_params(problem, arguments);
    require_token_alignment(args.operands, problem.token_dtype, 16);
    PlanInfo info;
    info.chunk = kChunk;
    if (problem.total_tokens() == 0) {
      info.choice = "no tokens";
      return std::make_unique<LaunchPlan>(device, info, std::vector<DeviceBuffer>{},
                                          [&device, states = args.operands.checkpoints.states.data,
                                           bytes = checkpoint_state_bytes(problem)](cudaStream_t) {
                                            device.fill_async(states, 0, bytes);
                                          });
    }
    require_pointer(args.operands.output, 16, "output");
    if (problem.checkpoints > 0)
      require_pointer(args.operands.checkpoints.states.data, 16, kCheckpointStates);

    args.multiprocessors = device.info().multiprocessors;
    args.shape = shape_of(problem);
    args.choice = choice_of(form_, problem, args.shape, args.multiprocessors);
    args.costs = kCosts;
    args.rows = rows_of(problem);
    args.maps =
        make_tensor_maps(args.operands, args.rows, problem.total_tokens(), problem.token_dtype);
    args.name = description_.name;
    return args.choice.one_launch ? plan_one_launch(args, problem, info, device)
                                  : plan_launches(args, problem, info, device);
  }

 private:
  Form form_;
  Description description_;
};

}  // namespace

bool runs_in_one_launch(const Problem& problem, int multiprocessors) {
  return choice_of(Form::planned, problem, shape_of(problem), multiprocessors).one_launch;
}

const Implementation& implementation(Form form) {
  static const FusedSm90 planned(Form::planned), invariant(Form::invariant),
      one_launch(Form::one_launch);
  switch (form) {
    case Form::invariant:
      return invariant;
    case Form::one_launch:
      return one_launch;
    case Form::planned:
      break;
  }
  return planned;
}

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
