// Every implementation of gated_delta_layer against the float64 chain (contract section 1.3).
#include "interface/operations/gated_delta_layer.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "harness/operations/generate_case.h"
#include "harness/run/batches.h"
#include "harness/run/device_case.h"
#include "harness/run/execute.h"
#include "reference/errors.h"
#include "tests/implementation_fixture.h"

namespace gdn {
namespace {

using GatedDeltaLayer = ImplementationTest;

// With an initial state: without one, the first output is beta scale (q . k) v, whose relative
// error has no bound where q and k happen to be orthogonal.
TEST_P(GatedDeltaLayer, LengthsAndGroupedHeads) {
  for (const char* seq : {"1", "3", "64", "65+0+1+130", "5x1"}) {
    for (const char* heads : {"1/1", "2/4"}) {
      expect_all_agree(
          {"gated_delta_layer:dim=64,gates=real,gate=logits,beta=logit,h0=normal,dtype=f32,heads=" +
               std::string(heads) + ",seq=" + seq,
           "gated_delta_layer:dim=64,gates=real,gate=logits,beta=logit,h0=normal,dtype=bf16,"
           "heads=" +
               std::string(heads) + ",seq=" + seq});
    }
  }
}

TEST_P(GatedDeltaLayer, LogitsInTheTokenDtype) {
  for (const char* options :
       {"dtype=bf16,gate=logits,beta=logit", "dtype=f16,gate=bounded,beta=logit2",
        "dtype=bf16,beta=logit", "dtype=f16,gate=logits"}) {
    for (const char* dim : {"64", "128"}) {
      expect_all_agree(
          {"gated_delta_layer:heads=1/2,seq=70+0+3,gates=real,h0=normal,logits=token,dim=" +
           std::string(dim) + "," + options});
    }
  }
}

TEST_P(GatedDeltaLayer, DimsLayoutsAndSlots) {
  for (const char* dim : {"128", "96x192", "60x100"}) {
    expect_all_agree({"gated_delta_layer:heads=1/2,seq=100,dtype=f32,dim=" + std::string(dim)});
  }
  for (const char* slots : {"identity", "permuted", "padding"}) {
    for (const char* layout : {"channels", "time"}) {
      expect_all_agree(
          {"gated_delta_layer:heads=1/2,dim=64,seq=70+0+65+2,dtype=bf16,h0=normal,"
           "gate=logits,beta=logit,layout=vk,slots=" +
           std::string(slots) + ",conv_layout=" + layout});
    }
  }
}

TEST_P(GatedDeltaLayer, DtypesAndConvolutionOptions) {
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    for (const char* options : {",out=f32", ",bias=1,act=none", ",width=2", ",conv_in_place=0"}) {
      expect_all_agree({"gated_delta_layer:heads=1/2,dim=64,seq=100,h0=normal,dtype=" +
                        std::string(dtype) + options});
    }
  }
}

// The layer's convolution holds its windows and weights as its owner does, whatever its other steps are.
TEST_P(GatedDeltaLayer, WindowsAndWeightsAsTheirOwnersHoldThem) {
  for (const char* held :
       {"window=read", "window=written", "window=none", "fresh=1", "window_layout=channels",
        "window_length=9,fresh=1,slots=permuted", "weights=f32,bias=1"}) {
    expect_all_agree(
        {"gated_delta_layer:heads=1/2,dim=64,seq=70+65+0+2,dtype=bf16,h0=normal,"
         "gate=logits,beta=logit," +
         std::string(held)});
  }
  // Where the convolution normalises queries and keys.
  for (const char* window : {"none", "written"}) {
    expect_all_agree(
        {"gated_delta_layer:heads=1/2,dim=128,seq=70+65+0+2,dtype=bf16,h0=normal,norm=1,window=" +
         std::string(window)});
  }
}

// The gated norm as the last step: every gate, lengths with empty sequences and padding, values of
// more and of less than a vector.
TEST_P(GatedDeltaLayer, GatedNormOfTheOutput) {
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    for (const char* options : {"dim=64", "dim=128,norm_gate=sigmoid,norm_eps=1e-5",
                                "dim=64x96,norm_gate=sigmoid2,slots=padding,out=f32"}) {
      expect_all_agree(
          {"gated_delta_layer:heads=1/2,seq=70+0+1+5,h0=normal,gate=logits,beta=logit,"
           "gated_norm=1,dtype=" +
           std::string(dtype) + "," + options});
    }
  }
}

