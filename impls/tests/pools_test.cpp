// Pools are the caller's: of any number of rows, wherever in memory a row may lie
// (docs/contract.md, section 1). Of every implementation whose operation has one.
#include <algorithm>
#include <map>

#include "harness/operations/generate_case.h"
#include "harness/run/execute.h"
#include "tests/implementation_fixture.h"

namespace gdn {
namespace {

bool is_pool(const Operand& operand, const Problem& p) {
  return !operand.is_index() && is_present(operand, p) && cut_of(operand, p) == Cut::pool_rows;
}

class Pools : public ImplementationTest {
 protected:
  void SetUp() override {
    ImplementationTest::SetUp();
    if (IsSkipped()) return;
    const auto& operands = implementation().description().operation->operands;
    const Problem example = problem_with("");
    if (std::none_of(operands.begin(), operands.end(),
                     [&](const Operand& operand) { return is_pool(operand, example); })) {
      GTEST_SKIP() << "the operation has no pool";
    }
  }

  /// The first example, of three sequences in rows of the caller's choice.
  Problem problem_with(const std::string& fields) const {
    const std::string example = implementation().description().examples.at(0);
    Problem problem = Problem::parse(example);
    problem.sequences.lengths = {20, 3, 9};
    return fields.empty() ? problem : Problem::parse(problem.to_string() + "," + fields);
  }
};

// A generator's pools have three rows more than sequences; nothing may depend on that.
TEST_P(Pools, OfFewerAndOfManyMoreRowsThanSequences) {
  int supported = 0;
  for (const char* fields :
       {"slots=permuted,pool_rows=3", "slots=permuted,pool_rows=4", "slots=padding,pool_rows=2",
        "slots=permuted,pool_rows=60", "slots=padding,pool_rows=37", "pool_rows=11"}) {
    const Problem problem = problem_with(fields);
    if (!implementation().supports(problem)) continue;
    ++supported;
    expect_agrees(generate_case(problem));
  }
  if (supported == 0) GTEST_SKIP() << "slots are not supported";
}

// Nor may what is allocated: a server's pool has rows by the thousand, whatever the batch. Of 200 rows more, four bytes
// each are more than a size is rounded by.
TEST_P(Pools, TakeNoWorkspaceForTheirRows) {
  const Problem few = problem_with("slots=permuted,pool_rows=3");
  const Problem many = problem_with("slots=permuted,pool_rows=203");
  if (const Support support = implementation().supports(few); !support) {
    GTEST_SKIP() << support.reason;
  }
  EXPECT_EQ(implementation().workspace_bytes(few), implementation().workspace_bytes(many));
  const auto planned_bytes = [&](const Problem& problem) {
    const DeviceCase on_device(generate_case(problem), device());
    return implementation().plan(problem, on_device.arguments(), device())->info().workspace_bytes;
  };
  EXPECT_EQ(planned_bytes(few), planned_bytes(many));
}

// Rows whose elements have numbers past 2^31 give the bits that rows at the pool's start give. The
// pools are never touched between their rows, so that on a host they take no memory there.
TEST_P(Pools, RowsBeyondTwoToThe31stElement) {
  if (device().info().backend == "gfx906-emulator") {
    GTEST_SKIP() << "the emulator keeps track of every byte of an array";
  }
  Problem problem = problem_with("slots=permuted,state=bf16,pool_rows=3");
  problem.sequences.lengths = {20, 3};
  if (const Support support = implementation().supports(problem); !support) {
    GTEST_SKIP() << support.reason;
  }
  const Case inputs = generate_case(problem);
  const Outputs expected = execute(implementation(), inputs, device());

  std::int64_t longest_row = 0;  // so that at least this pool's rows lie past it
  for (const Operand& operand : problem.operation->operands) {
    if (!is_pool(operand, problem)) continue;
    longest_row = std::max(longest_row, row_stride(operand, problem));
  }
  const std::int64_t far = (std::int64_t{1} << 31) / longest_row + 1;
  const std::vector<std::int64_t> slots = {far + 1, far};

  Problem distant = problem;
  distant.pool_rows = far + 2;
  const DeviceCase on_device(inputs, device());
  Arguments arguments = on_device.arguments();
  const DeviceBuffer slot_array = device().allocate(16);
  device().upload(slot_array.data(), slots.data(), 16);
  arguments.set_input("slot_index", slot_array.data());

  // Each pool has an element type of its own: beside states lie rings of tokens' keys, and of float32.
  const auto element = [&](const Operand& operand) {
    return static_cast<std::int64_t>(size_of(operand.dtype(problem)));
  };
  std::map<std::string, DeviceBuffer> pools;
  const auto row_bytes = [&](const Operand& operand) {
    return row_elements(operand, problem) * element(operand);
  };
  const auto row_at = [&](const Operand& operand, std::size_t n) {
    return pools.at(operand.name).as<char>() +
           slots[n] * row_stride(operand, problem) * element(operand);
  };
  std::vector<char> bytes;
  for (const Operand& operand : problem.operation->operands) {
    if (!is_pool(operand, problem)) continue;
    const std::int64_t rows = far + 2;
    pools.emplace(operand.name,
                  device().allocate(rows * row_stride(operand, problem) * element(operand)));
    void* const pool = pools.at(operand.name).data();
    arguments.set(operand.name, {operand.role == Role::output ? nullptr : pool,
                                 operand.role == Role::input ? nullptr : pool, 0});
    if (operand.role == Role::output) continue;  // it holds nothing before the call
    for (std::size_t n = 0; n < slots.size(); ++n) {
      bytes.resize(static_cast<std::size_t>(row_bytes(operand)));
      const std::int64_t row = inputs.slot(static_cast<std::int64_t>(n));
      encode(operand.dtype(problem),
             inputs[operand.name].data() + row * row_stride(operand, problem), bytes.data(),
             row_elements(operand, problem));
      device().upload(row_at(operand, n), bytes.data(), row_bytes(operand));
    }
  }
  const auto plan = implementation().plan(distant, arguments, device());
  plan->run();
  const Outputs outputs = on_device.download();
  for (const Operand& operand : problem.operation->operands) {
    if (!operand.is_output() || !is_present(operand, problem)) continue;
    if (operand.hand_over.on_request || operand.hand_over.between_steps) continue;
    const std::string& name = operand.output_name();
    SCOPED_TRACE(implementation().description().name + " " + distant.to_string() + ": " + name);
    if (!is_pool(operand, problem)) {
      EXPECT_TRUE(same_bits(outputs[name], expected[name]));
      continue;
    }
    for (std::size_t n = 0; n < slots.size(); ++n) {
      bytes.resize(static_cast<std::size_t>(row_bytes(operand)));
      device().download(bytes.data(), row_at(operand, n), row_bytes(operand));
      std::vector<float> row(static_cast<std::size_t>(row_elements(operand, problem)));
      decode(operand.dtype(problem), bytes.data(), row.data(), row_elements(operand, problem));
      const auto before = expected[name].begin() +
                          inputs.slot(static_cast<std::int64_t>(n)) * row_stride(operand, problem);
      EXPECT_TRUE(same_bits(row, {before, before + row_elements(operand, problem)}))
          << "sequence " << n;
    }
  }
}

GDN_INSTANTIATE_FOR_ALL(Pools);

}  // namespace
}  // namespace gdn
