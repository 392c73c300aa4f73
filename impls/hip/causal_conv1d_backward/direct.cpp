// Plans hip/direct of causal_conv1d_backward (direct.hip).
#include <algorithm>

#include "hip/causal_conv1d_backward/params.h"
#include "hip/dtype.h"
#include "hip/kernel_launcher.h"
#include "interface/operations/causal_conv1d_backward.h"
#include "interface/operations/convolution_operands.h"

namespace gdn::hip {
namespace {

constexpr std::int64_t kManyWaves = 960;  ///< four for each SIMD of an MI50's 60 CUs
constexpr int kLongestRun = 7, kShortestRun = 5;
constexpr std::int64_t kNarrowWidth = 4;  ///< kernels are for widths up to it, and for all

/// How tokens are cut into tiles, and tiles into groups, which leave a partial sum each.
struct Shape {
  std::int64_t channel_blocks;
  std::int32_t run_log2 = kLongestRun;
  std::int64_t tiles_per_group = 1;
  std::int64_t groups = 1;

  explicit Shape(const Problem& p)
      : channel_blocks((p.conv_channels() + kConvGradientChannels - 1) / kConvGradientChannels) {
    const auto tiles = [&] { return (p.total_tokens() >> run_log2) + p.num_sequences(); };
    // Longer tiles read less of their neighbours, shorter ones fill a card.
    while (run_log2 > kShortestRun && tiles() * channel_blocks < kManyWaves) --run_log2;
    const std::int64_t most_groups = std::max<std::int64_t>(4 * kManyWaves / channel_blocks, 1);
    tiles_per_group = std::max<std::int64_t>((tiles() + most_groups - 1) / most_groups, 1);
    groups = (tiles() + tiles_per_group - 1) / tiles_per_group;
  }
  std::int64_t workspace_bytes(const Problem& p) const {
    return groups * (p.conv_width + 1) * p.conv_channels() *
           static_cast<std::int64_t>(sizeof(float));
  }
};

ConvGradientParams make_gradient_params(const Problem& problem,
                                        const CausalConv1dBackwardArguments& arguments,
                                        const Shape& shape, float* partial_sums) {
  const bool by_channels = problem.conv_layout == ConvLayout::channels;
  const WindowStrides strides = window_strides(problem);
  ConvGradientParams p{};
  p.input = arguments.forward.input;
  p.d_output = arguments.d_output;
  p.d_input = arguments.d_input;
  p.weight = arguments.forward.weight;
  p.bias = problem.conv_bias ? arguments.forward.bias : nullptr;
  p.sequence_offsets = arguments.forward.sequence_offsets;
  p.slot_index = arguments.forward.slot_index;
  p.has_window = arguments.forward.has_window;
  p.window = arguments.forward.state_in;
  p.d_final = arguments.d_final_window;
  p.d_initial = arguments.d_initial_window;
  p.d_weight = arguments.d_weight;
  p.d_bias = problem.conv_bias ? arguments.d_bias : nullptr;
  p.partial_sums = partial_sums;
  p.channels = problem.conv_channels();
  p.input_token_stride = by_channels ? arguments.forward.input_token_stride : 1;
  p.d_output_token_stride = by_channels ? arguments.d_output_token_stride : 1;
  p.d_input_token_stride = by_channels ? p.channels : 1;
  p.channel_stride = by_channels ? 1 : problem.total_tokens();
  p.window_row_stride = strides.row;
  p.window_channel_stride = strides.channel;
  p.window_place_stride = strides.place;
  p.num_sequences = static_cast<std::int32_t>(problem.num_sequences());
  p.width = static_cast<std::int32_t>(problem.conv_width);
  p.run_log2 = shape.run_log2;
  p.tiles_per_group = static_cast<std::int32_t>(shape.tiles_per_group);
  p.groups = static_cast<std::int32_t>(shape.groups);
  p.silu = problem.activation == Activation::silu ? 1 : 0;
  p.residual = problem.conv_residual == ConvResidual::input ? 1 : 0;
  p.weight_element = element_of(problem.effective_conv_weight_dtype());
  p.window_element = element_of(problem.state_dtype);
  return p;
}

class DirectGradients final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "hip/direct",
        .operation = causal_conv1d_backward_operation(),
        .honours = {"channels", "slots", "pool_rows", "state", "width", "bias", "act", "residual",
                    "weights", "conv_layout", "window_layout", "window", "fresh"},
        .backend = "hip",
        .form = "direct",
        .summary =
            "tokens in tiles, a channel per lane, sums of weights by a second launch; bound "
            "by memory traffic",
        .resources = "gfx906",
        .rank = 10,
        .examples = {"causal_conv1d_backward:channels=132,seq=20+3,dtype=f32",
                     "causal_conv1d_backward:channels=131,seq=70+2+0+1,dtype=bf16,width=3,bias=1",
                     "causal_conv1d_backward:channels=36,seq=9+1,dtype=bf16,window=none",
                     "causal_conv1d_backward:channels=36,seq=9+1,dtype=bf16,window=read,width=9",
                     "causal_conv1d_backward:channels=36,seq=9+1,dtype=bf16,window=written,"
                     "residual=1",
                     "causal_conv1d_backward:channels=36,seq=9+2+5+0,dtype=f16,fresh=1,weights=f32",
                     "causal_conv1d_backward:channels=131,seq=70+2+1,dtype=bf16,slots=padding,"
                     "window_layout=channels,conv_layout=time"}};
    return description;
  }
  Support supports(const Problem&) const override { return Support::yes(); }
  std::int64_t workspace_bytes(const Problem& problem) const override {
    return Shape(problem).workspace_bytes(problem);
  }
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    const CausalConv1dBackwardArguments given =
        causal_conv1d_backward_arguments(problem, arguments);
    const Shape shape(problem);
    std::vector<DeviceBuffer> workspaces;
    workspaces.push_back(device.allocate(shape.workspace_bytes(problem)));
    const ConvGradientParams params =
        make_gradient_params(problem, given, shape, workspaces.back().as<float>());
    const Extent grid{static_cast<std::uint32_t>(shape.channel_blocks),
                      static_cast<std::uint32_t>(shape.groups), 1};
    const Extent sums_grid{grid.x, static_cast<std::uint32_t>(problem.conv_width + 1), 1};
    const std::string kernel =
        std::string(problem.conv_width <= kNarrowWidth ? "conv_gradients_4_"
                                                       : "conv_gradients_15_") +
        short_name(problem.token_dtype);
    PlanInfo info;
    info.launches = grid.y > 0 ? 2 : 1;
    info.choice = "tiles of " + std::to_string(1 << shape.run_log2) + " tokens";
    return std::make_unique<LaunchPlan>(
        device, info, std::move(workspaces),
        [params, grid, sums_grid, kernel](KernelLauncher& launcher) {
          if (grid.y > 0)
            launcher.launch(kernel, grid, {kConvGradientChannels, 1, 1}, &params, sizeof(params));
          launcher.launch("conv_gradient_sums", sums_grid,
                          {kConvGradientChannels * kConvGradientSumRows, 1, 1}, &params,
                          sizeof(params));
        });
  }
};

}  // namespace

const Implementation& causal_conv1d_backward_direct() {
  static const DirectGradients implementation;
  return implementation;
}

}  // namespace gdn::hip
