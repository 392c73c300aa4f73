// The planner of the chains: expected times against sums done by hand, and choices against what follows from the
// division of work.
#include "cuda/gated_delta_backward/chunkwise_sm90/planner.h"

#include <gtest/gtest.h>

#include <utility>

#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::backward_sm90 {
namespace {

constexpr int kH200 = 132;  // multiprocessors
constexpr int kNever = 1 << 20;
constexpr Costs kRound{.whole_step_us = 2,
                       .half_step_us = 1,
                       .start_us = 10,
                       .bytes_per_us = 1e12,
                       .ordinary_forget_chunks = 5,
                       .strong_forget_chunks = 1,
                       .worthwhile = 1};

Shape of_chunks(std::vector<std::int64_t> chunks, std::int64_t heads) {
  for (std::int64_t& length : chunks) length *= kChunk;
  return {.lengths = std::move(chunks), .key_heads = heads, .value_heads = heads};
}
Division choose_on_h200(const Shape& shape) { return choose(shape, costs_h200, kH200, true); }

TEST(BackwardSm90Planner, ExpectedTimes) {
  const Shape one = of_chunks({20}, 1), two = of_chunks({20, 4}, 3);
  // both directions, side by side or one after the other
  EXPECT_DOUBLE_EQ(expected_us(one, {}, kNever, kRound, 2), 10 + 2 * 20);
  EXPECT_DOUBLE_EQ(expected_us(one, {}, kNever, kRound, 1), 2 * (10 + 2 * 20));
  EXPECT_DOUBLE_EQ(expected_us(one, {.halves = 2}, kNever, kRound, 4), 10 + 20);
  EXPECT_DOUBLE_EQ(expected_us(two, {}, kNever, kRound, 6), 10 + 2 * 20 + 10 + 2 * 4);
  // pieces of 8, 8 and 4 chunks, and before each the chunks to forget
  EXPECT_DOUBLE_EQ(expected_us(one, {1, 8}, 3, kRound, 6), 10 + 2 * 11);
  EXPECT_DOUBLE_EQ(expected_us(one, {1, 8}, kNever, kRound, 6), 10 + 2 * 20);
  EXPECT_DOUBLE_EQ(expected_us(one, {1, 8}, 3, kRound, 1),
                   2 * (30 + 2 * (4 + 3) + 2 * (8 + 3) + 2 * 8));
  EXPECT_DOUBLE_EQ(expected_us(of_chunks({}, 1), {}, kNever, kRound, 2), 0);
}

// Of a step of both directions 1.5 of K and Q, of T and P, the factors, V or dO are read; S or D and V' or dV written.
TEST(BackwardSm90Planner, MemoryBoundsWhatIsSideBySide) {
  Costs costs = kRound;
  costs.bytes_per_us = 1;
  const double read = 1.5 * kTileBytes + 1.5 * kTriangleTileBytes + kFactorBytes + kTileBytes,
               left = kStateBytes + kTileBytes;
  EXPECT_DOUBLE_EQ(expected_us(of_chunks({20}, 1), {}, kNever, costs, 100), 40 * (read + left));
  EXPECT_DOUBLE_EQ(expected_us(of_chunks({20}, 1), {2, 10}, 3, costs, 100),
                   2 * (23 * read + 20 * left));
  Shape shared = of_chunks({20}, 4);
  shared.key_heads = 1;
  EXPECT_DOUBLE_EQ(expected_us(shared, {}, kNever, costs, 100),
                   160 * (read - 0.75 * 1.5 * kTileBytes + left));
}

TEST(BackwardSm90Planner, PiecesOfTheLongestSequence) {
  EXPECT_EQ(piece_lengths(of_chunks({6}, 1)), (std::vector<int>{kWhole}));
  EXPECT_EQ(piece_lengths(of_chunks({9, 2}, 1)), (std::vector<int>{5, kWhole}));
  EXPECT_EQ(piece_lengths(of_chunks({13}, 1)), (std::vector<int>{4, 5, 7, kWhole}));
  EXPECT_EQ(piece_lengths(of_chunks({}, 1)), (std::vector<int>{kWhole}));
  for (const int chunks : piece_lengths(of_chunks({1 << 20, 77, 3}, 48))) EXPECT_GE(chunks, 4);
}

TEST(BackwardSm90Planner, LongSequencesOfFewHeadsAreCut) {
  for (const std::int64_t heads : {1, 2, 4, 8, 16}) {
    const Division division = choose_on_h200(of_chunks({512}, heads));
    EXPECT_TRUE(division.in_pieces()) << heads;
    const Shape shape = of_chunks({512}, heads);
    EXPECT_LT(expected_us(shape, division, 7, costs_h200, kH200),
              0.9 * expected_us(shape, {}, 7, costs_h200, kH200));
    // no longer than whole where no gate forgets
    EXPECT_LT(expected_us(shape, division, kNever, costs_h200, kH200),
              1.3 * expected_us(shape, {}, kNever, costs_h200, kH200))
        << heads;
  }
}

TEST(BackwardSm90Planner, WhereBlocksSufficeSequencesStayWhole) {
  EXPECT_EQ(choose_on_h200(of_chunks({128, 128, 128, 128}, 32)), Division{});
  EXPECT_EQ(choose_on_h200(of_chunks(std::vector<std::int64_t>(16, 32), 4)), Division{});
  EXPECT_EQ(choose_on_h200(of_chunks({3}, 4)), (Division{.halves = 2}));
  // Memory makes whole and halved chains alike: halved ones keep all multiprocessors busy, one direction at a time.
  Shape one_direction = of_chunks({128, 128, 128, 128}, 16);
  EXPECT_EQ(choose(one_direction, costs_h200, kH200, false), Division{});
  one_direction.directions = 1;
  EXPECT_EQ(choose(one_direction, costs_h200, kH200, false), (Division{.halves = 2}));
  EXPECT_EQ(choose(of_chunks({512}, 4), costs_h200, kH200, false), (Division{.halves = 2}));
  EXPECT_EQ(choose(of_chunks({512}, 64), costs_h200, kH200, false), Division{});
}

}  // namespace
}  // namespace gdn::GDN_CUDA_TARGET::backward_sm90
