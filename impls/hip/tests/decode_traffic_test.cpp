// Decode (every sequence of length 1) is memory traffic: the recurrent kernel moves every element
// of the state pool once in and once out, in whole cache lines.
#include <gtest/gtest.h>

#include <string>

#include "emulated_run.h"
#include "interface/operations/gated_delta.h"

namespace gdn::hip {
namespace {

EmulatedRun decode(const std::string& implementation, const std::string& problem) {
  const EmulatedRun run =
      emulate(find_implementation(gated_delta_operation(), implementation), problem);
  EXPECT_EQ(reference::violation(run.report, run.report.limits), "") << problem;
  EXPECT_EQ(run.report.untouched_changed, 0) << problem;
  return run;
}
std::int64_t lines(const EmulatedRun& run) {
  return static_cast<std::int64_t>(run.counters.global_lines);
}
/// Cache lines that the state pool costs, access by access, over those its elements fill: what a
/// step with states touches more than the same step without.
struct PoolLines {
  double read, written;
};
PoolLines pool_lines(const std::string& implementation, const std::string& problem) {
  const EmulatedRun neither = decode(implementation, problem + ",h0=absent,ht=0");
  const EmulatedRun reading = decode(implementation, problem + ",h0=normal,ht=0");
  const EmulatedRun both = decode(implementation, problem + ",h0=normal,ht=1");
  const Problem& p = both.problem;
  const auto filled = static_cast<double>(p.num_sequences() * p.num_value_heads * p.key_head_dim *
                                          p.value_head_dim * size_of(p.state_dtype)) /
                      64;
  return {static_cast<double>(lines(reading) - lines(neither)) / filled,
          static_cast<double>(lines(both) - lines(reading)) / filled};
}

TEST(DecodeTraffic, EveryPoolElementMovesOnceInWholeCacheLines) {
  for (const char* token : {"f32", "bf16", "f16"}) {
    for (const char* state : {"f32", "bf16", "f16"}) {
      for (const char* layout : {"kv", "vk"}) {
        const std::string problem =
            std::string("gated_delta:heads=2/4,dim=128,seq=3x1,gates=real,slots=permuted,dtype=") +
            token + ",state=" + state + ",layout=" + layout;
        const PoolLines pool = pool_lines("hip/recurrent", problem);
        EXPECT_EQ(pool.read, 1) << problem;
        EXPECT_EQ(pool.written, 1) << problem;
      }
    }
  }
}

TEST(DecodeTraffic, PaddingSequencesMoveNoState) {
  const std::string problem = "gated_delta:heads=1/2,dim=128,seq=4x1,dtype=f32,gates=mid,h0=normal";
  EXPECT_LT(lines(decode("hip/recurrent", problem + ",slots=padding")),
            lines(decode("hip/recurrent", problem + ",slots=permuted")));
}

// The measure itself: a column per wave touches a line for every element where a row's columns are
// contiguous, and whole lines where a column's rows are.
TEST(DecodeTraffic, TheCounterTellsScatteredAccessesFromWholeLines) {
  const std::string problem = "gated_delta:heads=1,dim=128,seq=1x1,dtype=f32,gates=mid";
  const PoolLines scattered = pool_lines("hip/recurrent_dpp", problem + ",layout=kv");
  EXPECT_EQ(scattered.read, 16);
  EXPECT_EQ(scattered.written, 16);
  const PoolLines whole = pool_lines("hip/recurrent_dpp", problem + ",layout=vk");
  EXPECT_EQ(whole.read, 1);
  EXPECT_EQ(whole.written, 1);
}

}  // namespace
}  // namespace gdn::hip
