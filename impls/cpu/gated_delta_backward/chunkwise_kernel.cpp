// The gradients of one head by the chunkwise-WY form, from the last chunk to the first. With S the state before a
// chunk, D the gradient by the state after it, D_ij, gamma, L, V' as in cpu/gated_delta/chunkwise_kernel.cpp,
// P = lower(Q K^T * D_ij), dO scaled and rho_i = D_Ci, the decays from token i to the chunk's end:
//
//     dV'  = diag(rho) K D + P^T dO,    Y = L^-T dV'                                     [C, Dv]
//     dP   = lower(dO V'^T),            dL = -strict_lower(Y V'^T)                       [C, C]
//     d_q  = diag(gamma) dO S^T + (dP * D_ij) K                                          [C, Dk]
//     d_k  = diag(rho) V' D^T - diag(beta gamma) Y S^T + (dP * D_ij)^T Q + (N + N^T) K   [C, Dk]
//     d_v  = diag(beta) Y                                                                [C, Dv]
//     D   <- gamma_C D + (diag(gamma) Q)^T dO - (diag(beta gamma) K)^T Y                 [Dk, Dv]
//
// with N = diag(beta) (dL * D_ij). Nothing is multiplied by L^-1 from both sides. The gradients by a token's beta
// and log decay are sums of what those products hold:
//
//     d_beta_i = Y_i . v_i - k_i . (diag(gamma) Y S^T)_i + sum_j dL_ij D_ij k_i . k_j
//     d_g_t    = gamma_C <D, S> + sum_{i >= t} (a_i + z_i) + sum_{j < t} e_j + sum_{i >= t > j} M_ij
//
// where a, z and e are the products of each row of q and k with its row of the first term of d_q, and the second
// and first of d_k, and M = P * dP + L * dL. d_beta is Y . r with the r of the recurrence: no quotient by beta,
// which may be zero. Every term of d_g_t holds the factor exp(g_t); sums of rows less sums of columns are the same
// number, but of terms that do not, and lose it where it is small. A reset gives exact zeros.
//
// A first pass over the chunks keeps S before each and V' of all tokens.
#include <Eigen/Core>
#include <algorithm>

#include "cpu/gated_delta/chunk_decays.h"
#include "cpu/gated_delta/chunk_solve.h"
#include "cpu/gated_delta_backward/kernels.h"

namespace gdn::cpu::GDN_ISA {
namespace {

using Index = std::int64_t;
using MatrixMap = Eigen::Map<RowMajorMatrix>;
using VectorMap = Eigen::Map<Eigen::VectorXf>;

/// Gradients by smaller decays are not made by dividing by them.
constexpr float kLeastDivisor = 1e-20f;

class ChunkGradients {
 public:
  ChunkGradients(const GatedDeltaBackwardOperands& operands, const HeadTask& task, Index chunk,
                 float* workspace, float* d_query, float* d_key, GateSums& sums)
      : operands_(operands),
        forward_(operands.forward()),
        task_(task),
        Dk_(operands.problem().key_head_dim),
        Dv_(operands.problem().value_head_dim),
        C_(chunk),
        // The doubles first: the workspace starts on a cache line.
        d_log_decay_(reinterpret_cast<double*>(workspace)),
        accumulated_(d_log_decay_ + C_),
        span_start_(reinterpret_cast<Index*>(accumulated_ + C_)),
        decays_(accumulated_, span_start_),
        d_query_(d_query),
        d_key_(d_key),
        sums_(sums) {
    float* next = reinterpret_cast<float*>(span_start_ + C_);
    const auto take = [&next](Index floats) {
      float* const taken = next;
      next += floats;
      return taken;
    };
    for (float** row : {&log_decay_, &beta_, &gamma_, &rho_, &d_beta_}) *row = take(C_);
    for (float** state : {&d_state_, &before_, &behind_}) *state = take(Dk_ * Dv_);
    queries_keys_ = take(2 * C_ * Dk_);
    scaled_keys_ = take(C_ * Dk_);
    of_state_ = take(2 * C_ * Dk_);
    of_d_state_ = take(C_ * Dk_);
    values_ = take(C_ * Dv_);
    gradients_ = take(2 * C_ * Dv_);
    between_ = take(C_ * C_);
    scores_ = take(2 * C_ * C_);
    system_ = take(C_ * C_);
    d_scores_ = take(2 * C_ * C_);
    states_ = next;
    written_ = states_ + chunks_of(operands.problem().total_tokens()) * Dk_ * Dv_;
  }

