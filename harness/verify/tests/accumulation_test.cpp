// Errors of a long decode: windows of tokens, whose error each is, and that calls of one token are what is
// run.
#include "harness/verify/accumulation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/operations/generate_case.h"
#include "harness/tests/planted_faults/faulty_implementation.h"
#include "interface/batch_part.h"
#include "interface/error.h"

namespace gdn {
namespace {

const char* const kDecode =
    "gated_delta:heads=1/2,dim=16,seq=2x300,dtype=f32,h0=normal,norm=1,gates=none,seed=5";

AccumulatedErrors errors_of_decode(const std::string& problem) {
  const Case inputs = generate_case(Problem::parse(problem));
  const CheckedReference reference(inputs);
  const auto device = open_device("cpu");
  const Implementation& recurrent = find_implementation(inputs.problem.operation, "cpu/recurrent");
  return accumulated_errors(reference,
                            decoded_token_by_token(recurrent, reference, *device, [](auto) {}));
}

TEST(Accumulation, WindowsAreDecadesUpToTheLongestSequence) {
  const auto ends = [](std::int64_t longest) {
    std::vector<std::int64_t> result;
    std::int64_t first = 0;
    for (const TokenWindow& window : decades(longest)) {
      EXPECT_EQ(window.first, first);
      result.push_back(first = window.end);
    }
    return result;
  };
  EXPECT_EQ(ends(0), std::vector<std::int64_t>());
  EXPECT_EQ(ends(1), std::vector<std::int64_t>({1}));
  EXPECT_EQ(ends(10), std::vector<std::int64_t>({1, 10}));
  EXPECT_EQ(ends(1234), std::vector<std::int64_t>({1, 10, 100, 1000, 1234}));
}

// The state of a 16-bit pool is rounded behind every token, and nothing is forgotten.
TEST(Accumulation, NarrowStatesGatherErrorsTokenByToken) {
  const AccumulatedErrors wide = errors_of_decode(kDecode);
  const AccumulatedErrors narrow = errors_of_decode(std::string(kDecode) + ",state=bf16");
  ASSERT_EQ(wide.by_window.size(), 4u);
  ASSERT_EQ(narrow.by_window.size(), 4u);
  for (const double error : wide.by_window) EXPECT_TRUE(error <= 1e-5) << error;
  EXPECT_TRUE(wide.final_state <= 1e-5) << wide.final_state;
  EXPECT_TRUE(narrow.by_window[0] <= 1e-6) << narrow.by_window[0];
  EXPECT_TRUE(narrow.by_window[3] > 1e-3) << narrow.by_window[3];
  EXPECT_TRUE(narrow.by_window[3] > 2 * narrow.by_window[1]) << narrow.by_window[1];
  EXPECT_TRUE(narrow.final_state > 1e-3) << narrow.final_state;
}

TEST(Accumulation, EachErrorIsThatOfTheWorstPairInItsWindow) {
  const Case inputs = generate_case(Problem::parse(kDecode));
  const CheckedReference reference(inputs);
  Outputs outputs;
  for (const auto& [name, wide] : reference.wide()) {
    outputs[name].assign(wide.begin(), wide.end());
  }
  const Operand& output = *inputs.problem.operation->find_output("output");
  const auto scale_tokens = [&](const TokenRange& tokens, float factor) {
    strips_of(output, inputs, {1, 1}, tokens).for_each([&](std::int64_t i) {
      outputs["output"][static_cast<std::size_t>(i)] *= factor;
    });
  };
  scale_tokens({100, 200}, 1.25f);
  const AccumulatedErrors errors = accumulated_errors(reference, outputs);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(errors.by_window[i] <= 1e-7) << i;
  EXPECT_NEAR(errors.by_window[3], 0.25, 1e-6);
  EXPECT_TRUE(errors.final_state <= 1e-7) << errors.final_state;

  scale_tokens({0, 1}, std::nanf(""));
  EXPECT_TRUE(std::isnan(accumulated_errors(reference, outputs).by_window[0]));
}

// What is wrong in a call that continues another one alone shows in calls of one token, and in no other.
TEST(Accumulation, EveryTokenIsACallOfItsOwn) {
  const Case inputs = generate_case(Problem::parse(kDecode));
  const CheckedReference reference(inputs);
  const auto device = open_device("cpu");
  std::int64_t calls = 1;
  const auto count = [&](std::int64_t done) { EXPECT_EQ(done, calls++); };
  const auto faulty = testing::make_faulty(testing::Fault::state_truncated);
  const auto sound = testing::make_faulty(testing::Fault::none_recurrent);
  decoded_token_by_token(*sound, reference, *device, count);
  EXPECT_EQ(calls, inputs.problem.sequences.longest());

  const Case narrow = generate_case(Problem::parse(std::string(kDecode) + ",state=bf16"));
  const CheckedReference of_narrow(narrow);
  const auto last_error = [&](const Implementation& implementation) {
    return accumulated_errors(
               of_narrow, decoded_token_by_token(implementation, of_narrow, *device, [](auto) {}))
        .by_window.back();
  };
  EXPECT_TRUE(last_error(*faulty) > 1.5 * last_error(*sound)) << last_error(*faulty);
}

// Outputs that a call hands over on request alone are not missed, and what has no heads is judged.
TEST(Accumulation, LayersAndConvolutionsAreJudgedToo) {
  const auto device = open_device("cpu");
  for (const auto& [text, name] :
       {std::pair("gated_delta_layer:heads=1/2,dim=16,seq=12+3,dtype=f32,h0=normal",
                  "cpu/recurrent"),
        std::pair("causal_conv1d:channels=8,seq=12+3,dtype=f32", "cpu/direct")}) {
    const Case inputs = generate_case(Problem::parse(text));
    const CheckedReference reference(inputs);
    Outputs outputs = decoded_token_by_token(find_implementation(inputs.problem.operation, name),
                                             reference, *device, [](auto) {});
    EXPECT_EQ(reference.check_continued(outputs, 11), "") << text;
    const AccumulatedErrors errors = accumulated_errors(reference, outputs);
    for (const double error : errors.by_window) EXPECT_TRUE(error > 0 && error <= 1e-5) << text;
    EXPECT_EQ(errors.final_state > 0 && errors.final_state <= 1e-5,
              inputs.problem.operation->has_field("h0"))
        << text << ": " << errors.final_state;
  }
}

TEST(Accumulation, WhatNoTokenCarriesIsRefused) {
  const auto why = [](const char* problem) { return not_token_by_token(Problem::parse(problem)); };
  EXPECT_EQ(why(kDecode), "");
  EXPECT_EQ(why("gated_rms_norm:heads=1/2,dim=16,seq=3"), "nothing is carried from call to call");
  EXPECT_EQ(why("causal_conv1d:channels=8,seq=3,conv_layout=time"),
            "the operation is not called token by token");
}

}  // namespace
}  // namespace gdn
