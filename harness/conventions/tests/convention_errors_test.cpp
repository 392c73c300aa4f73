// What a convention cannot express, and files that are not what they say: one clear line each.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>

#include "harness/conventions/convert.h"
#include "harness/files/hdf5_group.h"
#include "harness/operations/generate_case.h"
#include "harness/tests/temporary_folder.h"
#include "interface/error.h"
#include "reference/reference.h"

namespace gdn::conventions {
namespace {

// The one line that `body` must throw, holding all the words.
void expect_error(const std::function<void()>& body, const std::vector<std::string>& words) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input) << error.what();
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const std::string& word : words) {
      EXPECT_NE(message.find(word), std::string::npos) << "'" << word << "' not in: " << message;
    }
    return;
  }
  ADD_FAILURE() << "no error with " << (words.empty() ? "" : words.front());
}

class CannotExpress : public ::testing::Test {
 protected:
  void expect(const std::string& convention, const std::string& problem,
              const std::vector<std::string>& words) {
    const Case ours = generate_case(Problem::parse(problem));
    expect_error([&] { export_case(find_convention(convention), ours, folder_.file("no.h5")); },
                 words);
    EXPECT_FALSE(std::filesystem::exists(folder_.file("no.h5"))) << "nothing is left behind";
  }
  TemporaryFolder folder_;
};

TEST_F(CannotExpress, RaggedBatches) {
  for (const char* name : {"ggml", "mlx-native", "huggingface"}) {
    expect(name, "gated_delta:dim=8,seq=1x5+1x3,dtype=f32", {name, "equal length", "seq=1x5+1x3"});
  }
  expect("flashinfer-decode", "gated_delta:dim=8,seq=2x2,dtype=bf16", {"one token", "seq=2x2"});
}
TEST_F(CannotExpress, SlotIndices) {
  for (const char* name : {"ggml", "mlx-native", "huggingface", "fla"}) {
    expect(name, "gated_delta:dim=8,seq=2x3,dtype=f32,h0=normal,slots=permuted",
           {name, "no slot index"});
  }
}
TEST_F(CannotExpress, PaddingSlots) {
  const std::string padded = "gated_delta:dim=8,seq=3x1,h0=normal,slots=padding,";
  expect("max", padded + "dtype=f32", {"max", "padding", "-1"});
  expect("flashinfer-prefill", padded + "dtype=bf16", {"padding", "-1"});
  expect("flashinfer-decode", padded + "dtype=bf16,state=bf16,gate=logits,beta=logit",
         {"undefined", "bfloat16", "-1"});
}
TEST_F(CannotExpress, ElementTypes) {
  expect("flashinfer-prefill", "gated_delta:dim=8,seq=3,dtype=f32",
         {"bfloat16 or float16", "float32"});
  expect("fla", "gated_delta:dim=8,seq=3,dtype=bf16,out=f32", {"token dtype", "float32"});
}
TEST_F(CannotExpress, Options) {
  expect("ggml", "gated_delta:dim=8x16,seq=3,dtype=f32", {"square", "8x16"});
  expect("ggml", "gated_delta:dim=8,seq=3,dtype=f32,scale=0.5", {"fixed scale", "0.5"});
  expect("max", "gated_delta:dim=8,seq=3,dtype=f32,ht=0", {"always writes the final state"});
  expect("max", "gated_delta:dim=8,seq=3,dtype=f32,keys=unnormalised", {"normalises", "length"});
  expect("flashinfer-prefill", "gated_delta:dim=8,seq=3,dtype=bf16,norm=1",
         {"normalised", "--round"});
  expect("fla", "gated_delta:dim=8,seq=3,dtype=f32,update=additive", {"variant"});
  expect("fla", "gated_delta_layer:dim=8,seq=3,dtype=f32,gate=logits,beta=logit,norm=1",
         {"gated_delta_layer", "--op gated_delta"});
}
TEST_F(CannotExpress, PoolsOfMoreRowsThanSequences) {
  expect("fla", "gated_delta:dim=8,seq=2x3,dtype=f32,h0=normal,pool_rows=3",
         {"no slot index", "a row per sequence, 2", "pool has 3"});
}
TEST_F(CannotExpress, AScaleOfZeroWhereThatIsTheDefault) {
  expect("flashinfer-prefill", "gated_delta:dim=8,seq=3,dtype=bf16,scale=0", {"scale of 0"});
}
TEST_F(CannotExpress, Gates) {
  const std::string decode = "gated_delta:dim=8,seq=3x1,dtype=bf16,norm=1,";
  expect("flashinfer-decode", decode + "gates=none", {"logits", "decay of 1"});
  expect("flashinfer-decode", decode + "betas=one", {"logit of beta"});
  expect("flashinfer-decode", decode + "gate=logits,beta=logit", {"bfloat16", "--round"});
}
TEST_F(CannotExpress, Convolutions) {
  expect("flashinfer-prefill", "causal_conv1d:dim=8,seq=3,dtype=bf16", {"no convolution"});
  expect("max", "causal_conv1d:dim=8,seq=3,dtype=f32", {"no activation", "SiLU"});
  expect("mlx-native", "causal_conv1d:dim=8,seq=3,dtype=f32,act=none", {"always applies SiLU"});
  expect("ggml", "causal_conv1d:dim=8,seq=3,dtype=f32,act=none,bias=1", {"bias"});
}

