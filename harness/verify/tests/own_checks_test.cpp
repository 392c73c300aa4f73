// What operations check of their own, without a reference (OwnCheck): silent about a right call, and of
// a wrong one it names the unit, whichever that is. So no part of the outputs is left out.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "harness/operations/generate_case.h"
#include "harness/operations/operation_harness.h"
#include "harness/run/execute.h"
#include "interface/batch_part.h"
#include "interface/operations/causal_conv1d_backward.h"
#include "interface/operations/convolution_operands.h"
#include "interface/operations/gated_delta_backward.h"
#include "interface/operations/gated_delta_verify.h"
#include "interface/operations/gated_rms_norm_backward.h"

namespace gdn {
namespace {

// A call by an implementation of the CPU that is right, and one check of its operation.
class RightCall {
 public:
  RightCall(Operation operation, const std::string& check, const char* implementation,
            const std::string& problem)
      : inputs(generate_case(Problem::parse(operation->name + ":" + problem))) {
    for (const OwnCheck& own : harness_of(operation).checks) {
      if (own.name == check) check_ = own;
    }
    const auto device = open_device("cpu");
    outputs = execute(find_implementation(operation, implementation), inputs, *device);
    EXPECT_EQ(wrong(outputs), "") << name();
  }

  std::string wrong(const Outputs& of) const { return check_.wrong(inputs, of); }
  std::string name() const { return inputs.problem.to_string() + ", " + check_.name; }

  /// `change` makes outputs wrong of which the check says something that begins with `said`.
  template <typename Change>
  void expect_named(const std::string& said, const Change& change) const {
    Outputs changed = outputs;
    change(changed);
    const std::string found = wrong(changed);
    EXPECT_EQ(found.substr(0, said.size()), said) << name() << ": '" << found << "'";
  }
  template <typename Change>
  void expect_silent(const std::string& what, const Change& change) const {
    Outputs changed = outputs;
    change(changed);
    EXPECT_EQ(wrong(changed), "") << name() << ": " << what;
  }

  Case inputs;
  Outputs outputs;

