// Samples of (sequence, head) pairs for problems too large to check whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "interface/operations/gated_delta_layer.h"
#include "reference/reference.h"

namespace gdn::reference {
namespace {

Problem ragged() { return Problem::parse("gated_delta:heads=8/16,dim=4x4,seq=3x5+1x0+1x9+4x2"); }

bool holds(const std::vector<SequenceHead>& pairs, SequenceHead pair) {
  return std::find(pairs.begin(), pairs.end(), pair) != pairs.end();
}

TEST(SamplePairs, HoldsTheLongestSequencesFirstAndLastHeadAndNoEmptyOne) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const auto pairs = sample_pairs(ragged(), 7, seed);
    EXPECT_EQ(pairs.size(), 7u);
    EXPECT_TRUE(holds(pairs, {4, 0}));
    EXPECT_TRUE(holds(pairs, {4, 15}));
    std::set<std::pair<std::int64_t, std::int64_t>> distinct;
    for (const SequenceHead& pair : pairs) {
      EXPECT_NE(pair.sequence, 3) << "seed " << seed;
      distinct.insert({pair.sequence, pair.value_head});
    }
    EXPECT_EQ(distinct.size(), pairs.size()) << "seed " << seed;
  }
}

TEST(SamplePairs, IsDeterministicAndDependsOnTheSeed) {
  EXPECT_EQ(sample_pairs(ragged(), 20, 5), sample_pairs(ragged(), 20, 5));
  EXPECT_NE(sample_pairs(ragged(), 20, 5), sample_pairs(ragged(), 20, 6));
}

TEST(SamplePairs, IsEverythingWhenThatIsNoMore) {
  EXPECT_EQ(sample_pairs(ragged(), 8 * 16, 1).size(), 8u * 16u);
  EXPECT_EQ(sample_pairs(ragged(), 1000, 1).size(), 8u * 16u);
  EXPECT_TRUE(sample_pairs(Problem::parse("gated_delta:heads=1/2,dim=4x4,seq=2x0"), 5, 1).empty());
}

TEST(SamplePairs, ReachesEveryPair) {
  std::set<std::pair<std::int64_t, std::int64_t>> seen;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    for (const SequenceHead& p : sample_pairs(ragged(), 12, seed)) {
      seen.insert({p.sequence, p.value_head});
    }
  }
  EXPECT_EQ(seen.size(), 8u * 16u);
}

TEST(EvaluationFlops, CountsThreeMultiplyAddsPerStateElementAndToken) {
  const Problem delta = Problem::parse("gated_delta:heads=2/4,dim=8x16,seq=1x10");
  EXPECT_EQ(evaluation_flops(delta), 10.0 * 4 * 8 * 16 * 3 * 2);
  Problem layer = delta;
  layer.operation = gated_delta_layer_operation();
  EXPECT_EQ(evaluation_flops(layer), evaluation_flops(delta) + 10.0 * 96 * 4 * 2);
}

}  // namespace
}  // namespace gdn::reference
