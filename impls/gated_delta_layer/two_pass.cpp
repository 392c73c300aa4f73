#include "gated_delta_layer/two_pass.h"

#include "interface/error.h"
#include "interface/operations/causal_conv1d.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/gated_delta_layer.h"

namespace gdn {
namespace {

Problem convolution_problem(const Problem& layer) {
  return step_of_layer(layer, causal_conv1d_operation());
}

Problem delta_problem(const Problem& layer) {
  Problem delta = step_of_layer(layer, gated_delta_operation());
  delta.output_dtype = layer.effective_output_dtype();
  delta.token_dtype = DType::float32;  // the intermediate
  delta.normalize_qk = true;           // always a step of the layer
  return delta;
}

std::int64_t intermediate_bytes(const Problem& layer) {
  return layer.total_tokens() * layer.conv_channels() * static_cast<std::int64_t>(sizeof(float));
}

// The second pass reads q, k and v in place, as channels of the intermediate.
Arguments with_views_into(const float* intermediate, const Problem& layer, Arguments arguments) {
  const std::int64_t key_channels = layer.num_key_heads * layer.key_head_dim;
  const std::int64_t stride = layer.conv_channels();
  arguments.set_input("q", intermediate, stride);
  arguments.set_input("k", intermediate + key_channels, stride);
  arguments.set_input("v", intermediate + 2 * key_channels, stride);
  return arguments;
}

class TwoPassPlan final : public Plan {
 public:
  TwoPassPlan(const Implementation& convolution, const Implementation& delta,
              const Problem& problem, const Arguments& arguments, Device& device)
      : intermediate_(device.allocate(intermediate_bytes(problem))) {
    // A second pass that reads what the first never wrote shows.
    device.fill_async(intermediate_.data(), 0xff, intermediate_.bytes());
    Arguments first = arguments.shared_with(causal_conv1d_operation());
    first.set_output("conv_intermediate", intermediate_.data());
    first_pass_ = convolution.plan(convolution_problem(problem), first, device);
    const Arguments second = with_views_into(intermediate_.as<float>(), problem,
                                             arguments.shared_with(gated_delta_operation()));
    second_pass_ = delta.plan(delta_problem(problem), second, device);
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
  description_.operation = gated_delta_layer_operation();
  description_.honours = delta.description().honours + convolution.description().honours;
  description_.examples = {"gated_delta_layer:heads=1/2,dim=64,seq=20+3,h0=normal,dtype=f32",
                           "gated_delta_layer:heads=1/2,dim=64,seq=20+3,dtype=bf16,gate=logits"};
  description_.summary = "convolution to a float32 intermediate, then gated_delta " +
                         description_.name + " on views into it";
}

Support TwoPassLayer::supports(const Problem& problem) const {
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
  require_operands(problem, arguments);
  return std::make_unique<TwoPassPlan>(convolution_, delta_, problem, arguments, device);
}

}  // namespace gdn
