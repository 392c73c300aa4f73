// Every implementation of gated_delta_layer_backward (contract section 1.15) against the float64 gradients.
#include "interface/operations/gated_delta_layer_backward.h"

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "harness/operations/generate_case.h"
#include "harness/run/device_case.h"
#include "harness/run/execute.h"
#include "interface/error.h"
#include "tests/implementation_fixture.h"

namespace gdn {
namespace {

class GatedDeltaLayerBackward : public ImplementationTest {
 protected:
  static std::string problem(const std::string& rest) {
    return "gated_delta_layer_backward:" + rest;
  }

  /// Problems of the options, each of the first shape that is supported.
  std::vector<Problem> supported(const std::vector<std::string>& options) const {
    std::vector<Problem> problems;
    for (const std::string& rest : options) {
      for (const char* shape :
           {"dim=16x24,dtype=f32,", "dim=64,dtype=bf16,", "dim=128,dtype=bf16,"}) {
        const Problem p = Problem::parse(problem("heads=1/2," + std::string(shape) + rest));
        if (!implementation().supports(p)) continue;
        problems.push_back(p);
        break;
      }
    }
    return problems;
  }

  void expect_options_agree(const std::vector<std::string>& options) {
    const std::vector<Problem> problems = supported(options);
    EXPECT_GT(2 * problems.size(), options.size()) << "options that no shape is supported with";
    for (const Problem& p : problems) expect_agrees(p);
  }
};

// A step's case: of the whole's arrays those that it has, and what other steps made.
Case case_of_step(const Case& whole, const Problem& problem, const Arrays<float>& made) {
  Case step;
  step.problem = problem;
  step.sequence_offsets = whole.sequence_offsets;
  if (problem.operation->find("slot_index") != nullptr) step.slot_index = whole.slot_index;
  const auto has = [&](const std::string& name) {
    const Operand* operand = problem.operation->find(name);
    return operand != nullptr && operand->role != Role::output && is_present(*operand, problem);
  };
  for (const auto& [name, values] : whole.other_indices) {
    if (has(name)) step.other_indices[name] = values;
  }
  for (const auto* arrays : {&whole.arrays, &made}) {
    for (const auto& [name, values] : *arrays) {
      if (has(name)) step[name] = values;
    }
  }
  return step;
}

// `width` channels of [T, channels] from `first` on.
std::vector<float> channels_of(const std::vector<float>& from, const Problem& p, std::int64_t first,
                               std::int64_t width) {
  std::vector<float> part;
  for (std::int64_t t = 0; t < p.total_tokens(); ++t) {
    const auto begin = from.begin() + t * p.conv_channels() + first;
    part.insert(part.end(), begin, begin + width);
  }
  return part;
}

TEST_P(GatedDeltaLayerBackward, GivesTheBitsOfItsSteps) {
  const std::string& name = implementation().description().name;
  const std::string& backend = implementation().description().backend;
  const auto run = [&](const Problem& problem, const std::string& step, const Case& whole,
                       const Arrays<float>& made) {
    return execute(find_implementation(problem.operation, step), case_of_step(whole, problem, made),
                   device());
  };
  const std::vector<Problem> problems =
      supported({"seq=20+0+3,h0=normal,bias=1,slots=permuted", "seq=9+3,ht=0,window=none",
                 "seq=20+0+3,gated_norm=1,h0=normal,slots=padding,fresh=1",
                 "seq=9+3,gated_norm=1,gate=logits,beta=logit,window=written"});
  ASSERT_EQ(problems.size(), 4u);
  for (const Problem& p : problems) {
    SCOPED_TRACE(p.to_string());
    const Case whole = generate_case(p);
    const Outputs outputs = execute(implementation(), whole, device());
    const std::int64_t keys = p.num_key_heads * p.key_head_dim;
    const std::int64_t values = p.num_value_heads * p.value_head_dim;
    const Outputs convolved = run(convolution_again(p), backend + "/direct", whole, {});
    Arrays<float> made;
    made["q"] = channels_of(convolved["conv_output"], p, 0, keys);
    made["k"] = channels_of(convolved["conv_output"], p, keys, keys);
    made["v"] = channels_of(convolved["conv_output"], p, 2 * keys, values);
    Outputs of_steps;
    if (p.gated_norm) {
      const std::string recurrence = name == "cuda/chunkwise_sm90" ? "cuda/fused_sm90" : name;
      const std::string norm = backend == "cpu" ? "cpu/naive" : backend + "/rows";
      Arrays<float> of_norm;
      of_norm["x"] = run(recurrence_again(p), recurrence, whole, made)["output"];
      of_norm["weight"] = whole["norm_weight"];
      of_norm["d_y"] = whole["d_output"];
      const Outputs gradients = run(norm_gradients_of(p), norm, whole, of_norm);
      of_steps["d_z"] = gradients["d_z"];
      of_steps["d_norm_weight"] = gradients["d_weight"];
      made["d_output"] = gradients["d_x"];
    }
    const Outputs of_recurrence = run(recurrence_gradients_of(p), name, whole, made);
    for (std::int64_t t = 0; t < p.total_tokens(); ++t) {
      for (const auto& [part, width] :
           {std::pair("d_q", keys), std::pair("d_k", keys), std::pair("d_v", values)}) {
        const auto begin = of_recurrence[part].begin() + t * width;
        made["d_conv_output"].insert(made["d_conv_output"].end(), begin, begin + width);
      }
    }
    const Outputs of_convolution =
        run(convolution_gradients_of(p), backend + "/direct", whole, made);
    for (const Outputs* step : {&of_recurrence, &of_convolution}) {
      for (const auto& [output, gradient] : *step) {
        if (p.operation->find(output) != nullptr) of_steps[output] = gradient;
      }
    }
    std::size_t compared = 0;
    for (const auto& [output, gradient] : of_steps) {
      EXPECT_TRUE(same_bits(outputs[output], gradient)) << output;
      ++compared;
    }
    EXPECT_EQ(compared, static_cast<std::size_t>(std::distance(outputs.begin(), outputs.end())));
  }
}

TEST_P(GatedDeltaLayerBackward, StatesAndWindowsThatAreThereOrNot) {
  expect_options_agree({"seq=20+0+3,ht=0,window=none", "seq=20+0+3,h0=normal",
                        "seq=20+0+3,h0=normal,ht=0,window=read", "seq=20+0+3,window=written",
                        "seq=1+2+3+4,h0=normal,ht=0", "seq=9+70,window=none,h0=normal"});
}

TEST_P(GatedDeltaLayerBackward, TheGatedNorm) {
  expect_options_agree({"seq=20+0+3,gated_norm=1,ht=0,window=none",
                        "seq=20+0+3,gated_norm=1,h0=normal,norm_gate=sigmoid",
                        "seq=70+3,gated_norm=1,norm_gate=sigmoid2,norm_eps=0.01,slots=padding",
                        "seq=9+1,gated_norm=1,h0=normal,gate=logits,beta=logit,bias=1"});
}

TEST_P(GatedDeltaLayerBackward, GatesBetasAndScale) {
  expect_options_agree({"seq=20+3,gate=logits,beta=logit", "seq=20+3,gate=decay,gates=reset",
                        "seq=20+3,gate=neg_log_decay,betas=wide", "seq=20+3,scale=0.5,norm=1",
                        "seq=20+3,gate=bounded,bound=2,gates=bounded,beta=logit2"});
}

TEST_P(GatedDeltaLayerBackward, ConvolutionsWindowsAndPoolsAsTheirOwnersHoldThem) {
  expect_options_agree(
      {"seq=20+3,width=2,bias=1", "seq=20+3,act=none,width=7", "seq=20+3,weights=f32,bias=1",
       "seq=9+0+3+2,h0=normal,slots=permuted,window_layout=channels",
       "seq=9+0+3+2,h0=normal,slots=padding,pool_pad=8,fresh=1",
       "seq=9+0+3+2,h0=normal,layout=vk,state=bf16,slots=permuted,pool_rows=11",
       "seq=9+0+3+2,gated_norm=1,slots=padding,pool_pad=8,state=f16,window=read,ht=0"});
}

TEST_P(GatedDeltaLayerBackward, TypesAndGroupedHeads) {
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    for (const char* more : {"heads=1/1", "heads=2/4,gated_norm=1", "heads=1/3"}) {
      for (const char* dim : {"64x24", "128"}) {
        const Problem p = Problem::parse(
            problem("seq=33+2,h0=normal,dim=" + std::string(dim) + ",dtype=" + dtype + "," + more));
        if (implementation().supports(p)) expect_agrees(p);
      }
    }
  }
}

// Rows of the recurrence's output near 1e-3 beside large z and d_output: d_x of the norm is above 65504, and
// d_qkv, which is made of it, far below.
TEST_P(GatedDeltaLayerBackward, WhatTheNormHandsOnMayBeBeyondFloat16) {
  for (const char* dim : {"16x8", "64"}) {
    for (const char* more : {"seq=1,width=15,seed=900338", "seq=1+3", "seq=0+3+1,slots=padding"}) {
      const Problem p = Problem::parse(problem(
          "heads=2/4,dtype=f16,window=none,gated_norm=1,magnitudes=edges,dim=" + std::string(dim) +
          "," + more));
      if (implementation().supports(p)) expect_agrees(p);
    }
  }
}

TEST_P(GatedDeltaLayerBackward, SequencesOfSeveralChunks) {
  if (emulated()) GTEST_SKIP() << "the steps' own tests run long sequences on emulators too";
  expect_options_agree({"seq=200,gates=weak,ht=0,window=none", "seq=130+65+1,h0=normal,gates=weak",
                        "seq=300,gates=weak,gated_norm=1,h0=normal"});
}

// What was computed again in the workspace is computed again by the next run.
TEST_P(GatedDeltaLayerBackward, ASecondRunGivesTheSame) {
  if (!implementation().description().bitwise_repeatable) GTEST_SKIP() << "not repeatable";
  for (const Problem& p :
       supported({"seq=20+3,h0=normal", "seq=20+3,gated_norm=1,slots=padding"})) {
    SCOPED_TRACE(p.to_string());
    const DeviceCase on_device(generate_case(p), device());
    const auto plan = implementation().plan(p, on_device.arguments(), device());
    plan->run();
    const Outputs once = on_device.download();
    plan->run();
    for (const auto& [name, values] : on_device.download()) {
      EXPECT_TRUE(same_bits(values, once[name])) << name;
    }
  }
}

// Without the norm the recurrence's output is not needed.
TEST_P(GatedDeltaLayerBackward, TheRecurrenceIsComputedAgainForTheNormAlone) {
  const auto info_of = [&](const Problem& p) {
    const DeviceCase on_device(generate_case(p), device());
    return implementation().plan(p, on_device.arguments(), device())->info();
  };
  const std::vector<Problem> problems = supported({"seq=20+3", "seq=20+3,gated_norm=1"});
  ASSERT_EQ(problems.size(), 2u);
  const PlanInfo without = info_of(problems[0]), with = info_of(problems[1]);
  for (const char* step : {"causal_conv1d ", "gated_delta_backward ", "causal_conv1d_backward "}) {
    EXPECT_NE(without.choice.find(step), std::string::npos) << without.choice;
  }
  for (const char* step : {"gated_delta ", "gated_rms_norm_backward "}) {
    EXPECT_EQ(without.choice.find(step), std::string::npos) << without.choice;
    EXPECT_NE(with.choice.find(step), std::string::npos) << with.choice;
  }
  EXPECT_LE(with.workspace_bytes, implementation().workspace_bytes(problems[1]));
  EXPECT_LE(without.workspace_bytes, implementation().workspace_bytes(problems[0]));
  EXPECT_GT(with.workspace_bytes, without.workspace_bytes);
}

TEST_P(GatedDeltaLayerBackward, ARefusalNamesTheStepThatRefuses) {
  int refused = 0;
  for (const char* rest :
       {"dim=260x16,dtype=f32,seq=9", "dim=300,dtype=bf16,seq=9", "dim=16,dtype=f32,seq=9,chunk=48",
        "dim=128,dtype=f32,seq=9,chunk=7", "dim=128x4096,dtype=bf16,seq=9,gated_norm=1"}) {
    const Support support = implementation().supports(Problem::parse(problem(rest)));
    if (support) continue;
    ++refused;
    EXPECT_TRUE(support.reason.find("gated_delta") == 0 || support.reason.find("causal") == 0 ||
                support.reason.find("gated_rms") == 0)
        << support.reason;
    EXPECT_NE(support.reason.find(": "), std::string::npos) << support.reason;
  }
  EXPECT_TRUE(refused > 0 || implementation().description().backend == "cpu");
}

GDN_INSTANTIATE_FOR(GatedDeltaLayerBackward, gated_delta_layer_backward_operation());

}  // namespace
}  // namespace gdn
