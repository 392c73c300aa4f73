// What interface/implementation.h promises of every implementation, whatever its operation: the one
// asked for is the one that runs, what is not supported has a reason, bad arguments are refused.
#include <algorithm>
#include <functional>
#include <set>

#include "harness/operations/generate_case.h"
#include "harness/run/execute.h"
#include "harness/verify/verify.h"
#include "interface/error.h"
#include "interface/operations/causal_conv1d.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/gated_delta_layer.h"
#include "tests/implementation_fixture.h"

namespace gdn {
namespace {

class AnyImplementation : public ImplementationTest {
 protected:
  /// The first problem the implementation says exercises it.
  Problem example() const { return Problem::parse(implementation().description().examples.at(0)); }

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
  EXPECT_EQ(device().info().runs, description.backend);
  EXPECT_FALSE(description.form.empty());
  EXPECT_FALSE(description.summary.empty());
  EXPECT_EQ(description.summary.find('\n'), std::string::npos);
}

// Who ceases to would be skipped by the tests of gates in 16 bits and of gates with strides.
TEST_P(AnyImplementation, TakesGatesAsTheyAreHeldOnTheCpuAndCuda) {
  const Description& description = implementation().description();
  const std::vector<Operand>& operands = description.operation->operands;
  const bool has_gates = std::any_of(operands.begin(), operands.end(),
                                     [](const Operand& operand) { return operand.may_have_form; });
  EXPECT_EQ(description.gates_in_any_form, has_gates && description.backend != "hip")
      << description.name << " of " << to_string(description.operation);
}

TEST_P(AnyImplementation, PlansTheChunkAskedForAndWithinItsEstimate) {
  const Problem problem = example();
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

TEST_P(AnyImplementation, ItsExamplesAreOfItsOperationAndSupported) {
  const Description& description = implementation().description();
  EXPECT_FALSE(description.examples.empty());
  for (const std::string& text : description.examples) {
    const Problem problem = Problem::parse(text);
    EXPECT_EQ(problem.operation, description.operation) << text;
    EXPECT_TRUE(implementation().supports(problem)) << text;
    expect_agrees(problem);
  }
}

TEST_P(AnyImplementation, SaysWhyItDoesNotSupportAProblem) {
  for (const Operation operation : operations()) {
    if (operation == implementation().description().operation) continue;
    Problem other = example();
    const Case inputs = generate_case(other);
    const DeviceCase on_device(inputs, device());
    other.operation = operation;
    expect_refused(other, on_device.arguments(), ErrorKind::unsupported,
                   to_string(implementation().description().operation));
  }
  const Problem problem = example();
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

// Each operand in turn is missing, null, or comes as one the problem does not have: a gate passed
// as another encoding would be silently wrong numbers.
TEST_P(AnyImplementation, RefusesCallsWithoutAnOperandOrWithOneTooMany) {
  for (const std::string& text : implementation().description().examples) {
    const Problem problem = Problem::parse(text);
    SCOPED_TRACE(text);
    const Case inputs = generate_case(problem);
    const DeviceCase on_device(inputs, device());
    const Arguments& good = on_device.arguments();
    const void* somewhere = good.input("sequence_offsets");
    ASSERT_NE(somewhere, nullptr);
    for (const Operand& operand : problem.operation->operands) {
      if (operand.hand_over.between_steps || operand.hand_over.on_request) continue;
      SCOPED_TRACE(operand.name);
      Arguments wrong = good;
      if (!good.has(operand.name)) {
        if (is_present(operand, problem)) continue;  // another output takes its place
        wrong.set_input(operand.name, somewhere);
        expect_refused(problem, wrong, ErrorKind::bad_input, operand.name);
        continue;
      }
      if (element_count(operand, problem) == 0) continue;
      // An initial state that the problem says is absent need not be there.
      const bool used = is_read(operand, problem) || is_written(operand, problem);
      if (!operand.is_index() && !used) continue;
      wrong.erase(operand.name);
      expect_refused(problem, wrong, ErrorKind::bad_input, operand.name);
      wrong.set(operand.name, ArrayPointer{});
      expect_refused(problem, wrong, ErrorKind::bad_input, operand.name);
    }
  }
}

TEST_P(AnyImplementation, RefusesAnArrayThatIsNotAlignedToItsElement) {
  const Problem problem = example();
  const Case inputs = generate_case(problem);
  const DeviceCase on_device(inputs, device());
  for (const Arguments::Entry& entry : on_device.arguments().entries()) {
    SCOPED_TRACE(entry.operand);
    Arguments wrong = on_device.arguments();
    ArrayPointer off = entry.pointer;
    if (off.read != nullptr) off.read = static_cast<const char*>(off.read) + 1;
    if (off.written != nullptr) off.written = static_cast<char*>(off.written) + 1;
    wrong.set(entry.operand, off);
    expect_refused(problem, wrong, ErrorKind::bad_input, entry.operand);
  }
}

// An operand says whether its tokens may lie apart: one that may not is refused with a stride
// whatever its values, one that may is computed right (the check "strided" below).
TEST_P(AnyImplementation, RefusesATokenStrideThatTheOperandDoesNotTake) {
  for (const std::string& text : implementation().description().examples) {
    const Problem problem = Problem::parse(text);
    SCOPED_TRACE(text);
    const Case inputs = generate_case(problem);
    const DeviceCase on_device(inputs, device());
    for (const Arguments::Entry& entry : on_device.arguments().entries()) {
      const Operand& operand = problem.operation->at(entry.operand);
      SCOPED_TRACE(entry.operand);
      Arguments strided = on_device.arguments();
      ArrayPointer pointer = entry.pointer;
      pointer.token_stride = 1;
      if (takes_token_stride(operand, problem)) {
        if (elements_per_token(operand, problem) == 1) continue;
      } else {
        pointer.token_stride = elements_per_token(operand, problem) + 64;
      }
      strided.set(entry.operand, pointer);
      expect_refused(problem, strided, ErrorKind::bad_input, entry.operand);
    }
  }
}

// Everything that verification checks of an implementation, on its examples. These are such that its
// promises are tried: of single sequences none of them would show that results depend on the batch, or
// that a plan goes on with the offsets of its first run.
TEST_P(AnyImplementation, PassesEveryCheckOnItsExamples) {
  const Description& description = implementation().description();
  std::set<std::string> passed;
  for (const std::string& text : description.examples) {
    const VerifyResult result = verify(implementation(), generate_case(Problem::parse(text)),
                                       device(), VerifyOptions::all_invariances());
    EXPECT_TRUE(result.passed()) << text << ": " << result.reason;
    for (const Check& check : result.checks) {
      if (check.result == Check::Result::passed) passed.insert(check.name);
    }
  }
  std::set<std::string> promised = {"errors", "refilled"};
  if (description.bitwise_repeatable) promised.insert({"repeat", "isolation", "strided"});
  if (description.bitwise_repeatable && description.batch_invariant) {
    promised.insert({"alone", "duplicates"});
  }
  for (const std::string& check : promised) {
    EXPECT_EQ(passed.count(check), 1u) << check << " applies to none of its examples";
  }
}

GDN_INSTANTIATE_FOR_ALL(AnyImplementation);

TEST(Registry, HoldsEveryImplementationOnce) {
  std::set<std::pair<Operation, std::string>> names;
  for (const Implementation* implementation : all_implementations()) {
    const Description& description = implementation->description();
    EXPECT_TRUE(names.emplace(description.operation, description.name).second) << description.name;
  }
  for (const char* name : {"cpu/naive", "cpu/recurrent", "cpu/chunkwise"}) {
    EXPECT_EQ(names.count({gated_delta_operation(), name}), 1u) << name;
    EXPECT_EQ(names.count({gated_delta_layer_operation(), name}), 1u) << name;
  }
  EXPECT_EQ(names.count({causal_conv1d_operation(), "cpu/direct"}), 1u);
}

TEST(Registry, NamesTheNearestForAnUnknownOne) {
  try {
    find_implementation(gated_delta_operation(), "cpu/chunkwize");
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
        EXPECT_FALSE(same_bits(all[i]["output"], all[j]["output"]))
            << operation << " " << i << " " << j;
      }
    }
  }
}

}  // namespace
}  // namespace gdn
