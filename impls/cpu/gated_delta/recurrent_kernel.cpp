// The token recurrence of one head, vectorised over the columns of the state.
//
// Column j of S takes part only in r_j and o_j, so columns go in blocks whose r and o stay in
// vector registers while the rows of S stream past, twice a token:
//
//     first pass    r = v - alpha S^T k                          reads S
//     second pass   S <- alpha S + (beta k) r^T;  o = S^T q      reads and writes S, and reads it
//     out
//
// Tokens go in tiles: a block's part of the state (Dk x 64 floats, 32 KiB at Dk = 128) stays in the
// first-level cache for a whole tile, while the tile's rows of q and k are decoded only once.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "cpu/gated_delta/kernels.h"

namespace gdn::cpu::GDN_ISA {
namespace {

using Index = std::int64_t;

struct Tile {
  Index tokens, Dk, Dv;
  const float* q;      // [tokens, Dk]
  const float* k;      // [tokens, Dk]
  const float* alpha;  // [tokens]
  const float* beta;   // [tokens]
  float* rows;         // [tokens, Dv]: v on entry, o (without scale) on return
};

/// Advances columns [first, first + width) of S through the tile. Width: the compile-time width, or
/// Eigen::Dynamic for a remainder of at most 16 columns.
template <int Width>
void advance_columns(const Tile& tile, Index first, Index width, float* S) {
  constexpr int kMost = Width == Eigen::Dynamic ? 16 : Width;
  using Row = Eigen::Array<float, Width, 1, Eigen::ColMajor, kMost, 1>;
  for (Index t = 0; t < tile.tokens; ++t) {
    const float* q = tile.q + t * tile.Dk;
    const float* k = tile.k + t * tile.Dk;
    const float alpha = tile.alpha[t], beta = tile.beta[t];
    Eigen::Map<Row> v_then_o(tile.rows + t * tile.Dv + first, width);

    Row sum = Row::Zero(width);
    for (Index i = 0; i < tile.Dk; ++i) {
      sum += Eigen::Map<const Row>(S + i * tile.Dv + first, width) * k[i];
    }
    const Row r = v_then_o - alpha * sum;

    Row o = Row::Zero(width);
    for (Index i = 0; i < tile.Dk; ++i) {
      Eigen::Map<Row> s(S + i * tile.Dv + first, width);
      const Row updated = s * alpha + r * (beta * k[i]);
      s = updated;
      o += updated * q[i];
    }
    v_then_o = o;
  }
}

}  // namespace

void recurrent_head(const GatedDeltaOperands& operands, const HeadTask& task, std::int64_t,
                    float* workspace) {
  const Index Dk = operands.problem().key_head_dim, Dv = operands.problem().value_head_dim;
  const float scale = operands.scale();
  float* S = workspace;                         // [Dk, Dv]
  float* q = S + Dk * Dv;                       // [tile, Dk]
  float* k = q + kRecurrentTileTokens * Dk;     // [tile, Dk]
  float* rows = k + kRecurrentTileTokens * Dk;  // [tile, Dv]
  float* alpha = rows + kRecurrentTileTokens * Dv;
  float* beta = alpha + kRecurrentTileTokens;

  operands.load_state(task, S);
  for (Index start = 0; start < task.num_tokens; start += kRecurrentTileTokens) {
    const Index tokens = std::min<Index>(kRecurrentTileTokens, task.num_tokens - start);
    operands.load_queries(task, start, tokens, q);
    operands.load_keys(task, start, tokens, k);
    operands.load_values(task, start, tokens, rows);
    operands.load_gates(task, start, tokens, alpha, beta);
    for (Index t = 0; t < tokens; ++t) alpha[t] = std::exp(alpha[t]);  // 0 for a reset

    const Tile tile{tokens, Dk, Dv, q, k, alpha, beta, rows};
    Index column = 0;
    for (; column + 64 <= Dv; column += 64) advance_columns<64>(tile, column, 64, S);
    for (; column + 16 <= Dv; column += 16) advance_columns<16>(tile, column, 16, S);
    if (column < Dv) advance_columns<Eigen::Dynamic>(tile, column, Dv - column, S);

    for (Index i = 0; i < tokens * Dv; ++i) rows[i] *= scale;
    operands.store_outputs(task, start, tokens, rows);
  }
  operands.store_state(task, S);
}

}  // namespace gdn::cpu::GDN_ISA
