// What kernels of the gated delta rule are told of arrays: packets of 16 bytes only where no array,
// row or head begins inside of one. Host only: nothing is run.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <iterator>
#include <string>

#include "hip/gated_delta/arguments.h"
#include "interface/operations/gated_delta.h"
#include "interface/problem.h"

namespace gdn::hip {
namespace {

template <typename T>
void shift(T*& array, std::uintptr_t bytes) {
  array = reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(array) + bytes);
}

/// Places that nothing reads.
GatedDeltaArguments aligned_arguments(const Problem& problem) {
  GatedDeltaArguments given;
  for (const void** array : {&given.query, &given.key, &given.value}) shift(*array, 0x1000);
  for (void** array : {&given.state_pool, &given.output}) shift(*array, 0x2000);
  given.query_token_stride = given.key_token_stride = problem.num_key_heads * problem.key_head_dim;
  given.value_token_stride = problem.num_value_heads * problem.value_head_dim;
  return given;
}

TEST(GatedDeltaParams, ArePacketsWhereEverythingBeginsWithOne) {
  const std::string heads = "gated_delta:heads=2/4,seq=5,dtype=bf16,h0=normal";
  const auto packets = [](const std::string& text,
                          const std::function<void(GatedDeltaArguments&)>& change) {
    const Problem problem = Problem::parse(text);
    GatedDeltaArguments given = aligned_arguments(problem);
    change(given);
    return make_params(problem, given).packets;
  };
  const auto unchanged = [](GatedDeltaArguments&) {};
  EXPECT_EQ(packets(heads + ",dim=32x64", unchanged), 1);
  EXPECT_EQ(packets(heads + ",dim=36x64", unchanged), 0);
  EXPECT_EQ(packets(heads + ",dim=32x68", unchanged), 0);
  for (const std::uintptr_t bytes : {2, 4, 8, 15, 16, 32}) {
    const int wanted = bytes % 16 == 0 ? 1 : 0;
    const std::function<void(GatedDeltaArguments&)> changes[] = {
        [&](GatedDeltaArguments& given) { shift(given.query, bytes); },
        [&](GatedDeltaArguments& given) { shift(given.key, bytes); },
        [&](GatedDeltaArguments& given) { shift(given.value, bytes); },
        [&](GatedDeltaArguments& given) { shift(given.output, bytes); },
        [&](GatedDeltaArguments& given) { shift(given.state_pool, bytes); },
        [&](GatedDeltaArguments& given) { shift(given.checkpoint_states, bytes); },
    };
    for (std::size_t i = 0; i < std::size(changes); ++i)
      EXPECT_EQ(packets(heads + ",dim=32x64", changes[i]), wanted)
          << "array " << i << ", " << bytes << " bytes on";
  }
  for (const std::int64_t elements : {1, 4, 8}) {
    const int wanted = elements % 8 == 0 ? 1 : 0;
    const std::function<void(GatedDeltaArguments&)> changes[] = {
        [&](GatedDeltaArguments& given) { given.query_token_stride += elements; },
        [&](GatedDeltaArguments& given) { given.key_token_stride += elements; },
        [&](GatedDeltaArguments& given) { given.value_token_stride += elements; },
    };
    for (std::size_t i = 0; i < std::size(changes); ++i)
      EXPECT_EQ(packets(heads + ",dim=32x64", changes[i]), wanted)
          << "stride " << i << ", " << elements << " elements longer";
  }
}

}  // namespace
}  // namespace gdn::hip
