// The chunkwise-WY form of one head with one decay per key channel (Kimi Delta Attention; with the
// additive update, gated linear attention). As chunkwise_kernel.cpp, but the decays are vectors and
// stand inside the products over channels. With alpha_r the decays before row r (ones before a
// token's further steps), all products elementwise,
//
//     D_ij    = alpha_(j+1) .. alpha_i,   Gamma_i = alpha_1 .. alpha_i                   [Dk]
//     L_ij    = beta_i sum_d k_id k_jd D_ijd   (j < i),  L_ii = 1                         [n, n]
//     P_ij    = sum_d q_id k_jd D_ijd          (j <= i)                                   [m, n]
//     V'      = L^-1 diag(beta) (V - (K * Gamma) S)                                       [n, Dv]
//     O       = scale ((Q * Gamma) S + P V')                                              [m, Dv]
//     S      <- diag(Gamma_n) S + (K * D_n)^T V'                                          [Dk, Dv]
//
// L and P are matrix products only if D_ij splits into a factor of row i and one of row j. Split at
// the chunk's start, the second would be 1 / Gamma_j, which overflows; so rows go in blocks of 16,
// and for i in a block that begins at row a, and j < a,
//
//     D_ij = (alpha_a .. alpha_i) * (alpha_(j+1) .. alpha_(a-1))
//
// (the secondary chunking of GLA, Yang et al. 2023, arXiv 2312.06635, section 4). Every factor is a
// product of decays, in 0..1: there is no exponential of a sum, no quotient and nothing to
// overflow; a reset is an exact zero in every product that spans it. Each multiplication rounds, as
// it does in the token recurrence. Within a block, D_ij is carried along j.
#include <Eigen/Core>
#include <algorithm>

#include "cpu/gated_delta/chunk_solve.h"
#include "cpu/gated_delta/kernels.h"

