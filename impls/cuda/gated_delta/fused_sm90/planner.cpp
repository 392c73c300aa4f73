#include "cuda/gated_delta/fused_sm90/planner.h"

#include <algorithm>
#include <numeric>

#include "cuda/gated_delta/chunk_sm90/schedule.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {
namespace {

constexpr int kNeverForget = 1 << 20;  // chunks
constexpr double kNotPossible = 1e30;  // microseconds

/// One division of the chain under one kind of gates, weighed.
class ChainEstimate {
 public:
  ChainEstimate(const Shape& shape, const ChainDivision& division, int forget, const Costs& costs,
                int multiprocessors)
      : costs_(costs),
        footprint_(shape.footprint),
        halves_(division.halves),
        piece_(division.chunks_per_piece),
        heads_(shape.value_heads),
        slices_(shape.slices()),
        blocks_of_head_(shape.blocks_of_head(division.halves)),
        forget_(forget),
        own_chunks_(most_own_chunks(shape.rows)),
        multiprocessors_(multiprocessors) {
    for (const std::int64_t length : shape.lengths)
      if (length > 0) chunks_.push_back(chunks_of(length));
    if (piece_ == 0) std::sort(chunks_.rbegin(), chunks_.rend());  // pieces are taken as they lie
    chunk_time_ = chunk_time(shape.group());
    combine_ = halves_ == 1 ? costs.whole_combine_us : costs.half_combine_us;
  }

  double time(bool first_pieces_beside) const {
    return first_pieces_beside ? time_beside() : time_after_pieces();
  }

 private:
  /// A chunk is as long as its dependent products take, or as its bytes take beside all others': K
  /// and Q once per key head, V, O and the record.
  double chunk_time(std::int64_t group) const {
    std::int64_t items = 0;
    for (const std::int64_t chunks : chunks_)
      items += (piece_ == 0 ? 1 : (chunks + piece_ - 1) / piece_) * heads_ * slices_;
    const double bytes = static_cast<double>(footprint_.key_query) / static_cast<double>(group) +
                         static_cast<double>(footprint_.value_output) +
                         static_cast<double>(footprint_.record);
    const double running =
        static_cast<double>(std::min<std::int64_t>(items, multiprocessors_ / halves_));
    return std::max(halves_ == 1 ? costs_.whole_chunk_us : costs_.half_chunk_us,
                    running * bytes / costs_.bytes_per_us);
  }

  /// Gates that never forget: the pieces kernel makes state and transition of every piece between
  /// a sequence's first and last, the multiprocessors that it leaves run first pieces, and the
  /// others wait for both.
  double time_beside() const {
    Schedule schedule(multiprocessors_);
    const double run = costs_.piece_start_us + static_cast<double>(piece_) * costs_.piece_chunk_us;
    for (const std::int64_t chunks : chunks_)
      for (std::int64_t begin = piece_; begin + piece_ < chunks; begin += piece_)
        schedule.add(run, (slices_ + 1) * heads_);
    const double pieces_end = schedule.end();
    std::vector<double> first_end;
    for (const std::int64_t chunks : chunks_)
      first_end.push_back(
          schedule.add(costs_.first_start_us + costs_.item_start_us +
                           static_cast<double>(std::min(piece_, chunks)) * chunk_time_,
                       heads_ * blocks_of_head_));
    for (std::size_t n = 0; n < chunks_.size(); ++n)
      for (std::int64_t begin = piece_; begin < chunks_[n]; begin += piece_)
        schedule.add(
            costs_.item_start_us + static_cast<double>(begin / piece_ - 1) * combine_ +
                static_cast<double>(std::min(piece_, chunks_[n] - begin)) * chunk_time_,
            heads_ * blocks_of_head_,
            std::max(pieces_end + costs_.pieces_kernel_us, first_end[n] + costs_.hand_on_us));
    return schedule.end() + costs_.pieces_kernel_us;
  }

