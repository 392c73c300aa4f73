// causal_conv1d_backward in the harness: its inputs, its work, its problems, its identity.
#include "interface/operations/causal_conv1d_backward.h"

#include <cmath>

#include "harness/inputs/draw.h"
#include "harness/inputs/draw_convolution.h"
#include "harness/operations/active_work.h"
#include "harness/operations/operation_harness.h"
#include "harness/operations/problem_texts.h"
#include "interface/operations/convolution_operands.h"

namespace gdn {
namespace {

// As causal_conv1d; d_conv_output and d_final_window are N(0, 1).
void draw(Case& c) {
  const Problem& p = c.problem;
  draw_convolution(c);
  if (!p.reads_conv_window()) c.arrays.erase("conv_state");
  const std::int64_t channels = p.conv_channels();
  const bool by_time = p.conv_layout == ConvLayout::time;
  const std::int64_t rows = by_time ? channels : p.total_tokens();
  const std::int64_t width = by_time ? p.total_tokens() : channels;
  c["d_conv_output"] =
      normal_rows(CounterStream(p.seed, "d_conv_output"), rows, width, width, 1, p.token_dtype);
  if (!p.writes_conv_window()) return;
  const std::int64_t row = channels * p.window_places();
  c["d_final_window"] = normal_rows(CounterStream(p.seed, "d_final_window"), p.num_pool_rows(), row,
                                    row, 1, p.state_dtype);
}

// width products each for the sum once more, for the gradient of the input, and for that of the
// weights.
FlopCount count_flops(const Case& inputs, std::int64_t) {
  const Problem& p = inputs.problem;
  const double elements =
      static_cast<double>(active_work(inputs).tokens) * static_cast<double>(p.conv_channels());
  const double of_element = 6 * static_cast<double>(p.conv_width) + (p.conv_bias ? 2 : 0) +
                            (p.conv_residual != ConvResidual::none ? 1 : 0);
  return {0, elements * of_element, elements * of_element};
}

std::string flops_text(std::int64_t) {
  return "6 width (+ 2 with a bias, + 1 with a residual) per token and channel";
}

// Inputs and windows times a number and weights by the same number are the same call. So of each
// channel, over the batch, <ext, d_ext> without what comes by the residual and the new windows is
// <weight, d_weight>.
std::string weights_disagree(const Case& c, const Outputs& outputs) {
  const Problem& p = c.problem;
  const std::int64_t channels = p.conv_channels(), places = p.window_places();
  const bool by_channels = p.conv_layout == ConvLayout::channels;
  const WindowStrides strides = window_strides(p);
  const double token_rounding = unit_roundoff(p.token_dtype);
  const double window_rounding = unit_roundoff(p.state_dtype);
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    double inputs = 0, allowed = 0;
    // `d` is rounded in units of `rounding`; `behind` is what it holds besides.
    const auto add = [&](double x, double d, double behind, double rounding) {
      inputs += x * (d - behind);
      allowed += std::abs(x) * ((rounding + 1e-5) * (std::abs(d) + std::abs(behind)) + 1e-7);
    };
    for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
      const std::int64_t slot = c.slot(n), length = c.length(n), first = c.first_token(n);
      if (slot < 0) continue;
      const auto in_window = [&](std::int64_t j) {
        return static_cast<std::size_t>(slot * strides.row + channel * strides.channel +
                                        j * strides.place);
      };
      // Of entry u of ext: the gradient of the new window.
      const auto behind = [&](std::int64_t u) {
        return p.writes_conv_window() && u >= length
                   ? static_cast<double>(c["d_final_window"][in_window(u - length)])
                   : 0;
      };
      for (std::int64_t t = 0; t < length; ++t) {
        const auto at =
            static_cast<std::size_t>(by_channels ? (first + t) * channels + channel
                                                 : channel * p.total_tokens() + first + t);
        const double residual = p.conv_residual == ConvResidual::input
                                    ? static_cast<double>(c["d_conv_output"][at])
                                    : 0;
        add(static_cast<double>(c["qkv"][at]), static_cast<double>(outputs["d_qkv"][at]),
            behind(places + t) + residual, token_rounding);
      }
      const bool fresh =
          p.fresh_windows && c.other_indices["has_window"][static_cast<std::size_t>(n)] == 0;
      for (std::int64_t j = 0; j < places && p.reads_conv_window() && !fresh; ++j) {
        add(static_cast<double>(c["conv_state"][in_window(j)]),
            static_cast<double>(outputs["d_initial_window"][in_window(j)]), behind(j),
            window_rounding);
      }
    }
    double weights = 0;
    for (std::int64_t j = 0; j < p.conv_width; ++j) {
      const auto at = static_cast<std::size_t>(channel * p.conv_width + j);
      const double w = static_cast<double>(c["conv_weight"][at]);
      const double d = static_cast<double>(outputs["d_conv_weight"][at]);
      weights += w * d;
      allowed += 1e-5 * std::abs(w * d);
    }
    if (std::isinf(allowed)) continue;  // of a gradient that its type does not hold
    if (!(std::abs(inputs - weights) <= allowed)) {
      return "channel " + std::to_string(channel) + ": <ext, d_ext> is " + std::to_string(inputs) +
             ", but <weight, d_weight> is " + std::to_string(weights);
    }
  }
  return "";
}