 private:
  OwnCheck check_;
};

std::string text(std::int64_t number) { return std::to_string(number); }

// ---- gated_delta_verify

TEST(OwnChecks, TheReadoutIsThatOfEveryStateAndOfItsLastAcceptedToken) {
  for (const char* options : {"dtype=f32", "dtype=f16,state=f16,layout=vk,slots=permuted",
                              "dtype=bf16,state=bf16,norm=1,slots=padding",
                              "dtype=f32,norm=1,keys=unnormalised,layout=vk,scale=0.7"}) {
    const RightCall call(gated_delta_verify_operation(), "readout", "cpu/records",
                         "heads=2/4,dim=8x6,seq=5+4+3+8+0+6,h0=normal," + std::string(options));
    const Case& c = call.inputs;
    const Operand& pool = c.problem.operation->at("initial_state");
    const Operand& output = c.problem.operation->at("output");
    for (std::int64_t n = 0; n < c.problem.num_sequences(); ++n) {
      const std::int64_t accepted = c.carried_tokens(n);
      for (std::int64_t h = 0; h < c.problem.num_value_heads; ++h) {
        const auto of_state = [&](Outputs& outputs) {
          strips_of(pool, c, {n, h}).for_each([&](std::int64_t i) {
            outputs["final_state"][static_cast<std::size_t>(i)] *= 1.25f;
          });
        };
        const auto of_token = [&](std::int64_t t) {
          return [&, t](Outputs& outputs) {
            strips_of(output, c, {n, h}, {t, 1}).for_each([&](std::int64_t i) {
              outputs["output"][static_cast<std::size_t>(i)] *= 1.25f;
            });
          };
        };
        const std::string unit = "sequence " + text(n) + ", head " + text(h);
        if (accepted == 0 || c.slot(n) < 0) {
          call.expect_silent("state of " + unit, of_state);
          continue;
        }
        call.expect_named("final_state of " + unit, of_state);
        for (std::int64_t t = 0; t < c.length(n); ++t) {
          if (t == accepted - 1) {
            call.expect_named("final_state of " + unit, of_token(t));
          } else {
            call.expect_silent("token " + text(t) + " of " + unit, of_token(t));
          }
        }
      }
    }
    call.expect_named(
        "final_state of sequence 0, head 0 is not the state that the output of token " +
            text(c.carried_tokens(0) - 1) + ", the last accepted one",
        [&](Outputs& outputs) {
          strips_of(pool, c, {0, 0}).for_each([&](std::int64_t i) {
            outputs["final_state"][static_cast<std::size_t>(i)] *= 1.25f;
          });
        });
  }
}

// ---- gated_delta_backward

TEST(OwnChecks, NoGradientOfANormIsAlongItsRow) {
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    const RightCall call(gated_delta_backward_operation(), "norm", "cpu/naive",
                         "heads=2/4,dim=8x6,seq=5+0+3,h0=normal,norm=1,keys=unnormalised,dtype=" +
                             std::string(dtype));
    for (const std::string name : {"q", "k"}) {
      const std::vector<float>& x = call.inputs[name];
      for (std::size_t row = 0; row < x.size() / 8; ++row) {
        double of_x = 0, of_d = 0;
        for (std::size_t i = 8 * row; i < 8 * row + 8; ++i) {
          of_x += std::pow(static_cast<double>(x[i]), 2);
          of_d += std::pow(static_cast<double>(call.outputs["d_" + name][i]), 2);
        }
        const auto along = static_cast<float>(0.2 * std::sqrt(of_d / of_x));
        const auto change = [&](Outputs& outputs) {
          for (std::size_t i = 8 * row; i < 8 * row + 8; ++i) {
            outputs["d_" + name][i] += along * x[i];
          }
        };
        // Below a length that is well above eps the gradient has a part along the row.
        if (of_x < 0.9 || !(of_d > 1e-6)) {
          call.expect_silent("row " + std::to_string(row), change);
        } else {
          call.expect_named("d_" + name + " of row " + std::to_string(row) + ":", change);
        }
      }
    }
  }
}

TEST(OwnChecks, TheFirstGateOfEverySequenceIsTheStatesGradient) {
  for (const char* options : {"dtype=f32", "dtype=bf16,state=bf16,layout=vk,slots=permuted",
                              "dtype=f16,state=f16,slots=padding,pool_pad=3"}) {
    const RightCall call(
        gated_delta_backward_operation(), "first_gate", "cpu/naive",
        "heads=2/4,dim=8x6,seq=5+0+3+7,h0=normal,gates=mid," + std::string(options));
    const Case& c = call.inputs;
    const std::int64_t heads = c.problem.num_value_heads;
    const Operand& state = c.problem.operation->at("d_initial_state");
    for (std::int64_t n = 0; n < c.problem.num_sequences(); ++n) {
      for (std::int64_t h = 0; h < heads; ++h) {
        double of_S = 0, of_D = 0;
        strips_of(state, c, {n, h}).for_each([&](std::int64_t i) {
          const auto at = static_cast<std::size_t>(i);
          of_S += std::pow(static_cast<double>(c["initial_state"][at]), 2);
          of_D += std::pow(static_cast<double>(call.outputs["d_initial_state"][at]), 2);
        });
        const auto off = static_cast<float>(0.2 * std::sqrt(of_S * of_D) + 0.01);
        const std::string unit = "d_log_decay of sequence " + text(n) + ", head " + text(h) + ":";
        for (std::int64_t t = 0; t < c.length(n); ++t) {
          const auto at = static_cast<std::size_t>((c.first_token(n) + t) * heads + h);
          const auto change = [&](Outputs& outputs) { outputs["d_log_decay"][at] += off; };
          if (t == 0 && c.slot(n) >= 0) {
            call.expect_named(unit, change);
          } else {
            call.expect_silent(unit + " token " + text(t), change);
          }
        }
      }
    }
  }
}

TEST(OwnChecks, KeysValuesAndBetasOfEveryTokenScaleTogether) {
  for (const char* options :
       {"dtype=f32", "dtype=f32,beta=logit2,layout=vk", "dtype=bf16,beta=logit,slots=permuted",
        "dtype=f16,slots=padding", "dtype=bf16,betas=mixture,keys=zero",
        "dtype=f32,keys=equal,betas=two,gates=near_one"}) {
    const RightCall call(gated_delta_backward_operation(), "scaling", "cpu/naive",
                         "heads=2/4,dim=24x16,seq=5+0+30+7,h0=normal," + std::string(options));
    const Case& c = call.inputs;
    const std::string beta = beta_gradient_name(c.problem);
    for (std::int64_t n = 0; n < c.problem.num_sequences(); ++n) {
      for (std::int64_t t = 0; t < c.length(n); ++t) {
        for (std::int64_t h = 0; h < 4; ++h) {
          const auto row = static_cast<std::size_t>((c.first_token(n) + t) * 4 + h);
          const auto key_row = static_cast<std::size_t>((c.first_token(n) + t) * 2 + h / 2);
          const std::string unit =
              "sequence " + text(n) + ", token " + text(t) + ", key head " + text(h / 2) + ":";
          const std::vector<std::pair<std::string, std::size_t>> gradients = {
              {beta, row}, {"d_v", 16 * row + 3}, {"d_k", 24 * key_row + 5}};
          for (const auto& [name, at] : gradients) {
            const auto change = [&, gradient = name, place = at](Outputs& outputs) {
              outputs[gradient][place] = std::nanf("");
            };
            if (c.slot(n) >= 0) {
              call.expect_named(unit, change);
            } else {
              call.expect_silent("padding, " + unit, change);
            }
          }
        }
      }
    }
  }
}

TEST(OwnChecks, ABetasGradientOfZeroAndGradientsALittleTooLargeAreOffTheirScaling) {
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    const RightCall call(
        gated_delta_backward_operation(), "scaling", "cpu/chunkwise",
        "heads=1/2,dim=64,seq=130,h0=normal,gates=weak,dtype=" + std::string(dtype));
    // Of the tokens one has the largest product of beta and its gradient.
    std::size_t largest = 0;
    const auto product = [&](std::size_t i) {
      return std::abs(call.inputs["beta"][i] * call.outputs["d_beta"][i]);
    };
    for (std::size_t i = 0; i < 260; ++i) {
      if (product(i) > product(largest)) largest = i;
    }
    call.expect_named("sequence 0, token " + text(static_cast<std::int64_t>(largest / 2)) + ",",
                      [&](Outputs& outputs) { outputs["d_beta"][largest] = 0; });
    call.expect_named("sequence 0, token ", [&](Outputs& outputs) {
      for (float& x : outputs["d_beta"]) x *= 1.05f;
    });
  }
}