  void run() {
    const Index chunks = chunks_of(task_.num_tokens);
    forward_.load_state(task_, states_);
    for (Index c = 0; c < chunks; ++c) write(c, c + 1 < chunks);
    operands_.load_d_final_state(task_, d_state_);
    for (Index c = chunks - 1; c >= 0; --c) gradients(c);
    operands_.store_d_initial_state(task_, d_state_);
  }

 private:
  Index chunks_of(Index tokens) const { return (tokens + C_ - 1) / C_; }
  MatrixMap state(Index c) const { return {states_ + c * Dk_ * Dv_, Dk_, Dv_}; }
  MatrixMap written() const { return {written_ + start_ * Dv_, n_, Dv_}; }  // V'
  MatrixMap keys() const { return {queries_keys_ + n_ * Dk_, n_, Dk_}; }

  /// Tokens [start_, start_ + n_), those of chunk c: their keys, values, betas and decays.
  void load(Index c) {
    start_ = c * C_;
    n_ = std::min(C_, task_.num_tokens - start_);
    forward_.load_keys(task_, start_, n_, keys().data());
    forward_.load_values(task_, start_, n_, values_);
    forward_.load_betas(task_, start_, n_, beta_);
    forward_.load_log_decays(task_, start_, n_, log_decay_);
    decays_.accumulate(log_decay_, n_);
    for (Index i = 0; i < n_; ++i) {
      gamma_[i] = decays_.from_initial(i);
      rho_[i] = decays_.between(n_ - 1, i);
      decays_.row(i, between_ + i * n_);
    }
  }

  /// V' of a chunk, and the state after it for the next one.
  void write(Index c, bool has_next) {
    load(c);
    const MatrixMap K = keys(), S = state(c);
    const VectorMap beta(beta_, n_), gamma(gamma_, n_);
    MatrixMap L(system_, n_, n_), V = written();
    L.noalias() = K * K.transpose();
    L.array() *= MatrixMap(between_, n_, n_).array();
    L.array().colwise() *= beta.array();
    V.noalias() = K * S;
    V.array().colwise() *= gamma.array();
    V = MatrixMap(values_, n_, Dv_) - V;
    V.array().colwise() *= beta.array();
    solve_unit_lower(L, V);
    if (!has_next) return;
    MatrixMap next = state(c + 1);
    next = gamma_[n_ - 1] * S;
    next.noalias() += scaled_keys(rho_).transpose() * V;
  }

  /// The rows of K times factors.
  MatrixMap scaled_keys(const float* factors) const {
    MatrixMap scaled(scaled_keys_, n_, Dk_);
    for (Index i = 0; i < n_; ++i) scaled.row(i) = factors[i] * keys().row(i);
    return scaled;
  }

  void gradients(Index c) {
    load(c);
    forward_.load_queries(task_, start_, n_, queries_keys_);
    operands_.load_d_outputs(task_, start_, n_, gradients_);
    const MatrixMap Q(queries_keys_, n_, Dk_), K = keys(), QK(queries_keys_, 2 * n_, Dk_);
    const MatrixMap S = state(c), V = written(), D(d_state_, Dk_, Dv_);
    const VectorMap beta(beta_, n_), rho(rho_, n_);
    MatrixMap dO(gradients_, n_, Dv_), Y(gradients_ + n_ * Dv_, n_, Dv_);

    MatrixMap QK_Kt(scores_, 2 * n_, n_), P(scores_, n_, n_), KKt(scores_ + n_ * n_, n_, n_);
    QK_Kt.noalias() = QK * K.transpose();
    const MatrixMap between(between_, n_, n_);
    P.array() *= between.array();
    KKt.array() *= between.array();  // K K^T * D_ij from here on
    MatrixMap L(system_, n_, n_);
    L = KKt;
    L.array().colwise() *= beta.array();

    Y.noalias() = K * D;
    Y.array().colwise() *= rho.array();
    Y.noalias() += P.transpose() * dO;
    solve_unit_lower_transposed(L, Y);

    MatrixMap d_scores(d_scores_, 2 * n_, n_), of_state(of_state_, 2 * n_, Dk_);
    const MatrixMap dO_Y(gradients_, 2 * n_, Dv_);
    d_scores.noalias() = dO_Y * V.transpose();
    of_state.noalias() = dO_Y * S.transpose();
    MatrixMap(of_d_state_, n_, Dk_).noalias() = V * D.transpose();

    sum_states();
    sum_pairs();
    add_queries_and_keys();
    for (Index i = 0; i < n_; ++i) {
      d_beta_[i] += Y.row(i).dot(Eigen::Map<const Eigen::RowVectorXf>(values_ + i * Dv_, Dv_));
    }
    store_gates(c);
    carry_back();
    Y.array().colwise() *= beta.array();
    operands_.store_d_values(task_, start_, n_, Y.data());
  }