// With one element between tokens no vector of them can be read. cuda/fused_sm90 does part of the recurrence in
// the convolution where a batch fills the device, so that it is given one that does: then there are two launches.
// The gfx906 kernels add in another order where tokens are no whole packets apart.
TEST_P(GatedDeltaLayer, TokensThatNoVectorCanBeReadFrom) {
  const bool fills_device = implementation().description().name == "cuda/fused_sm90";
  const std::string lengths = !fills_device ? "12x3+70+0+65" : emulated() ? "5x633+3" : "34x633+3";
  for (const char* options : {"dtype=bf16,bias=1", "dtype=f16,gate=logits,beta=logit,width=3"}) {
    const Case inputs = generate_case(Problem::parse(
        "gated_delta_layer:heads=1/2,dim=128,h0=normal,act=none,seq=" + lengths + "," + options));
    if (!implementation().supports(inputs.problem)) GTEST_SKIP();
    DeviceCase dense(inputs, device());
    const auto run = [&](const Arguments& arguments) {
      const auto plan = implementation().plan(inputs.problem, arguments, device());
      if (fills_device) {
        EXPECT_EQ(plan->info().launches, 2) << plan->info().choice;
      }
      dense.reset_async();
      plan->run();
      return dense.download();
    };
    const Outputs expected = run(dense.arguments());
    expect_outputs_agree(inputs, expected);
    DeviceCase asked(inputs, device(), {.on_request = true});
    const auto plan = implementation().plan(inputs.problem, asked.arguments(), device());
    asked.reset_async();
    plan->run();
    expect_outputs_agree(inputs, asked.download());

    const std::int64_t tokens = inputs.problem.total_tokens();
    const std::int64_t channels = inputs.problem.conv_channels(), stride = channels + 1;
    std::vector<std::uint16_t> rows(static_cast<std::size_t>(tokens * channels));
    device().download(rows.data(), dense.arguments().input("qkv"), 2 * tokens * channels);
    std::vector<std::uint16_t> apart(static_cast<std::size_t>(tokens * stride + 1));
    for (std::int64_t t = 0; t < tokens; ++t) {
      std::copy_n(rows.begin() + t * channels, channels, apart.begin() + 1 + t * stride);
    }
    const auto bytes = static_cast<std::int64_t>(2 * apart.size());
    const DeviceBuffer buffer = device().allocate(bytes);
    device().upload(buffer.data(), apart.data(), bytes);
    Arguments arguments = dense.arguments();
    arguments.set_input("qkv", static_cast<const std::uint16_t*>(buffer.data()) + 1, stride);
    const Outputs outputs = run(arguments);
    if (implementation().description().backend == "hip") {
      expect_outputs_agree(inputs, outputs);
      continue;
    }
    for (const char* name : {"output", "final_state", "conv_state"}) {
      EXPECT_TRUE(same_bits(outputs[name], expected[name])) << name << " of " << options;
    }
  }
}

// A server goes on from a state and the window beside it: both are handed out, after the same tokens.
TEST_P(GatedDeltaLayer, StatesAndWindowsInsideACall) {
  bool is_supported = false;
  for (const char* more :
       {"dim=128,h0=normal,dtype=bf16,checkpoints=3,gate=logits,beta=logit",
        "dim=128,dtype=bf16,checkpoints=2,checkpoint_dtype=bf16,layout=vk,slots=padding,gated_norm="
        "1",
        "dim=64,h0=normal,dtype=f32,checkpoints=4,window_layout=channels,conv_in_place=0",
        "dim=128,dtype=f16,checkpoints=3,window=none"}) {
    const Problem problem = Problem::parse(
        "gated_delta_layer:heads=1/2,seq=70+0+1+65+9,gates=mid," + std::string(more));
    if (!implementation().supports(problem)) continue;
    is_supported = true;
    expect_all_agree({problem.to_string()});
  }
  if (!is_supported) GTEST_SKIP();
}

// In float32, bit for bit, whichever implementation of the steps it is.
TEST_P(GatedDeltaLayer, ACheckpointIsWhatACallLeavesThatEndsThere) {
  Case inputs = generate_case(Problem::parse(
      "gated_delta_layer:heads=1/2,dim=128,seq=150,dtype=bf16,gates=mid,h0=normal,checkpoints=4"));
  if (!implementation().supports(inputs.problem)) GTEST_SKIP();
  const std::vector<std::int64_t> counts = {2, 64, 131, 150};
  inputs.other_indices["checkpoint_tokens"] = counts;
  const Outputs outputs = execute(implementation(), inputs, device());
  for (std::size_t j = 0; j < counts.size(); ++j) {
    SCOPED_TRACE("after " + std::to_string(counts[j]) + " tokens");
    const Case part = first_part(inputs, after(counts[j]));
    const Outputs of_part = execute(implementation(), part, device());
    for (const auto& [checkpoint, left] : {std::pair("checkpoint_states", "final_state"),
                                           std::pair("checkpoint_windows", "conv_state")}) {
      const std::vector<float>& expected = of_part[left];
      const auto elements = static_cast<std::int64_t>(expected.size());
      const auto begin = outputs[checkpoint].begin() + static_cast<std::int64_t>(j) * elements;
      EXPECT_TRUE(same_bits(std::vector<float>(begin, begin + elements), expected)) << checkpoint;
    }
  }
}

