// What interface/implementation.h promises of every implementation, whatever its operation: the one
// asked for is the one that runs, what is not supported has a reason, bad arguments are refused.
#include <functional>
#include <set>

#include "harness/execute.h"
#include "harness/inputs.h"
#include "implementation_fixture.h"
#include "interface/error.h"

namespace gdn {
namespace {

class AnyImplementation : public ImplementationTest {
 protected:
  /// A small problem of the implementation's operation that it supports.
  Problem small_problem(const std::string& options = "") const {
    for (const char* shape : {"dim=64,dtype=f32", "dim=64,dtype=bf16", "dim=128,dtype=bf16"}) {
      const Problem problem = Problem::parse(to_string(implementation().description().operation) +
                                             ":heads=1/2,seq=20+3,h0=normal," + shape + options);
      if (implementation().supports(problem)) return problem;
    }
    throw Error(ErrorKind::unsupported, "no small problem is supported");
  }

  void expect_refused(const Problem& problem, const Arguments& arguments, ErrorKind kind,
                      const std::string& named) {
    try {
      implementation().plan(problem, arguments, device());
      ADD_FAILURE() << "planned without complaint; expected an error naming " << named;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      EXPECT_NE(std::string(error.what()).find(named), std::string::npos)
          << "'" << error.what() << "' does not name " << named;
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << "one line is expected";
    }
  }
};

TEST_P(AnyImplementation, IsFoundByItsNameAndDescribesItself) {
  const Description& description = implementation().description();
  EXPECT_EQ(&find_implementation(description.operation, description.name), &implementation());
  EXPECT_EQ(description.name.rfind(description.backend + "/", 0), 0u) << description.name;
  EXPECT_TRUE(does_backend(device().info().backend, description.backend)) << description.backend;
  EXPECT_FALSE(description.form.empty());
  EXPECT_FALSE(description.summary.empty());
  EXPECT_EQ(description.summary.find('\n'), std::string::npos);
}

TEST_P(AnyImplementation, PlansTheChunkAskedForAndWithinItsEstimate) {
  const Problem problem = small_problem();
  const Case inputs = generate_case(problem);
  const DeviceCase on_device(inputs, device());
  const auto plan = implementation().plan(problem, on_device.arguments(), device());
  EXPECT_GE(plan->info().launches, 1);
  EXPECT_LE(plan->info().workspace_bytes, implementation().workspace_bytes(problem));
  if (plan->info().chunk == 0) return;
  for (const std::int64_t chunk : {16, 32, 64, 128}) {
    Problem with_chunk = problem;
    with_chunk.chunk = chunk;
    if (!implementation().supports(with_chunk)) continue;
    const auto chunked = implementation().plan(with_chunk, on_device.arguments(), device());
    EXPECT_EQ(chunked->info().chunk, chunk);
  }
}

TEST_P(AnyImplementation, SaysWhyItDoesNotSupportAProblem) {
  for (const Operation operation :
       {Operation::gated_delta, Operation::causal_conv1d, Operation::gated_delta_layer}) {
    if (operation == implementation().description().operation) continue;
    Problem other = small_problem();
    const Case inputs = generate_case(other);
    const DeviceCase on_device(inputs, device());
    other.operation = operation;
    expect_refused(other, on_device.arguments(), ErrorKind::unsupported,
                   to_string(implementation().description().operation));
  }
  const Problem problem = small_problem();
  if (problem.operation == Operation::causal_conv1d) return;
  Problem odd = problem;
  odd.chunk = 100000;
  const Case inputs = generate_case(problem);
  const DeviceCase on_device(inputs, device());
  const auto plan = implementation().plan(problem, on_device.arguments(), device());
  if (plan->info().chunk == 0) return;  // chunks mean nothing to this form
  const Support support = implementation().supports(odd);
  EXPECT_FALSE(support);
  EXPECT_NE(support.reason.find("100000"), std::string::npos) << support.reason;
  expect_refused(odd, on_device.arguments(), ErrorKind::unsupported, support.reason);
}

TEST_P(AnyImplementation, RefusesArgumentsOfAnotherOperation) {
  const Problem problem = small_problem();
  const Arguments wrong = problem.operation == Operation::gated_delta
                              ? Arguments(CausalConv1dArguments{})
                              : Arguments(GatedDeltaArguments{});
  expect_refused(problem, wrong, ErrorKind::bad_input, "arguments");
}

TEST_P(AnyImplementation, RefusesNullPointers) {
  const Problem problem = small_problem(",slots=permuted,bias=1");
  const Case inputs = generate_case(problem);
  const DeviceCase on_device(inputs, device());
  const Arguments& good = on_device.arguments();
  const auto refuse = [&](auto arguments, auto member, const char* named) {
    arguments.*member = nullptr;
    SCOPED_TRACE(named);
    expect_refused(problem, arguments, ErrorKind::bad_input, named);
  };
  if (const auto* delta = std::get_if<GatedDeltaArguments>(&good)) {
    refuse(*delta, &GatedDeltaArguments::query, "q");
    refuse(*delta, &GatedDeltaArguments::key, "k");
    refuse(*delta, &GatedDeltaArguments::value, "v");
    refuse(*delta, &GatedDeltaArguments::sequence_offsets, "sequence_offsets");
    refuse(*delta, &GatedDeltaArguments::slot_index, "slot_index");
    refuse(*delta, &GatedDeltaArguments::state_pool, "state_pool");
    refuse(*delta, &GatedDeltaArguments::output, "output");
    GatedDeltaArguments without_gate = *delta;
    without_gate.gate = LogDecay{nullptr};
    expect_refused(problem, without_gate, ErrorKind::bad_input, "");
    GatedDeltaArguments without_beta = *delta;
    without_beta.beta = BetaDirect{nullptr};
    expect_refused(problem, without_beta, ErrorKind::bad_input, "beta");
  }
  if (const auto* conv = std::get_if<CausalConv1dArguments>(&good)) {
    refuse(*conv, &CausalConv1dArguments::input, "input");
    refuse(*conv, &CausalConv1dArguments::weight, "weight");
    refuse(*conv, &CausalConv1dArguments::bias, "bias");
    refuse(*conv, &CausalConv1dArguments::sequence_offsets, "sequence_offsets");
    refuse(*conv, &CausalConv1dArguments::slot_index, "slot_index");
    refuse(*conv, &CausalConv1dArguments::output, "output");
  }
  if (const auto* layer = std::get_if<GatedDeltaLayerArguments>(&good)) {
    GatedDeltaLayerArguments without_input = *layer;
    without_input.conv.input = nullptr;
    expect_refused(problem, without_input, ErrorKind::bad_input, "input");
    GatedDeltaLayerArguments without_output = *layer;
    without_output.delta.output = nullptr;
    expect_refused(problem, without_output, ErrorKind::bad_input, "output");
  }
}

// A gate array passed as another encoding would be silently wrong numbers.
TEST_P(AnyImplementation, RefusesAGateOfAnotherEncoding) {
  const Problem problem = small_problem();
  const Case inputs = generate_case(problem);
  const DeviceCase on_device(inputs, device());
  const auto* delta = std::get_if<GatedDeltaArguments>(&on_device.arguments());
  if (delta == nullptr) GTEST_SKIP() << "not an operation with gates of its own";
  const float* values = std::get<LogDecay>(delta->gate).values;
  for (const Gate& gate : {Gate(Decay{values}), Gate(NegLogDecay{values}),
                           Gate(DecayLogits{values, values, values})}) {
    GatedDeltaArguments wrong = *delta;
    wrong.gate = gate;
    expect_refused(problem, wrong, ErrorKind::bad_input, "gate");
  }
  GatedDeltaArguments wrong = *delta;
  wrong.beta = BetaLogit{std::get<BetaDirect>(delta->beta).values};
  expect_refused(problem, wrong, ErrorKind::bad_input, "beta");
}

INSTANTIATE_TEST_SUITE_P(GatedDelta, AnyImplementation,
                         testing::ValuesIn(implementations_of(Operation::gated_delta)), test_name);
INSTANTIATE_TEST_SUITE_P(CausalConv1d, AnyImplementation,
                         testing::ValuesIn(implementations_of(Operation::causal_conv1d)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Layer, AnyImplementation,
                         testing::ValuesIn(implementations_of(Operation::gated_delta_layer)),
                         test_name);

TEST(Registry, HoldsEveryImplementationOnce) {
  std::set<std::pair<Operation, std::string>> names;
  for (const Implementation* implementation : all_implementations()) {
    const Description& description = implementation->description();
    EXPECT_TRUE(names.emplace(description.operation, description.name).second) << description.name;
  }
  for (const char* name : {"cpu/naive", "cpu/recurrent", "cpu/chunkwise"}) {
    EXPECT_EQ(names.count({Operation::gated_delta, name}), 1u) << name;
    EXPECT_EQ(names.count({Operation::gated_delta_layer, name}), 1u) << name;
  }
  EXPECT_EQ(names.count({Operation::causal_conv1d, "cpu/direct"}), 1u);
}

TEST(Registry, NamesTheNearestForAnUnknownOne) {
  try {
    find_implementation(Operation::gated_delta, "cpu/chunkwize");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_NE(std::string(error.what()).find("'cpu/chunkwise'"), std::string::npos) << error.what();
  }
}

// The forms round differently, so equal bits would mean that one ran in another's place. The same
// holds of chunk sizes.
TEST(CpuForms, AreTheOnesAskedFor) {
  const auto device = open_device("cpu");
  for (const char* operation : {"gated_delta", "gated_delta_layer"}) {
    const Problem problem =
        Problem::parse(std::string(operation) + ":heads=1/2,dim=64,seq=200,dtype=f32,gates=mid");
    const Case inputs = generate_case(problem);
    std::vector<Outputs> all;
    for (const char* name : {"cpu/naive", "cpu/recurrent", "cpu/chunkwise"}) {
      all.push_back(execute(find_implementation(problem.operation, name), inputs, *device));
    }
    for (const std::int64_t chunk : {16, 100}) {
      Case with_chunk = inputs;
      with_chunk.problem.chunk = chunk;
      all.push_back(
          execute(find_implementation(problem.operation, "cpu/chunkwise"), with_chunk, *device));
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        EXPECT_FALSE(same_bits(all[i].output, all[j].output)) << operation << " " << i << " " << j;
      }
    }
  }
}

}  // namespace
}  // namespace gdn
