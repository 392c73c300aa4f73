// The eight places where implementations of the gated delta rule disagree, one test each, and every
// pair of conventions: a file of one, read by the rules of another, must not pass.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "harness/conventions/convert.h"
#include "harness/conventions/tests/foreign_kernels.h"
#include "harness/files/hdf5_group.h"
#include "harness/operations/generate_case.h"
#include "harness/tests/temporary_folder.h"
#include "harness/verify/verify.h"
#include "interface/error.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::conventions {
namespace {

// The rules of `rules` under the names of `names`, so that a file of the one can be read by the
// other: what differs is meaning alone.
Convention read_by(const Convention& rules, const Convention& names) {
  Convention c = rules;
  const auto rename = [](Array& array, const Array& name) { array.name = name.name; };
  c.name = names.name;
  rename(c.query, names.query);
  rename(c.key, names.key);
  rename(c.value, names.value);
  rename(c.qkv, names.qkv);
  rename(c.gate, names.gate);
  rename(c.beta, names.beta);
  rename(c.initial_state, names.initial_state);
  rename(c.output, names.output);
  rename(c.final_state, names.final_state);
  c.batch.offsets = names.batch.offsets;
  if (!c.slots.dataset.empty()) c.slots.dataset = names.slots.dataset;
  if (!c.norm.attribute.empty()) c.norm.attribute = names.norm.attribute;
  return c;
}

// Why outputs that `kernel` made of its own file do not pass when file and outputs are read by
// `reader`; empty if they pass.
std::string rejection(const Convention& kernel, const Convention& reader, const Case& ours) {
  const TemporaryFolder folder;
  const std::string in = folder.file("in.h5");
  const std::string out = folder.file("out.h5");
  export_case(kernel, ours, in);
  testing::run_foreign_gated_delta(kernel.name, in, out);
  try {
    const Case misread = import_case(reader, in);
    return verify_outputs(CheckedReference(misread), import_outputs(reader, misread, out).outputs)
        .reason;
  } catch (const Error& error) {
    return error.what();
  }
}

Case make(const std::string& problem) { return generate_case(Problem::parse(problem)); }

// What the reference makes of a case, as float32.
Outputs reference_outputs(const Case& c) {
  Outputs outputs;
  for (const auto& [name, values] : reference::evaluate<double>(c)) {
    outputs[name].assign(values.begin(), values.end());
  }
  return outputs;
}

// Exactly expressible by its convention. Square states, dense batches of equal length where that is
// possible and Dk = Hv: shapes alone give nothing away.
Case telling_case(const Convention& convention) {
  std::string problem = "gated_delta:heads=2/8,dim=8x8,h0=normal,keys=unnormalised,seed=5";
  const bool decode = convention.batch.kind == BatchKind::one_token;
  problem += decode ? ",seq=8x1" : ",seq=8x8,gates=mid";
  problem += convention.token_dtypes.front() == DType::float32 ? ",dtype=f32" : ",dtype=f16";
  switch (convention.gate_encoding) {
    case GateEncoding::log_decay:
      break;
    case GateEncoding::decay:
      problem += ",gate=decay";
      break;
    case GateEncoding::neg_log_decay:
      problem += ",gate=neg_log_decay";
      break;
    case GateEncoding::logits:
      problem += ",gate=logits,beta=logit";
      break;
    case GateEncoding::bounded:
      problem += ",gate=bounded,beta=logit2";
  }
  if (convention.scale == ScaleRule::by_caller) problem += ",scale=1";
  const NormPlace place = convention.norm.place;
  const bool in_kernel = place == NormPlace::in_kernel || place == NormPlace::in_kernel_by_flag;
  if (in_kernel) problem += ",norm=1";
  // Where a kernel does not normalise, unnormalised keys would let errors grow without bound.
  if (!in_kernel) problem.replace(problem.find("unnormalised"), 12, "unit");
  if (!convention.slots.dataset.empty()) problem += ",slots=permuted";
  Case c = make(problem);
  if (convention.gates_in_token_dtype) {
    for (float& x : c[gate_name(c.problem)]) x = round_to(c.problem.token_dtype, x);
    for (float& x : c[beta_name(c.problem)]) x = round_to(c.problem.token_dtype, x);
  }
  if (convention.query.axes.size() > 2 && convention.query.axes[2] == Axis::value_heads) {
    problem.replace(problem.find("heads=2/8"), 9, "heads=8/8");
    c = make(problem);
  }
  return c;
}

// Equivalent by definition: with Hk = Hv heads, which is what Hugging Face passes on, FLA takes the
// same arrays to mean the same (it takes more besides).
bool equivalent(const Convention& kernel, const Convention& reader) {
  return kernel.name == "huggingface" && reader.name == "fla";
}

TEST(ConventionPairs, AFileReadByAnotherConventionsRulesIsRejected) {
  for (const Convention& kernel : all_conventions()) {
    const Case ours = telling_case(kernel);
    ASSERT_EQ(rejection(kernel, kernel, ours), "") << kernel.name << " by its own rules";
    for (const Convention& other : all_conventions()) {
      if (other.name == kernel.name) continue;
      const std::string reason = rejection(kernel, read_by(other, kernel), ours);
      if (equivalent(kernel, other)) {
        EXPECT_EQ(reason, "") << kernel.name << " read as " << other.name;
      } else {
        EXPECT_NE(reason, "") << kernel.name << " read as " << other.name << " passes";
      }
    }
  }
}

// ---- the eight points: one field of one convention changed, everything else as it is

TEST(EightPoints, GateEncoding) {
  // alpha where ln alpha is meant is finite, plausible and wrong (a decay of e^alpha).
  Convention wrong = find_convention("max");
  wrong.gate_encoding = GateEncoding::log_decay;
  const Case ours = telling_case(find_convention("max"));
  EXPECT_NE(rejection(find_convention("max"), wrong, ours).find("log_decay"), std::string::npos);
  wrong.gate_encoding = GateEncoding::neg_log_decay;  // positive either way: only numbers tell
  EXPECT_NE(rejection(find_convention("max"), wrong, ours).find("relative L2"), std::string::npos);
  // ln alpha where -ln alpha is meant.
  Convention sign = find_convention("fla");
  sign.gate_encoding = GateEncoding::neg_log_decay;
  EXPECT_NE(rejection(find_convention("fla"), sign, telling_case(find_convention("fla"))), "");
}

TEST(EightPoints, BetaEncoding) {
  // beta read as its logit: sigmoid(beta) is in 0.5 .. 0.73, in range and wrong.
  const Convention& fla = find_convention("fla");
  Convention wrong = fla;
  wrong.beta_encoding = BetaEncoding::logit;
  EXPECT_NE(rejection(fla, wrong, telling_case(fla)).find("relative L2"), std::string::npos);
}

TEST(EightPoints, NormEpsilon) {
  // A floor under sum x^2 or an addend to it: nothing at usual lengths, a factor sqrt(2) where
  // sum x^2 = epsilon, and no NaN for a zero vector under either.
  const TemporaryFolder folder;
  const Convention& ggml = find_convention("ggml");
  Case ours = make("gated_delta:heads=2/8,dim=8x8,seq=2x9,dtype=f32,h0=normal,gates=mid,seed=5");
  const auto shrink = [&](std::size_t vector, float factor) {
    for (std::size_t i = 0; i < 8; ++i) ours["k"][vector * 8 + i] *= factor;
  };
  shrink(4, 1e-3f);  // sum x^2 = 1e-6
  shrink(7, 0.0f);
  export_case(ggml, ours, folder.file("case.h5"));
  const auto with_epsilon = [&](const Convention& convention, const std::string& exported,
                                const std::string& file) {
    // The same tensors, said to stand before the norm.
    std::filesystem::copy_file(folder.file(exported), folder.file(file));
    {
      const Hdf5Handle handle(H5Fopen(folder.file(file).c_str(), H5F_ACC_RDWR, H5P_DEFAULT),
                              H5Fclose);
      const Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose);
      const Hdf5Handle attribute(H5Acreate2(handle.id(), "l2_norm_eps", H5T_NATIVE_DOUBLE,
                                            space.id(), H5P_DEFAULT, H5P_DEFAULT),
                                 H5Aclose);
      const double epsilon = 1e-6;
      H5Awrite(attribute.id(), H5T_NATIVE_DOUBLE, &epsilon);
    }
    return import_case(convention, folder.file(file));
  };
  const Case floor = with_epsilon(ggml, "case.h5", "floor.h5");
  Convention adding = ggml;
  adding.norm.rule = NormRule::epsilon_added;
  const Case added = with_epsilon(adding, "case.h5", "added.h5");
  // A floor is not our rule: applied once, here. An addend of 1e-6 is: left to the kernel.
  EXPECT_FALSE(floor.problem.normalize_qk);
  EXPECT_TRUE(added.problem.normalize_qk);
  const Convention& mlx = find_convention("mlx-native");
  ours.problem.scale = 1;
  export_case(mlx, ours, folder.file("mlx.h5"));
  EXPECT_FALSE(import_case(mlx, folder.file("mlx.h5")).problem.normalize_qk);
  EXPECT_TRUE(with_epsilon(mlx, "mlx.h5", "mlx_added.h5").problem.normalize_qk);
  const auto length = [&](const Case& c, std::size_t vector) {
    double squares = 0;
    for (std::size_t i = 0; i < 8; ++i) squares += std::pow(c["k"][vector * 8 + i], 2);
    return std::sqrt(squares);
  };
  EXPECT_NEAR(length(floor, 4), 1, 1e-6);
  EXPECT_EQ(length(floor, 7), 0);
  EXPECT_TRUE(verify_outputs(CheckedReference(added), reference_outputs(added)).passed());
  EXPECT_FALSE(verify_outputs(CheckedReference(added), reference_outputs(floor)).passed());
}

