// What a verification costs: memory on the host, work, and the checks that a large problem of a suite is spared.
#include "harness/verify/verification_cost.h"

#include <gtest/gtest.h>

#include "harness/run/memory_needed.h"
#include "harness/verify/verify.h"

namespace gdn {
namespace {

// The host's share, to the byte; a device without memory of its own takes its share of it, too.
TEST(Verification, NeedsTheHostsMemory) {
  const Problem problem = Problem::parse("gated_delta:heads=2/4,dim=64,seq=5x70,h0=normal");
  VerifyOptions few;
  few.alone = few.duplicates = few.continuation = false;
  for (const VerifyOptions& options : {few, VerifyOptions::all_invariances()}) {
    for (const bool has_own_memory : {true, false}) {
      DeviceInfo device;
      device.has_own_memory = has_own_memory;
      std::int64_t least = verification_memory(problem, 0, options);
      if (!has_own_memory) least += device_bytes_needed(problem);
      EXPECT_EQ(exceeds_host_memory(problem, options, device, least), "");
      const std::string reason = exceeds_host_memory(problem, options, device, least - 1);
      EXPECT_NE(reason.find(problem.to_string()), std::string::npos) << reason;
      EXPECT_NE(reason.find("host's memory"), std::string::npos) << reason;
      EXPECT_EQ(reason.find("errors alone") != std::string::npos, options.runs_other_cases());
    }
  }
}

// A sequence of 600000 tokens at 16/64: its arrays and the reference's outputs are 83 GiB, and a host of 128 holds them.
TEST(Verification, OfErrorsAloneHoldsTheCaseAndTheReferencesOutputs) {
  const Problem problem = Problem::parse("gated_delta:heads=16/64,dim=128,seq=1x600000,dtype=bf16");
  const std::int64_t outputs = host_bytes_of_outputs(problem);
  const std::int64_t needed = verification_memory(problem, 0, VerifyOptions::errors_only());
  EXPECT_GE(needed, host_bytes_needed(problem) + 2 * outputs);
  EXPECT_LE(needed, std::int64_t{128} << 30);
  VerifyOptions repeat = VerifyOptions::errors_only();
  repeat.repeat = true;
  EXPECT_EQ(verification_memory(problem, 0, repeat), needed + 2 * outputs);
}

// A batch as large as that is run twice and judged; smaller ones see every check asked for.
TEST(Verification, OfALargeSuiteProblemIsErrorsAndRepeat) {
  VerifyOptions all = VerifyOptions::all_invariances();
  all.every_split = all.token_by_token = true;
  const Problem small = Problem::parse("gated_delta:heads=16/32,dim=128,seq=4x8192,dtype=bf16");
  EXPECT_TRUE(all.of_suite_problem(small).replay);
  EXPECT_TRUE(all.of_suite_problem(small).runs_other_cases());
  const Problem large = Problem::parse("gated_delta:heads=16/64,dim=128,seq=1x75529,dtype=bf16");
  const VerifyOptions few = all.of_suite_problem(large);
  EXPECT_TRUE(few.repeat);
  EXPECT_FALSE(few.runs_other_cases());
  EXPECT_LT(verification_memory(large, 0, few), verification_memory(large, 0, all));
  EXPECT_LT(verification_work(large, few, 1), verification_work(large, all, 1));
}

// Each check of other cases alone is one: what takes their memory asks for all of them.
TEST(Verification, EveryCheckButErrorsAndRepeatRunsOtherCases) {
  EXPECT_FALSE(VerifyOptions::errors_only().runs_other_cases());
  using V = VerifyOptions;
  for (bool V::*const check : {&V::alone, &V::duplicates, &V::continuation, &V::permuted,
                               &V::refilled, &V::replay, &V::streams, &V::isolation, &V::strided,
                               &V::on_request, &V::phases, &V::every_split, &V::token_by_token}) {
    VerifyOptions options = VerifyOptions::errors_only();
    options.*check = true;
    EXPECT_TRUE(options.runs_other_cases());
  }
}

}  // namespace
}  // namespace gdn