// The number that a kernel has fixed is no other scale where it is written out, to float32's rounding.
TEST(FixedScale, MayBeWrittenOut) {
  const TemporaryFolder folder;
  const auto exported = [&](const std::string& scale) {
    const Case ours =
        generate_case(Problem::parse("gated_delta:dim=9,seq=3,dtype=f32,layout=vk,scale=" + scale));
    std::filesystem::remove(folder.file("f.h5"));
    export_case(find_convention("ggml"), ours, folder.file("f.h5"));
    return import_case(find_convention("ggml"), folder.file("f.h5")).problem.effective_scale();
  };
  for (const char* scale : {"auto", "0.33333333", "0.33333334"}) {
    const double found = exported(scale);
    EXPECT_TRUE(std::abs(3 * found - 1) <= 1e-7) << scale << ": " << found;
  }
  for (const char* scale : {"0.3333", "0.334", "3", "-0.33333333"}) {
    expect_error([&] { exported(scale); }, {"fixed scale 1/sqrt(Dk)"});
  }
}

// With --round the file is another case, and says so by what it holds.
TEST(Rounding, GatesRoundToTheTokenDtypeWhenAsked) {
  const TemporaryFolder folder;
  const Case ours = generate_case(
      Problem::parse("gated_delta:dim=8,seq=3x1,dtype=bf16,norm=1,gate=logits,beta=logit"));
  const Convention& decode = find_convention("flashinfer-decode");
  ConvertOptions options;
  options.round = true;
  export_case(decode, ours, folder.file("d.h5"), options);
  const Case theirs = import_case(decode, folder.file("d.h5"));
  const std::vector<float>& logits = ours["decay_logit"];
  ASSERT_EQ(theirs["decay_logit"].size(), logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    EXPECT_EQ(theirs["decay_logit"][i], round_to(DType::bfloat16, logits[i]));
  }
}

// Gates re-encoded are the same gates, to a rounding of float32.
TEST(Rounding, ReencodedGatesAreTheSameGates) {
  const TemporaryFolder folder;
  const Case ours = generate_case(
      Problem::parse("gated_delta:heads=2/4,dim=8,seq=40x1,dtype=bf16,norm=1,gates=strong"));
  const auto expected = reference::decode_gates<double>(ours);
  for (const char* name : {"flashinfer-decode", "max", "mlx-native"}) {
    ConvertOptions options;
    options.round = true;
    const Case theirs = to_foreign(find_convention(name), ours, options);
    const auto gates = reference::decode_gates<double>(theirs);
    const bool rounded = find_convention(name).gates_in_token_dtype;
    const bool tiled = find_convention(name).heads == HeadMap::tiled;
    for (std::size_t i = 0; i < expected.log_decay.size(); ++i) {
      // heads=2/4: tiled order is 0, 2, 1, 3.
      const std::size_t h = i % 4;
      const std::size_t at = tiled && (h == 1 || h == 2) ? i - h + 3 - h : i;
      const double tolerance = rounded ? 0.03 : 1e-6;
      EXPECT_NEAR(gates.log_decay[at], expected.log_decay[i],
                  tolerance * (1 + std::abs(expected.log_decay[i])))
          << name;
      EXPECT_NEAR(gates.beta[at], expected.beta[i], tolerance) << name;
    }
  }
}

