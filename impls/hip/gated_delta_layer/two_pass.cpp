#include "hip/gated_delta_layer/two_pass.h"

#include <utility>

#include "hip/causal_conv1d/convolution.h"
#include "interface/error.h"

namespace gdn::hip {
namespace {

/// The second pass as a problem of its own.
Problem delta_problem(const Problem& layer) {
  Problem delta = layer;
  delta.operation = Operation::gated_delta;
  delta.output_dtype = layer.effective_output_dtype();
  delta.token_dtype = DType::float32;
  delta.normalize_qk = true;  // always a step of the layer
  return delta;
}

std::int64_t intermediate_bytes(const Problem& layer) {
  return layer.total_tokens() * layer.conv_channels() * static_cast<std::int64_t>(sizeof(float));
}

class TwoPassPlan final : public Plan {
 public:
  TwoPassPlan(const Implementation& delta, const Problem& problem,
              const GatedDeltaLayerArguments& arguments, Device& device) {
    std::vector<DeviceBuffer> workspaces;
    workspaces.push_back(device.allocate(intermediate_bytes(problem)));
    auto* const intermediate = workspaces.front().as<float>();
    const std::int64_t key_channels = problem.num_key_heads * problem.key_head_dim;
    GatedDeltaArguments views = arguments.delta;
    views.query = intermediate;
    views.key = intermediate + key_channels;
    views.value = intermediate + 2 * key_channels;
    views.query_token_stride = problem.conv_channels();
    views.key_token_stride = problem.conv_channels();
    views.value_token_stride = problem.conv_channels();
    second_ = delta.plan(delta_problem(problem), views, device);
    first_ = std::make_unique<LaunchPlan>(device, PlanInfo{}, std::move(workspaces),
                                          convolution(problem, arguments.conv, intermediate));
    info_ = second_->info();
    info_.workspace_bytes += first_->info().workspace_bytes;
    info_.launches += kConvLaunches;
  }
  const PlanInfo& info() const override { return info_; }
  void run() override {
    first_->run();
    second_->run();
  }

 private:
  std::unique_ptr<Plan> first_;
  std::unique_ptr<Plan> second_;
  PlanInfo info_;
};

}  // namespace

TwoPassLayer::TwoPassLayer(const Implementation& delta)
    : delta_(delta), description_(delta.description()) {
  description_.operation = Operation::gated_delta_layer;
  description_.summary = "convolution to a float32 intermediate, then gated_delta " +
                         description_.name + " on views into it";
}

Support TwoPassLayer::supports(const Problem& problem) const {
  if (problem.operation != Operation::gated_delta_layer) {
    return Support::no("only gated_delta_layer");
  }
  return delta_.supports(delta_problem(problem));
}

std::int64_t TwoPassLayer::workspace_bytes(const Problem& problem) const {
  return intermediate_bytes(problem) + delta_.workspace_bytes(delta_problem(problem));
}

std::unique_ptr<Plan> TwoPassLayer::plan(const Problem& problem, const Arguments& arguments,
                                         Device& device) const {
  require_runnable(*this, problem, device);
  const auto* given = std::get_if<GatedDeltaLayerArguments>(&arguments);
  if (given == nullptr) throw_bad_input("arguments: those of gated_delta_layer are expected");
  return std::make_unique<TwoPassPlan>(delta_, problem, *given, device);
}

}  // namespace gdn::hip
