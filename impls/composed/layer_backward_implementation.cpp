#include "composed/layer_backward_implementation.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "interface/error.h"
#include "interface/operations/gated_delta_layer_backward.h"

namespace gdn {
namespace {

// A step: its implementation, and its problem within the whole's.
struct Step {
  const Implementation* implementation;
  Problem (*problem)(const Problem& whole);
  bool with_norm_alone = false;
};

// In the order in which they run; the recurrence's gradients stand fourth, the convolution's last.
std::vector<Step> steps_of(const LayerBackwardMembers& members) {
  return {{&members.convolution, convolution_again},
          {&members.recurrence, recurrence_again, true},
          {&members.norm_gradients, norm_gradients_of, true},
          {&members.recurrence_gradients, recurrence_gradients_of},
          {&members.convolution_gradients, convolution_gradients_of}};
}

template <typename Body>
void for_present(const LayerBackwardMembers& members, const Problem& whole, const Body& body) {
  for (const Step& step : steps_of(members)) {
    if (whole.gated_norm || !step.with_norm_alone) body(step);
  }
}

// Elements of a token of what lies in the workspace.
struct Widths {
  std::int64_t channels, keys, values;
};
Widths widths_of(const Problem& p) {
  return {p.conv_channels(), p.num_key_heads * p.key_head_dim,
          p.num_value_heads * p.value_head_dim};
}

// Bytes of an array of the workspace.
std::int64_t bytes_of(const Problem& p, std::int64_t width) {
  return p.total_tokens() * width * static_cast<std::int64_t>(size_of(p.token_dtype));
}

// As a call of float16 tokens runs (the header says why).
Problem in_float32(const Problem& p) {
  Problem wide = p;
  wide.token_dtype = DType::float32;
  return wide;
}

bool has_another_type(const Operand& operand, const Problem& p, const Problem& wide) {
  return is_present(operand, p) && own_type(operand, p) != own_type(operand, wide);
}

std::int64_t bytes_in_float32(const Operand& operand, const Problem& p) {
  return static_cast<std::int64_t>(element_count(operand, p)) *
         static_cast<std::int64_t>(size_of(DType::float32));
}

std::int64_t converted_bytes(const Problem& p) {
  std::int64_t bytes = 0;
  for (const Operand& operand : p.operation->operands) {
    if (has_another_type(operand, p, in_float32(p))) bytes += bytes_in_float32(operand, p);
  }
  return bytes;
}

// One launch, but for gfx906, where each copy is one.
int launches_of(const std::vector<StridedCopy>& copies, const Device& device) {
  if (copies.empty()) return 0;
  return device.info().runs == "hip" ? static_cast<int>(copies.size()) : 1;
}

std::int64_t handed_on_bytes(const Problem& p) {
  const Widths widths = widths_of(p);
  const std::int64_t of_norm = p.gated_norm ? 2 * bytes_of(p, widths.values) : 0;
  return bytes_of(p, widths.channels) + 2 * bytes_of(p, widths.keys) + bytes_of(p, widths.values) +
         of_norm;
}

class LayerBackwardPlan final : public Plan {
 public:
  LayerBackwardPlan(const LayerBackwardMembers& members, const Problem& problem,
                    const Arguments& given, Device& device)
      : device_(device), problem_(problem) {
    const Widths widths = widths_of(problem);
    void* const convolved = allocate(widths.channels);
    Arguments convolution = given.shared_with(members.convolution.description().operation);
    convolution.set_output("conv_output", convolved);
    add(members.convolution, convolution_again(problem), convolution);

    Arguments gradients = given.shared_with(members.recurrence_gradients.description().operation);
    set_views(gradients, convolved);
    if (problem.gated_norm) {
      gradients.set_input("d_output", norm_gradients(members, given, convolved));
    }
    void* const of_q = allocate(widths.keys);
    void* const of_k = allocate(widths.keys);
    void* const of_v = allocate(widths.values);
    gradients.set_output("d_q", of_q);
    gradients.set_output("d_k", of_k);
    gradients.set_output("d_v", of_v);
    const PlanInfo& of_recurrence =
        add(members.recurrence_gradients, recurrence_gradients_of(problem), gradients);
    info_.chunk = of_recurrence.chunk;  // most of the work is there
    copies_behind_ = plans_.size();

    copies_ = {channels_of(of_q, widths.keys, convolved, 0),
               channels_of(of_k, widths.keys, convolved, widths.keys),
               channels_of(of_v, widths.values, convolved, 2 * widths.keys)};
    info_.launches += launches_of(copies_, device);
    Arguments behind = given.shared_with(members.convolution_gradients.description().operation);
    behind.set_input("d_conv_output", convolved);
    add(members.convolution_gradients, convolution_gradients_of(problem), behind);
  }

