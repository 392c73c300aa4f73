// Decode (every sequence of length 1) is memory traffic: the recurrent kernel moves every element
// of the state pool once in and once out, in whole cache lines.
#include <gtest/gtest.h>

#include <string>

#include "emulated_run.h"

namespace gdn::hip {
namespace {

/// What a decode step cannot do without: the states in and out, and every input and output once.
double necessary_bytes(const Problem& p) {
  const auto pairs = static_cast<double>(p.num_sequences() * p.num_value_heads);
  const auto tokens = static_cast<double>(p.total_tokens());
  const double state = pairs * static_cast<double>(p.key_head_dim * p.value_head_dim) *
                       static_cast<double>(size_of(p.state_dtype));
  const double keys = tokens * static_cast<double>(p.num_key_heads * p.key_head_dim) *
                      static_cast<double>(size_of(p.token_dtype));
  const double values = tokens * static_cast<double>(p.num_value_heads * p.value_head_dim);
  const double gates = tokens * static_cast<double>(p.num_value_heads) * 4;
  return 2 * state + 2 * keys + values * static_cast<double>(size_of(p.token_dtype)) +
         values * static_cast<double>(size_of(p.effective_output_dtype())) + 2 * gates;
}

EmulatedRun decode(const std::string& implementation, const std::string& problem) {
  const EmulatedRun run =
      emulate(find_implementation(Operation::gated_delta, implementation), problem);
  EXPECT_EQ(reference::first_violation(run.report, run.report.limits), "");
  EXPECT_EQ(run.report.untouched_changed, 0);
  return run;
}
/// Bytes of the cache lines touched, access by access, over the necessary bytes.
double overhead(const EmulatedRun& run) {
  return static_cast<double>(run.counters.global_lines) * 64.0 / necessary_bytes(run.problem);
}

TEST(DecodeTraffic, EveryPoolElementMovesOnceInWholeCacheLines) {
  for (const char* token : {"f32", "bf16", "f16"}) {
    for (const char* state : {"f32", "bf16", "f16"}) {
      for (const char* layout : {"kv", "vk"}) {
        const std::string text =
            std::string("gated_delta:heads=2/4,dim=128,seq=3x1,gates=real,h0=normal,") +
            "slots=permuted,dtype=" + token + ",state=" + state + ",layout=" + layout;
        SCOPED_TRACE(text);
        const EmulatedRun step = decode("hip/recurrent", text);
        EXPECT_FALSE(!(overhead(step) <= 1.1)) << overhead(step);
        const Problem& p = step.problem;
        const std::int64_t elements = p.num_sequences() * p.num_value_heads * p.value_head_dim;
        EXPECT_EQ(step.counters.global_bytes_written,
                  static_cast<std::uint64_t>(elements * (p.key_head_dim * size_of(p.state_dtype) +
                                                         size_of(p.effective_output_dtype()))));
      }
    }
  }
}

TEST(DecodeTraffic, PaddingSequencesMoveNoState) {
  const EmulatedRun all =
      decode("hip/recurrent",
             "gated_delta:heads=1/2,dim=128,seq=4x1,dtype=f32,gates=mid,h0=normal,"
             "slots=permuted");
  const EmulatedRun padded = decode("hip/recurrent",
                                    "gated_delta:heads=1/2,dim=128,seq=4x1,dtype=f32,gates=mid,"
                                    "h0=normal,slots=padding");
  EXPECT_LT(padded.counters.global_lines, all.counters.global_lines);
}

// The measure itself: one column per wave touches a line for every element where columns are
// contiguous, and none too many where rows are.
TEST(DecodeTraffic, TheCounterTellsScatteredAccessesFromWholeLines) {
  const std::string text = "gated_delta:heads=1,dim=128,seq=1x1,dtype=f32,gates=mid,h0=normal";
  EXPECT_GT(overhead(decode("hip/recurrent_dpp", text + ",layout=kv")), 8);
  EXPECT_LT(overhead(decode("hip/recurrent_dpp", text + ",layout=vk")), 2);
}

}  // namespace
}  // namespace gdn::hip