  /// The pieces kernel where any piece is far, then the chain.
  double time_after_pieces() const {
    std::int64_t most_before = 0;  // chunks before any piece
    if (piece_ > 0)
      for (const std::int64_t chunks : chunks_)
        most_before = std::max(most_before, (chunks - 1) / piece_ * piece_);
    const bool any_far = std::min<std::int64_t>(forget_, most_before) > own_chunks_;
    std::vector<double> chain, pieces;
    for (const std::int64_t chunks : chunks_) {
      const std::int64_t each = piece_ == 0 ? chunks : piece_;
      std::int64_t transitions = 0;  // to apply before this piece
      for (std::int64_t begin = 0; begin < chunks; begin += each) {
        const std::int64_t own = std::min<std::int64_t>(forget_, begin);
        double time = costs_.item_start_us;
        if (own <= (any_far ? kOwnChunksBesideOthers : own_chunks_)) {
          time += static_cast<double>(own) * chunk_time_;
        } else {
          time += static_cast<double>(transitions) * combine_;
        }
        chain.push_back(time + static_cast<double>(std::min(each, chunks - begin)) * chunk_time_);
        const bool has_transition = begin > 0 && forget_ > each;
        if (has_transition) ++transitions;
        if (any_far && begin + each < chunks) {
          const double run =
              costs_.piece_start_us +
              static_cast<double>(std::min<std::int64_t>(forget_, each)) * costs_.piece_chunk_us;
          for (std::int64_t slice = 0; slice < slices_; ++slice) pieces.push_back(run);
          if (has_transition) pieces.push_back(run);
        }
      }
    }
    return makespan(chain, heads_ * blocks_of_head_, multiprocessors_) +
           (piece_ > 0 ? costs_.pieces_kernel_us : 0) + makespan(pieces, heads_, multiprocessors_);
  }