  const PlanInfo& info() const override { return info_; }
  void run() override {
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      if (i == copies_behind_) device_.enqueue_copies(copies_, device_.native_stream());
      plans_[i]->run();
    }
  }

 private:
  void* allocate(std::int64_t width) {
    const std::int64_t bytes = bytes_of(problem_, width);
    buffers_.push_back(device_.allocate(bytes));
    // A step that reads what the one before never wrote shows.
    device_.fill_async(buffers_.back().data(), 0xff, bytes);
    info_.workspace_bytes += buffers_.back().bytes();
    return buffers_.back().data();
  }

  const PlanInfo& add(const Implementation& step, const Problem& problem,
                      const Arguments& arguments) {
    plans_.push_back(step.plan(problem, arguments, device_));
    const PlanInfo& info = plans_.back()->info();
    info_.workspace_bytes += info.workspace_bytes;
    info_.launches += info.launches;
    info_.choice += (info_.choice.empty() ? "" : "; ") + to_string(problem.operation) + " " +
                    step.description().name + ": " + info.choice;
    return info;
  }

  std::int64_t element() const { return static_cast<std::int64_t>(size_of(problem_.token_dtype)); }

  // q, k and v of a step: channels of the convolution's output.
  void set_views(Arguments& step, const void* convolved) const {
    const Widths widths = widths_of(problem_);
    const char* const begin = static_cast<const char*>(convolved);
    step.set_input("q", begin, widths.channels);
    step.set_input("k", begin + widths.keys * element(), widths.channels);
    step.set_input("v", begin + 2 * widths.keys * element(), widths.channels);
  }

  // Plans the recurrence and the norm's gradients; what is returned will hold the gradient of the
  // recurrence's output.
  void* norm_gradients(const LayerBackwardMembers& members, const Arguments& given,
                       const void* convolved) {
    const Widths widths = widths_of(problem_);
    void* const output = allocate(widths.values);
    void* const d_output = allocate(widths.values);
    Arguments forward = given.shared_with(members.recurrence.description().operation);
    set_views(forward, convolved);
    forward.set_output("output", output);
    add(members.recurrence, recurrence_again(problem_), forward);
    Arguments norm;
    norm.set_input("x", output);
    norm.set_output("d_x", d_output);
    const std::pair<const char*, const char*> operands[] = {
        {"z", "z"},
        {"weight", "norm_weight"},
        {"sequence_offsets", "sequence_offsets"},
        {"d_y", "d_output"},
        {"d_z", "d_z"},
        {"d_weight", "d_norm_weight"}};
    for (const auto& [of_step, of_whole] : operands) norm.set(of_step, given[of_whole]);
    add(members.norm_gradients, norm_gradients_of(problem_), norm);
    return d_output;
  }

