// Case files: what is written reads back, and every malformed file is one line that names the file,
// the dataset or attribute, and what was expected.
#include "harness/files/case_file.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include "harness/files/hdf5_group.h"
#include "harness/files/outputs_file.h"
#include "harness/operations/layer_to_delta.h"
#include "harness/operations/make_case.h"
#include "harness/tests/temporary_folder.h"
#include "interface/error.h"
#include "interface/operations/gated_delta_layer.h"
#include "reference/reference.h"

namespace gdn {
namespace {

const char* const kTrace = GDN_SOURCE_DIR "/data/gdn_lm_trace.h5";

void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b,
                      const std::string& name) {
  ASSERT_EQ(a.size(), b.size()) << name;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool both_nan = a[i] != a[i] && b[i] != b[i];
    ASSERT_TRUE(both_nan ||
                std::bit_cast<std::uint32_t>(a[i]) == std::bit_cast<std::uint32_t>(b[i]))
        << name << " at " << i;
  }
}

// The message of the Error that `body` must throw; fails the test if it is not one line.
template <typename Body>
std::string error_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input) << error.what();
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

void expect_words(const std::string& message, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    EXPECT_NE(message.find(word), std::string::npos) << "'" << word << "' not in: " << message;
  }
}

std::set<std::string> names_of(const Case& c) {
  std::set<std::string> names;
  for (const auto& [name, values] : c.arrays) names.insert(name);
  return names;
}

class RoundTrip : public ::testing::TestWithParam<const char*> {};

TEST_P(RoundTrip, ReadsBackWhatWasWritten) {
  const TemporaryFolder folder;
  const Case written = generate_case(Problem::parse(GetParam()));
  const std::string path = folder.file("case.h5") + ":/some/group";
  write_case(written, path);
  const Case c = read_case(path);
  Problem expected = written.problem;
  expected.case_file = path;
  // What describes how inputs were drawn is not in the file.
  const Problem defaults;
  expected.seed = defaults.seed;
  expected.gates = defaults.gates;
  expected.betas = defaults.betas;
  expected.keys = defaults.keys;
  if (expected.initial_state == InitialState::large) expected.initial_state = InitialState::normal;
  EXPECT_EQ(c.problem.to_string(), expected.to_string());
  EXPECT_EQ(c.sequence_offsets, written.sequence_offsets);
  EXPECT_EQ(c.slot_index, written.slot_index);
  for (const auto& [name, values] : written.other_indices) {
    EXPECT_EQ(c.other_indices[name], values) << name;
  }
  EXPECT_EQ(names_of(c), names_of(written));
  for (const auto& [name, values] : written.arrays) expect_same_bits(c[name], values, name);
}