TEST(EightPoints, QueryScale) {
  // In the operation, or the caller's.
  const Convention& mlx = find_convention("mlx-native");
  Convention wrong = mlx;
  wrong.scale = ScaleRule::fixed;
  EXPECT_NE(rejection(mlx, wrong, telling_case(mlx)).find("output"), std::string::npos);
  // A scale of 0 is the default to FlashInfer's prefill and zeros to everyone else.
  const Convention& prefill = find_convention("flashinfer-prefill");
  Case ours = telling_case(prefill);
  const TemporaryFolder folder;
  ours.problem.scale = 0.0;
  EXPECT_THROW(export_case(prefill, ours, folder.file("a.h5")), Error);
  Convention literal = prefill;
  literal.scale = ScaleRule::argument;
  export_case(literal, ours, folder.file("zero.h5"));
  EXPECT_EQ(import_case(prefill, folder.file("zero.h5")).problem.effective_scale(),
            1 / std::sqrt(8.0));
}

TEST(EightPoints, HeadMap) {
  const Convention& ggml = find_convention("ggml");
  Convention wrong = ggml;
  wrong.heads = HeadMap::grouped;
  EXPECT_NE(rejection(ggml, wrong, telling_case(ggml)), "");
  // The maps agree for one key head and for as many as value heads: no test of the map.
  for (const char* heads : {"1/4", "4/4"}) {
    const Case ours = make("gated_delta:heads=" + std::string(heads) +
                           ",dim=8x8,seq=2x9,dtype=f32,h0=normal,gates=mid");
    EXPECT_EQ(rejection(ggml, wrong, ours), "") << heads;
  }
}