// ---- malformed files

class MalformedFile : public ::testing::Test {
 protected:
  // A small file of fla, written by hand; `change` may add or replace before it is closed.
  std::string path() const { return folder_.file("f.h5"); }
  void write(const std::string& convention, const Shape& query, const Shape& gate, float gate_value,
             const std::string& dtype = "float32") {
    GroupWriter file(path(), "/", GroupWriter::Mode::replace_file);
    if (!convention.empty()) file.attribute("convention", convention);
    file.attribute("token_dtype", dtype);
    const auto ones = [](const Shape& shape, float value) {
      std::int64_t count = 1;
      for (const std::int64_t extent : shape) count *= extent;
      return std::vector<float>(static_cast<std::size_t>(count), value);
    };
    file.dataset("q", query, ones(query, 0.5f));
    file.dataset("k", {1, 3, 2, 4}, ones({1, 3, 2, 4}, 0.5f));
    file.dataset("v", {1, 3, 4, 4}, ones({1, 3, 4, 4}, 0.5f));
    file.dataset("g", gate, ones(gate, gate_value));
    file.dataset("beta", {1, 3, 4}, ones({1, 3, 4}, 0.5f));
    file.finish();
  }
  void expect(const std::vector<std::string>& words, const char* convention = "fla") {
    std::vector<std::string> all = words;
    all.push_back("f.h5");
    expect_error([&] { import_case(find_convention(convention), path()); }, all);
  }
  const Shape query_ = {1, 3, 2, 4};
  const Shape gate_ = {1, 3, 4};
  TemporaryFolder folder_;
};

TEST_F(MalformedFile, TheSameFileUnbrokenIsRead) {
  write("fla", query_, gate_, -0.1f);
  const Case c = import_case(find_convention("fla"), path());
  EXPECT_EQ(c.problem.num_key_heads, 2);
  EXPECT_EQ(c.problem.num_value_heads, 4);
  EXPECT_EQ(c.problem.total_tokens(), 3);
}
TEST_F(MalformedFile, AnotherConventionOrNone) {
  write("vllm", query_, gate_, -0.1f);
  expect({"convention", "'vllm'", "'fla'"});
  write("", query_, gate_, -0.1f);
  expect({"convention", "missing"});
}
TEST_F(MalformedFile, WrongShapes) {
  write("fla", {1, 3, 3, 4}, gate_, -0.1f);
  expect({"'k'", "[1, 3, 2, 4]", "[1, 3, 3, 4]"});
  write("fla", query_, {1, 4, 3}, -0.1f);
  expect({"'g'", "[N, time, Hv]"});
  write("fla", {3, 2, 4}, gate_, -0.1f);
  expect({"'q'", "[N, time, Hk, Dk]"});
}
TEST_F(MalformedFile, GatesOfAnotherEncoding) {
  write("fla", query_, gate_, 0.9f);  // alpha where ln alpha is meant
  expect({"log_decay", "0.9", "at most 0"});
}
TEST_F(MalformedFile, UnknownElementType) {
  write("fla", query_, gate_, -0.1f, "float8");
  expect({"token_dtype", "float8"});
}
TEST_F(MalformedFile, MissingDatasets) {
  write("vllm", query_, gate_, -0.1f);
  expect({"'initial_state'", "missing"}, "vllm");
}
TEST(MalformedFiles, AFlagThatTheKernelIgnores) {
  const TemporaryFolder folder;
  const Convention& prefill = find_convention("flashinfer-prefill");
  Convention lenient = prefill;
  lenient.norm.place = NormPlace::in_kernel_by_flag;
  const Case ours = generate_case(
      Problem::parse("gated_delta:dim=8,seq=3,dtype=bf16,norm=1,gate=decay,layout=vk"));
  export_case(lenient, ours, folder.file("f.h5"));
  expect_error([&] { import_case(prefill, folder.file("f.h5")); },
               {"f.h5", "use_qk_l2norm_in_kernel = 1", "ignores"});
}
TEST(MalformedFiles, UnknownConventionNamesTheNearest) {
  expect_error([] { find_convention("gml"); }, {"gml", "did you mean 'ggml'?"});
}

}  // namespace
}  // namespace gdn::conventions
