// Every implementation of gated_rms_norm_backward against the float64 reference (contract section
// 1.13).
#include "interface/operations/gated_rms_norm_backward.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "harness/operations/generate_case.h"
#include "harness/run/execute.h"
#include "tests/implementation_fixture.h"
#include "tests/shifted_array.h"

namespace gdn {
namespace {

class GatedRmsNormBackward : public ImplementationTest {
 protected:
  static std::string problem(const std::string& rest) { return "gated_rms_norm_backward:" + rest; }
  static Case drawn(const std::string& rest) {
    return generate_case(Problem::parse(problem(rest)));
  }
};

// Whole vectors, parts of them, one element, several vectors for a lane, and more than are held.
TEST_P(GatedRmsNormBackward, EveryWidthAndDtype) {
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    for (const char* width :
         {"1",   "2",   "3",   "4",   "8",   "20",  "31",  "32",   "33",   "64",
          "100", "128", "192", "200", "256", "257", "512", "1024", "1032", "4096"}) {
      expect_all_agree(
          {problem("heads=1/4,dim=24x" + std::string(width) + ",seq=1+0+2,dtype=" + dtype)});
    }
  }
}

TEST_P(GatedRmsNormBackward, GatesAndEpsilons) {
  for (const char* gate : {"silu", "sigmoid", "sigmoid2"}) {
    for (const char* dtype : {"f32", "bf16", "f16"}) {
      for (const char* more : {"", ",norm_eps=1e-5", ",norm_eps=0.25", ",norm_eps=30"}) {
        for (const char* dim : {"8x64", "64x20"}) {
          expect_all_agree({problem("heads=1/5,dim=" + std::string(dim) +
                                    ",seq=3+1,dtype=" + dtype + ",norm_gate=" + gate + more)});
        }
      }
    }
  }
}

TEST_P(GatedRmsNormBackward, HeadsAndRaggedBatches) {
  for (const char* heads : {"1/1", "3/3", "1/7", "5/15", "16/32"}) {
    for (const char* seq : {"1", "17+0+1+64+3", "0+0", "9x1"}) {
      expect_all_agree({problem("heads=" + std::string(heads) + ",dim=16x24,seq=" + seq +
                                ",dtype=bf16,seed=3")});
    }
  }
}

// Sums of thousands of rows, of one sign and of both.
TEST_P(GatedRmsNormBackward, LongSums) {
  for (const char* width : {"16", "5"}) {
    Case c = drawn("heads=1/4,dim=8x" + std::string(width) + ",seq=900+500,dtype=f32");
    expect_agrees(c);
    for (const char* name : {"x", "z", "d_y"}) {
      for (float& x : c[name]) x = std::abs(x);
    }
    expect_agrees(c);
  }
}

// A row along whose x everything comes from behind: what is left of d_x is what eps leaves.
TEST_P(GatedRmsNormBackward, GradientsAlongTheRow) {
  for (const char* width : {"64", "33"}) {
    Case c = drawn("heads=1,dim=8x" + std::string(width) + ",seq=4,dtype=f32,norm_gate=sigmoid");
    std::fill(c["weight"].begin(), c["weight"].end(), 1.0f);
    std::fill(c["z"].begin(), c["z"].end(), 0.5f);
    c["d_y"] = c["x"];
    expect_agrees(c);
  }
}

// Where x is zero nothing is removed along it, and the root is that of eps.
TEST_P(GatedRmsNormBackward, RowsOfZeros) {
  for (const char* width : {"20", "64"}) {
    Case c = drawn("heads=1/4,dim=" + std::string(width) + ",seq=4,dtype=f32");
    std::fill(c["x"].begin(), c["x"].end(), 0.0f);
    expect_agrees(c);
    const Outputs outputs = execute(implementation(), c, device());
    for (const float d : outputs["d_z"]) ASSERT_EQ(d, 0.0f);
    for (const float d : outputs["d_weight"]) ASSERT_EQ(d, 0.0f);
  }
}

// Slopes are 1 and 0 far out, SiLU's is zero near -1.28, and nothing overflows on the way.
TEST_P(GatedRmsNormBackward, SlopesFarOut) {
  const float far[] = {3e37f, -3e37f, 1000, -1000, -1.2784645f, 0, 40, -40, 88, -88, -103, 17};
  for (const char* gate : {"silu", "sigmoid", "sigmoid2"}) {
    for (const char* dtype : {"f32", "bf16"}) {
      // A sum of its own in each unit.
      for (std::size_t i = 0; i < std::size(far); ++i) {
        Case c = drawn("heads=1,dim=8x16,seq=3,dtype=" + std::string(dtype) + ",norm_gate=" + gate);
        for (float& z : c["z"]) z = round_to(c.problem.token_dtype, far[i]);
        for (float& d : c["d_y"]) d *= 0x1p-6f;
        expect_agrees(c);
      }
    }
  }
}

// Everything is linear in what comes from behind: twice d_y is twice every gradient, bit by bit,
// and none behind is none before.
TEST_P(GatedRmsNormBackward, IsLinearInTheGradientBehind) {
  for (const char* width : {"64", "20"}) {
    Case c = drawn("heads=1/4,dim=8x" + std::string(width) + ",seq=40+3+0,dtype=bf16");
    // Slopes farther out are subnormal: twice the rounded one is another number.
    for (float& z : c["z"]) z = std::clamp(z, -30.0f, 30.0f);
    const Outputs once = execute(implementation(), c, device());
    for (const float factor : {2.0f, 0.0f}) {
      Case scaled = c;
      for (float& x : scaled["d_y"]) x *= factor;
      for (const auto& [name, values] : execute(implementation(), scaled, device())) {
        for (std::size_t i = 0; i < values.size(); ++i) {
          ASSERT_EQ(values[i], factor * once[name][i])
              << c.problem.to_string() << ", " << name << " " << i;
        }
      }
    }
  }
}

// Rows that start anywhere but at 16 bytes.
TEST_P(GatedRmsNormBackward, ArraysThatAreAlignedToTheirElementsAlone) {
  for (const char* dtype : {"f32", "bf16"}) {
    const Case c = drawn("heads=1/4,dim=64,seq=3+2,dtype=" + std::string(dtype));
    DeviceBuffer offsets = device().allocate(3 * sizeof(std::int64_t));
    device().upload(offsets.data(), c.sequence_offsets.data(), offsets.bytes());
    for (const std::string moved : {"x", "z", "weight", "d_y", "d_x", "d_z", "d_weight", "all"}) {
      SCOPED_TRACE(c.problem.to_string() + ", moved: " + moved);
      Arguments arguments;
      arguments.set_input("sequence_offsets", offsets.data());
      std::vector<ShiftedArray> arrays;
      std::vector<std::string> written;
      for (const Operand& operand : c.problem.operation->operands) {
        if (operand.is_index()) continue;
        const std::string& name = operand.name;
        const auto count = static_cast<std::size_t>(element_count(operand, c.problem));
        arrays.emplace_back(device(), operand.dtype(c.problem), count,
                            moved == name || moved == "all");
        if (operand.is_output()) {
          arguments.set_output(name, arrays.back().data());
        } else {
          arrays.back().upload(c[name]);
          arguments.set_input(name, arrays.back().data());
        }
        written.push_back(operand.is_output() ? name : "");
      }
      implementation().plan(c.problem, arguments, device())->run();
      Outputs outputs;
      for (std::size_t i = 0; i < arrays.size(); ++i) {
        if (!written[i].empty()) outputs[written[i]] = arrays[i].download();
      }
      expect_outputs_agree(c, outputs);
    }
  }
}

// Fewer tokens than planned, the offsets changed on the device: rows behind them stay unwritten,
// which refill() and run() look at, and are in no sum.
TEST_P(GatedRmsNormBackward, FewerTokensThanPlanned) {
  for (const char* dim : {"64", "20"}) {
    const auto with_seq = [&](const std::string& seq) {
      return drawn("heads=3,dim=" + std::string(dim) + ",dtype=bf16,seq=" + seq);
    };
    PlannedCase plan(implementation(), with_seq("9+40"), device());
    for (const char* seq : {"3+2", "0+1", "9+40", "0+49"}) {
      const Case c = with_seq(seq);
      plan.refill(c);
      expect_outputs_agree(c, plan.run());
    }
  }
}

GDN_INSTANTIATE_FOR(GatedRmsNormBackward, gated_rms_norm_backward_operation());

}  // namespace
}  // namespace gdn