INSTANTIATE_TEST_SUITE_P(
    Problems, RoundTrip,
    ::testing::Values(
        "gated_delta:heads=2/4,dim=8x6,seq=1x7+1x0+1x3,dtype=bf16,gates=reset,seed=3",
        "gated_delta:heads=1/3,dim=8,seq=3x5,dtype=f16,h0=large,state=bf16,layout=vk,slots=padding",
        "gated_delta:heads=1/1,dim=8x4,seq=2x5,dtype=bf16,h0=normal,pool_pad=3,out=f32,ht=0",
        "gated_delta:heads=1/2,dim=8,seq=5,dtype=f32,gate=decay,scale=0.3,norm=1",
        "gated_delta:heads=1/2,dim=8,seq=5,dtype=f32,gate=neg_log_decay",
        "gated_delta:heads=1/2,dim=8,seq=5,dtype=bf16,update=additive",
        "gated_delta:heads=2/4,dim=8x6,seq=5+0+3,dtype=bf16,steps=3,beta=logit,h0=normal",
        "gated_delta:heads=2/4,dim=8x6,seq=5+0+3,dtype=f32,decay=channel,gates=reset,layout=vk",
        "gated_delta:heads=1/2,dim=8x6,seq=5,steps=2,decay=channel,gate=logits,update=additive",
        "gated_delta_layer:heads=1/2,dim=8,seq=5,gate=logits,beta=logit,decay=channel",
        "gated_delta:heads=1/2,dim=8,seq=5,gate=bounded,bound=0.3,beta=logit2,gates=bounded",
        "gated_delta:heads=1/2,dim=8,seq=5,gate=bounded,decay=channel,gates=bounded",
        "gated_delta:heads=1/2,dim=8,seq=3x5,dtype=f32,gate=logits,beta=logit,slots=permuted",
        "causal_conv1d:heads=1/2,dim=8,seq=1x5+1x1,dtype=bf16,width=3,bias=1,act=none,"
        "slots=permuted",
        "causal_conv1d:heads=1/2,dim=8,seq=1x5+1x1,dtype=f16,conv_layout=time,conv_in_place=0",
        "causal_conv1d:channels=5,seq=1x5+1x1,window=written,slots=permuted",
        "causal_conv1d:channels=5,seq=1x5+1x1,window=none,residual=1,dtype=bf16",
        "causal_conv1d:channels=5,seq=1x5+1x1,conv_layout=time,residual=tensor,dtype=bf16",
        "causal_conv1d:channels=5,seq=1x5+1x1,window=read,fresh=1,dtype=bf16",
        "causal_conv1d:channels=5,seq=1x5+1x1+1x2,window_length=7,window_order=ring,dtype=bf16",
        "causal_conv1d:channels=5,seq=1x5+1x1,dtype=bf16,weights=f32,bias=1",
        "gated_delta_layer:heads=1/2,dim=8,seq=5+2,h0=normal,dtype=f16,weights=f32",
        "causal_conv1d:channels=5,seq=1x5+1x1,width=3,window_layout=channels,window_length=7",
        "gated_delta_layer:heads=1/2,dim=8,seq=5+2,h0=normal,window_layout=channels,fresh=1",
        "gated_delta_verify:heads=1/2,dim=8x6,seq=4+0+7+3,dtype=bf16,h0=normal,slots=padding",
        "gated_delta_verify:heads=1/2,dim=8,seq=5x3,gate=logits,steps=2,state=f16,layout=vk",
        "gated_rms_norm:heads=1/2,dim=8x6,seq=1x5+1x0,dtype=f16",
        "gated_rms_norm:heads=1/3,dim=4,seq=5,dtype=bf16,out=f32,norm_gate=sigmoid2,norm_eps=1e-5",
        "gated_delta_layer:heads=1/"
        "2,dim=8,seq=1x5+1x1+1x2,dtype=bf16,gate=logits,beta=logit,norm=1,"
        "h0=normal,state=f16,slots=padding"));

// Files written before there were variants hold none of their attributes.
TEST(CaseFile, TheGatedDeltaRuleNeedsNoAttributeOfItsOwn) {
  const TemporaryFolder folder;
  const std::string path = folder.file("case.h5");
  write_case(generate_case(Problem::parse("gated_delta:heads=1/2,dim=4,seq=3")), path);
  const GroupReader file(path, "/");
  for (const char* name : {"update", "steps", "decay"}) {
    EXPECT_FALSE(file.has_attribute(name)) << name;
  }
  const Problem p = read_case_problem(path);
  EXPECT_EQ(p.update, UpdateRule::delta);
  EXPECT_EQ(p.steps, 1);
  EXPECT_EQ(p.decay, DecayPer::head);
}

// A misspelt name is found by looking at what is there.
TEST(CaseFile, AMissingDatasetIsToldWithTheNamesThatAreThere) {
  const TemporaryFolder folder;
  const std::string path = folder.file("names.h5");
  const auto said = [&](const std::string& group) -> std::string {
    try {
      GroupReader(path, group).floats("output", {kAnyExtent}, "N");
    } catch (const Error& error) {
      return error.what();
    }
    return "read";
  };
  GroupWriter some(path, "/some", GroupWriter::Mode::add_group);
  some.dataset("outputs", {1, 2, 3});
  some.dataset("final_state", {4});
  some.finish();
  GroupWriter(path, "/none", GroupWriter::Mode::add_group).finish();
  EXPECT_EQ(said("/some"),
            path + ":/some: dataset 'output' is missing; there are: final_state outputs");
  EXPECT_EQ(said("/none"), path + ":/none: dataset 'output' is missing; there is nothing");
}

