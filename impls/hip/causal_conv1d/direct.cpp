// Plans hip/direct (direct.hip).
#include <algorithm>

#include "hip/causal_conv1d/params.h"
#include "hip/dtype.h"
#include "hip/kernel_launcher.h"
#include "interface/operations/causal_conv1d.h"
#include "interface/operations/convolution_operands.h"

namespace gdn::hip {
namespace {

LaunchPlan::Enqueue launches_of(const Problem& problem, const CausalConv1dArguments& arguments) {
  ConvParams params{};
  params.input = arguments.input;
  params.weight = arguments.weight;
  params.bias = problem.conv_bias ? arguments.bias : nullptr;
  params.sequence_offsets = arguments.sequence_offsets;
  params.slot_index = arguments.slot_index;
  params.has_window = arguments.has_window;
  params.window_position = arguments.window_position;
  params.checkpoint_tokens = arguments.checkpoint_tokens;
  params.checkpoint_windows = arguments.checkpoint_windows;
  params.checkpoints = static_cast<std::int32_t>(problem.checkpoints);
  params.state_in = arguments.state_in;
  params.state_out = arguments.state_out;
  const bool of_input = problem.conv_residual == ConvResidual::input;
  params.residual = of_input ? arguments.input : arguments.residual;
  params.residual_token_stride =
      of_input ? arguments.input_token_stride : arguments.residual_token_stride;
  params.output = arguments.output;
  params.intermediate = arguments.intermediate;
  params.tokens = problem.total_tokens();
  params.channels = problem.conv_channels();
  params.input_token_stride = arguments.input_token_stride;
  const WindowStrides strides = window_strides(problem);
  params.window_places = static_cast<std::int32_t>(problem.window_places());
  params.window_row_stride = strides.row;
  params.window_channel_stride = strides.channel;
  params.window_place_stride = strides.place;
  // As many tiles as the longest planned sequence has; a longer one is strided over.
  const std::int64_t longest = std::max<std::int64_t>(1, problem.sequences.longest());
  params.token_tiles = static_cast<std::int32_t>((longest + kConvTileTokens - 1) / kConvTileTokens);
  params.width = static_cast<std::int32_t>(problem.conv_width);
  params.silu = problem.activation == Activation::silu ? 1 : 0;
  params.time_fastest = problem.conv_layout == ConvLayout::time ? 1 : 0;
  params.in_place = arguments.state_in == arguments.state_out ? 1 : 0;
  params.token_element = element_of(problem.token_dtype);
  params.state_element = element_of(problem.state_dtype);
  const auto sequences = static_cast<std::uint32_t>(problem.num_sequences());
  const auto tiles = [&](std::int64_t tile) {
    return static_cast<std::uint32_t>((params.channels + tile - 1) / tile);
  };
  const Extent output_grid{tiles(kConvTileChannels), static_cast<std::uint32_t>(params.token_tiles),
                           sequences};
  const Extent window_grid{tiles(256), 1, sequences};
  const Extent checkpoint_grid{tiles(256), static_cast<std::uint32_t>(params.checkpoints),
                               sequences};
  const std::string suffix = short_name(problem.token_dtype);
  const DType weights = problem.effective_conv_weight_dtype();
  const std::string outputs =
      (params.residual != nullptr ? "conv_residual_" : "conv_outputs_") + suffix +
      (weights == problem.token_dtype ? "" : "_weights_" + short_name(weights));
  return [params, output_grid, window_grid, checkpoint_grid, outputs,
          suffix](KernelLauncher& launcher) {
    launcher.launch(outputs, output_grid, {256, 1, 1}, &params, sizeof(params));
    if (params.checkpoint_windows != nullptr) {
      launcher.launch("conv_checkpoints_" + suffix, checkpoint_grid, {256, 1, 1}, &params,
                      sizeof(params));
    }
    if (params.state_out == nullptr) return;
    launcher.launch("conv_windows_" + suffix, window_grid, {256, 1, 1}, &params, sizeof(params));
  };
}

class Direct final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "hip/direct",
        .operation = causal_conv1d_operation(),
        .honours = convolution_options() + convolution_window_options() +
                   HonouredFields{"channels", "residual", "weights", "window_order", "checkpoints"},
        .backend = "hip",
        .form = "direct",
        .summary = "width products per channel and token; bound by memory traffic",
        .resources = "gfx906",
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
  std::int64_t workspace_bytes(const Problem&) const override { return 0; }
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    const CausalConv1dArguments given = causal_conv1d_arguments(problem, arguments);
    PlanInfo info;
    // Outputs, then windows inside the call, then those that it leaves.
    info.launches =
        1 + (given.checkpoint_windows != nullptr ? 1 : 0) + (given.state_out != nullptr ? 1 : 0);
    info.choice = "tile=64x64";
    return std::make_unique<LaunchPlan>(device, info, std::vector<DeviceBuffer>{},
                                        launches_of(problem, given));
  }
};

}  // namespace

const Implementation& causal_conv1d_direct() {
  static const Direct implementation;
  return implementation;
}

}  // namespace gdn::hip