TEST(EightPoints, StateLayout) {
  const Convention& vllm = find_convention("vllm");
  Convention wrong = vllm;
  std::swap(wrong.initial_state.axes[2], wrong.initial_state.axes[3]);
  std::swap(wrong.final_state.axes[2], wrong.final_state.axes[3]);
  EXPECT_NE(rejection(vllm, wrong, telling_case(vllm)), "");
  // From a zero state, outputs alone cannot tell; the final state does.
  const Case zero = make("gated_delta:heads=2/8,dim=8x8,seq=8x8,dtype=f32,gates=mid,norm=1");
  EXPECT_NE(rejection(vllm, wrong, zero).find("final_state"), std::string::npos);
}

TEST(EightPoints, StateInAndOut) {
  // In place in a pool: rows that no sequence owns must come back as they were.
  const Convention& max = find_convention("max");
  const Case ours = telling_case(max);
  const TemporaryFolder folder;
  export_case(max, ours, folder.file("in.h5"));
  testing::run_foreign_gated_delta("max", folder.file("in.h5"), folder.file("out.h5"));
  Outputs outputs = import_outputs(max, ours, folder.file("out.h5")).outputs;
  ASSERT_TRUE(verify_outputs(CheckedReference(ours), outputs).passed());
  std::int64_t free_row = 0;
  while (std::count(ours.slot_index.begin(), ours.slot_index.end(), free_row) > 0) ++free_row;
  outputs["final_state"][static_cast<std::size_t>(free_row * ours.problem.state_row_stride())] += 1;
  EXPECT_NE(verify_outputs(CheckedReference(ours), outputs).reason.find("no sequence may write"),
            std::string::npos);
  // A returned tensor has a row per sequence: a slot index cannot be handed over.
  EXPECT_THROW(export_case(find_convention("ggml"), ours, folder.file("no.h5")), Error);
  // vLLM's row 0 belongs to nobody: its rows are ours moved by one, its index 0 our -1.
  const Case padded = make(
      "gated_delta:heads=1/2,dim=8x8,seq=4x3,dtype=f32,h0=normal,layout=vk,slots=padding,seed=2");
  const Case theirs = to_foreign(find_convention("vllm"), padded);
  for (std::size_t n = 0; n < padded.slot_index.size(); ++n) {
    EXPECT_EQ(theirs.slot_index[n], padded.slot_index[n] + 1);
  }
  EXPECT_EQ(theirs.problem.num_pool_rows(), padded.problem.num_pool_rows() + 1);
}

