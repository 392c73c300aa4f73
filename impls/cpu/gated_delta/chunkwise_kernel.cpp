// The chunkwise-WY form of one head. A chunk of C tokens, with G_i = g_1 + .. + g_i the log decay
// accumulated within the chunk, gamma_i = exp(G_i) and D_ij = exp(G_i - G_j) for j <= i, is
//
//     L  = I + strict_lower(diag(beta) (K K^T * D))                       [C, C]
//     V' = L^-1 diag(beta) (V - diag(gamma) K S)                          [C, Dv]
//     O  = scale (diag(gamma) Q S + lower(Q K^T * D) V')                  [C, Dv]
//     S <- gamma_C S + (diag(exp(G_C - G_j)) K)^T V'                      [Dk, Dv]
//
// V' holds the rows beta_t r_t that the token recurrence would add to the state: substituting the
// recurrence into itself within the chunk leaves one unit lower triangular system. Everything else
// is matrix products.
//
// With n Householder steps per token (DeltaProduct) the rows of K and V are the steps: g belongs to
// a token's first step, further steps have g = 0, and Q has a row only for each token's last step.
// A chunk holds whole tokens. Without the delta term (additive) L is the identity and K S is
// absent.
#include <Eigen/Core>
#include <algorithm>

#include "cpu/gated_delta/chunk_decays.h"
#include "cpu/gated_delta/chunk_solve.h"
#include "cpu/gated_delta/kernels.h"

namespace gdn::cpu::GDN_ISA {
namespace {

using Index = std::int64_t;
using MatrixMap = Eigen::Map<RowMajorMatrix>;

}  // namespace

void chunkwise_head(const GatedDeltaOperands& operands, const HeadTask& task, std::int64_t chunk,
                    float* workspace) {
  const Problem& problem = operands.problem();
  const Index Dk = problem.key_head_dim, Dv = problem.value_head_dim, steps = problem.steps;
  const bool delta_rule = problem.update == UpdateRule::delta;
  const Index C = chunk;
  const float scale = operands.scale();

  // The doubles first: the workspace starts on a cache line.
  double* accumulated = reinterpret_cast<double*>(workspace);     // [C]
  Index* span_start = reinterpret_cast<Index*>(accumulated + C);  // [C]
  float* state = reinterpret_cast<float*>(span_start + C);        // [Dk, Dv]
  float* queries_keys = state + Dk * Dv;                          // [2C, Dk]: Q above K
  float* values = queries_keys + 2 * C * Dk;                      // [C, Dv]: V, then V'
  float* outputs = values + C * Dv;                               // [2C, Dv]: Q S above K S
  float* scores = outputs + 2 * C * Dv;                           // [2C, C]: Q K^T above K K^T
  float* D_row = scores + 2 * C * C;                              // [C]
  float* log_decay = D_row + C;                                   // [C]
  float* beta = log_decay + C;                                    // [C]

  MatrixMap S(state, Dk, Dv);
  ChunkDecays decays(accumulated, span_start);
  operands.load_state(task, state);
  const Index tokens_per_chunk = C / steps;
  for (Index start = 0; start < task.num_tokens; start += tokens_per_chunk) {
    const Index m = std::min(tokens_per_chunk, task.num_tokens - start);  // tokens: rows of Q
    const Index n = m * steps;                                            // rows of K and V
    operands.load_queries(task, start, m, queries_keys);
    operands.load_keys(task, start * steps, n, queries_keys + m * Dk);
    operands.load_values(task, start * steps, n, values);
    operands.load_betas(task, start * steps, n, beta);
    operands.load_log_decays(task, start, m, D_row);
    for (Index i = 0; i < n; ++i) log_decay[i] = i % steps == 0 ? D_row[i / steps] : 0.0f;
    decays.accumulate(log_decay, n);

    // Q and K meet S, and K^T, in one product each; without the delta term only Q does.
    const Index rows = delta_rule ? m + n : m;
    const MatrixMap QK(queries_keys, rows, Dk);
    MatrixMap K(queries_keys + m * Dk, n, Dk);
    MatrixMap QK_S(outputs, rows, Dv);
    MatrixMap QK_Kt(scores, rows, n);
    QK_S.noalias() = QK * S;
    QK_Kt.noalias() = QK * K.transpose();

    MatrixMap P(scores, m, n);          // lower(Q K^T * D)
    MatrixMap L(scores + m * n, n, n);  // diag(beta) (K K^T * D), of which strict_lower is used
    MatrixMap O(outputs, m, Dv);
    const MatrixMap K_S(outputs + m * Dv, n, Dv);
    MatrixMap V(values, n, Dv);
    for (Index i = 0; i < n; ++i) {
      decays.row(i, D_row);
      const Eigen::Map<const Eigen::RowVectorXf> D_i(D_row, n);
      const float gamma = decays.from_initial(i);
      if (delta_rule) {
        L.row(i) = beta[i] * L.row(i).cwiseProduct(D_i);
        V.row(i) = beta[i] * (V.row(i) - gamma * K_S.row(i));
      } else {
        V.row(i) *= beta[i];
      }
      if ((i + 1) % steps != 0) continue;
      const Index t = i / steps;
      P.row(t) = P.row(t).cwiseProduct(D_i);
      O.row(t) *= gamma;
    }

    if (delta_rule) solve_unit_lower(L, V);  // V is now V'
    O.noalias() += P * V;
    O *= scale;
    operands.store_outputs(task, start, m, outputs);

    for (Index j = 0; j < n; ++j) K.row(j) *= decays.between(n - 1, j);
    S *= decays.from_initial(n - 1);
    S.noalias() += K.transpose() * V;
  }
  operands.store_state(task, state);
}

}  // namespace gdn::cpu::GDN_ISA