// One convolution adds one thing: its input, which the attribute says, or the dataset.
TEST(CaseFile, AResidualIsTheInputOrADataset) {
  const TemporaryFolder folder;
  const std::string path = folder.file("case.h5");
  write_case(generate_case(Problem::parse("causal_conv1d:channels=5,seq=3,residual=tensor")), path);
  EXPECT_EQ(read_case_problem(path).conv_residual, ConvResidual::tensor);
  {
    const Hdf5Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
    H5Adelete(file.id(), "conv_residual");
    const Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose);
    const Hdf5Handle attribute(H5Acreate2(file.id(), "conv_residual", H5T_NATIVE_INT64, space.id(),
                                          H5P_DEFAULT, H5P_DEFAULT),
                               H5Aclose);
    const std::int64_t one = 1;
    H5Awrite(attribute.id(), H5T_NATIVE_INT64, &one);
  }
  try {
    read_case_problem(path);
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              path +
                  ": attribute 'conv_residual' is 1, the input, beside the dataset 'residual', "
                  "expected one of them");
  }
}

TEST(CaseFile, ArraysOfAVariantMustHaveItsShape) {
  const TemporaryFolder folder;
  const auto spoiled = [&](const char* name, const std::string& problem, const char* attribute,
                           auto value) {
    const std::string path = folder.file(name);
    write_case(generate_case(Problem::parse("gated_delta:heads=1/2,dim=4x3,seq=6" + problem)),
               path);
    const Hdf5Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
    H5Adelete(file.id(), attribute);
    const Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose);
    const Hdf5Handle written(
        H5Acreate2(file.id(), attribute, H5T_NATIVE_INT64, space.id(), H5P_DEFAULT, H5P_DEFAULT),
        H5Aclose);
    const std::int64_t stored = value;
    H5Awrite(written.id(), H5T_NATIVE_INT64, &stored);
    return path;
  };
  const std::string three = spoiled("three.h5", ",steps=2", "steps", 3);
  expect_words(error_of([&] { read_case(three); }),
               {three, "dataset 'k'", "[6, 2, 1, 4]", "[6, 3, 1, 4]", "[T, steps, Hk, Dk]"});
  const std::string none = spoiled("none.h5", ",steps=2", "steps", 17);
  expect_words(error_of([&] { read_case(none); }), {none, "steps=17", "1..16"});
}

// A file says heads and dims, or channels, never both; those of heads are as they were before channels
// could be said.
TEST(CaseFile, ChannelsOfNoHeadsAreAnAttributeInThePlaceOfHeadsAndDims) {
  const TemporaryFolder folder;
  const std::vector<std::string> of_heads = {"num_key_heads", "num_value_heads", "key_head_dim",
                                             "value_head_dim"};
  for (const char* channels : {"1", "3", "5", "130", "6145"}) {
    const std::string path = folder.file(std::string(channels) + ".h5");
    const Case c = generate_case(Problem::parse("causal_conv1d:channels=" + std::string(channels) +
                                                ",seq=3+0+1,dtype=bf16,bias=1,slots=permuted"));
    write_case(c, path);
    const Case again = read_case(path);
    EXPECT_EQ(again.problem.channels, c.problem.channels);
    for (const char* name : {"qkv", "conv_weight", "conv_bias", "conv_state"}) {
      expect_same_bits(again[name], c[name], name);
    }
    EXPECT_EQ(resolve_problem(again.problem.to_string()), again.problem);
    const GroupReader file(path, "/");
    for (const std::string& name : of_heads) EXPECT_FALSE(file.has_attribute(name)) << name;
    expect_words(error_of([&] { resolve_problem("causal_conv1d:channels=4,case=" + path); }),
                 {"channels=4", "channels=" + std::string(channels)});
  }
  const std::string path = folder.file("heads.h5");
  write_case(generate_case(Problem::parse("causal_conv1d:heads=1/2,dim=4x3,seq=6")), path);
  const GroupReader file(path, "/");
  for (const std::string& name : of_heads) EXPECT_TRUE(file.has_attribute(name)) << name;
  EXPECT_FALSE(file.has_attribute("channels"));
  EXPECT_EQ(read_case(path).problem.conv_channels(), 14);
}

