// What a plug-in's functions are told, and what becomes of what they return.
#include "plugin/plugin_implementation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/tests/message_of.h"
#include "interface/device.h"
#include "interface/error.h"

namespace gdn {
namespace {

// The latest call's array of an operand, with copies of what the struct points to.
struct Told {
  std::string operand, dtype;
  const void* read = nullptr;
  void* written = nullptr;
  std::vector<std::int64_t> extents, strides;
};
std::vector<Told> g_told;
std::string g_problem;

Told told_of(const std::string& operand) {
  for (const Told& told : g_told) {
    if (told.operand == operand) return told;
  }
  return {};
}

gdnbench_status record(const gdnbench_plugin_problem* problem, const gdnbench_array* arrays,
                       std::int64_t num_arrays, void*, void*, gdnbench_plugin_message*) {
  g_problem = problem->text;
  g_told.clear();
  for (const gdnbench_array* a = arrays; a != arrays + num_arrays; ++a) {
    g_told.push_back({a->operand,
                      a->dtype,
                      a->read,
                      a->written,
                      {a->extents, a->extents + a->rank},
                      {a->strides, a->strides + a->rank}});
  }
  return GDNBENCH_OK;
}

gdnbench_status refuse_large_heads(const gdnbench_plugin_problem* problem,
                                   gdnbench_plugin_message* message) {
  if (problem->key_head_dim <= 16) return GDNBENCH_OK;
  message->text[0] = 'D', message->text[1] = 'k';
  return GDNBENCH_UNSUPPORTED;
}

gdnbench_plugin_implementation exported() {
  return {"cpu/of_this_test", "gated_delta", "cpu", "", "h0, pool_pad,slots,state=bf16", 1, 0,
          refuse_large_heads, nullptr,       record};
}

TEST(PluginImplementation, SaysOfItselfWhatTheTableSays) {
  const auto table = exported();
  const PluginImplementation implementation(table, "hash");
  const Description& description = implementation.description();
  EXPECT_EQ(description.name, "cpu/of_this_test");
  EXPECT_EQ(to_string(description.operation), "gated_delta");
  EXPECT_EQ(description.honours, (HonouredFields{"h0", "pool_pad", "slots", "state=bf16"}));
  EXPECT_TRUE(description.bitwise_repeatable);
  EXPECT_FALSE(description.batch_invariant);
  EXPECT_EQ(implementation.file_hash(), "hash");
}

TEST(PluginImplementation, RefusesWhatItsTableDoesNotNameAndWhatItsFunctionRefuses) {
  const auto table = exported();
  const PluginImplementation implementation(table, "");
  const auto reason = [&](const char* problem) {
    return implementation.supports(Problem::parse(problem)).reason;
  };
  EXPECT_EQ(reason("gated_delta:heads=1/2,dim=16,seq=3,dtype=f32,h0=normal"), "");
  EXPECT_EQ(reason("gated_delta:heads=1/2,dim=32,seq=3,dtype=f32"), "Dk");
  EXPECT_NE(reason("gated_delta:heads=1/2,dim=16,seq=3,dtype=f32,norm=1").find("norm=1"),
            std::string::npos);
  EXPECT_NE(reason("gated_rms_norm:heads=1/2,dim=16,seq=3").find("gated_rms_norm"),
            std::string::npos);
}

TEST(PluginImplementation, IsToldWhereEveryElementLies) {
  const auto table = exported();
  const PluginImplementation implementation(table, "");
  const Problem problem = Problem::parse(
      "gated_delta:heads=1/2,dim=8x4,seq=2+1,dtype=f32,h0=normal,slots=permuted,pool_pad=5");
  std::vector<float> floats(4096);
  std::vector<std::int64_t> offsets = {0, 2, 3};
  std::vector<std::int32_t> slots = {4, 0, 2, 0};
  Arguments arguments;
  for (const char* input : {"q", "k", "log_decay", "beta"}) {
    arguments.set_input(input, floats.data());
  }
  arguments.set_input("v", floats.data(), 20);
  arguments.set_input("sequence_offsets", offsets.data());
  arguments.set_input("slot_index", slots.data(), HeldForm{StorageType::int32, 2});
  arguments.set_in_place("initial_state", floats.data());
  arguments.set_output("output", floats.data());
  const auto device = open_device("cpu");
  implementation.plan(problem, arguments, *device)->run();

  EXPECT_EQ(g_problem, problem.to_string());
  EXPECT_EQ(g_told.size(), 9u);
  using List = std::vector<std::int64_t>;
  EXPECT_EQ(told_of("q").extents, (List{3, 1, 8}));
  EXPECT_EQ(told_of("q").strides, (List{8, 8, 1}));
  EXPECT_EQ(told_of("v").strides, (List{20, 4, 1})) << "a slice of a wider tensor";
  EXPECT_EQ(told_of("v").read, floats.data());
  EXPECT_EQ(told_of("v").written, nullptr);
  EXPECT_EQ(told_of("initial_state").strides, (List{69, 32, 4, 1})) << "5 unused behind a row";
  EXPECT_EQ(told_of("initial_state").read, floats.data());
  EXPECT_EQ(told_of("initial_state").written, floats.data());
  EXPECT_EQ(told_of("output").read, nullptr);
  EXPECT_EQ(told_of("slot_index").dtype, "int32");
  EXPECT_EQ(told_of("slot_index").strides, (List{2}));
  EXPECT_EQ(told_of("sequence_offsets").dtype, "int64");
}

TEST(PluginImplementation, DoesNotHaveToReadAStateThatIsNotThere) {
  const auto table = exported();
  const PluginImplementation implementation(table, "");
  std::vector<float> floats(4096);
  std::vector<std::int64_t> offsets = {0, 3};
  Arguments arguments;
  for (const char* input : {"q", "k", "v", "log_decay", "beta"}) {
    arguments.set_input(input, floats.data());
  }
  arguments.set_input("sequence_offsets", offsets.data());
  arguments.set_in_place("initial_state", floats.data());
  arguments.set_output("output", floats.data());
  const auto device = open_device("cpu");
  implementation
      .plan(Problem::parse("gated_delta:heads=1/2,dim=8,seq=3,dtype=f32"), arguments, *device)
      ->run();
  EXPECT_EQ(told_of("initial_state").read, nullptr);
  EXPECT_EQ(told_of("initial_state").written, floats.data());
}

TEST(PluginImplementation, IsNoneWithoutWhatIdentifiesIt) {
  const auto refusal = [](const auto& change) {
    gdnbench_plugin_implementation table = exported();
    change(table);
    return message_of([&] { PluginImplementation(table, ""); });
  };
  using Table = gdnbench_plugin_implementation;
  const auto has = [](const std::string& text, const char* words) {
    EXPECT_NE(text.find(words), std::string::npos) << "'" << words << "' not in: " << text;
  };
  has(refusal([](Table& t) { t.name = nullptr; }), "name: is empty");
  has(refusal([](Table& t) { t.name = "cuda/other"; }), "expected 'cpu/NAME'");
  has(refusal([](Table& t) { t.name = "cpu/a,b"; }), "without spaces, commas and colons");
  has(refusal([](Table& t) { t.operation = "gated_delto"; }), "gated_delta");
  has(refusal([](Table& t) { t.backend = "cuda-emulated"; }), "expected cpu, cuda or hip");
  has(refusal([](Table& t) { t.honours = "nrom"; }), "norm");
  has(refusal([](Table& t) { t.honours = "width"; }), "no field of gated_delta");
  has(refusal([](Table& t) { t.enqueue = nullptr; }), "enqueue: is NULL");
}

}  // namespace
}  // namespace gdn