  const Costs& costs_;
  Footprint footprint_;
  int halves_;
  std::int64_t piece_, heads_, slices_, blocks_of_head_;
  int forget_, own_chunks_, multiprocessors_;
  std::vector<std::int64_t> chunks_;  // of each sequence that has tokens
  double chunk_time_ = 0, combine_ = 0;
};

/// Prepare blocks that have room on the device at the same time.
std::int64_t prepare_blocks_at_once(int multiprocessors) {
  return std::int64_t{kPrepareBlocksPerMultiprocessor} * multiprocessors;
}

/// Prepare blocks of one chunk.
std::int64_t prepare_blocks_per_chunk(const Shape& shape, int heads_per_block) {
  return shape.key_heads * ((shape.group() + heads_per_block - 1) / heads_per_block);
}

/// Prepare blocks that save initial states, where sequences are in pieces.
std::int64_t saving_blocks(const Shape& shape) {
  return shape.has_initial_state
             ? kSavingBlocks * shape.slices() * shape.sequences() * shape.value_heads
             : 0;
}

/// Expected time of the prepare kernel and of starting the chain after it.
double prepare_us(const Shape& shape, bool in_pieces, int heads_per_block, const Costs& costs,
                  int multiprocessors) {
  std::int64_t chunks = 0;
  for (const std::int64_t length : shape.lengths) chunks += chunks_of(length);
  const std::int64_t blocks = chunks * prepare_blocks_per_chunk(shape, heads_per_block),
                     at_once = prepare_blocks_at_once(multiprocessors),
                     saving = in_pieces ? saving_blocks(shape) : 0;
  const double block_time = costs.prepare_block_us + costs.prepare_head_us * heads_per_block;
  if (blocks <= at_once)
    return costs.prepare_kernel_us + block_time +
           (blocks + saving > at_once ? costs.prepare_saving_us : 0);
  return costs.prepare_kernel_us +  // the last blocks leave multiprocessors half empty
         block_time * (static_cast<double>(blocks) / static_cast<double>(at_once) + 0.5);
}

/// Whether the one-launch form is to be expected to win, where that has been measured: sequences
/// of some length.
bool one_launch_wins(const Shape& shape, const Choice& two_launches, double chain_us,
                     const Costs& costs, int multiprocessors) {
  if (!shape.may_be_one_launch || shape.sequences() > kMostOrderedSequences ||
      shape.tokens() < costs.one_launch_tokens * shape.sequences())
    return false;
  std::vector<double> times;
  for (const std::int64_t length : shape.lengths)
    if (length > 0)
      times.push_back(costs.one_launch_item_us +
                      static_cast<double>(chunks_of(length)) * costs.one_launch_chunk_us);
  std::sort(times.rbegin(), times.rend());
  return costs.one_launch_kernel_us + makespan(times, shape.value_heads, multiprocessors) <
         chain_us + prepare_us(shape, two_launches.in_pieces(), two_launches.heads_per_block, costs,
                               multiprocessors);
}

bool pieces_fit(const Shape& shape, int chunks) {
  return piece_slots(shape.tokens(), shape.sequences(), chunks) * shape.value_heads <=
         kMostPieceHeads;
}

/// The divisions of the chain that take the least expected time by the mean over three kinds of
/// gates: one for all of them, or two, one for gates that forget and one for gates that do not.
struct Divisions {
  ChainDivision near, far;
  double time = kNotPossible;
};
Divisions best_divisions(const Shape& shape, const Costs& costs, int multiprocessors,
                         const std::vector<int>& lengths) {
  Divisions one;  // near and far alike
  ChainDivision near, far;
  double near_time = kNotPossible, far_time = kNotPossible;
  for (const int chunks : lengths) {
    for (const int halves : {1, 2}) {
      ChainDivision division{halves, chunks, false};
      const auto time_of = [&](int forget) {
        return expected_chain_us(shape, division, forget, costs, multiprocessors) / 3;
      };
      const double forgetting = time_of(costs.ordinary_forget_chunks << shape.rows.log2) +
                                time_of(costs.strong_forget_chunks << shape.rows.log2);
      const double never = time_of(kNeverForget);
      if (never + forgetting < one.time) one = {division, division, never + forgetting};
      if (division.in_pieces() && forgetting < near_time) {
        near_time = forgetting;
        near = division;
      }
      if (never < far_time) {
        far_time = never;
        far = division;
      }
      division.first_pieces_beside = division.in_pieces() && shape.longest() > chunks * kChunk;
      const double beside = division.first_pieces_beside ? time_of(kNeverForget) : kNotPossible;
      if (beside < far_time) {
        far_time = beside;
        far = division;
      }
    }
  }
  const double two_time =
      near_time + far_time + costs.second_chain_us + (far.in_pieces() ? 0 : costs.decision_us / 3);
  return two_time < costs.worthwhile * one.time ? Divisions{near, far, two_time} : one;
}

/// K K^T and Q K^T are shared by the heads of a prepare block, which take their time one after the
/// other: as many as leave room for four blocks, fewer where all blocks run at once.
int best_heads_per_block(const Shape& shape, bool in_pieces, const Costs& costs,
                         int multiprocessors) {
  const auto group = static_cast<int>(shape.group());
  int best = std::min(group, 4);
  for (const int heads : {2, 1})
    if (heads < group && prepare_us(shape, in_pieces, heads, costs, multiprocessors) <
                             prepare_us(shape, in_pieces, best, costs, multiprocessors))
      best = heads;
  return best;
}

}  // namespace