  StridedCopy channels_of(const void* from, std::int64_t width, void* convolved,
                          std::int64_t first) const {
    StridedCopy copy;
    copy.from = from;
    copy.to = static_cast<char*>(convolved) + first * element();
    copy.from_type = copy.to_type = own_type(problem_.operation->at("qkv"), problem_);
    copy.rank = 2;
    copy.extents = {problem_.total_tokens(), width};
    copy.from_strides = {width, 1};
    copy.to_strides = {problem_.conv_channels(), 1};
    return copy;
  }

  Device& device_;
  Problem problem_;
  std::vector<DeviceBuffer> buffers_;
  std::vector<StridedCopy> copies_;
  std::size_t copies_behind_ = 0;  // plans that run before them
  std::vector<std::unique_ptr<Plan>> plans_;
  PlanInfo info_;
};

// The call in float32, between copies of those operands that are float16.
class InFloat32Plan final : public Plan {
 public:
  InFloat32Plan(const LayerBackwardMembers& members, const Problem& problem, const Arguments& given,
                Device& device)
      : device_(device), problem_(problem) {
    const Problem wide = in_float32(problem);
    Arguments arguments;
    for (const Operand& operand : problem.operation->operands) {
      if (!given.has(operand.name)) continue;
      if (has_another_type(operand, problem, wide)) {
        convert(operand, given, arguments);
      } else {
        arguments.set(operand.name, given[operand.name]);
      }
    }
    inner_ = std::make_unique<LayerBackwardPlan>(members, wide, arguments, device);
    info_ = inner_->info();
    info_.choice += "; in float32";
    info_.launches += launches_of(before_, device) + launches_of(behind_, device);
    for (const DeviceBuffer& buffer : buffers_) info_.workspace_bytes += buffer.bytes();
  }

  const PlanInfo& info() const override { return info_; }
  void run() override {
    device_.enqueue_copies(before_, device_.native_stream());
    inner_->run();
    device_.enqueue_copies(behind_, device_.native_stream());
  }

 private:
  void convert(const Operand& operand, const Arguments& given, Arguments& arguments) {
    const std::int64_t bytes = bytes_in_float32(operand, problem_);
    buffers_.push_back(device_.allocate(bytes));
    void* const wide = buffers_.back().data();
    device_.fill_async(wide, 0xff, bytes);
    StridedCopy copy = elements_of(operand, given);
    if (operand.is_output()) {
      copy.from = wide;
      copy.to = given.output(operand.name);
      copy.to_type = own_type(operand, problem_);
      arguments.set_output(operand.name, wide);
      behind_.push_back(copy);
    } else {
      copy.from = given.input(operand.name);
      copy.from_type = own_type(operand, problem_);
      copy.to = wide;
      arguments.set_input(operand.name, wide);
      before_.push_back(copy);
    }
  }

  // Of tokens as many as the offsets count when the call runs: what lies behind stays as it is.
  StridedCopy elements_of(const Operand& operand, const Arguments& given) const {
    StridedCopy copy;
    if (cut_of(operand, problem_) != Cut::tokens) {
      copy.rank = 1;
      copy.extents = {static_cast<std::int64_t>(element_count(operand, problem_))};
      copy.from_strides = copy.to_strides = {1};
      return copy;
    }
    const std::int64_t width = elements_per_token(operand, problem_);
    copy.rank = 2;
    copy.extents = {problem_.total_tokens(), width};
    copy.from_strides = copy.to_strides = {width, 1};
    if (!operand.is_output()) copy.from_strides[0] = token_stride_of(operand.name, problem_, given);
    copy.bound = {given.indices("sequence_offsets").word(problem_.num_sequences()), 2};
    copy.bounded_end = 1;
    return copy;
  }

