// gdnbench_reference_float64 on arrays of a caller's own, against an implementation in C++.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "harness/c_library/gdnbench.h"
#include "harness/operations/generate_case.h"
#include "harness/run/execute.h"
#include "interface/operations/gated_delta.h"

namespace gdn {
namespace {

// The caller's pool has more rows than sequences need, and the problem does not say how many: the largest index does,
// which is one of the new states'.
TEST(ReferenceFromC, NewStatesMayLieInRowsBehindThoseOfTheOldOnes) {
  const std::string problem =
      "gated_delta:heads=1/2,dim=4x6,seq=5+3+2,dtype=f32,gates=mid,h0=normal,slots=permuted,"
      "output_slots=other,seed=3";
  constexpr std::int64_t kRows = 16, kRowElements = 2 * 4 * 6;
  Case inputs = generate_case(Problem::parse(problem));
  inputs.problem.set_pool_rows(kRows);
  inputs.slot_index = {7, 2, 9};
  std::vector<std::int64_t>& written_rows = inputs.other_indices["output_slot_index"];
  written_rows = {15, 0, 4};
  std::vector<float>& pool = inputs["initial_state"];
  pool.resize(kRows * kRowElements);
  for (std::size_t i = 0; i < pool.size(); ++i) pool[i] = 0.01f * static_cast<float>(i % 89) - 0.4f;
  const Outputs expected = execute(find_implementation(gated_delta_operation(), "cpu/naive"),
                                   inputs, *open_device("cpu"));

  std::vector<double> output(10 * 2 * 6, -1), states(pool.size(), -1);
  const std::vector<std::int64_t> offsets = {0, 5, 8, 10};
  std::vector<gdnbench_array> given;
  for (const char* name : {"q", "k", "v", "log_decay", "beta", "initial_state", "output"}) {
    gdnbench_array array{};
    array.operand = name;
    if (name != std::string("output")) array.read = inputs[name].data();
    if (name == std::string("output")) array.written = output.data();
    if (name == std::string("initial_state")) array.written = states.data();
    given.push_back(array);
  }
  using Indices = std::pair<const char*, const std::int64_t*>;
  for (const auto& [name, indices] : {Indices{"sequence_offsets", offsets.data()},
                                      Indices{"slot_index", inputs.slot_index.data()},
                                      Indices{"output_slot_index", written_rows.data()}}) {
    gdnbench_array array{};
    array.operand = name;
    array.read = indices;
    given.push_back(array);
  }
  ASSERT_EQ(gdnbench_reference_float64(problem.c_str(), offsets.data(), 3, "cpu", nullptr,
                                       given.data(), static_cast<std::int64_t>(given.size())),
            GDNBENCH_OK)
      << problem << ": " << gdnbench_last_error();
  for (std::size_t i = 0; i < output.size(); ++i) {
    ASSERT_TRUE(std::abs(output[i] - expected["output"][i]) <= 1e-5) << problem << ", " << i;
  }
  for (const std::int64_t row : written_rows) {
    for (std::int64_t i = row * kRowElements; i < (row + 1) * kRowElements; ++i) {
      const auto at = static_cast<std::size_t>(i);
      ASSERT_TRUE(std::abs(states[at] - expected["final_state"][at]) <= 1e-5)
          << problem << ", row " << row;
    }
  }
}

}  // namespace
}  // namespace gdn
