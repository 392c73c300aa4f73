#include "gated_delta_layer/two_pass.h"

#include "interface/error.h"

namespace gdn {
namespace {

/// The first pass as a problem of its own: what the convolution looks at, the rest at its default.
Problem convolution_problem(const Problem& layer) {
  Problem convolution;
  convolution.operation = Operation::causal_conv1d;
  convolution.num_key_heads = layer.num_key_heads;
  convolution.num_value_heads = layer.num_value_heads;
  convolution.key_head_dim = layer.key_head_dim;
  convolution.value_head_dim = layer.value_head_dim;
  convolution.sequences = layer.sequences;
  convolution.token_dtype = layer.token_dtype;
  convolution.state_dtype = layer.state_dtype;
  convolution.initial_state = layer.initial_state;
  convolution.slots = layer.slots;
  convolution.conv_width = layer.conv_width;
  convolution.conv_bias = layer.conv_bias;
  convolution.activation = layer.activation;
  convolution.conv_layout = layer.conv_layout;
  convolution.conv_state_in_place = layer.conv_state_in_place;
  return convolution;
}

Problem delta_problem(const Problem& layer) {
  Problem delta = layer;
  delta.operation = Operation::gated_delta;
  delta.output_dtype = layer.effective_output_dtype();
  delta.token_dtype = DType::float32;  // the intermediate
  delta.normalize_qk = true;           // always a step of the layer
  return delta;
}

std::int64_t intermediate_bytes(const Problem& layer) {
  return layer.total_tokens() * layer.conv_channels() * static_cast<std::int64_t>(sizeof(float));
}

GatedDeltaArguments views_into(const float* intermediate, const Problem& layer,
                               GatedDeltaArguments arguments) {
  const std::int64_t key_channels = layer.num_key_heads * layer.key_head_dim;
  arguments.query = intermediate;
  arguments.key = intermediate + key_channels;
  arguments.value = intermediate + 2 * key_channels;
  arguments.query_token_stride = layer.conv_channels();
  arguments.key_token_stride = layer.conv_channels();
  arguments.value_token_stride = layer.conv_channels();
  return arguments;
}

class TwoPassPlan final : public Plan {
 public:
  TwoPassPlan(const Implementation& convolution, const Implementation& delta,
              const Problem& problem, const GatedDeltaLayerArguments& arguments, Device& device)
      : intermediate_(device.allocate(intermediate_bytes(problem))) {
    // A second pass that reads what the first never wrote shows.
    device.fill_async(intermediate_.data(), 0xff, intermediate_.bytes());
    CausalConv1dArguments first = arguments.conv;
    first.intermediate = intermediate_.as<float>();
    first_pass_ = convolution.plan(convolution_problem(problem), first, device);
    second_pass_ = delta.plan(delta_problem(problem),
                              views_into(first.intermediate, problem, arguments.delta), device);
    info_ = second_pass_->info();
    info_.workspace_bytes += intermediate_.bytes() + first_pass_->info().workspace_bytes;
    info_.launches += first_pass_->info().launches;
  }

  const PlanInfo& info() const override { return info_; }
  void run() override {
    first_pass_->run();
    second_pass_->run();
  }

 private:
  DeviceBuffer intermediate_;  // [T, channels] float32
  std::unique_ptr<Plan> first_pass_;
  std::unique_ptr<Plan> second_pass_;
  PlanInfo info_;
};

}  // namespace

TwoPassLayer::TwoPassLayer(const Implementation& convolution, const Implementation& delta)
    : convolution_(convolution), delta_(delta), description_(delta.description()) {
  description_.operation = Operation::gated_delta_layer;
  description_.summary = "convolution to a float32 intermediate, then gated_delta " +
                         description_.name + " on views into it";
}

Support TwoPassLayer::supports(const Problem& problem) const {
  if (problem.operation != Operation::gated_delta_layer) {
    return Support::no("does gated_delta_layer, not " + to_string(problem.operation));
  }
  if (Support support = convolution_.supports(convolution_problem(problem)); !support) {
    return support;
  }
  return delta_.supports(delta_problem(problem));
}

std::int64_t TwoPassLayer::workspace_bytes(const Problem& problem) const {
  return intermediate_bytes(problem) + convolution_.workspace_bytes(convolution_problem(problem)) +
         delta_.workspace_bytes(delta_problem(problem));
}

std::unique_ptr<Plan> TwoPassLayer::plan(const Problem& problem, const Arguments& arguments,
                                         Device& device) const {
  require_supported(*this, problem);
  if (const Support support = runs_on(*this, device.info()); !support) {
    throw Error(ErrorKind::device_unavailable, support.reason);
  }
  const auto* layer = std::get_if<GatedDeltaLayerArguments>(&arguments);
  if (layer == nullptr) {
    throw_bad_input(description_.name + ": the arguments are not those of gated_delta_layer");
  }
  return std::make_unique<TwoPassPlan>(convolution_, delta_, problem, *layer, device);
}

}  // namespace gdn