TEST(CaseFile, ChannelsMustBeThoseOfTheArraysAndStandAlone) {
  const TemporaryFolder folder;
  const auto written = [&](const char* name, const std::string& problem) {
    const std::string path = folder.file(name);
    write_case(generate_case(Problem::parse("causal_conv1d:" + problem + ",seq=6")), path);
    return path;
  };
  const auto with = [](const std::string& path, const char* attribute, std::int64_t value) {
    const Hdf5Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
    if (H5Aexists(file.id(), attribute) > 0) H5Adelete(file.id(), attribute);
    const Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose);
    const Hdf5Handle made(
        H5Acreate2(file.id(), attribute, H5T_NATIVE_INT64, space.id(), H5P_DEFAULT, H5P_DEFAULT),
        H5Aclose);
    H5Awrite(made.id(), H5T_NATIVE_INT64, &value);
    return path;
  };
  const auto refusal = [](const std::string& path) { return error_of([&] { read_case(path); }); };
  expect_words(refusal(with(written("six.h5", "channels=5"), "channels", 6)),
               {"six.h5", "'qkv'", "[6, 5]", "[*, 6]"});
  expect_words(refusal(with(written("none.h5", "channels=5"), "channels", 0)),
               {"none.h5", "'channels'", "0"});
  expect_words(refusal(with(written("both.h5", "heads=1/2,dim=4x3"), "channels", 14)),
               {"both.h5", "heads=1/2", "channels=14", "one of the two"});
  const std::string neither = written("neither.h5", "channels=5");
  {
    const Hdf5Handle file(H5Fopen(neither.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
    H5Adelete(file.id(), "channels");
  }
  expect_words(refusal(neither), {"neither.h5", "num_key_heads", "missing"});
}

TEST(CaseFile, RealTraceReads) {
  for (const char* layer : {"/layer0", "/layer1", "/layer2", "/layer3"}) {
    const Case c = read_case(std::string(kTrace) + ":" + layer);
    EXPECT_EQ(c.problem.operation, gated_delta_layer_operation());
    EXPECT_EQ(c.problem.num_value_heads, 4);
    EXPECT_EQ(c.problem.total_tokens(), 1536);
    EXPECT_EQ(c.problem.token_dtype, DType::bfloat16);
    EXPECT_EQ(c.problem.gate_encoding, GateEncoding::logits);
  }
}

TEST(CaseFile, CaseProblemsMayOverrideTypesButNotShapes) {
  const std::string path = std::string(kTrace) + ":/layer0";
  const Problem problem = resolve_problem("gated_delta_layer:dtype=f32,chunk=32,case=" + path);
  EXPECT_EQ(problem.token_dtype, DType::float32);
  EXPECT_EQ(problem.chunk, 32);
  EXPECT_EQ(problem.num_key_heads, 2);
  EXPECT_EQ(make_case(problem).problem, problem);
  EXPECT_EQ(resolve_problem(problem.to_string()), problem) << "the canonical string is complete";
  const std::string message =
      error_of([&] { resolve_problem("gated_delta_layer:heads=4/4,case=" + path); });
  expect_words(message, {"heads=4/4", "heads=2/4", "layer0"});
  expect_words(error_of([&] { resolve_problem("causal_conv1d:case=" + path); }),
               {"gated_delta_layer", "causal_conv1d"});
}

// The recurrence inside the layer, judged by itself: outputs agree with the layer's up to the
// rounding of q, k and v (none in float32 but float32's own).
TEST(LayerToDelta, ReferenceOutputsAgreeWithTheLayer) {
  for (const char* encodings :
       {"gate=logits,beta=logit", "gates=bounded,gate=bounded,bound=2,beta=logit2"}) {
    SCOPED_TRACE(encodings);
    const Case layer = generate_case(
        Problem::parse("gated_delta_layer:heads=2/4,dim=16x8,seq=1x40+1x0+1x9,dtype=f32,"
                       "norm=1,h0=normal,slots=permuted,bias=1," +
                       std::string(encodings)));
    const Arrays<double> of_layer = reference::evaluate<double>(layer);
    const Arrays<double> of_step = reference::evaluate<double>(layer_to_delta(layer));
    const std::vector<double>& expected = of_layer["output"];
    const std::vector<double>& actual = of_step["output"];
    ASSERT_EQ(actual.size(), expected.size());
    ASSERT_EQ(actual.size(), 49u * 4 * 8);
    double error = 0;
    double size = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      error += std::pow(actual[i] - expected[i], 2);
      size += std::pow(expected[i], 2);
    }
    EXPECT_TRUE(std::sqrt(error / size) <= 3e-7) << std::sqrt(error / size);
  }
}