std::int64_t Shape::tokens() const {
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

std::int64_t Shape::longest() const {
  return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
}

double expected_chain_us(const Shape& shape, const ChainDivision& division, int forget,
                         const Costs& costs, int multiprocessors) {
  return ChainEstimate(shape, division, forget, costs, multiprocessors)
      .time(division.first_pieces_beside);
}

/// A range of lengths, and the longest sequence in equal parts, of which the last is as long as the
/// others.
std::vector<int> piece_lengths(const Shape& shape) {
  constexpr int kShortest = 4, kMostParts = 12;
  std::vector<int> result{4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 86, 96, 128, 171, 192, 256};
  const auto longest = static_cast<int>(chunks_of(shape.longest()));
  for (int parts = 2; parts <= kMostParts; ++parts) result.push_back((longest + parts - 1) / parts);
  std::erase_if(result,
                [&](int chunks) { return chunks < kShortest || !pieces_fit(shape, chunks); });
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  result.insert(result.begin(), 0);
  return result;
}

Choice choose(const Shape& shape, const Costs& costs, int multiprocessors, bool may_split) {
  const Divisions divisions = best_divisions(
      shape, costs, multiprocessors, may_split ? piece_lengths(shape) : std::vector<int>{0});
  Choice choice;
  choice.near = divisions.near;
  choice.far = divisions.far;
  choice.heads_per_block = best_heads_per_block(shape, choice.in_pieces(), costs, multiprocessors);
  choice.one_launch = one_launch_wins(shape, choice, divisions.time, costs, multiprocessors);
  return choice;
}

std::int64_t piece_heads(const Shape& shape, const ChainDivision& division) {
  return division.in_pieces()
             ? piece_slots(shape.tokens(), shape.sequences(), division.chunks_per_piece) *
                   shape.value_heads
             : 0;
}

PrepareGrid prepare_grid(const Shape& shape, const Choice& choice, int multiprocessors) {
  const std::int64_t per_chunk = prepare_blocks_per_chunk(shape, choice.heads_per_block);
  PrepareGrid grid;
  grid.ranking_blocks = (shape.sequences() + kPrepareThreads - 1) / kPrepareThreads;
  grid.chunk_blocks = chunk_slots(shape.tokens(), shape.sequences()) * per_chunk;
  grid.prefetch_chunks =
      static_cast<int>((prepare_blocks_at_once(multiprocessors) + per_chunk - 1) / per_chunk);
  if (choice.in_pieces() && shape.has_initial_state) {
    grid.saving_blocks = saving_blocks(shape);
    grid.saved_chunks = choice.far.in_pieces()
                            ? std::min(choice.near.chunks_per_piece, choice.far.chunks_per_piece)
                            : choice.near.chunks_per_piece;
  }
  return grid;
}

ChainItems chain_items(const Shape& shape, const ChainDivision& division, const Costs& costs) {
  const std::int64_t whole = shape.sequences() * shape.value_heads;
  ChainItems result;
  result.items = shape.blocks_of_head(division.halves) *
                 (division.in_pieces()
                      ? piece_heads(shape, division) + (division.first_pieces_beside ? whole : 0)
                      : whole);
  const std::int64_t item_chunks = division.in_pieces()
                                       ? division.chunks_per_piece
                                       : shape.tokens() / kChunk / shape.sequences();
  result.by_arrival = division.first_pieces_beside || item_chunks >= costs.long_item_chunks;
  return result;
}

unsigned int persistent_blocks(std::int64_t items, int multiprocessors) {
  return static_cast<unsigned int>(std::min<std::int64_t>(items, multiprocessors));
}

WorkspaceBytes workspace_bytes(const Shape& shape, bool in_pieces, std::int64_t far_heads) {
  constexpr std::int64_t kFloat = 4, kInteger = 4;
  const Footprint& each = shape.footprint;
  const std::int64_t heads = shape.sequences() * shape.value_heads,
                     chunk_heads =
                         chunk_slots(shape.tokens(), shape.sequences()) * shape.value_heads;
  WorkspaceBytes bytes;
  bytes.records = chunk_heads * each.record;
  bytes.order = (shape.sequences() + 2) * kInteger;
  if (in_pieces) {
    bytes.bounds = chunk_heads * kFloat;
    bytes.flags = (1 + 2 * shape.slices() * heads + far_heads) * kInteger;
    bytes.states = far_heads * shape.slices() * each.state;
    bytes.saved = shape.has_initial_state ? heads * shape.slices() * each.state : 0;
    bytes.transitions = far_heads * each.transition;
  }
  return bytes;
}

WorkspaceBytes most_workspace_bytes(const Shape& shape, bool may_split) {
  const bool pieces = may_split && shape.sequences() * shape.value_heads <= kMostPieceHeads;
  return workspace_bytes(shape, pieces, pieces ? kMostPieceHeads : 0);
}

std::string describe(const Choice& choice, unsigned int blocks) {
  if (choice.one_launch) return "one_launch blocks=" + std::to_string(blocks);
  std::string text = "v_split=" + std::to_string(choice.near.halves) +
                     " piece_chunks=" + std::to_string(choice.near.chunks_per_piece);
  if (choice.two_chains())
    text += " far_v_split=" + std::to_string(choice.far.halves) +
            " far_pieces=" + std::to_string(choice.far.chunks_per_piece) +
            " firsts_beside=" + std::to_string(choice.far.first_pieces_beside ? 1 : 0);
  return text + " prepare_heads=" + std::to_string(choice.heads_per_block) +
         " blocks=" + std::to_string(blocks);
}

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
