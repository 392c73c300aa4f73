// Every implementation of gated_rms_norm against the float64 reference (contract section 1.5).
#include "interface/operations/gated_rms_norm.h"

#include <cmath>

#include "harness/operations/generate_case.h"
#include "harness/run/execute.h"
#include "tests/implementation_fixture.h"
#include "tests/shifted_array.h"

namespace gdn {
namespace {

using GatedRmsNorm = ImplementationTest;

// Whole vectors, parts of them, one element, several vectors for a lane, and more than are held.
TEST_P(GatedRmsNorm, EveryWidthAndDtype) {
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    for (const char* width :
         {"1",   "2",   "3",   "4",   "8",   "20",  "31",  "32",   "33",   "64",
          "100", "128", "192", "200", "256", "257", "512", "1024", "1032", "4096"}) {
      expect_all_agree(
          {"gated_rms_norm:heads=1/4,dim=24x" + std::string(width) + ",seq=1+0+2,dtype=" + dtype});
    }
  }
}

TEST_P(GatedRmsNorm, GatesEpsilonsAndOutputTypes) {
  for (const char* gate : {"silu", "sigmoid", "sigmoid2"}) {
    for (const char* dtype : {"f32", "bf16", "f16"}) {
      for (const char* more : {"", ",out=f32", ",norm_eps=1e-5", ",norm_eps=0.25"}) {
        for (const char* dim : {"8x64", "64x20"}) {
          expect_all_agree({"gated_rms_norm:heads=1/5,dim=" + std::string(dim) +
                            ",seq=3+1,dtype=" + dtype + ",norm_gate=" + gate + more});
        }
      }
    }
  }
}

TEST_P(GatedRmsNorm, HeadsAndRaggedBatches) {
  for (const char* heads : {"1/1", "3/3", "1/7", "5/15", "16/32"}) {
    for (const char* seq : {"1", "17+0+1+64+3", "0+0", "9x1"}) {
      expect_all_agree({"gated_rms_norm:heads=" + std::string(heads) + ",dim=16x24,seq=" + seq +
                        ",dtype=bf16,seed=3"});
    }
  }
}

// Rows that start anywhere but at 16 bytes: arrays that a caller cut out of others.
TEST_P(GatedRmsNorm, ArraysThatAreAlignedToTheirElementsAlone) {
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    const Case c = generate_case(
        Problem::parse("gated_rms_norm:heads=1/4,dim=64,seq=3+2,dtype=" + std::string(dtype)));
    const DType token = c.problem.token_dtype;
    DeviceBuffer offsets = device().allocate(3 * sizeof(std::int64_t));
    device().upload(offsets.data(), c.sequence_offsets.data(), offsets.bytes());
    for (const std::string moved : {"x", "z", "weight", "y", "all"}) {
      SCOPED_TRACE(c.problem.to_string() + ", moved: " + moved);
      const auto shift_of = [&](const char* name) { return moved == name || moved == "all"; };
      Arguments arguments;
      arguments.set_input("sequence_offsets", offsets.data());
      std::vector<ShiftedArray> inputs;
      for (const char* name : {"x", "z", "weight"}) {
        inputs.emplace_back(device(), token, c[name].size(), shift_of(name));
        inputs.back().upload(c[name]);
        arguments.set_input(name, inputs.back().data());
      }
      const ShiftedArray y(device(), token, c["x"].size(), shift_of("y"));
      arguments.set_output("y", y.data());
      const auto plan = implementation().plan(c.problem, arguments, device());
      plan->run();
      Outputs outputs;
      outputs["y"] = y.download();
      expect_outputs_agree(c, outputs);
    }
  }
}

// A row of zeros is zeros, and not what 0 / 0 makes of it, whatever its gate.
TEST_P(GatedRmsNorm, RowsOfZerosAreZeros) {
  for (const char* width : {"20", "64"}) {
    Case c = generate_case(
        Problem::parse("gated_rms_norm:heads=1/4,dim=" + std::string(width) + ",seq=4,dtype=f32"));
    std::fill(c["x"].begin(), c["x"].end(), 0.0f);
    for (const float y : execute(implementation(), c, device())["y"]) ASSERT_EQ(y, 0.0f);
  }
}

// Fewer tokens than planned, the offsets changed on the device: rows behind them stay unwritten,
// which refill() and run() look at.
TEST_P(GatedRmsNorm, FewerTokensThanPlanned) {
  const auto with_seq = [](const std::string& seq) {
    return generate_case(Problem::parse("gated_rms_norm:heads=3,dim=64,dtype=bf16,seq=" + seq));
  };
  PlannedCase plan(implementation(), with_seq("9+4"), device());
  for (const char* seq : {"3+2", "0+1", "9+4", "0+13"}) {
    const Case c = with_seq(seq);
    plan.refill(c);
    expect_outputs_agree(c, plan.run());
  }
}

GDN_INSTANTIATE_FOR(GatedRmsNorm, gated_rms_norm_operation());

}  // namespace
}  // namespace gdn
