// Every gfx906 kernel x option x dtype, executed as the machine code that ships, against the
// float64 reference: waves in forward, reverse and random order (preempted at random places), and
// +-1 ulp of noise on the transcendental instructions.
//
//     order   must not show: the three orders give the same bits
//     noise   must stay within the bounds that hold without it
//
// Bounds, on well-conditioned problems: what is stored as float32 within a relative L2 of 2e-6;
// what is stored in 16 bits within twice its rounding floor. Elsewhere the reference library's
// limits, which know the conditioning. The emulator itself throws at LDS races, accesses out of
// bounds, divergent barriers and undefined values.
//
// impls/tests runs the whole contract through the emulator as well, in forward order.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/operations/generate_case.h"
#include "harness/run/batches.h"
#include "harness/run/execute.h"
#include "hip/emulator_device.h"
#include "interface/implementation.h"
#include "interface/operations/causal_conv1d.h"
#include "interface/operations/causal_conv1d_backward.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/gated_delta_backward.h"
#include "interface/operations/gated_delta_layer.h"
#include "interface/operations/gated_delta_ring.h"
#include "interface/operations/gated_delta_verify.h"
#include "interface/operations/gated_rms_norm.h"
#include "interface/operations/gated_rms_norm_backward.h"
#include "reference/errors.h"
#include "reference/reference.h"