// ---- causal_conv1d_backward

TEST(OwnChecks, TheWeightsOfEveryChannelAreHeldToAllThatItRead) {
  for (const char* options :
       {"dtype=f32", "dtype=f32,conv_layout=time,bias=1,residual=1,slots=permuted",
        "dtype=bf16,state=bf16,slots=padding,act=none", "dtype=f32,window=read,residual=1",
        "dtype=f32,window=written", "dtype=f32,window=none,width=3", "dtype=f32,fresh=1",
        "dtype=f32,window_layout=channels"}) {
    const RightCall call(causal_conv1d_backward_operation(), "weights", "cpu/direct",
                         "channels=3,seq=4+0+1+6," + std::string(options));
    const Case& c = call.inputs;
    const Problem& p = c.problem;
    const std::int64_t channels = p.conv_channels();
    const WindowStrides strides = window_strides(p);
    // The products that are summed change by 30, where they are sums of a few dozen of about 1.
    const auto at_of = [&](const char* gradient, std::size_t at, float factor) {
      return [=](Outputs& outputs) { outputs[gradient][at] += 30 / factor; };
    };
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      const std::string unit = "channel " + text(channel) + ":";
      for (std::int64_t j = 0; j < p.conv_width; ++j) {
        const auto at = static_cast<std::size_t>(channel * p.conv_width + j);
        call.expect_named(unit, at_of("d_conv_weight", at, c["conv_weight"][at]));
      }
      for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
        for (std::int64_t t = c.first_token(n); t < c.first_token(n) + c.length(n); ++t) {
          const auto at = static_cast<std::size_t>(p.conv_layout == ConvLayout::channels
                                                       ? t * channels + channel
                                                       : channel * p.total_tokens() + t);
          const auto change = at_of("d_qkv", at, c["qkv"][at]);
          if (c.slot(n) >= 0) {
            call.expect_named(unit, change);
          } else {
            call.expect_silent("padding", change);
          }
        }
        if (c.slot(n) < 0 || !p.reads_conv_window()) continue;
        const bool is_fresh =
            p.fresh_windows && c.other_indices["has_window"][static_cast<std::size_t>(n)] == 0;
        for (std::int64_t j = 0; j < p.window_places(); ++j) {
          const auto at = static_cast<std::size_t>(c.slot(n) * strides.row +
                                                   channel * strides.channel + j * strides.place);
          const auto change = at_of("d_initial_window", at, c["conv_state"][at]);
          if (is_fresh) {
            call.expect_silent("a window that is not read", change);
          } else {
            call.expect_named(unit, change);
          }
        }
      }
    }
  }
}

// ---- gated_rms_norm_backward

TEST(OwnChecks, ANormsGradientsAreHeldRowByRowAndItsWeightsTogether) {
  for (const char* options : {"dtype=f32", "dtype=bf16,norm_gate=sigmoid", "dtype=f16",
                              "dtype=f32,norm_gate=sigmoid2,norm_eps=0.1"}) {
    const std::string problem = "heads=2/4,dim=8x6,seq=5+0+3," + std::string(options);
    const RightCall rows(gated_rms_norm_backward_operation(), "rows", "cpu/naive", problem);
    const std::vector<float>& x = rows.inputs["x"];
    for (std::size_t first = 0; first < x.size(); first += 6) {
      float largest = 0;
      bool has_length = false;
      for (std::size_t j = first; j < first + 6; ++j) {
        largest = std::max(largest, std::abs(rows.outputs["d_x"][j]));
        has_length |= x[j] != 0;
      }
      if (!has_length || largest == 0) continue;  // <x, d_x> of such a row says nothing
      rows.expect_named("row " + std::to_string(first / 6) + ":", [&](Outputs& outputs) {
        for (std::size_t j = first; j < first + 6; ++j) {
          outputs["d_x"][j] += std::copysign(0.2f * largest, x[j]);
        }
      });
    }
    const RightCall weights(gated_rms_norm_backward_operation(), "weights", "cpu/naive", problem);
    float sum = 0;
    for (const float d : weights.outputs["d_weight"]) sum += std::abs(d);
    for (std::size_t j = 0; j < 6; ++j) {
      weights.expect_named("<weight, d_weight>",
                           [&](Outputs& outputs) { outputs["d_weight"][j] += sum; });
    }
  }
}

}  // namespace
}  // namespace gdn
