// cuda/direct: causal_conv1d as one kernel; conv.cu says how it works and what bounds it. And a layer's form of
// it, which divides queries and keys by their lengths before it hands them on.
#include <utility>

#include "cuda/causal_conv1d/conv.cuh"
#include "cuda/launch_plan.h"
#include "cuda/target.h"
#include "interface/operations/causal_conv1d.h"
#include "interface/operations/convolution_operands.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

constexpr float kLengthEpsilon = 1e-6f;  // docs/contract.md, section 1.1: norm

class Direct final : public Implementation {
 public:
  /// `normalizes`: conv_output's first 2 Hk heads of Dk channels are divided by their lengths, of problems that
  /// can_normalize_heads().
  explicit Direct(bool normalizes) : normalizes_(normalizes) {}

  const Description& description() const override {
    static const Description description = {
        .name = "cuda/direct",
        .operation = causal_conv1d_operation(),
        .honours = convolution_options() + convolution_window_options() +
                   HonouredFields{"channels", "residual", "weights", "window_order", "checkpoints"},
        .tokens_in_rows = true,
        .backend = "cuda",
        .form = "direct",
        .summary = "tokens in tiles, four channels per thread; bound by device memory",
        .resources = "",
        .min_compute_capability = 80,
        .rank = 10,
        .examples = {"causal_conv1d:heads=1/2,dim=64,seq=20+3,dtype=f32",
                     "causal_conv1d:heads=1/2,dim=16,seq=9+1,dtype=bf16,width=3,bias=1",
                     "causal_conv1d:channels=131,seq=20+3,dtype=bf16",
                     "causal_conv1d:channels=136,seq=1+2+0+1+1,dtype=bf16,slots=padding",
                     "causal_conv1d:channels=136,seq=1+3+1+1,dtype=f16,state=f16,bias=1",
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

  std::int64_t workspace_bytes(const Problem&) const override { return 0; }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    const CausalConv1dArguments given = causal_conv1d_arguments(problem, arguments);
    const AddingConvParams rounded = make_conv_params(problem, given);
    PlanInfo info;
    info.choice = problem.conv_layout == ConvLayout::time ? "time fastest" : "channels fastest";
    std::vector<AddingConvParams> launches;
    if (given.intermediate == nullptr || rounded.output != nullptr) launches.push_back(rounded);
    if (given.intermediate != nullptr) {
      // Only the last of two launches may move the window.
      if (!launches.empty()) launches.front().window_out = nullptr;
      AddingConvParams wide = rounded;
      wide.output = given.intermediate;
      wide.output_dtype = DType::float32;
      wide.output_layout = ConvLayout::channels;
      launches.push_back(wide);
    }
    NormalizedHeads heads;
    if (normalizes_) {
      heads = {2 * problem.num_key_heads * problem.key_head_dim, kLengthEpsilon};
    }
    const CheckpointWindows windows = {given.checkpoint_tokens, given.checkpoint_windows,
                                       problem.checkpoints};
    info.launches = static_cast<int>(launches.size()) + (windows.data != nullptr ? 1 : 0);
    return std::make_unique<LaunchPlan>(
        device, info, std::vector<DeviceBuffer>{}, [launches, heads, windows](cudaStream_t stream) {
          if (windows.data != nullptr) enqueue_checkpoint_windows(launches.back(), windows, stream);
          for (const AddingConvParams& params : launches)
            enqueue_causal_conv1d(params, stream, heads);
        });
  }

 private:
  bool normalizes_;
};

}  // namespace

const Implementation& causal_conv1d_direct() {
  static const Direct implementation(false);
  return implementation;
}

const Implementation& causal_conv1d_direct_normalizing() {
  static const Direct implementation(true);
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