TEST(Outputs, ReadBackAndNameTheirMaker) {
  const TemporaryFolder folder;
  const Case c = generate_case(
      Problem::parse("gated_delta:heads=1/2,dim=4x6,seq=2x3,h0=normal,pool_pad=2,slots=permuted"));
  Outputs outputs;
  outputs["output"] = c["v"];
  outputs["final_state"] = c["initial_state"];
  OutputsOrigin origin;
  origin.implementation = "cpu/test";
  origin.chunk = 16;
  write_outputs(c, outputs, origin, folder.file("out.h5"));
  const StoredOutputs stored = read_outputs(c, folder.file("out.h5"));
  EXPECT_EQ(stored.origin.implementation, "cpu/test");
  EXPECT_EQ(stored.origin.chunk, 16);
  const Outputs narrowed = stored.narrowed();
  expect_same_bits(narrowed["output"], outputs["output"], "output");
  expect_same_bits(narrowed["final_state"], outputs["final_state"], "final_state");
}

TEST(Outputs, OfTheReferenceKeepTheirFloat64) {
  const TemporaryFolder folder;
  for (const char* text : {"gated_delta:heads=1/2,dim=4x6,seq=2x3,h0=normal,slots=permuted",
                           "causal_conv1d:heads=1/2,dim=4,seq=5,dtype=bf16",
                           "gated_delta_layer:heads=1/2,dim=4,seq=5+2,dtype=bf16,norm=1"}) {
    const Case c = generate_case(Problem::parse(text));
    const Arrays<double> wide = reference::evaluate<double>(c);
    write_outputs(c, wide, {}, folder.file("out.h5"));
    const StoredOutputs stored = read_outputs(c, folder.file("out.h5"));
    bool beyond_float32 = false;
    for (const auto& [name, values] : stored.arrays) {
      ASSERT_TRUE(wide.has(name)) << text << ": " << name;
      EXPECT_EQ(values, wide[name]) << text << ": " << name;
      for (const double x : values)
        beyond_float32 |= x != static_cast<double>(static_cast<float>(x));
    }
    EXPECT_FALSE(stored.arrays.empty()) << text;
    EXPECT_TRUE(beyond_float32) << text;
  }
}

