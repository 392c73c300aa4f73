#include <utility>

#include "cuda/causal_conv1d/conv.cuh"
#include "cuda/gated_delta_layer/two_pass.h"
#include "cuda/launch_plan.h"
#include "cuda/require.h"

namespace gdn::cuda {
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

std::int64_t window_bytes(const Problem& layer) {
  return layer.num_pool_rows() * layer.conv_channels() * (layer.conv_width - 1) *
         static_cast<std::int64_t>(size_of(layer.state_dtype));
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

/// The caller's copy of the convolution must not move the window a second time: it is made first,
/// its windows written to a scratch pool that nothing reads.
class TwoPassPlan final : public Plan {
 public:
  TwoPassPlan(const Implementation& delta, const Problem& problem,
              const GatedDeltaLayerArguments& arguments, Device& device)
      : device_index_(device_index(device)),
        stream_(static_cast<cudaStream_t>(device.native_stream())),
        intermediate_(device.allocate(intermediate_bytes(problem))) {
    conv_ = make_conv_params(problem, arguments.conv);
    if (conv_.output != nullptr) {
      require_pointer(conv_.output, static_cast<std::int64_t>(size_of(conv_.output_dtype)),
                      "conv_output");
      requested_ = conv_;
      scratch_windows_ = device.allocate(window_bytes(problem));
      requested_.window_out = scratch_windows_.data();
    }
    conv_.output = intermediate_.data();
    conv_.output_dtype = DType::float32;
    conv_.output_layout = ConvLayout::channels;
    second_pass_ =
        delta.plan(delta_problem(problem),
                   delta_arguments(problem, arguments.delta, intermediate_.as<float>()), device);
    info_ = second_pass_->info();
    info_.workspace_bytes += intermediate_.bytes() + scratch_windows_.bytes();
    info_.launches += requested_.output != nullptr ? 2 : 1;
  }

  const PlanInfo& info() const override { return info_; }

  void run() override {
    GDN_CUDA_CHECK(cudaSetDevice(device_index_));
    if (requested_.output != nullptr) enqueue_causal_conv1d(requested_, stream_);
    enqueue_causal_conv1d(conv_, stream_);
    second_pass_->run();
  }

 private:
  int device_index_;
  cudaStream_t stream_;
  DeviceBuffer intermediate_;  // [T, channels] float32
  DeviceBuffer scratch_windows_;
  ConvParams conv_;
  ConvParams requested_;  // output null: the caller wants no copy
  std::unique_ptr<Plan> second_pass_;
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
  if (problem.operation != Operation::gated_delta_layer)
    return Support::no("only gated_delta_layer");
  return delta_.supports(delta_problem(problem));
}

std::int64_t TwoPassLayer::workspace_bytes(const Problem& problem) const {
  return intermediate_bytes(problem) + window_bytes(problem) +
         delta_.workspace_bytes(delta_problem(problem));
}

std::unique_ptr<Plan> TwoPassLayer::plan(const Problem& problem, const Arguments& arguments,
                                         Device& device) const {
  require_runnable(*this, problem, device);
  const auto* layer = std::get_if<GatedDeltaLayerArguments>(&arguments);
  if (layer == nullptr) throw_bad_input("arguments: those of gated_delta_layer are expected");
  return std::make_unique<TwoPassPlan>(delta_, problem, *layer, device);
}

}  // namespace gdn::cuda