  Device& device_;
  Problem problem_;
  std::vector<DeviceBuffer> buffers_;
  std::vector<StridedCopy> before_, behind_;
  std::unique_ptr<Plan> inner_;
  PlanInfo info_;
};

// What all steps ask for; the rest is that of the recurrence's gradients.
void join(Description& whole, const Description& step) {
  whole.honours = whole.honours + step.honours;
  if (!step.resources.empty() && whole.resources.find(step.resources) == std::string::npos) {
    whole.resources += (whole.resources.empty() ? "" : "; ") + step.resources;
  }
  whole.min_compute_capability =
      std::max(whole.min_compute_capability, step.min_compute_capability);
  whole.exact_compute_capability =
      std::max(whole.exact_compute_capability, step.exact_compute_capability);
  whole.bitwise_repeatable = whole.bitwise_repeatable && step.bitwise_repeatable;
  whole.batch_invariant = whole.batch_invariant && step.batch_invariant;
  whole.aligned.bytes = std::max(whole.aligned.bytes, step.aligned.bytes);
  for (const std::string& name : step.aligned.operands) {
    std::vector<std::string>& names = whole.aligned.operands;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
}

}  // namespace

LayerBackwardImplementation::LayerBackwardImplementation(LayerBackwardMembers members)
    : members_(std::move(members)), description_(members_.recurrence_gradients.description()) {
  const Operation whole = gated_delta_layer_backward_operation();
  description_.operation = whole;
  description_.summary =
      "causal_conv1d again, gated_delta_backward " + description_.name +
      " on views into its result, then causal_conv1d_backward; before them, with the gated norm, "
      "gated_delta again and gated_rms_norm_backward";
  for (const Step& step : steps_of(members_))
    join(description_, step.implementation->description());
  description_.honours = description_.honours + HonouredFields{"gated_norm"};
  description_.gates_in_any_form = members_.recurrence.description().gates_in_any_form &&
                                   members_.recurrence_gradients.description().gates_in_any_form;
  description_.tokens_in_rows = false;
  std::vector<std::string>& aligned = description_.aligned.operands;
  std::erase_if(aligned, [&](const std::string& name) { return whole->find(name) == nullptr; });
  description_.examples = members_.examples;
}

int LayerBackwardImplementation::rank(const Problem& problem) const {
  return members_.recurrence_gradients.rank(recurrence_gradients_of(problem));
}

bool LayerBackwardImplementation::runs_in_float32(const Problem& problem) const {
  return problem.token_dtype == DType::float16 && supports_steps(in_float32(problem));
}

Support LayerBackwardImplementation::supports(const Problem& problem) const {
  return runs_in_float32(problem) ? Support::yes() : supports_steps(problem);
}

Support LayerBackwardImplementation::supports_steps(const Problem& problem) const {
  Support all = Support::yes();
  for_present(members_, problem, [&](const Step& step) {
    if (!all) return;
    const Problem of_step = step.problem(problem);
    all = description_support(step.implementation->description(), of_step);
    if (all) all = step.implementation->supports(of_step);
    if (!all) all.reason = to_string(of_step.operation) + ": " + all.reason;
  });
  return all;
}

std::int64_t LayerBackwardImplementation::workspace_bytes(const Problem& problem) const {
  const bool is_wide = runs_in_float32(problem);
  const Problem run = is_wide ? in_float32(problem) : problem;
  std::int64_t bytes = handed_on_bytes(run) + (is_wide ? converted_bytes(problem) : 0);
  for_present(members_, run, [&](const Step& step) {
    bytes += step.implementation->workspace_bytes(step.problem(run));
  });
  return bytes;
}

std::unique_ptr<Plan> LayerBackwardImplementation::plan(const Problem& problem,
                                                        const Arguments& arguments,
                                                        Device& device) const {
  require_supported(*this, problem);
  if (const Support support = runs_on(*this, device.info()); !support) {
    throw Error(ErrorKind::device_unavailable, support.reason);
  }
  require_operands(problem, arguments);
  if (runs_in_float32(problem)) {
    return std::make_unique<InFloat32Plan>(members_, problem, arguments, device);
  }
  return std::make_unique<LayerBackwardPlan>(members_, problem, arguments, device);
}

}  // namespace gdn