  /// The parts of d_q and d_k by the states get their factors, and what of d_beta and d_g comes of them.
  void sum_states() {
    const MatrixMap Q(queries_keys_, n_, Dk_), K = keys();
    MatrixMap of_query(of_state_, n_, Dk_), of_key(of_state_ + n_ * Dk_, n_, Dk_);
    MatrixMap of_d_state(of_d_state_, n_, Dk_);
    double before = 0;
    for (Index t = 0; t < n_; ++t) {  // sum_{j < t} e_j
      d_log_decay_[t] = before;
      of_d_state.row(t) *= rho_[t];
      before += static_cast<double>(K.row(t).dot(of_d_state.row(t)));
    }
    double from = static_cast<double>(gamma_[n_ - 1]) * product_of_states();
    for (Index t = n_ - 1; t >= 0; --t) {  // sum_{i >= t} (a_i + z_i)
      of_query.row(t) *= gamma_[t];
      of_key.row(t) *= gamma_[t];
      const float of_written = K.row(t).dot(of_key.row(t));
      d_beta_[t] = -of_written;
      from += static_cast<double>(Q.row(t).dot(of_query.row(t)) - beta_[t] * of_written);
      d_log_decay_[t] += from;
    }
  }
  double product_of_states() const {
    const MatrixMap S = state(start_ / C_), D(d_state_, Dk_, Dv_);
    double sum = 0;
    for (Index k = 0; k < Dk_; ++k) sum += static_cast<double>(S.row(k).dot(D.row(k)));
    return sum;
  }

  /// dP becomes dP * D_ij and dL becomes N, and what of d_beta and d_g comes of them.
  void sum_pairs() {
    for (Index i = 0; i < n_; ++i) {
      const float* const P = scores_ + i * n_;
      const float* const KKt = scores_ + (n_ + i) * n_;
      const float* const between = between_ + i * n_;
      float* const dP = d_scores_ + i * n_;
      float* const YV = d_scores_ + (n_ + i) * n_;
      double crossing = 0;  // sum_{j < t} M_ij
      float of_products = 0;
      for (Index j = 0; j < i; ++j) {
        d_log_decay_[j] += crossing;
        const float of_L = -YV[j] * KKt[j];
        of_products += of_L;
        crossing += static_cast<double>(P[j] * dP[j] + beta_[i] * of_L);
        dP[j] *= between[j];
        YV[j] *= -beta_[i] * between[j];
      }
      d_log_decay_[i] += crossing;
      d_beta_[i] += of_products;
      YV[i] = 0;  // and D_ii is one
      for (Index j = i + 1; j < n_; ++j) dP[j] = YV[j] = 0;
    }
  }

  void add_queries_and_keys() {
    const MatrixMap Q(queries_keys_, n_, Dk_), K = keys();
    const MatrixMap dP(d_scores_, n_, n_), N(d_scores_ + n_ * n_, n_, n_);
    MatrixMap d_query(of_state_, n_, Dk_), d_key(of_d_state_, n_, Dk_);
    d_query.noalias() += dP * K;
    for (Index i = 0; i < n_; ++i) {
      d_key.row(i) -=
          beta_[i] * Eigen::Map<const Eigen::RowVectorXf>(of_state_ + (n_ + i) * Dk_, Dk_);
    }
    d_key.noalias() += dP.transpose() * Q;
    d_key.noalias() += N * K;
    d_key.noalias() += N.transpose() * K;
    MatrixMap(d_query_ + start_ * Dk_, n_, Dk_) += d_query;
    MatrixMap(d_key_ + start_ * Dk_, n_, Dk_) += d_key;
  }

  void store_gates(Index c) {
    const bool by_decay = operands_.problem().gate_encoding == GateEncoding::decay;
    for (Index t = 0; t < n_; ++t) {
      float d_decay = 0;
      if (by_decay) {
        const float decay = operands_.decay(task_, start_ + t);
        d_decay = decay >= kLeastDivisor ? static_cast<float>(d_log_decay_[t]) / decay
                                         : product_around(c, t);
      }
      operands_.store_d_beta(task_, start_ + t, d_beta_[t]);
      operands_.store_d_gate(task_, start_ + t, static_cast<float>(d_log_decay_[t]), d_decay,
                             sums_);
    }
  }