namespace gdn::hip {
namespace {

constexpr double kFloat32Bound = 2e-6;
constexpr double kRoundingFloors = 2;

struct Option {
  const char* name;
  const char* fields;  ///< of the problem string, all but the operation and the token dtype
};

// Three chunks of 32 with decay where nothing else is asked for: in one chunk, or without decay,
// wrong chunkwise forms are exact.
const std::vector<Option> kGatedDelta = {
    {"lengths_below_a_chunk", "heads=1,dim=40x24,seq=0+1+2+15+16+17,gates=mid,h0=normal"},
    {"lengths_around_chunks", "heads=1,dim=40x24,seq=31+32+33+63+64+65,gates=mid,h0=normal"},
    {"decode", "heads=1/2,dim=64x40,seq=9x1,gates=real,h0=normal"},
    {"chunk_16", "heads=1,dim=64x40,seq=50+3,gates=mid,h0=normal,chunk=16"},
    {"chunk_32", "heads=1,dim=64x40,seq=70+3,gates=mid,h0=normal,chunk=32"},
    {"dim_128", "heads=1,dim=128,seq=70,gates=real,h0=normal"},
    {"dim_256", "heads=1,dim=200x33,seq=40,gates=mid,h0=normal"},
    {"dim_1", "heads=1,dim=1x1,seq=70,gates=mid,h0=normal"},
    {"columns_in_two_tiles", "heads=1,dim=32x150,seq=40,gates=mid,h0=normal"},
    {"equal_heads", "heads=3/3,dim=32x24,seq=70,gates=mid,h0=normal"},
    {"grouped_heads", "heads=2/6,dim=32x24,seq=70+5,gates=mid,h0=normal"},
    {"no_decay", "heads=1,dim=40x24,seq=70,gates=none,h0=normal"},
    {"decay_near_one", "heads=1,dim=40x24,seq=70,gates=near_one,h0=normal"},
    {"strong_decay", "heads=1,dim=40x24,seq=70,gates=strong,h0=normal"},
    {"resets", "heads=1,dim=40x24,seq=100,gates=reset,h0=normal"},
    {"tiny_decay", "heads=1,dim=40x24,seq=70,gates=tiny,h0=normal"},
    {"gate_as_decay", "heads=1/2,dim=40x24,seq=70,gates=real,gate=decay,h0=normal"},
    {"gate_as_neg_log_decay", "heads=1/2,dim=40x24,seq=70,gates=real,gate=neg_log_decay,h0=normal"},
    {"gate_and_beta_as_logits",
     "heads=1/2,dim=40x24,seq=70,gates=real,gate=logits,beta=logit,h0=normal"},
    {"bounded_gate_and_beta_to_two",
     "heads=1/2,dim=40x24,seq=70,gates=bounded,gate=bounded,bound=2,beta=logit2,betas=wide,"
     "h0=normal"},
    {"beta_zero", "heads=1,dim=40x24,seq=70,gates=mid,betas=zero,h0=normal"},
    {"beta_two", "heads=1,dim=40x24,seq=70,gates=mid,betas=two,h0=normal"},
    {"keys_correlated", "heads=1,dim=40x24,seq=70,gates=mid,keys=correlated,h0=normal"},
    {"keys_equal", "heads=1,dim=40x24,seq=70,gates=mid,keys=equal,h0=normal"},
    {"keys_alternating", "heads=1,dim=40x24,seq=70,gates=mid,keys=alternating,h0=normal"},
    {"keys_zero", "heads=1,dim=40x24,seq=70,gates=mid,keys=zero,norm=1,h0=normal"},
    {"normalised", "heads=1,dim=40x24,seq=70,gates=mid,keys=unnormalised,norm=1,h0=normal"},
    {"scale", "heads=1,dim=40x24,seq=70,gates=mid,scale=-0.25,norm=1,h0=normal"},
    {"no_initial_state", "heads=1,dim=40x24,seq=70+5,gates=mid,h0=absent"},
    {"large_initial_state", "heads=1,dim=40x24,seq=70+5,gates=mid,h0=large"},
    {"no_final_state", "heads=1,dim=40x24,seq=70+5,gates=mid,h0=normal,ht=0"},
    {"state_bf16", "heads=1,dim=40x24,seq=70+5,gates=mid,h0=normal,state=bf16"},
    {"state_f16", "heads=1,dim=40x24,seq=70+5,gates=mid,h0=normal,state=f16"},
    {"output_f32", "heads=1,dim=40x24,seq=70+5,gates=mid,h0=normal,out=f32"},
    {"padding_slots",
     "heads=1/2,dim=40x24,seq=20+0+70+7,gates=mid,h0=normal,slots=padding,pool_pad=5"},
    {"permuted_slots_vk",
     "heads=1/2,dim=40x24,seq=20+0+70+7,gates=mid,h0=normal,slots=permuted,layout=vk"},
};

const std::vector<Option> kDrafts = {
    {"ragged", "heads=2/4,dim=40x24,seq=4+0+7+1+16,gates=mid,h0=normal"},
    {"dim_128", "heads=1/2,dim=128x72,seq=5+3,gates=real,norm=1,h0=normal,layout=vk"},
    {"dim_256", "heads=1,dim=200x33,seq=4+2,gates=mid,h0=normal"},
    {"elements", "heads=1/3,dim=33x17,seq=4+9,gates=mid,h0=normal"},
    {"logits", "heads=1/2,dim=40x24,seq=8+3,gate=logits,beta=logit,h0=absent,state=f16"},
    {"bounded_channel_decay",
     "heads=1/2,dim=40x24,seq=8+3,gates=bounded,gate=bounded,beta=logit2,h0=normal,decay=channel"},
    {"padding_slots", "heads=1/2,dim=40x24,seq=2+0+8+7,h0=normal,slots=padding,pool_pad=5"},
    {"steps", "heads=1/2,dim=40x24,seq=5+3,gates=mid,h0=normal,steps=3,norm=1"},
    {"channel_decay", "heads=2/4,dim=72x24,seq=5+3,gates=reset,h0=normal,decay=channel"},
    {"additive", "heads=2/4,dim=40x24,seq=5+3,gates=mid,h0=normal,update=additive"},
};

const std::vector<Option> kRings = {
    {"ragged", "heads=2/4,dim=40x24,seq=4+0+7+1+16,gates=mid,h0=normal,ring=24"},
    {"full_rings", "heads=1/2,dim=64x40,seq=5x1,gates=real,h0=normal,ring_fill=all"},
    {"dim_128", "heads=1/2,dim=128x72,seq=5+3,gates=real,norm=1,h0=normal,layout=vk"},
    {"dim_256", "heads=1,dim=200x33,seq=4+2,gates=mid,h0=normal,norm=1"},
    {"elements", "heads=1/3,dim=33x17,seq=4+9,gates=mid,h0=normal,state=bf16"},
    {"logits", "heads=1/2,dim=40x24,seq=8+3,gate=logits,beta=logit,h0=absent,state=f16"},
    {"bounded", "heads=1/2,dim=40x24,seq=8+3,gates=bounded,gate=bounded,beta=logit2,h0=normal"},
    {"state_bf16", "heads=1/2,dim=72x24,seq=5+3,gates=mid,h0=normal,state=bf16,norm=1"},
    {"resets", "heads=1/2,dim=40x24,seq=5+3+9,gates=reset,h0=large,ring=40"},
    {"no_final_state", "heads=1/2,dim=40x24,seq=5+3,gates=mid,h0=normal,ht=0"},
    {"padding_slots", "heads=1/2,dim=40x24,seq=2+0+8+7,h0=normal,slots=padding,pool_pad=5"},
};

const std::vector<Option> kGradients = {
    {"ragged", "heads=2/4,dim=40x24,seq=4+0+7+1,gates=mid,h0=normal"},
    {"dim_128", "heads=1/2,dim=128x72,seq=3+2,gates=real,norm=1,h0=normal,layout=vk"},
    {"dim_256", "heads=1,dim=200x33,seq=3,gates=mid,h0=normal"},
    {"logits", "heads=1/2,dim=24x16,seq=8+3,gate=logits,beta=logit,h0=absent,state=f16"},
    {"padding_slots",
     "heads=1/2,dim=24x16,seq=2+0+8+7,gates=reset,h0=normal,slots=padding,"
     "pool_pad=5"},
    {"chunks_of_16", "heads=1,dim=24x16,seq=37,gates=reset,gate=decay,h0=normal,chunk=16"},
};

const std::vector<Option> kConvolution = {
    {"width_2", "heads=1,dim=8x20,seq=70+1,width=2,act=none"},
    {"width_4", "heads=1/2,dim=24x20,seq=130+5"},
    {"width_15_and_bias", "heads=1,dim=8x100,seq=70+9,width=15,bias=1"},
    {"shorter_than_the_window", "heads=1,dim=16,seq=0+1+2+3+4+65+0,width=7"},
    {"decode", "heads=1,dim=16,seq=5x1,slots=permuted"},
    {"padding_slots", "heads=1,dim=16,seq=3+0+70+2,slots=padding"},
    {"window_f16", "heads=1,dim=16,seq=70+2,state=f16"},
    {"time_fastest", "heads=1,dim=16,seq=33+0+70,conv_layout=time"},
    {"out_of_place", "heads=1,dim=16,seq=33+0+2,conv_in_place=0,slots=permuted"},
    {"windows_read", "heads=1,dim=16,seq=33+0+2,window=read"},
    {"windows_written", "heads=1,dim=16,seq=33+0+2,window=written,conv_layout=time"},
    {"windows_with_channels_fastest",
     "heads=1,dim=16,seq=33+0+2,window_layout=channels,slots=permuted"},
    {"windows_of_14", "heads=1,dim=16,seq=33+0+2,window_length=14"},
    {"windows_of_40", "heads=1,dim=16,seq=33+0+2,window_length=40,conv_layout=time"},
    {"rings", "heads=1,dim=16,seq=33+0+2+1,window_order=ring"},
    {"rings_of_14",
     "heads=1,dim=16,seq=33+0+2+14,window_order=ring,window_length=14,slots=permuted,"
     "conv_layout=time"},
    {"sequences_that_start_anew", "heads=1,dim=16,seq=33+32+0+0+2+2,fresh=1,slots=permuted"},
    {"input_added", "heads=1,dim=16,seq=33+0+2,residual=1"},
    {"tensor_added", "heads=1,dim=16,seq=33+0+2,residual=tensor"},
    {"float32_weights_and_tensor_added",
     "channels=36,seq=33+0+2,weights=f32,residual=tensor,conv_layout=time,slots=padding"},
    {"windows_none", "heads=1,dim=16,seq=33+0+2,window=none"},
    {"float32_weights", "channels=36,seq=70+0+2,weights=f32,bias=1"},
    {"float32_weights_and_input_added",
     "channels=36,seq=33+0+2,weights=f32,bias=1,residual=1,conv_layout=time,width=9"},
    {"channels_of_no_heads", "channels=131,seq=70+1"},
    {"one_channel", "channels=1,seq=70+1,conv_layout=time"},
};

const std::vector<Option> kConvolutionGradients = {
    {"width_4", "channels=20,seq=130+5+0+1"},
    {"width_15_and_bias", "channels=70,seq=40+9,width=15,bias=1"},
    {"time_fastest", "channels=16,seq=33+0+2,conv_layout=time,window=written,residual=1"},
    {"padding_slots", "channels=5,seq=3+0+36+2,slots=padding,act=none,window_layout=channels"},
    {"sequences_that_start_anew", "channels=16,seq=33+0+0+2+2,fresh=1,weights=f32,bias=1"},
};

const std::vector<Option> kLayer = {
    {"prefill", "heads=1/2,dim=40x24,seq=70+0+3,gate=logits,beta=logit,h0=normal"},
    {"decode", "heads=1/2,dim=40x24,seq=4x1,gate=logits,beta=logit,h0=normal,slots=padding"},
    {"time_fastest",
     "heads=1/2,dim=40x24,seq=70+5,gate=logits,beta=logit,h0=normal,"
     "conv_layout=time,layout=vk"},
};

const std::vector<Option> kNorm = {
    {"packets", "heads=1/4,dim=8x128,seq=7+0+2"},
    {"packets_of_part_of_a_row", "heads=3,dim=20,seq=5,norm_gate=sigmoid"},
    {"several_packets_a_lane", "heads=1/4,dim=8x300,seq=3,norm_gate=sigmoid2,norm_eps=1e-5"},
    {"elements", "heads=1/4,dim=8x33,seq=3+1,out=f32"},
    {"one_element", "heads=1/5,dim=8x1,seq=9"},
};

const std::vector<Option> kNormGradients = {
    {"packets", "heads=1/4,dim=8x128,seq=7+0+2"},
    {"packets_of_part_of_a_row", "heads=3,dim=20,seq=5,norm_gate=sigmoid"},
    {"several_packets_a_lane", "heads=1/4,dim=8x200,seq=3,norm_gate=sigmoid2,norm_eps=1e-5"},
    {"more_than_registers_hold", "heads=1/4,dim=8x300,seq=3"},
    {"elements", "heads=1/4,dim=8x33,seq=3+1"},
    {"one_element", "heads=1/5,dim=8x1,seq=9"},
};

struct Cell {
  const Implementation* implementation;
  Option option;
};
void PrintTo(const Cell& cell, std::ostream* out) {
  *out << cell.implementation->description().name << ": " << cell.option.fields;
}
std::string name_of(const testing::TestParamInfo<Cell>& info) {
  std::string name = info.param.implementation->description().name + "_" + info.param.option.name;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

std::vector<Cell> cells(Operation operation, const std::vector<Option>& options) {
  std::vector<Cell> found;
  for (const Implementation* implementation : all_implementations()) {
    const Description& description = implementation->description();
    if (description.backend != "hip" || description.operation != operation) continue;
    for (const Option& option : options) found.push_back({implementation, option});
  }
  return found;
}

struct Execution {
  const char* name;
  gfx906::WaveOrder order;
  int preempt_every;
  int transcendental_ulp;
};
constexpr Execution kExecutions[] = {
    {"forward", gfx906::WaveOrder::forward, 0, 0},
    {"reverse", gfx906::WaveOrder::reverse, 0, 0},
    {"random", gfx906::WaveOrder::random, 9, 0},
    {"noise", gfx906::WaveOrder::forward, 0, 1},
};

/// Opened once: a device keeps the code objects it has loaded.
Device& device_for(const Execution& execution) {
  static std::map<std::string, std::unique_ptr<Device>> devices;
  std::unique_ptr<Device>& device = devices[execution.name];
  if (!device) {
    gfx906::LaunchOptions options;
    options.order = execution.order;
    options.preempt_every = execution.preempt_every;
    options.transcendental_ulp = execution.transcendental_ulp;
    device = open_emulator(options);
  }
  return *device;
}

void expect_within_bounds(const Problem& problem, const reference::ErrorReport& report) {
  EXPECT_EQ(reference::violation(report, report.limits), "");
  EXPECT_EQ(report.non_finite, 0);
  EXPECT_EQ(report.untouched_changed, 0);
  EXPECT_EQ(report.padding_nonzero, 0);
  const reference::ErrorLimits well_conditioned = reference::error_limits(problem);
  if (const reference::OutputErrors* output = report.find("output")) {
    if (allowed(*output, output->worst(), report.limits) >
        2 * limit_of(well_conditioned, output->name()).relative_l2) {
      return;
    }
  }
  for (const reference::OutputErrors& output : report.outputs) {
    const reference::TensorError& error = output.worst().error;
    if (output.operand->judging.is_copy) continue;  // held to the bit by the violation above
    if (output.operand->dtype(problem) == DType::float32) {
      EXPECT_LE(error.relative_l2, kFloat32Bound) << output.name();
    } else {
      EXPECT_LE(error.floor_ratio, kRoundingFloors) << output.name();
    }
  }
}

class EmulationMatrix : public testing::TestWithParam<Cell> {};

TEST_P(EmulationMatrix, AgreesInEveryOrderAndUnderNoise) {
  const auto& [implementation, option] = GetParam();
  int supported = 0;
  for (const char* dtype : {"f32", "f16", "bf16"}) {
    const Problem problem = Problem::parse(to_string(implementation->description().operation) +
                                           ":dtype=" + dtype + "," + option.fields);
    if (!implementation->supports(problem)) continue;
    ++supported;
    SCOPED_TRACE(implementation->description().name + " on " + problem.to_string());
    const Case inputs = generate_case(problem);
    const auto reference = reference::evaluate<double>(inputs);
    Outputs forward;
    for (const Execution& execution : kExecutions) {
      SCOPED_TRACE(execution.name);
      const Outputs outputs = execute(*implementation, inputs, device_for(execution));
      const bool exact = execution.transcendental_ulp == 0;
      if (exact && execution.order != gfx906::WaveOrder::forward) {
        EXPECT_EQ(first_difference(forward, outputs), "");
        continue;
      }
      expect_within_bounds(problem, reference::compare(inputs, reference, outputs));
      if (exact) forward = outputs;
    }
  }
  if (supported == 0) {
    const Problem problem = Problem::parse(to_string(implementation->description().operation) +
                                           ":dtype=f32," + option.fields);
    GTEST_SKIP() << implementation->supports(problem).reason;
  }
}

INSTANTIATE_TEST_SUITE_P(GatedDelta, EmulationMatrix,
                         testing::ValuesIn(cells(gated_delta_operation(), kGatedDelta)), name_of);
INSTANTIATE_TEST_SUITE_P(GatedDeltaBackward, EmulationMatrix,
                         testing::ValuesIn(cells(gated_delta_backward_operation(), kGradients)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(GatedDeltaVerify, EmulationMatrix,
                         testing::ValuesIn(cells(gated_delta_verify_operation(), kDrafts)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(GatedDeltaRing, EmulationMatrix,
                         testing::ValuesIn(cells(gated_delta_ring_operation(), kRings)), name_of);
INSTANTIATE_TEST_SUITE_P(CausalConv1d, EmulationMatrix,
                         testing::ValuesIn(cells(causal_conv1d_operation(), kConvolution)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(CausalConv1dBackward, EmulationMatrix,
                         testing::ValuesIn(cells(causal_conv1d_backward_operation(),
                                                 kConvolutionGradients)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(GatedRmsNorm, EmulationMatrix,
                         testing::ValuesIn(cells(gated_rms_norm_operation(), kNorm)), name_of);
INSTANTIATE_TEST_SUITE_P(GatedRmsNormBackward, EmulationMatrix,
                         testing::ValuesIn(cells(gated_rms_norm_backward_operation(),
                                                 kNormGradients)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Layer, EmulationMatrix,
                         testing::ValuesIn(cells(gated_delta_layer_operation(), kLayer)), name_of);

}  // namespace
}  // namespace gdn::hip
