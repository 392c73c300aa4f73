#include "cpu/gated_delta_layer/two_pass.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "cpu/causal_conv1d/convolution.h"
#include "cpu/parallel.h"
#include "interface/error.h"

namespace gdn::cpu {
namespace {

/// The second pass as a problem of its own.
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

std::vector<ConvolutionOutput> conv_outputs(const Problem& problem, void* intermediate,
                                            void* requested) {
  std::vector<ConvolutionOutput> outputs = {{intermediate, DType::float32, ConvLayout::channels}};
  if (requested != nullptr) {
    outputs.push_back({requested, problem.token_dtype, problem.conv_layout});
  }
  return outputs;
}

GatedDeltaArguments delta_arguments(const Problem& problem, GatedDeltaArguments arguments,
                                    const float* intermediate) {
  const std::int64_t key_channels = problem.num_key_heads * problem.key_head_dim;
  arguments.query = intermediate;
  arguments.key = intermediate + key_channels;
  arguments.value = intermediate + 2 * key_channels;
  arguments.query_token_stride = problem.conv_channels();
  arguments.key_token_stride = problem.conv_channels();
  arguments.value_token_stride = problem.conv_channels();
  return arguments;
}

class TwoPassPlan final : public Plan {
 public:
  TwoPassPlan(const Implementation& delta, const Problem& problem,
              const GatedDeltaLayerArguments& arguments, Device& device)
      : intermediate_(device.allocate(intermediate_bytes(problem))),
        convolution_(problem, arguments.conv,
                     conv_outputs(problem, intermediate_.data(), arguments.conv.output)),
        workers_(
            static_cast<int>(std::min<std::int64_t>(thread_count(), convolution_.num_items()))),
        worker_floats_(Convolution::workspace_floats(problem)) {
    const std::int64_t conv_bytes =
        worker_floats_ * workers_ * static_cast<std::int64_t>(sizeof(float));
    workspace_ = device.allocate(conv_bytes);
    second_pass_ =
        delta.plan(delta_problem(problem),
                   delta_arguments(problem, arguments.delta, intermediate_.as<float>()), device);
    info_ = second_pass_->info();
    info_.workspace_bytes += intermediate_.bytes() + conv_bytes;
    info_.launches += 1;
    body_ = [this](std::int64_t item, int worker) {
      convolution_.run_item(item, workspace_.as<float>() + worker * worker_floats_);
    };
  }

  const PlanInfo& info() const override { return info_; }
  void run() override {
    parallel_for(convolution_.num_items(), workers_, body_);
    second_pass_->run();
  }

 private:
  DeviceBuffer intermediate_;  // [T, channels] float32
  Convolution convolution_;
  int workers_;
  std::int64_t worker_floats_;
  DeviceBuffer workspace_;
  std::unique_ptr<Plan> second_pass_;
  PlanInfo info_;
  std::function<void(std::int64_t, int)> body_;
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
    return Support::no("does gated_delta_layer, not " + to_string(problem.operation));
  }
  return delta_.supports(delta_problem(problem));
}

std::int64_t TwoPassLayer::workspace_bytes(const Problem& problem) const {
  return intermediate_bytes(problem) +
         Convolution::workspace_floats(problem) * thread_count() *
             static_cast<std::int64_t>(sizeof(float)) +
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
  return std::make_unique<TwoPassPlan>(delta_, problem, *layer, device);
}

}  // namespace gdn::cpu