// A pool has the rows that its owner gave it: fewer than the generator's N + 3, or many more.
TEST(CaseFile, KeepsPoolsOfAnyNumberOfRows) {
  const TemporaryFolder folder;
  int count = 0;
  for (const char* text :
       {"gated_delta:heads=1/2,dim=4x3,seq=5+2,h0=normal,slots=permuted,pool_rows=2",
        "gated_delta:heads=1/2,dim=4x3,seq=5+2,h0=normal,slots=permuted,pool_rows=8,pool_pad=3",
        "gated_delta:heads=1/2,dim=4x3,seq=5+2,slots=padding,pool_rows=100",
        "gated_delta:heads=1/2,dim=4x3,seq=5+2+1,h0=normal,slots=padding,pool_rows=2",
        "gated_delta:heads=1/2,dim=4x3,seq=5+2,h0=normal,pool_rows=9",
        "causal_conv1d:heads=1/2,dim=4x3,seq=5+2,slots=permuted,pool_rows=100",
        "gated_delta_layer:heads=1/2,dim=4x3,seq=5+2,h0=normal,slots=permuted,pool_rows=2"}) {
    SCOPED_TRACE(text);
    const Case c = generate_case(Problem::parse(text));
    const std::string path = folder.file(std::to_string(count++) + ".h5");
    write_case(c, path);
    const Case read = read_case(path);
    EXPECT_EQ(read.problem.num_pool_rows(), c.problem.num_pool_rows());
    EXPECT_EQ(read.slot_index, c.slot_index);
    for (const auto& [name, values] : c.arrays) expect_same_bits(values, read[name], name);
  }
}

TEST(Outputs, NeverReplaceTheirInputs) {
  const TemporaryFolder folder;
  const std::string path = folder.file("case.h5");
  write_case(generate_case(Problem::parse("gated_delta:dim=4,seq=3")), path);
  const Case c = read_case(path);
  Outputs outputs;
  outputs["output"] = c["v"];
  outputs["final_state"].assign(c["initial_state"].size(), 0);
  expect_words(error_of([&] { write_outputs(c, outputs, {}, path); }), {path, "inputs"});
  EXPECT_NO_THROW(read_case(path));
}

// ---- malformed files