  /// <S before token t, D behind its decay>, of a decay too small to divide by.
  float product_around(Index c, Index t) {
    MatrixMap S(before_, Dk_, Dv_), D(behind_, Dk_, Dv_);
    const MatrixMap V = written(), dO(gradients_, n_, Dv_), Y(gradients_ + n_ * Dv_, n_, Dv_);
    const Index rest = n_ - t;
    S = (t > 0 ? gamma_[t - 1] : 1.0f) * state(c);
    D = rho_[t] * MatrixMap(d_state_, Dk_, Dv_);
    MatrixMap scaled(scaled_keys_, n_, Dk_);
    for (Index i = 0; i < t; ++i) scaled.row(i) = decays_.between(t - 1, i) * keys().row(i);
    for (Index i = t; i < n_; ++i) {
      scaled.row(i) = decays_.between(i, t) * MatrixMap(queries_keys_, n_, Dk_).row(i);
    }
    S.noalias() += scaled.topRows(t).transpose() * V.topRows(t);
    D.noalias() += scaled.bottomRows(rest).transpose() * dO.bottomRows(rest);
    for (Index i = t; i < n_; ++i) {
      scaled.row(i) = beta_[i] * decays_.between(i, t) * keys().row(i);
    }
    D.noalias() -= scaled.bottomRows(rest).transpose() * Y.bottomRows(rest);
    double sum = 0;
    for (Index k = 0; k < Dk_; ++k) sum += static_cast<double>(S.row(k).dot(D.row(k)));
    return static_cast<float>(sum);
  }

  /// D from the chunk's end to its start.
  void carry_back() {
    MatrixMap D(d_state_, Dk_, Dv_), Q(queries_keys_, n_, Dk_);
    const MatrixMap dO(gradients_, n_, Dv_), Y(gradients_ + n_ * Dv_, n_, Dv_);
    const VectorMap gamma(gamma_, n_);
    Q.array().colwise() *= gamma.array();
    D *= gamma_[n_ - 1];
    D.noalias() += Q.transpose() * dO;
    for (Index i = 0; i < n_; ++i) gamma_[i] *= beta_[i];
    D.noalias() -= scaled_keys(gamma_).transpose() * Y;
  }

  const GatedDeltaBackwardOperands& operands_;
  const GatedDeltaOperands& forward_;
  const HeadTask& task_;
  const Index Dk_, Dv_, C_;
  Index start_ = 0;      ///< of the chunk at hand
  Index n_ = 0;          ///< tokens of it
  double* d_log_decay_;  ///< [C]
  double* accumulated_;  ///< [C]
  Index* span_start_;    ///< [C]
  ChunkDecays decays_;
  float* log_decay_ = nullptr;     ///< [C]
  float* beta_ = nullptr;          ///< [C]
  float* gamma_ = nullptr;         ///< [C]
  float* rho_ = nullptr;           ///< [C]
  float* d_beta_ = nullptr;        ///< [C]
  float* d_state_ = nullptr;       ///< [Dk, Dv]: D
  float* before_ = nullptr;        ///< [Dk, Dv]
  float* behind_ = nullptr;        ///< [Dk, Dv]
  float* queries_keys_ = nullptr;  ///< [2C, Dk]: Q above K
  float* scaled_keys_ = nullptr;   ///< [C, Dk]
  float* of_state_ = nullptr;      ///< [2C, Dk]: dO S^T above Y S^T
  float* of_d_state_ = nullptr;    ///< [C, Dk]: V' D^T
  float* values_ = nullptr;        ///< [C, Dv]
  float* gradients_ = nullptr;     ///< [2C, Dv]: dO above Y
  float* between_ = nullptr;       ///< [C, C]: D_ij
  float* scores_ = nullptr;        ///< [2C, C]: P above K K^T * D_ij
  float* system_ = nullptr;        ///< [C, C]: L, of which strict_lower is used
  float* d_scores_ = nullptr;      ///< [2C, C]: dP above dL
  float* states_ = nullptr;        ///< [chunks, Dk, Dv]
  float* written_ = nullptr;       ///< [tokens, Dv]: V'
  float* d_query_;                 ///< [tokens, Dk]
  float* d_key_;                   ///< [tokens, Dk]
  GateSums& sums_;
};

}  // namespace

void chunkwise_gradients(const GatedDeltaBackwardOperands& operands, const HeadTask& task,
                         std::int64_t chunk, float* workspace, float* d_query, float* d_key,
                         GateSums& sums) {
  ChunkGradients(operands, task, chunk, workspace, d_query, d_key, sums).run();
}

}  // namespace gdn::cpu::GDN_ISA