// ---- problems

std::string problem(const std::string& rest) { return "causal_conv1d_backward:" + rest; }

Texts quick() {
  Texts texts;
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    const std::string of_type = ",dtype=" + std::string(dtype);
    texts.push_back(problem("channels=132,seq=70+2+0+1" + of_type));
    texts.push_back(problem("channels=132,seq=70+2+1,window=none,bias=1" + of_type));
    texts.push_back(problem("channels=131,seq=40+3+9,bias=1,width=3,slots=padding" + of_type));
    texts.push_back(problem("channels=36,seq=9+40+30+1,magnitudes=edges" + of_type));
  }
  texts.push_back(problem("heads=1/2,dim=32x64,seq=70+2,dtype=bf16,window=written,weights=f32"));
  texts.push_back(problem("channels=36,seq=70+2+0+1,dtype=bf16,conv_layout=time,residual=1"));
  return texts;
}

Texts grid() {
  Texts texts;
  for (const char* seq : {"130+3+0+1+64", "1x200", "17x1", "65+2"}) {
    for (const char* channels : {"132", "5"}) {
      for (const char* dtype : {"f32", "bf16", "f16"}) {
        const std::size_t i = texts.size();
        texts.push_back(
            problem("channels=" + std::string(channels) + ",seq=" + seq + ",dtype=" + dtype +
                    turn({"", ",width=2", ",width=3", ",width=9", ",width=15"}, i, 1) +
                    turn({"", ",bias=1", ",act=none", ",bias=1,residual=1"}, i, 1) +
                    turn({"", ",slots=padding", ",window=none", ",window=read,slots=permuted",
                          ",window=written", ",window_layout=channels", ",fresh=1", ",state=bf16"},
                         i, 1) +
                    turn({"", ",conv_layout=time", ",weights=f32"}, i, 2) +
                    ",seed=" + std::to_string(i + 1)));
      }
    }
  }
  return texts;
}

Texts suite(std::string_view name) {
  if (name == "quick") return quick();
  if (name == "grid") return grid();
  if (name == "gpu") {
    return {problem("heads=16/32,dim=128,seq=4x8192,dtype=bf16"),
            problem("channels=8192,seq=9000+1+300+0+7000,dtype=bf16,bias=1,window=none")};
  }
  if (name == "sanitizer") {
    return {problem("channels=132,seq=70+2+0+1,dtype=bf16,slots=padding"),
            problem("channels=133,seq=9+2+0+1,dtype=bf16,width=9,bias=1,conv_layout=time")};
  }
  return {};
}

Texts baseline() {
  return {problem("channels=256,seq=70+130,dtype=bf16,bias=1"),
          problem("channels=256,seq=3+130,dtype=f32,window=none")};
}

Texts default_sweep(const DeviceInfo& device) {
  return {problem(device.has_own_memory ? "heads=16/32,dim=128,seq=4x8192,dtype=bf16"
                                        : "heads=2/4,dim=128,seq=4x512,dtype=f32")};
}

}  // namespace

const OperationHarness& causal_conv1d_backward_harness() {
  static const OperationHarness harness = {.operation = causal_conv1d_backward_operation(),
                                           .draw = draw,
                                           .count_flops = count_flops,
                                           .flops_text = flops_text,
                                           .suite = suite,
                                           .baseline = baseline,
                                           .default_sweep = default_sweep,
                                           .checks = {{"weights", weights_disagree}}};
  return harness;
}

}  // namespace gdn
