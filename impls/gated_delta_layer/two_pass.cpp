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

DType dtype_between(const Problem& layer, Between between) {
  return between == Between::float32 ? DType::float32 : layer.token_dtype;
}

Problem delta_problem(const Problem& layer, Between between) {
  Problem delta = step_of_layer(layer, gated_delta_operation());
  delta.output_dtype = layer.effective_output_dtype();
  delta.token_dtype = dtype_between(layer, between);
  if (delta.output_dtype == delta.token_dtype) delta.output_dtype.reset();
  delta.normalize_qk = true;  // always a step of the layer
  return delta;
}

std::int64_t intermediate_bytes(const Problem& layer, Between between) {
  return layer.total_tokens() * layer.conv_channels() *
         static_cast<std::int64_t>(size_of(dtype_between(layer, between)));
}

// The second pass reads q, k and v in place, as channels of the intermediate.
Arguments with_views_into(const void* intermediate, DType dtype, const Problem& layer,
                          Arguments arguments) {
  const auto bytes = static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t key_channels = layer.num_key_heads * layer.key_head_dim;
  const std::int64_t stride = layer.conv_channels();
  const auto* channels = static_cast<const char*>(intermediate);
  arguments.set_input("q", channels, stride);
  arguments.set_input("k", channels + key_channels * bytes, stride);
  arguments.set_input("v", channels + 2 * key_channels * bytes, stride);
  return arguments;
}

class TwoPassPlan final : public Plan {
 public:
  TwoPassPlan(const Implementation& convolution, const Implementation& delta, Between between,
              const Problem& problem, const Arguments& arguments, Device& device) {
    Arguments first = arguments.shared_with(causal_conv1d_operation());
    const void* intermediate = arguments.output("conv_output");
    if (between == Between::float32 || intermediate == nullptr) {
      intermediate_ = device.allocate(intermediate_bytes(problem, between));
      // A second pass that reads what the first never wrote shows.
      device.fill_async(intermediate_.data(), 0xff, intermediate_.bytes());
      intermediate = intermediate_.data();
      first.set_output(between == Between::float32 ? "conv_intermediate" : "conv_output",
                       intermediate_.data());
    }
    first_pass_ = convolution.plan(convolution_problem(problem), first, device);
    const Arguments second = with_views_into(intermediate, dtype_between(problem, between), problem,
                                             arguments.shared_with(gated_delta_operation()));
    second_pass_ = delta.plan(delta_problem(problem, between), second, device);
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
  DeviceBuffer intermediate_;  // [T, channels]; none where conv_output is it
  std::unique_ptr<Plan> first_pass_;
  std::unique_ptr<Plan> second_pass_;
  PlanInfo info_;
};

}  // namespace

TwoPassLayer::TwoPassLayer(const Implementation& convolution, const Implementation& delta,
                           Between between)
    : convolution_(convolution),
      delta_(delta),
      between_(between),
      description_(delta.description()) {
  description_.operation = gated_delta_layer_operation();
  description_.honours = delta.description().honours + convolution.description().honours;
  if (between == Between::float32) {
    description_.examples = {"gated_delta_layer:heads=1/2,dim=64,seq=20+3,h0=normal,dtype=f32",
                             "gated_delta_layer:heads=1/2,dim=64,seq=20+3,dtype=bf16,gate=logits"};
    description_.summary = "convolution to a float32 intermediate, then gated_delta " +
                           description_.name + " on views into it";
  } else {
    description_.examples = {"gated_delta_layer:heads=1/2,dim=128,seq=70+3,h0=normal,dtype=bf16",
                             "gated_delta_layer:heads=1/2,dim=128,seq=20+3,dtype=f16,gate=logits"};
    description_.summary = "convolution to an intermediate in the token dtype, then gated_delta " +
                           description_.name + " on views into it";
  }
}

Support TwoPassLayer::supports(const Problem& problem) const {
  if (Support support = convolution_.supports(convolution_problem(problem)); !support) {
    return support;
  }
  if (between_ == Between::token_dtype && problem.conv_layout != ConvLayout::channels) {
    return Support::no(
        "conv_layout=time: what is handed on in the token dtype has tokens outermost");
  }
  return delta_.supports(delta_problem(problem, between_));
}

std::int64_t TwoPassLayer::workspace_bytes(const Problem& problem) const {
  return intermediate_bytes(problem, between_) +
         convolution_.workspace_bytes(convolution_problem(problem)) +
         delta_.workspace_bytes(delta_problem(problem, between_));
}

std::unique_ptr<Plan> TwoPassLayer::plan(const Problem& problem, const Arguments& arguments,
                                         Device& device) const {
  require_supported(*this, problem);
  if (const Support support = runs_on(*this, device.info()); !support) {
    throw Error(ErrorKind::device_unavailable, support.reason);
  }
  require_operands(problem, arguments);
  return std::make_unique<TwoPassPlan>(convolution_, delta_, between_, problem, arguments, device);
}

}  // namespace gdn