TEST(EightPoints, ReadoutDtype) {
  // float32 outputs where a convention has float32 tokens, the token dtype elsewhere: outputs
  // rounded to bfloat16 are right for FLA's bfloat16 tokens and wrong for MAX.
  const auto rounded_outputs_pass = [](const Case& ours) {
    Outputs outputs = reference_outputs(ours);
    for (float& x : outputs["output"]) x = round_to(DType::bfloat16, x);
    return verify_outputs(CheckedReference(ours), outputs).passed();
  };
  const TemporaryFolder folder;
  const Case bf16 = make("gated_delta:heads=2/4,dim=8,seq=2x9,dtype=bf16,norm=1,gates=mid");
  export_case(find_convention("fla"), bf16, folder.file("fla.h5"));
  export_case(find_convention("max"), bf16, folder.file("max.h5"));
  EXPECT_TRUE(rounded_outputs_pass(import_case(find_convention("fla"), folder.file("fla.h5"))));
  EXPECT_FALSE(rounded_outputs_pass(import_case(find_convention("max"), folder.file("max.h5"))));
  const Case wide_output = make("gated_delta:heads=2/4,dim=8,seq=2x9,dtype=bf16,out=f32");
  EXPECT_THROW(export_case(find_convention("fla"), wide_output, folder.file("no.h5")), Error);
}

}  // namespace
}  // namespace gdn::conventions