// A valid case to spoil: attributes and datasets rewritten through HDF5 itself.
class MalformedCase : public ::testing::Test {
 protected:
  MalformedCase() : path_(folder_.file("case.h5")) {
    write_case(generate_case(Problem::parse("gated_delta:heads=2/4,dim=8x6,seq=1x7+1x3")), path_);
  }
  Hdf5Handle open() const { return {H5Fopen(path_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose}; }
  void remove_dataset(const char* name) { H5Ldelete(open().id(), name, H5P_DEFAULT); }
  void remove_attribute(const char* name) { H5Adelete(open().id(), name); }
  template <typename T>
  void write_dataset(const char* name, hid_t type, std::vector<hsize_t> extents,
                     const std::vector<T>& values) {
    const Hdf5Handle file = open();
    if (H5Lexists(file.id(), name, H5P_DEFAULT) > 0) H5Ldelete(file.id(), name, H5P_DEFAULT);
    const Hdf5Handle space(
        H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), H5Sclose);
    const Hdf5Handle dataset(
        H5Dcreate2(file.id(), name, type, space.id(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
        H5Dclose);
    ASSERT_GE(H5Dwrite(dataset.id(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
  }
  void write_offsets(const std::vector<std::int64_t>& offsets) {
    write_dataset("sequence_offsets", H5T_NATIVE_INT64, {offsets.size()}, offsets);
  }
  void write_attribute(const char* name, std::int64_t value) {
    const Hdf5Handle file = open();
    H5Adelete(file.id(), name);
    const Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose);
    const Hdf5Handle attribute(
        H5Acreate2(file.id(), name, H5T_NATIVE_INT64, space.id(), H5P_DEFAULT, H5P_DEFAULT),
        H5Aclose);
    H5Awrite(attribute.id(), H5T_NATIVE_INT64, &value);
  }
  void write_attribute(const char* name, const std::string& text) {
    const Hdf5Handle file = open();
    H5Adelete(file.id(), name);
    const Hdf5Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
    H5Tset_size(type.id(), text.size());
    const Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose);
    const Hdf5Handle attribute(
        H5Acreate2(file.id(), name, type.id(), space.id(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
    H5Awrite(attribute.id(), type.id(), text.data());
  }
  std::string message() const {
    const std::string text = error_of([&] { read_case(path_); });
    expect_words(text, {path_});
    return text;
  }

  Hdf5Quiet quiet_;
  TemporaryFolder folder_;
  std::string path_;
};

TEST_F(MalformedCase, FileMissing) {
  path_ = folder_.file("nowhere.h5");
  expect_words(message(), {"no such file"});
}

TEST_F(MalformedCase, FileTruncated) {
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) / 2);
  expect_words(message(), {"truncated"});
}

TEST_F(MalformedCase, FileForeign) {
  std::ofstream(path_) << "not HDF5 at all";
  expect_words(message(), {"not an HDF5 file"});
}

TEST_F(MalformedCase, FileIsADirectory) {
  path_ = folder_.path().string();
  expect_words(message(), {"directory"});
}

TEST_F(MalformedCase, GroupMissingNamesThoseThere) {
  expect_words(error_of([&] { read_case(std::string(kTrace) + ":/layer9"); }),
               {"/layer9", "/layer0 /layer1"});
}

TEST_F(MalformedCase, SchemaUnknown) {
  write_attribute("schema", "gdn-case/9");
  expect_words(message(), {"schema", "gdn-case/9", "gdn-case/1"});
}

TEST_F(MalformedCase, SchemaMissing) {
  remove_attribute("schema");
  expect_words(message(), {"schema", "missing"});
}

TEST_F(MalformedCase, OperationUnknown) {
  write_attribute("op", "softmax");
  expect_words(message(), {"'op'", "softmax", "gated_delta"});
}

TEST_F(MalformedCase, AttributeOfTheWrongType) {
  write_attribute("num_key_heads", "two");
  expect_words(message(), {"num_key_heads", "integer"});
}

TEST_F(MalformedCase, TokenDtypeUnknown) {
  write_attribute("token_dtype", "int8");
  expect_words(message(), {"token_dtype", "int8", "bfloat16"});
}

TEST_F(MalformedCase, ValueHeadsNotAMultipleOfKeyHeads) {
  write_attribute("num_key_heads", std::int64_t{3});
  expect_words(message(), {"num_value_heads", "multiple"});
}

TEST_F(MalformedCase, DatasetMissing) {
  remove_dataset("k");
  expect_words(message(), {"dataset 'k'", "missing"});
}

// Taken for an absent one, a state or a bias that somebody wrote would not be read.
TEST_F(MalformedCase, MisspeltOptionalDatasetNamesTheNearest) {
  write_dataset<float>("inital_state", H5T_NATIVE_FLOAT, {2, 4, 8, 6}, std::vector<float>(384));
  expect_words(message(), {"'inital_state'", "gated_delta", "did you mean 'initial_state'?"});
}

TEST_F(MalformedCase, DatasetOfAnotherOperationIsRefused) {
  write_dataset<float>("conv_bias", H5T_NATIVE_FLOAT, {4}, {0, 0, 0, 0});
  expect_words(message(), {"'conv_bias'", "no operand of gated_delta"});
}

TEST_F(MalformedCase, MisspeltOptionalAttributeNamesTheNearest) {
  write_attribute("state_layuot", "vk");
  expect_words(message(), {"attribute 'state_layuot'", "did you mean 'state_layout'?"});
}

// Those that earlier versions wrote for every operation, a note, and the outputs of the case in a
// group inside it or beside its inputs.
TEST_F(MalformedCase, NamesThatAreNotTheCasesOwnAreNotMalformed) {
  write_attribute("activation", "none");
  write_attribute("description", "layer 3");
  write_attribute("implementation", "mine");
  write_dataset<float>("output", H5T_NATIVE_FLOAT, {10, 4, 6}, std::vector<float>(240));
  {
    const Hdf5Handle file = open();
    const Hdf5Handle group(
        H5Gcreate2(file.id(), "outputs_of_mine", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose);
    ASSERT_TRUE(group.valid());
  }
  EXPECT_NO_THROW(read_case(path_));
}

TEST_F(MalformedCase, DatasetOfTheWrongShape) {
  write_dataset("v", H5T_NATIVE_FLOAT, {10, 4, 5}, std::vector<float>(200));
  expect_words(message(), {"dataset 'v'", "[10, 4, 5]", "[10, 4, 6]", "[T, Hv, Dv]"});
}

TEST_F(MalformedCase, DatasetOfTheWrongType) {
  write_dataset("beta", H5T_NATIVE_INT32, {10, 4}, std::vector<std::int32_t>(40));
  expect_words(message(), {"dataset 'beta'", "integers", "float32 or float64"});
}

TEST_F(MalformedCase, NoGate) {
  remove_dataset("log_decay");
  expect_words(message(),
               {"log_decay | decay | neg_log_decay | decay_logit | bounded_decay_logit"});
}

TEST_F(MalformedCase, TwoGateEncodings) {
  write_dataset("decay", H5T_NATIVE_FLOAT, {10, 4}, std::vector<float>(40, 0.9f));
  expect_words(message(), {"'log_decay' and 'decay'", "exactly one"});
}

TEST_F(MalformedCase, OffsetsNotMonotone) {
  write_offsets({0, 8, 3, 10});
  expect_words(message(), {"sequence_offsets", "not monotone"});
}

TEST_F(MalformedCase, OffsetsNotEndingAtT) {
  write_offsets({0, 7, 9});
  expect_words(message(), {"sequence_offsets", "ends at 9", "10"});
}

TEST_F(MalformedCase, OffsetsAreNotIntegers) {
  write_dataset("sequence_offsets", H5T_NATIVE_FLOAT, {2}, std::vector<float>{0, 10});
  expect_words(message(), {"sequence_offsets", "expected integers"});
}

TEST_F(MalformedCase, SlotUsedTwice) {
  write_dataset("slot_index", H5T_NATIVE_INT64, {2}, std::vector<std::int64_t>{1, 1});
  expect_words(message(), {"slot_index", "twice"});
}

TEST_F(MalformedCase, SlotOutOfRange) {
  write_dataset("slot_index", H5T_NATIVE_INT64, {2}, std::vector<std::int64_t>{0, 99});
  expect_words(message(), {"slot_index", "99"});
}

// Slots alone say how many rows there must be, where nothing else does.
TEST_F(MalformedCase, SlotsAndAPoolOfTheirOwnRowsAreNotMalformed) {
  write_attribute("pool_rows", std::int64_t{5});
  write_dataset("slot_index", H5T_NATIVE_INT64, {2}, std::vector<std::int64_t>{4, 0});
  EXPECT_EQ(read_case(path_).problem.num_pool_rows(), 5);
  write_attribute("pool_rows", std::int64_t{4});
  expect_words(message(), {"slot_index", "value 4", "0..3"});
  remove_attribute("pool_rows");
  EXPECT_EQ(read_case(path_).problem.num_pool_rows(), 5);
}

TEST_F(MalformedCase, PositiveLogDecay) {
  std::vector<float> values(40, -0.1f);
  values[5] = 0.25f;
  write_dataset("log_decay", H5T_NATIVE_FLOAT, {10, 4}, values);
  expect_words(message(), {"log_decay", "0.25", "[1, 1]"});
}

TEST_F(MalformedCase, NanInInputs) {
  std::vector<float> values(240, 0.5f);
  values[17] = std::numeric_limits<float>::quiet_NaN();
  write_dataset("v", H5T_NATIVE_FLOAT, {10, 4, 6}, values);
  expect_words(message(), {"v: NaN", "[0, 2, 5]"});
}

TEST_F(MalformedCase, OutputsOfTheWrongShape) {
  const Case c = read_case(path_);
  const Case other = generate_case(Problem::parse("gated_delta:heads=2/4,dim=8x6,seq=4"));
  Outputs outputs;
  outputs["output"] = other["v"];
  outputs["final_state"].assign(other["initial_state"].size(), 0);
  write_outputs(other, outputs, {}, folder_.file("out.h5"));
  expect_words(error_of([&] { read_outputs(c, folder_.file("out.h5")); }),
               {"out.h5", "'output'", "[4, 4, 6]", "[10, 4, 6]"});
}

}  // namespace
}  // namespace gdn
