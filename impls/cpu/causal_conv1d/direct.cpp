// cpu/direct: the causal convolution as its definition says, a sum of `width` products per channel
// and token, vectorised over channels (time-fastest inputs are transposed tile by tile). Threads
// over (sequence, block of 64 channels). Bound by memory for wide tokens, by exp with SiLU.
#include <algorithm>
#include <functional>

#include "cpu/causal_conv1d/convolution.h"
#include "cpu/parallel.h"
#include "interface/error.h"
#include "interface/implementation.h"
#include "interface/operations/causal_conv1d.h"
#include "interface/operations/convolution_operands.h"

namespace gdn::cpu {
namespace {

// The caller's rounded output, the float32 one for a second pass, or both.
std::vector<ConvolutionOutput> outputs_of(const Problem& problem,
                                          const CausalConv1dArguments& arguments) {
  std::vector<ConvolutionOutput> outputs;
  if (arguments.intermediate != nullptr) {
    outputs.push_back({arguments.intermediate, DType::float32, ConvLayout::channels});
  }
  if (arguments.output != nullptr || outputs.empty()) {
    outputs.push_back(
        {arguments.output, problem.token_dtype, problem.conv_layout, arguments.output_rows});
  }
  return outputs;
}

class DirectPlan final : public Plan {
 public:
  DirectPlan(const Problem& problem, const CausalConv1dArguments& arguments, Device& device)
      : convolution_(problem, arguments, outputs_of(problem, arguments)),
        workers_(
            static_cast<int>(std::min<std::int64_t>(thread_count(), convolution_.num_items()))),
        worker_floats_(Convolution::workspace_floats(problem)) {
    info_.workspace_bytes = worker_floats_ * workers_ * static_cast<std::int64_t>(sizeof(float));
    info_.launches = 1;
    info_.choice = "isa=" + to_string(instruction_set()) + " threads=" + std::to_string(workers_);
    workspace_ = device.allocate(info_.workspace_bytes);
    body_ = [this](std::int64_t item, int worker) {
      convolution_.run_item(item, workspace_.as<float>() + worker * worker_floats_);
    };
  }
  const PlanInfo& info() const override { return info_; }
  void run() override { parallel_for(convolution_.num_items(), workers_, body_); }

 private:
  Convolution convolution_;
  int workers_;
  std::int64_t worker_floats_;
  PlanInfo info_;
  DeviceBuffer workspace_;
  std::function<void(std::int64_t, int)> body_;
};

class Direct final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "cpu/direct",
        .operation = causal_conv1d_operation(),
        .honours = convolution_options() + convolution_window_options() +
                   HonouredFields{"channels", "residual", "weights", "window_order", "checkpoints"},
        .tokens_in_rows = true,
        .backend = "cpu",
        .form = "direct",
        .summary =
            "width products per channel and token, vectorised over channels; bound by "
            "memory, with SiLU by exp",
        .resources = "any CPU",
        .rank = 10,
        .examples = {"causal_conv1d:heads=1/2,dim=64,seq=20+3,dtype=f32",
                     "causal_conv1d:heads=1/2,dim=16,seq=9+1,dtype=bf16,width=3,bias=1",
                     "causal_conv1d:channels=131,seq=20+3,dtype=bf16",
                     "causal_conv1d:heads=1/2,dim=16,seq=9+1,dtype=bf16,window=written",
                     "causal_conv1d:heads=1/2,dim=16,seq=9+1,dtype=bf16,window=read",
                     "causal_conv1d:heads=1/2,dim=16,seq=9+1,dtype=bf16,window=none",
                     "causal_conv1d:heads=1/2,dim=16,seq=9+1,dtype=bf16,window_layout=channels",
                     "causal_conv1d:heads=1/2,dim=16,seq=9+1,dtype=bf16,window_length=7",
                     "causal_conv1d:heads=1/2,dim=16,seq=9+2+5+0,dtype=bf16,fresh=1",
                     "causal_conv1d:heads=1/2,dim=16,seq=9+2+0+1,dtype=bf16,window_order=ring",
                     "causal_conv1d:channels=131,seq=70+2+1,dtype=bf16,window_order=ring,"
                     "window_length=7,window_layout=channels,slots=padding",
                     "causal_conv1d:channels=36,seq=5x4,dtype=f16,window_order=ring,"
                     "window_length=11,slots=permuted,conv_layout=time",
                     "causal_conv1d:heads=1/2,dim=16,seq=9+1,dtype=bf16,residual=1",
                     "causal_conv1d:channels=36,seq=70+2+0+1,dtype=bf16,residual=tensor",
                     "causal_conv1d:channels=131,seq=70+2+0+1,dtype=f16,bias=1,residual=tensor,"
                     "conv_layout=time,slots=padding",
                     "causal_conv1d:heads=1/2,dim=16,seq=9+1,dtype=bf16,bias=1,weights=f32",
                     "causal_conv1d:channels=131,seq=70+1,dtype=f16,bias=1,width=3,weights=f32",
                     "causal_conv1d:channels=36,seq=20+3,dtype=bf16,bias=1,width=9,weights=f32,"
                     "conv_layout=time",
                     "causal_conv1d:channels=36,seq=20+3+0+9,dtype=bf16,slots=padding,"
                     "checkpoints=3",
                     "causal_conv1d:channels=131,seq=70+2+1,dtype=f16,window_order=ring,"
                     "window_length=7,slots=permuted,conv_layout=time,checkpoints=2"}};
    return description;
  }
  Support supports(const Problem&) const override { return Support::yes(); }
  std::int64_t workspace_bytes(const Problem& problem) const override {
    return Convolution::workspace_floats(problem) * thread_count() *
           static_cast<std::int64_t>(sizeof(float));
  }
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_supported(*this, problem);
    if (const Support support = runs_on(*this, device.info()); !support) {
      throw Error(ErrorKind::device_unavailable, support.reason);
    }
    return std::make_unique<DirectPlan>(problem, causal_conv1d_arguments(problem, arguments),
                                        device);
  }
};

}  // namespace

const Implementation& causal_conv1d_direct() {
  static const Direct implementation;
  return implementation;
}

}  // namespace gdn::cpu
