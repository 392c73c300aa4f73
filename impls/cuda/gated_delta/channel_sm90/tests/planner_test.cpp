// The planner of channel_sm90: the numbering of pieces that kernels rely on, expected times against
// sums done by hand, and choices against what follows from the division of work.
#include "cuda/gated_delta/channel_sm90/planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::channel_sm90 {
namespace {

constexpr int kH200 = 132;  // multiprocessors
constexpr Costs kRound{.chunk_us = 1,
                       .transition_chunk_us = 0.5,
                       .item_us = 10,
                       .chain_us = 100,
                       .chain_step_us = 1000,
                       .early_chunks = 4,
                       .worthwhile = 1};

Shape of_chunks(std::vector<std::int64_t> chunks, std::int64_t heads) {
  for (std::int64_t& length : chunks) length *= kChunk;
  return {.lengths = std::move(chunks), .value_heads = heads};
}
int choose_on_h200(const Shape& shape) { return choose(shape, costs_h200, kH200); }

// Kernels number the pieces of all sequences one after the other, by lengths that a plan need not
// know: never more than there are slots.
TEST(ChannelSm90Planner, PiecesHaveSlots) {
  std::mt19937 random(7);  // NOLINT: the same shapes in every run
  const auto below = [&](int end) {
    return static_cast<int>(random() % static_cast<unsigned>(end));
  };
  for (int trial = 0; trial < 500; ++trial) {
    const int chunks = 1 + below(12), sequences = 1 + below(9);
    std::int64_t tokens = 0, pieces = 0;
    for (int n = 0; n < sequences; ++n) {
      const int length = below(3) == 0 ? below(2) : below(900);
      tokens += length;
      const int own = pieces_of(length, chunks);
      pieces += own;
      EXPECT_GE(own * chunks * kChunk, length);
      EXPECT_LT((own - 1) * chunks * kChunk, std::max(length, 1));
    }
    EXPECT_LE(pieces, piece_slots(tokens, sequences, chunks));
  }
  EXPECT_EQ(pieces_of(0, 3), 0);
  EXPECT_EQ(pieces_of(48, 3), 1);
  EXPECT_EQ(pieces_of(49, 3), 2);
  EXPECT_EQ(pieces_of(2147483647, 1000), 134218);
}

TEST(ChannelSm90Planner, WorkOfPieces) {
  EXPECT_EQ(transition_items(0), 0);
  EXPECT_EQ(transition_items(1), 0);
  EXPECT_EQ(transition_items(2), 1);
  EXPECT_EQ(transition_items(3), 3);
  EXPECT_EQ(transition_items(11), 19);
}

TEST(ChannelSm90Planner, ExpectedTimes) {
  // Two blocks: of whole sequences the longest first, each block every second item.
  EXPECT_DOUBLE_EQ(expected_us(of_chunks({3, 0, 20}, 1), 0, kRound, 2), 10 + 20);
  EXPECT_DOUBLE_EQ(expected_us(of_chunks({5, 8, 20}, 1), 0, kRound, 2), 10 + 20 + 10 + 5);
  EXPECT_DOUBLE_EQ(expected_us(of_chunks({20}, 4), 0, kRound, 2), 2 * (10 + 20));
  // Three pieces of 8, 8 and 4 chunks: three items before the chain, of which there is one step.
  EXPECT_DOUBLE_EQ(expected_us(of_chunks({20}, 1), 8, kRound, 100), 14 + 100 + 1000 + 18);
  EXPECT_DOUBLE_EQ(expected_us(of_chunks({20}, 1), 8, kRound, 2), 2 * 14 + 100 + 1000 + 18 + 14);
  // Two pieces take no step, and a sequence in one piece none of the first launches' time.
  EXPECT_DOUBLE_EQ(expected_us(of_chunks({20}, 1), 10, kRound, 100), 15 + 100 + 20);
  EXPECT_DOUBLE_EQ(expected_us(of_chunks({20}, 1), 20, kRound, 100), 0 + 100 + 30);
}

// Where all heads forget a piece begins early, but no earlier than its sequence, and no launch before counts but as one.
TEST(ChannelSm90Planner, ExpectedTimesOfHeadsThatForget) {
  EXPECT_DOUBLE_EQ(expected_us_of_forgetting(of_chunks({20}, 1), 8, kRound, 100), 100 + 10 + 12);
  EXPECT_DOUBLE_EQ(expected_us_of_forgetting(of_chunks({20}, 1), 3, kRound, 1),
                   100 + 13 + (13 + 3) + 4 * (13 + 4) + (12 + 4));
  EXPECT_DOUBLE_EQ(expected_us_of_forgetting(of_chunks({20, 0, 7}, 2), 20, kRound, 100), 100 + 30);
}

// Eleven pieces a head fill the device where heads forget, seven make one round of transitions: neither is known, and
// eleven lose less. A cut that is worth it only where heads forget is not made.
TEST(ChannelSm90Planner, WeighsBothKindsOfHeads) {
  EXPECT_EQ(choose_on_h200({.lengths = {8192}, .value_heads = 12}), 47);
  const Shape full{.lengths = {8192, 8192, 8192}, .value_heads = 24};
  for (const int chunks : piece_lengths(full)) {
    if (expected_us(full, chunks, costs_h200, kH200) >=
        costs_h200.worthwhile * expected_us(full, 0, costs_h200, kH200)) {
      EXPECT_NE(choose_on_h200(full), chunks);
    }
  }
}

TEST(ChannelSm90Planner, ChoosesPiecesWhereMultiprocessorsStandIdle) {
  for (const std::int64_t heads : {1, 4, 12, 16}) {
    const Shape shape{.lengths = {8192}, .value_heads = heads};
    const int chunks = choose_on_h200(shape);
    EXPECT_GT(chunks, 0) << heads;
    EXPECT_LT(expected_us(shape, chunks, costs_h200, kH200),
              0.6 * expected_us(shape, 0, costs_h200, kH200))
        << heads;
  }
  EXPECT_GT(choose_on_h200({.lengths = {100, 32768, 0, 3}, .value_heads = 12}), 0);
}

TEST(ChannelSm90Planner, LeavesSequencesWholeWhereTheyFillTheDevice) {
  EXPECT_EQ(choose_on_h200({.lengths = {8192, 8192, 8192, 8192}, .value_heads = 32}), 0);
  EXPECT_EQ(choose_on_h200({.lengths = {32768, 32768}, .value_heads = 64}), 0);
  EXPECT_EQ(choose_on_h200({.lengths = {200}, .value_heads = 1}), 0);
  EXPECT_EQ(choose_on_h200({.lengths = {}, .value_heads = 1}), 0);
  EXPECT_EQ(choose_on_h200({.lengths = {0, 0}, .value_heads = 1}), 0);
}

TEST(ChannelSm90Planner, KeepsToWhatKernelsCanNumber) {
  std::vector<std::int64_t> many(kMostOrderedSequences, 1);
  many[3] = 100000;
  EXPECT_GT(choose_on_h200({.lengths = many, .value_heads = 1}), 0);
  many.push_back(1);
  EXPECT_EQ(choose_on_h200({.lengths = many, .value_heads = 1}), 0);
  EXPECT_FALSE(can_cut({.lengths = {16 * 40000}, .value_heads = 1}, 1));
  EXPECT_TRUE(can_cut({.lengths = {16 * 40000}, .value_heads = 1}, 2));
}

TEST(ChannelSm90Planner, NoChoiceTakesMoreThanTheMostWorkspace) {
  for (const std::int64_t heads : {1, 5, 12, 48})
    for (const std::int64_t length : {100, 1000, 8192, 32768, 1 << 20})
      for (const std::int64_t sequences : {1, 2, 16}) {
        const Shape shape{
            .lengths = std::vector<std::int64_t>(static_cast<std::size_t>(sequences), length),
            .value_heads = heads};
        for (const int multiprocessors : {1, 16, kH200, 1000}) {
          const int chunks = choose(shape, costs_h200, multiprocessors);
          if (chunks == 0) continue;
          EXPECT_LE(piece_heads(shape, chunks), kMostPieceHeads);
          EXPECT_LE(pieces_bytes(shape, chunks), most_workspace_bytes(shape));
        }
      }
}

}  // namespace
}  // namespace gdn::GDN_CUDA_TARGET::channel_sm90