namespace gdn::cpu::GDN_ISA {
namespace {

using Index = std::int64_t;
using MatrixMap = Eigen::Map<RowMajorMatrix>;
using RowMap = Eigen::Map<Eigen::RowVectorXf>;

constexpr Index kBlock = 16;

/// exp(g) for g below this is less than the smallest normal float, and counts as zero.
constexpr float kZeroLogDecay = -87.0f;

void exponentiate(Eigen::Map<Eigen::ArrayXf> log_decay) {
  log_decay = (log_decay < kZeroLogDecay).select(0.0f, log_decay.max(kZeroLogDecay).exp());
}

/// One chunk's operands; n rows of keys (steps), m rows of queries (tokens).
struct Chunk {
  Index m, n, steps;
  bool delta_rule;
  MatrixMap alpha;    // [n, Dk]
  MatrixMap Q;        // [m, Dk]
  MatrixMap K;        // [n, Dk]
  MatrixMap Q_gamma;  // [m, Dk]: Q * Gamma
  MatrixMap K_gamma;  // [n, Dk]: K * Gamma
  MatrixMap K_end;    // [n, Dk]: K times the decays behind each row, up to the rows done so far
  MatrixMap P;        // [m, n]
  MatrixMap L;        // [n, n]: without beta
};

/// Rows [a, b) of P and L, of Q * Gamma and K * Gamma; and K_end carried on to row b. Gamma [Dk]:
/// of row a - 1 on entry, of row b - 1 on return. carried [Dk]: scratch.
void advance_block(Chunk& c, Index a, Index b, RowMap gamma, RowMap carried) {
  const Index t0 = a / c.steps, t1 = b / c.steps;  // the tokens whose last step is in the block
  // Rows times their decays since row a.
  carried.setOnes();
  for (Index i = a; i < b; ++i) {
    carried.array() *= c.alpha.row(i).array();
    c.K_gamma.row(i) = c.K.row(i).cwiseProduct(carried);
    if ((i + 1) % c.steps == 0) {
      c.Q_gamma.row(i / c.steps) = c.Q.row(i / c.steps).cwiseProduct(carried);
    }
  }
  if (a > 0) {
    const auto earlier = c.K_end.topRows(a);
    if (c.delta_rule) {
      c.L.block(a, 0, b - a, a).noalias() = c.K_gamma.middleRows(a, b - a) * earlier.transpose();
    }
    c.P.block(t0, 0, t1 - t0, a).noalias() =
        c.Q_gamma.middleRows(t0, t1 - t0) * earlier.transpose();
    c.K_end.topRows(a).array().rowwise() *= carried.array();
  }
  c.K_gamma.middleRows(a, b - a).array().rowwise() *= gamma.array();
  c.Q_gamma.middleRows(t0, t1 - t0).array().rowwise() *= gamma.array();
  gamma.array() *= carried.array();

  // The block's own columns. K_end of row j is k_j times its decays up to row i, from row to row.
  for (Index i = a; i < b; ++i) {
    c.K_end.middleRows(a, i - a).array().rowwise() *= c.alpha.row(i).array();
    c.K_end.row(i) = c.K.row(i);
    const auto decayed_keys = c.K_end.middleRows(a, i + 1 - a);
    if (c.delta_rule) {
      c.L.row(i).segment(a, i + 1 - a).noalias() = c.K.row(i) * decayed_keys.transpose();
    }
    if ((i + 1) % c.steps == 0) {
      const Index t = i / c.steps;
      c.P.row(t).segment(a, i + 1 - a).noalias() = c.Q.row(t) * decayed_keys.transpose();
      c.P.row(t).tail(c.n - (i + 1)).setZero();
    }
  }
}

}  // namespace

void chunkwise_channel_head(const GatedDeltaOperands& operands, const HeadTask& task,
                            std::int64_t chunk, float* workspace) {
  const Problem& problem = operands.problem();
  const Index Dk = problem.key_head_dim, Dv = problem.value_head_dim, steps = problem.steps;
  const bool delta_rule = problem.update == UpdateRule::delta;
  const Index C = chunk;
  const float scale = operands.scale();

  float* state = workspace;                       // [Dk, Dv]
  float* decays = state + Dk * Dv;                // [C, Dk]
  float* queries_keys = decays + C * Dk;          // [2C, Dk]: Q above K
  float* from_start = queries_keys + 2 * C * Dk;  // [2C, Dk]: Q * Gamma above K * Gamma
  float* to_end = from_start + 2 * C * Dk;        // [C, Dk]
  float* values = to_end + C * Dk;                // [C, Dv]: V, then V'
  float* outputs = values + C * Dv;               // [2C, Dv]: (Q * Gamma) S above (K * Gamma) S
  float* scores = outputs + 2 * C * Dv;           // [2C, C]: P above L
  float* beta = scores + 2 * C * C;               // [C]
  RowMap gamma(beta + C, Dk);
  RowMap carried(beta + C + Dk, Dk);

  MatrixMap S(state, Dk, Dv);
  operands.load_state(task, state);
  const Index tokens_per_chunk = C / steps;
  for (Index start = 0; start < task.num_tokens; start += tokens_per_chunk) {
    const Index m = std::min(tokens_per_chunk, task.num_tokens - start);
    const Index n = m * steps;
    Chunk c{m,
            n,
            steps,
            delta_rule,
            MatrixMap(decays, n, Dk),
            MatrixMap(queries_keys, m, Dk),
            MatrixMap(queries_keys + m * Dk, n, Dk),
            MatrixMap(from_start, m, Dk),
            MatrixMap(from_start + m * Dk, n, Dk),
            MatrixMap(to_end, n, Dk),
            MatrixMap(scores, m, n),
            MatrixMap(scores + m * n, n, n)};
    operands.load_queries(task, start, m, c.Q.data());
    operands.load_keys(task, start * steps, n, c.K.data());
    operands.load_values(task, start * steps, n, values);
    operands.load_betas(task, start * steps, n, beta);
    c.alpha.setOnes();
    for (Index t = 0; t < m; ++t) {
      float* row = decays + t * steps * Dk;
      operands.load_log_decays(task, start + t, 1, row);
      exponentiate(Eigen::Map<Eigen::ArrayXf>(row, Dk));
    }

    gamma.setOnes();
    for (Index a = 0; a < n; a += kBlock) {
      advance_block(c, a, std::min(a + kBlock, n), gamma, carried);
    }

    // Q and K meet S in one product; without the delta term only Q does.
    const Index rows = delta_rule ? m + n : m;
    MatrixMap QK_S(outputs, rows, Dv);
    QK_S.noalias() = MatrixMap(from_start, rows, Dk) * S;
    MatrixMap V(values, n, Dv);
    if (delta_rule) {
      V -= QK_S.bottomRows(n);
      for (Index i = 0; i < n; ++i) c.L.row(i) *= beta[i];
    }
    for (Index i = 0; i < n; ++i) V.row(i) *= beta[i];
    if (delta_rule) solve_unit_lower(c.L, V);  // V is now V'
    MatrixMap O(outputs, m, Dv);
    O.noalias() += c.P * V;
    O *= scale;
    operands.store_outputs(task, start, m, outputs);

    S.array().colwise() *= gamma.transpose().array();
    S.noalias() += c.K_end.transpose() * V;
  }
  operands.store_state(task, state);
}

}  // namespace gdn::cpu::GDN_ISA
