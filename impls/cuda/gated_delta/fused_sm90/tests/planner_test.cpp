// The planner of fused_sm90: the numbering of slots and work items that kernels rely on, expected
// times against sums done by hand, and choices against what follows from the division of work or
// was timed (log.md).
#include "cuda/gated_delta/fused_sm90/planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "cuda/gated_delta/fused_sm90/record.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {
namespace {

constexpr int kH200 = 132;                  // multiprocessors
constexpr int kManyMultiprocessors = 1000;  // none waits for another
constexpr int kNever = 1 << 20;             // chunks that gates of 1 take to forget
constexpr int kStrong = 1;

/// Lengths of all tokens' sequences, in chunks of 64.
Shape of_chunks(std::vector<std::int64_t> chunks, std::int64_t key_heads = 1,
                std::int64_t value_heads = 1) {
  for (std::int64_t& length : chunks) length *= kChunk;
  Shape shape;
  shape.lengths = std::move(chunks);
  shape.key_heads = key_heads;
  shape.value_heads = value_heads;
  return shape;
}
Shape of_tokens(std::vector<std::int64_t> lengths, std::int64_t key_heads,
                std::int64_t value_heads) {
  Shape shape;
  shape.lengths = std::move(lengths);
  shape.key_heads = key_heads;
  shape.value_heads = value_heads;
  shape.has_initial_state = true;
  return shape;
}
Choice choose_on_h200(const Shape& shape) {
  return choose(shape, costs_h200, kH200, /*may_split=*/true);
}
double chain_us(const Shape& shape, const ChainDivision& division, int forget,
                int multiprocessors = kManyMultiprocessors) {
  return expected_chain_us(shape, division, forget, costs_h200, multiprocessors);
}

/// Ragged problems, some sequences empty, at least one token.
std::vector<Shape> random_shapes(int count) {
  std::mt19937 random(20);  // NOLINT: the same shapes in every run
  const auto below = [&](int end) {
    return static_cast<int>(random() % static_cast<unsigned>(end));
  };
  std::vector<Shape> shapes;
  while (static_cast<int>(shapes.size()) < count) {
    Shape shape;
    for (int n = 0, sequences = 1 + below(below(3) == 0 ? 40 : 4); n < sequences; ++n)
      shape.lengths.push_back(below(6) == 0 ? 0 : below(below(2) == 0 ? 300 : 20000));
    shape.key_heads = std::int64_t{1} << below(4);
    shape.value_heads = shape.key_heads * (1 + below(5));
    shape.has_initial_state = below(2) == 0;
    if (shape.tokens() > 0) shapes.push_back(shape);
  }
  return shapes;
}

std::vector<std::int64_t> offsets_of(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> offsets{0};
  for (const std::int64_t length : lengths) offsets.push_back(offsets.back() + length);
  return offsets;
}

// ---- slots

TEST(FusedSm90Planner, EveryChunkHasASlotOfItsOwn) {
  for (const Shape& shape : random_shapes(200)) {
    const auto offsets = offsets_of(shape.lengths);
    std::set<std::int64_t> taken;
    std::int64_t chunks = 0;
    for (std::size_t n = 0; n < shape.lengths.size(); ++n) {
      for (std::int64_t begin = 0,
                        slot = first_chunk_slot(offsets[n], static_cast<std::int64_t>(n));
           begin < shape.lengths[n]; begin += 64, ++slot, ++chunks) {
        taken.insert(slot);
        ASSERT_LT(slot, chunk_slots(shape.tokens(), shape.sequences()));
      }
    }
    EXPECT_EQ(static_cast<std::int64_t>(taken.size()), chunks);
  }
}

// Items as a launch of the chain numbers them: part, then head, then first pieces where they run
// beside, then slots. Each token of each head and half of V is one item's.
TEST(FusedSm90Planner, WorkItemsCoverEveryTokenOnce) {
  for (const Shape& shape : random_shapes(120)) {
    const auto offsets = offsets_of(shape.lengths);
    std::vector<ChainDivision> divisions{{1, 0, false}, {2, 0, false}};
    for (const int chunks : piece_lengths(shape)) {
      if (chunks == 0) continue;
      divisions.push_back({1, chunks, false});
      divisions.push_back({2, chunks, true});
    }
    for (const ChainDivision& division : divisions) {
      const int each = division.chunks_per_piece;
      // the sequence and piece that a slot is for, from the definition of first slots
      std::map<std::int64_t, std::pair<std::size_t, std::int64_t>> piece_of_slot;
      for (std::size_t n = 0; n < shape.lengths.size() && each > 0; ++n)
        for (std::int64_t piece = 0; piece * each * 64 < shape.lengths[n]; ++piece) {
          const std::int64_t slot =
              first_piece_slot(offsets[n], static_cast<std::int64_t>(n), each) + piece;
          ASSERT_TRUE(piece_of_slot.emplace(slot, std::pair{n, piece}).second) << "slot of two";
        }
      std::map<std::tuple<std::size_t, std::int64_t, std::int64_t>, std::int64_t> covered;
      const std::int64_t items = chain_items(shape, division, costs_h200).items,
                         heads = shape.value_heads;
      for (std::int64_t item = 0; item < items; ++item) {
        const std::int64_t half = item % division.halves, head = item / division.halves % heads;
        std::int64_t place = item / division.halves / heads;
        std::size_t n = 0;
        std::int64_t piece = 0;
        const bool first = division.first_pieces_beside && place < shape.sequences();
        if (each == 0 || first) {
          n = static_cast<std::size_t>(place);
        } else {
          if (division.first_pieces_beside) place -= shape.sequences();
          const auto found = piece_of_slot.find(place);
          if (found == piece_of_slot.end()) continue;
          std::tie(n, piece) = found->second;
          if (division.first_pieces_beside && piece == 0) continue;
        }
        const std::int64_t length = shape.lengths[n],
                           begin = piece_begin(static_cast<int>(piece), each),
                           end = each == 0 ? length
                                           : std::min<std::int64_t>(begin + each * 64, length);
        covered[{n, head, half}] += end - begin;
      }
      for (std::size_t n = 0; n < shape.lengths.size(); ++n)
        for (std::int64_t head = 0; head < heads; ++head)
          for (std::int64_t half = 0; half < division.halves; ++half)
            ASSERT_EQ((covered[{n, head, half}]), shape.lengths[n])
                << "pieces of " << each << ", halves " << division.halves;
    }
  }
}

TEST(FusedSm90Planner, BlocksAreThereAtTheSameTime) {
  EXPECT_EQ(persistent_blocks(1, kH200), 1u);
  EXPECT_EQ(persistent_blocks(131, kH200), 131u);
  EXPECT_EQ(persistent_blocks(133, kH200), 132u);
  EXPECT_EQ(persistent_blocks(100000, kH200), 132u);
}

// ---- expected times, by hand: an item starts in 4.2 us, a chunk takes 1.85 us (half of V 1.15)

TEST(FusedSm90Planner, AWholeSequenceTakesItsChunksOneAfterTheOther) {
  EXPECT_NEAR(chain_us(of_chunks({10}), {1, 0, false}, kNever), 4.2 + 10 * 1.85, 1e-9);
  EXPECT_NEAR(chain_us(of_chunks({10}), {2, 0, false}, kNever), 4.2 + 10 * 1.15, 1e-9);
  // a last chunk that is not whole takes as long; empty sequences take none
  EXPECT_NEAR(chain_us(of_tokens({0, 577, 0}, 1, 1), {1, 0, false}, kNever), 4.2 + 10 * 1.85, 1e-9);
}

TEST(FusedSm90Planner, ItemsGoLongestFirstToTheMultiprocessorThatIsFreeFirst) {
  const Shape shape = of_chunks({1, 2, 3});
  EXPECT_NEAR(chain_us(shape, {1, 0, false}, kNever, 1), 3 * 4.2 + 6 * 1.85, 1e-9);
  EXPECT_NEAR(chain_us(shape, {1, 0, false}, kNever, 2), 2 * 4.2 + (2 + 1) * 1.85, 1e-9);
  EXPECT_NEAR(chain_us(shape, {1, 0, false}, kNever, 3), 4.2 + 3 * 1.85, 1e-9);
}

TEST(FusedSm90Planner, ManyItemsAreBoundByTheirBytes) {
  // K, Q, V and O of a chunk, 16 KB each, and a record, of 132 items at once, at 4.2 TB/s
  const double chunk = 132 * (4 * 16384.0 + 11392) / 4.2e6;
  ASSERT_GT(chunk, 1.85);
  EXPECT_NEAR(chain_us(of_chunks({10}, 132, 132), {1, 0, false}, kNever, kH200), 4.2 + 10 * chunk,
              1e-9);
  // every piece is an item, a whole one and one of a chunk: of 60 heads 120
  const double of_120 = 120 * (4 * 16384.0 + 11392) / 4.2e6;
  ASSERT_GT(of_120, 1.85);
  EXPECT_NEAR(chain_us(of_chunks({20}, 60, 60), {1, 10, false}, kStrong, kH200),
              4.2 + (1 + 10) * of_120 + 2.5, 1e-9);
  EXPECT_NEAR(chain_us(of_chunks({11}, 60, 60), {1, 10, false}, kStrong, kH200),
              4.2 + 10 * of_120 + 2.5, 1e-9);
}

TEST(FusedSm90Planner, NearPiecesBeginEarlyEnoughToForget) {
  // two pieces of 5 chunks: the second runs one chunk more, or all five before it; 2.5 us for the
  // pieces kernel, which has nothing to do
  EXPECT_NEAR(chain_us(of_chunks({10}), {1, 5, false}, kStrong), 4.2 + 6 * 1.85 + 2.5, 1e-9);
  EXPECT_NEAR(chain_us(of_chunks({10}), {1, 5, false}, kNever), 4.2 + 10 * 1.85 + 2.5, 1e-9);
}

// With two rows a token a state is forgotten within as many tokens, twice the chunks: a piece that is near with one row
// begins twice as many chunks early, and is near still.
TEST(FusedSm90Planner, RowsOfATokenForgetTogether) {
  const ChainDivision division{1, 64, false};
  Shape steps = of_chunks({512});
  const double piece = 4.2 + 64 * 1.85 + 2.5;
  EXPECT_NEAR(chain_us(steps, division, 10), piece + 10 * 1.85, 1e-9);
  EXPECT_NEAR(chain_us(steps, division, 20), piece + 4.0 + 20 * 1.17, 1e-9);  // far
  steps.rows = token_rows(2);
  EXPECT_NEAR(chain_us(steps, division, 20), piece + 20 * 1.85, 1e-9);
  EXPECT_NEAR(chain_us(steps, division, 21), piece + 4.0 + 21 * 1.17, 1e-9);
}

TEST(FusedSm90Planner, FarPiecesWaitForStatesAndTransitions) {
  // pieces of 20 chunks; the pieces kernel takes 4 us an item and 1.17 us a chunk, at once for all
  const double made = 4.0 + 20 * 1.17, piece = 4.2 + 20 * 1.85;
  EXPECT_NEAR(chain_us(of_chunks({40}), {1, 20, false}, kNever), made + 2.5 + piece, 1e-9);
  // the third starts from the first's state and the second's transition, 4.2 us to apply
  EXPECT_NEAR(chain_us(of_chunks({60}), {1, 20, false}, kNever), made + 2.5 + piece + 4.2, 1e-9);
  // first pieces beside: 3 us later, their states handed on in 1.5 us
  EXPECT_NEAR(chain_us(of_chunks({60}), {1, 20, true}, kNever),
              3.0 + piece + 1.5 + piece + 4.2 + 2.5, 1e-9);
}

// ---- choices

TEST(FusedSm90Planner, HalvesOfVOnlyWhereMultiprocessorsAreLeft) {
  const auto halves = [](std::int64_t heads) {
    return choose(of_chunks({4}, heads, heads), costs_h200, kH200, /*may_split=*/false).near.halves;
  };
  EXPECT_EQ(halves(1), 2);
  EXPECT_EQ(halves(66), 2);   // 132 blocks
  EXPECT_EQ(halves(132), 1);  // 264 halves would take two rounds
  // nothing to gain where half of V takes as long
  Costs costs = costs_h200;
  costs.half_chunk_us = costs.whole_chunk_us;
  EXPECT_EQ(choose(of_chunks({4}), costs, kH200, false).near.halves, 1);
}

TEST(FusedSm90Planner, SplitsALongSequenceWhereMultiprocessorsAreLeft) {
  const Shape one = of_chunks({512});
  EXPECT_TRUE(choose_on_h200(one).in_pieces());
  EXPECT_FALSE(choose(one, costs_h200, kH200, /*may_split=*/false).in_pieces());
  EXPECT_FALSE(choose(one, costs_h200, 1, true).in_pieces());  // pieces are more work
  EXPECT_FALSE(choose_on_h200(of_chunks({7})).in_pieces());    // no two pieces of 4 chunks
  EXPECT_FALSE(choose_on_h200(of_chunks({512}, 264, 264)).in_pieces());  // two rounds of items
  Costs costs = costs_h200;
  costs.pieces_kernel_us = 1e6;
  EXPECT_FALSE(choose(one, costs, kH200, true).in_pieces());
}

TEST(FusedSm90Planner, OneLaunchWhereItWasMeasuredToWin) {
  EXPECT_TRUE(choose_on_h200(of_tokens(std::vector<std::int64_t>(4, 8192), 16, 64)).one_launch);
  EXPECT_TRUE(choose_on_h200(of_tokens(std::vector<std::int64_t>(4, 8192), 16, 32)).one_launch);
  EXPECT_TRUE(choose_on_h200(of_tokens(std::vector<std::int64_t>(8, 1024), 16, 32)).one_launch);
  // tiny problems are quicker in two; and one launch was not timed below 512 tokens a sequence
  EXPECT_FALSE(choose_on_h200(of_tokens({512}, 2, 8)).one_launch);
  EXPECT_FALSE(choose_on_h200(of_tokens(std::vector<std::int64_t>(132, 511), 16, 32)).one_launch);
  // a block orders at most 256 sequences
  EXPECT_TRUE(choose_on_h200(of_tokens(std::vector<std::int64_t>(256, 600), 16, 32)).one_launch);
  EXPECT_FALSE(choose_on_h200(of_tokens(std::vector<std::int64_t>(257, 600), 16, 32)).one_launch);
}

// A prepare block takes 4 us and 2.3 us a head, and 4 * 132 = 528 run at once; of more blocks the
// last leave half a block's time empty.
TEST(FusedSm90Planner, PrepareBlocksServeFewHeadsWhereAllRunAtOnce) {
  const auto heads_per_block = [](std::int64_t chunks) {  // of 4 value heads a key head
    return choose(of_chunks({chunks}, 2, 8), costs_h200, kH200, /*may_split=*/false)
        .heads_per_block;
  };
  EXPECT_EQ(heads_per_block(66), 1);   // 528 blocks
  EXPECT_EQ(heads_per_block(67), 2);   // 268 blocks in 8.6 us, or 536 in 6.3 * 1.52 = 9.5 us
  EXPECT_EQ(heads_per_block(135), 2);  // 540 blocks in 8.6 * 1.52 = 13.1 us, or 270 in 13.2 us
  EXPECT_EQ(heads_per_block(138), 4);  // 552 blocks in 8.6 * 1.55 = 13.3 us
}

TEST(FusedSm90Planner, TwoChainsWhereKindsOfGatesDiffer) {
  // timed so (log.md): far sequences whole
  const Choice whole = choose_on_h200(of_tokens({8192}, 16, 48));
  EXPECT_TRUE(whole.two_chains() && whole.near.in_pieces() && !whole.far.in_pieces());
  // first pieces beside the pieces kernel
  for (const std::int64_t value_heads : {16, 32})
    EXPECT_TRUE(choose_on_h200(of_tokens({32768}, 16, value_heads)).far.first_pieces_beside);
  // a second launch has to pay: not where it costs much
  Costs costs = costs_h200;
  costs.second_chain_us = 1e6;
  EXPECT_FALSE(choose(of_tokens({8192}, 16, 48), costs, kH200, true).two_chains());
}

TEST(FusedSm90Planner, ChoicesOfAnyShapeHoldTheirBounds) {
  for (const Shape& shape : random_shapes(150))
    for (const int multiprocessors : {1, 4, kH200})
      for (const bool may_split : {false, true}) {
        const Choice choice = choose(shape, costs_h200, multiprocessors, may_split);
        if (!may_split) {
          EXPECT_FALSE(choice.in_pieces() || choice.two_chains());
        }
        if (choice.two_chains()) {
          EXPECT_TRUE(choice.in_pieces());
        }
        EXPECT_FALSE(choice.near.first_pieces_beside);  // of far pieces only
        EXPECT_GE(choice.heads_per_block, 1);
        EXPECT_LE(choice.heads_per_block, std::min<std::int64_t>(4, shape.group()));
        for (const ChainDivision& division : {choice.near, choice.far})
          EXPECT_LE(piece_heads(shape, division), kMostPieceHeads);
        EXPECT_LE(
            workspace_bytes(shape, choice.in_pieces(), piece_heads(shape, choice.far)).total(),
            most_workspace_bytes(shape, may_split).total());
      }
}

TEST(FusedSm90Planner, EmptySequences) {
  const Choice choice = choose_on_h200(of_tokens({0, 0}, 1, 2));
  EXPECT_FALSE(choice.one_launch || choice.in_pieces());
  EXPECT_EQ(chain_us(of_tokens({0, 0}, 1, 2), {1, 0, false}, kNever), 0);
  EXPECT_TRUE(choose_on_h200(of_tokens({0, 32768, 0}, 1, 1)).in_pieces());
}

TEST(FusedSm90Planner, PieceLengthsAreWholeSequencesARangeAndEqualParts) {
  const std::vector<int> lengths = piece_lengths(of_chunks({100}));
  EXPECT_EQ(lengths.front(), 0);
  for (std::size_t i = 1; i < lengths.size(); ++i) {
    EXPECT_GT(lengths[i], lengths[i - 1]);
    EXPECT_GE(lengths[i], 4);
  }
  for (const int parts : {50, 34, 25, 20, 17, 15, 13, 12, 10, 9})  // of 100, rounded up
    EXPECT_TRUE(std::count(lengths.begin(), lengths.end(), parts) == 1) << parts;
  // 577 heads have no room for a piece each
  EXPECT_EQ(piece_lengths(of_chunks({100}, 577, 577)), std::vector<int>{0});
}

// ---- what follows from a choice

TEST(FusedSm90Planner, PrepareHasABlockForEveryChunkKeyHeadAndGroup) {
  Shape shape = of_tokens({1000, 0, 130}, 2, 10);  // 5 value heads a key head
  Choice choice;
  choice.heads_per_block = 4;
  PrepareGrid grid = prepare_grid(shape, choice, kH200);
  EXPECT_EQ(grid.ranking_blocks, 1);
  EXPECT_EQ(grid.chunk_blocks, (1130 / 64 + 3) * 2 * 2);
  EXPECT_EQ(grid.saving_blocks, 0);  // sequences whole
  EXPECT_EQ(grid.prefetch_chunks, 4 * kH200 / 4);
  EXPECT_EQ(grid.blocks(), 1 + 20 * 4);
  choice.near = {1, 12, false};
  choice.far = {2, 8, false};
  grid = prepare_grid(shape, choice, kH200);
  EXPECT_EQ(grid.saving_blocks, 4 * 3 * 10);
  EXPECT_EQ(grid.saved_chunks, 8);  // what either division cuts
  choice.far = {2, 0, false};
  EXPECT_EQ(prepare_grid(shape, choice, kH200).saved_chunks, 12);
  shape.has_initial_state = false;
  EXPECT_EQ(prepare_grid(shape, choice, kH200).saving_blocks, 0);
  EXPECT_EQ(
      prepare_grid(of_tokens(std::vector<std::int64_t>(129, 1), 1, 1), {}, kH200).ranking_blocks,
      2);
}

TEST(FusedSm90Planner, PrepareHasNoBlockWithoutAHead) {
  for (const int heads_per_block : {1, 2, 4}) {  // of 4 value heads a key head
    Choice choice;
    choice.heads_per_block = heads_per_block;
    const PrepareGrid grid = prepare_grid(of_tokens({640}, 2, 8), choice, kH200);
    EXPECT_EQ(grid.chunk_blocks, (10 + 1) * 2 * 4 / heads_per_block) << heads_per_block;
    EXPECT_EQ(grid.prefetch_chunks, 4 * kH200 * heads_per_block / (2 * 4)) << heads_per_block;
  }
}

TEST(FusedSm90Planner, LongItemsGoByArrival) {
  const auto by_arrival = [](std::int64_t chunks, const ChainDivision& division) {
    return chain_items(of_chunks({chunks}), division, costs_h200).by_arrival;
  };
  EXPECT_FALSE(by_arrival(63, {1, 0, false}));
  EXPECT_TRUE(by_arrival(64, {1, 0, false}));
  EXPECT_FALSE(by_arrival(640, {1, 63, false}));
  EXPECT_TRUE(by_arrival(640, {1, 64, false}));
  EXPECT_TRUE(by_arrival(640, {1, 8, true}));  // first pieces come first
}

TEST(FusedSm90Planner, WorkspaceHoldsWhatKernelsHandOn) {
  const Shape shape = of_tokens({4096}, 1, 2);  // 65 chunk slots
  const WorkspaceBytes whole = workspace_bytes(shape, false, 0);
  EXPECT_EQ(whole.records, 65 * 2 * (2 * 5120 + 1056 + 96));
  EXPECT_EQ(whole.order, (1 + 2) * 4);
  EXPECT_EQ(whole.total(), whole.records + whole.order);
  const WorkspaceBytes pieces = workspace_bytes(shape, true, 12);
  EXPECT_EQ(pieces.bounds, 65 * 2 * 4);
  EXPECT_EQ(pieces.flags, (1 + 2 * 2 + 12) * 4);
  EXPECT_EQ(pieces.states, 12 * 128 * 128 * 4);
  EXPECT_EQ(pieces.saved, 2 * 128 * 128 * 4);
  EXPECT_EQ(pieces.transitions, 12 * 128 * 128 * 2 * 2);  // two bfloat16 parts
}

TEST(FusedSm90Planner, TheMostWorkspaceHoldsPiecesOnlyWhereThereMayBeAny) {
  for (const std::int64_t heads : {1, 288, 289}) {  // two sequences: 576 pieces are the most
    const Shape shape = of_tokens({4096, 100}, 1, heads);
    const std::int64_t whole = workspace_bytes(shape, false, 0).total(),
                       pieces = workspace_bytes(shape, true, kMostPieceHeads).total();
    EXPECT_EQ(most_workspace_bytes(shape, false).total(), whole) << heads;
    EXPECT_EQ(most_workspace_bytes(shape, true).total(), heads == 289 ? whole : pieces) << heads;
  }
}

TEST(FusedSm90Planner, AnotherKernelBringsItsOwnSizes) {
  Shape shape = of_tokens({4096}, 1, 2);
  shape.footprint = {
      .record = 1000, .key_query = 10, .value_output = 20, .state = 30, .transition = 40};
  const WorkspaceBytes bytes = workspace_bytes(shape, true, 12);
  EXPECT_EQ(bytes.records, 65 * 2 * 1000);
  EXPECT_EQ(bytes.states, 12 * 30);
  EXPECT_EQ(bytes.saved, 2 * 30);
  EXPECT_EQ(bytes.transitions, 12 * 40);

  // Time goes by bytes where every block is busy.
  Shape full = of_chunks(std::vector<std::int64_t>(64, 16), 2, 8);
  const auto time = [&] { return expected_chain_us(full, {}, 1, costs_h200, 132); };
  full.footprint.record *= 100;
  const double large_record = time();
  full.footprint.key_query *= 100;
  const double large_keys = time();
  full.footprint.value_output *= 100;
  EXPECT_LT(large_record, large_keys);
  EXPECT_LT(large_keys, time());
}

TEST(FusedSm90Planner, ChoicesInWords) {
  Choice choice;
  choice.one_launch = true;
  EXPECT_EQ(describe(choice, 7), "one_launch blocks=7");
  choice.one_launch = false;
  choice.near = {2, 8, false};
  choice.far = choice.near;
  EXPECT_EQ(describe(choice, 7), "v_split=2 piece_chunks=8 prepare_heads=1 blocks=7");
  choice.far = {1, 20, true};
  EXPECT_EQ(describe(choice, 7),
            "v_split=2 piece_chunks=8 far_v_split=1 far_pieces=20 firsts_beside=1 prepare_heads=1 "
            "blocks=7");
}

}  // namespace
}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
