// The token recurrence of one head, vectorised over the columns of the state.
//
// Column j of S takes part only in r_j and o_j, so columns go in blocks whose r and o stay in
// vector registers while the rows of S stream past, twice a token:
//
//     first pass    r = v - alpha S^T k                       reads S
//     second pass   S <- alpha S + (beta k) r^T;  o = S^T q   reads and writes S, and reads it out
//
// Tokens go in tiles: a block's part of the state (Dk x 64 floats, 32 KiB at Dk = 128) stays in the
// first-level cache for a whole tile, while the tile's rows of q and k are decoded only once.
//
// Variants: the additive update leaves out the first pass (r = v); decays per channel make alpha a
// vector over the rows of S, inside the sum of the first pass; of a token's further steps each is
// such a pair of passes with alpha = 1, and only the last one reads out.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "cpu/gated_delta/kernels.h"

namespace gdn::cpu::GDN_ISA {
namespace {

using Index = std::int64_t;

struct Tile {
  Index tokens, steps, Dk, Dv;
  const float* q;      // [tokens, Dk]
  const float* k;      // [tokens, steps, Dk]
  const float* alpha;  // [tokens], or [tokens, Dk] with one decay per channel
  const float* beta;   // [tokens, steps]
  const float* ones;   // [Dk]: alpha of every step but a token's first
  float* rows;         // [tokens, steps, Dv]: v on entry; on return [tokens, Dv]: o without scale
};

/// Advances columns [first, first + width) of S through the tile. Width: the compile-time width, or
/// Eigen::Dynamic for a remainder of at most 16 columns.
template <int Width, UpdateRule kUpdate, DecayPer kDecay>
void advance_columns(const Tile& tile, Index first, Index width, float* S) {
  constexpr int kMost = Width == Eigen::Dynamic ? 16 : Width;
  constexpr bool kPerChannel = kDecay == DecayPer::channel;
  using Row = Eigen::Array<float, Width, 1, Eigen::ColMajor, kMost, 1>;
  for (Index step = 0; step < tile.tokens * tile.steps; ++step) {
    const Index t = step / tile.steps;
    const bool first_of_token = step == t * tile.steps;
    const bool last_of_token = step + 1 == (t + 1) * tile.steps;
    const float* q = tile.q + t * tile.Dk;
    const float* k = tile.k + step * tile.Dk;
    const float* alpha = first_of_token ? tile.alpha + t * (kPerChannel ? tile.Dk : 1) : tile.ones;
    const float beta = tile.beta[step];

    Row r = Eigen::Map<const Row>(tile.rows + step * tile.Dv + first, width);
    if constexpr (kUpdate == UpdateRule::delta) {
      Row sum = Row::Zero(width);
      for (Index i = 0; i < tile.Dk; ++i) {
        const float weight = kPerChannel ? alpha[i] * k[i] : k[i];
        sum += Eigen::Map<const Row>(S + i * tile.Dv + first, width) * weight;
      }
      r -= kPerChannel ? sum : Row(alpha[0] * sum);
    }

    Row o = Row::Zero(width);
    const auto update = [&](auto reads_out) {
      for (Index i = 0; i < tile.Dk; ++i) {
        Eigen::Map<Row> s(S + i * tile.Dv + first, width);
        const Row updated = s * alpha[kPerChannel ? i : 0] + r * (beta * k[i]);
        s = updated;
        if constexpr (decltype(reads_out)::value) o += updated * q[i];
      }
    };
    if (last_of_token) {
      update(std::true_type{});
      // Row t of o takes the place of a row of v no later step needs.
      Eigen::Map<Row>(tile.rows + t * tile.Dv + first, width) = o;
    } else {
      update(std::false_type{});
    }
  }
}

template <UpdateRule kUpdate, DecayPer kDecay>
void advance(const Tile& tile, float* S) {
  Index column = 0;
  for (; column + 64 <= tile.Dv; column += 64) {
    advance_columns<64, kUpdate, kDecay>(tile, column, 64, S);
  }
  for (; column + 16 <= tile.Dv; column += 16) {
    advance_columns<16, kUpdate, kDecay>(tile, column, 16, S);
  }
  if (column < tile.Dv) {
    advance_columns<Eigen::Dynamic, kUpdate, kDecay>(tile, column, tile.Dv - column, S);
  }
}

using Advance = void (*)(const Tile& tile, float* S);

Advance advance_for(const Problem& problem) {
  const bool per_channel = problem.decay == DecayPer::channel;
  if (problem.update == UpdateRule::additive) {
    return per_channel ? advance<UpdateRule::additive, DecayPer::channel>
                       : advance<UpdateRule::additive, DecayPer::head>;
  }
  return per_channel ? advance<UpdateRule::delta, DecayPer::channel>
                     : advance<UpdateRule::delta, DecayPer::head>;
}

}  // namespace

void recurrent_head(const GatedDeltaOperands& operands, const HeadTask& task, std::int64_t,
                    float* workspace) {
  const Problem& problem = operands.problem();
  const Index Dk = problem.key_head_dim, Dv = problem.value_head_dim, steps = problem.steps;
  const Index gates = problem.gates_per_head();
  const float scale = operands.scale();
  const Advance advance_tile = advance_for(problem);
  float* S = workspace;                                 // [Dk, Dv]
  float* q = S + Dk * Dv;                               // [tile, Dk]
  float* k = q + kRecurrentTileTokens * Dk;             // [tile, steps, Dk]
  float* rows = k + kRecurrentTileTokens * steps * Dk;  // [tile, steps, Dv]
  float* alpha = rows + kRecurrentTileTokens * steps * Dv;
  float* beta = alpha + kRecurrentTileTokens * gates;
  float* ones = beta + kRecurrentTileTokens * steps;
  for (Index i = 0; i < Dk; ++i) ones[i] = 1;

  operands.load_state(task, S);
  for (Index start = 0; start < task.num_tokens; start += kRecurrentTileTokens) {
    const Index tokens = std::min<Index>(kRecurrentTileTokens, task.num_tokens - start);
    operands.load_queries(task, start, tokens, q);
    operands.load_keys(task, start * steps, tokens * steps, k);
    operands.load_values(task, start * steps, tokens * steps, rows);
    operands.load_betas(task, start * steps, tokens * steps, beta);
    operands.load_log_decays(task, start, tokens, alpha);
    for (Index i = 0; i < tokens * gates; ++i) alpha[i] = std::exp(alpha[i]);  // 0 for a reset

    advance_tile({tokens, steps, Dk, Dv, q, k, alpha, beta, ones, rows}, S);
    for (Index i = 0; i < tokens * Dv; ++i) rows[i] *= scale;
    operands.store_outputs(task, start, tokens, rows);
  }
  operands.store_state(task, S);
}

}  // namespace gdn::cpu::GDN_ISA