// Both pools carry the sequence on: window and state.
TEST_P(GatedDeltaLayer, TwoCallsContinueTheSequence) {
  const Case whole = generate_case(Problem::parse(
      "gated_delta_layer:heads=1/2,dim=64,seq=150,dtype=f32,gates=near_one,h0=normal"));
  if (!implementation().supports(whole.problem)) GTEST_SKIP();
  const auto reference = reference::evaluate<double>(whole);
  for (const std::int64_t cut : {2, 64, 100}) {
    Outputs joined = execute(implementation(), case_of_pieces(whole, {{0, 0, cut}}), device());
    Case rest = case_of_pieces(whole, {{0, cut, 150}});
    rest["initial_state"] = joined["final_state"];
    rest["conv_state"] = joined["conv_state"];
    const Outputs second = execute(implementation(), rest, device());
    joined["output"].insert(joined["output"].end(), second["output"].begin(),
                            second["output"].end());
    joined["final_state"] = second["final_state"];
    joined["conv_state"] = second["conv_state"];
    const auto report = reference::compare(whole, reference, joined);
    EXPECT_EQ(reference::violation(report, report.limits), "") << "cut at " << cut;
  }
}

// Of a token a sequence, a window of queries and keys is updated in place that all value heads of its key head
// read, in as many parts as a form makes of them; and the norm needs all parts of a value head.
TEST_P(GatedDeltaLayer, OneTokenASequenceWithWindowsThatValueHeadsShare) {
  for (const char* heads : {"1/1", "1/4", "2/6"}) {
    for (const char* options : {"dim=64x136,dtype=bf16,layout=vk", "dim=128,dtype=f32,bias=1",
                                "dim=96x72,dtype=f16,state=bf16,width=3,gated_norm=1",
                                "dim=64x200,dtype=bf16,layout=vk,gated_norm=1,norm_gate=sigmoid",
                                "dim=64,dtype=bf16,gated_norm=1,conv_in_place=0"}) {
      expect_all_agree(
          {"gated_delta_layer:seq=3x1,h0=normal,gate=logits,beta=logit,slots=permuted,heads=" +
           std::string(heads) + "," + options});
    }
  }
}

// Beside sequences of a token there are padding ones, whose rows nobody touches, and empty ones, whose windows are
// kept: or copied where the pool is another one, or zeros where nothing was read.
TEST_P(GatedDeltaLayer, OneTokenASequenceBesidePaddingAndEmptyOnes) {
  for (const char* options :
       {"dtype=bf16,slots=padding", "dtype=bf16,slots=padding,gated_norm=1,layout=vk",
        "dtype=f32,conv_in_place=0,bias=1", "dtype=f16,fresh=1,act=none",
        "dtype=bf16,window=written,gated_norm=1,norm_gate=sigmoid2,layout=vk",
        "dtype=bf16,window=read,gate=decay", "dtype=f16,window=none,decay=channel",
        "dtype=bf16,window_layout=channels,window_length=5,update=additive",
        "dtype=f16,conv_layout=time,weights=f32,bias=1,slots=padding,gate=neg_log_decay"}) {
    expect_all_agree({"gated_delta_layer:heads=1/2,dim=128x136,seq=1+0+1+1+0+1,h0=normal," +
                      std::string(options)});
  }
}

// A server runs one plan for every token that it makes: what the plan keeps beside the pools must be as it was
// before, whatever the call went on from.
TEST_P(GatedDeltaLayer, OnePlanRunAgainGoesOnFromWhatItLeft) {
  for (const char* options :
       {"dim=128,dtype=bf16,layout=vk,gated_norm=1", "dim=64x200,dtype=f32,gated_norm=1",
        "dim=64x136,dtype=bf16,state=bf16,slots=padding"}) {
    SCOPED_TRACE(options);
    const Case first = generate_case(
        Problem::parse("gated_delta_layer:heads=1/3,seq=1+1+0+1,h0=normal,gate=logits,beta=logit," +
                       std::string(options)));
    if (!implementation().supports(first.problem)) GTEST_SKIP();
    const Outputs of_first = execute(implementation(), first, device());
    expect_outputs_agree(first, of_first);
    Case second = first;
    second["initial_state"] = of_first["final_state"];
    second["conv_state"] = of_first["conv_state"];
    const Outputs expected = execute(implementation(), second, device());

    DeviceCase on_device(first, device());
    const auto plan = implementation().plan(first.problem, on_device.arguments(), device());
    for (const bool again : {false, true}) {
      on_device.reset_async();
      plan->run();
      plan->run();
      const Outputs outputs = on_device.download();
      for (const char* name : {"output", "final_state", "conv_state"}) {
        EXPECT_TRUE(same_bits(outputs[name], expected[name])) << name << (again ? ", again" : "");
      }
    }
  }
}

GDN_INSTANTIATE_FOR(GatedDeltaLayer, gated_delta_layer_operation());

}  // namespace
}  // namespace gdn
