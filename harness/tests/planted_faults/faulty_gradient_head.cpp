// The gradients of a head in chunks. With S the state before a chunk, D the gradient by the state after it, Gamma_ij
// the decay from token j to token i, gamma_i that from S to token i, rho_i that from token i to the chunk's end, and
// dO times the scale:
//
//     L = I + strict_lower(diag(beta) (K K^T * Gamma)),   P = lower(Q K^T * Gamma)
//     V' = L^-1 diag(beta) (V - diag(gamma) K S),         Y = L^-T (diag(rho) K D + P^T dO)
//     dP = lower(dO V'^T),                                dL = -strict_lower(Y V'^T)
//     A  = diag(gamma) dO S^T,   Z = diag(beta gamma) Y S^T,   E = diag(rho) V' D^T,   N = diag(beta) (dL * Gamma)
//
//     d_q = A + (dP * Gamma) K,                           d_v = diag(beta) Y
//     d_k = E - Z + (dP * Gamma)^T Q + (N + N^T) K,       d_beta = Y . r of every row, r the rows of V' over beta
//     d_g_t = gamma_C <D, S> + sum_{i >= t} (q_i . A_i - k_i . Z_i) + sum_{j < t} k_j . E_j + sum_{i >= t > j} M_ij
//     D  <- gamma_C D + (diag(gamma) Q)^T dO - (diag(beta gamma) K)^T Y
//
// with M = P * dP + (L - I) * dL. docs/contract.md has the same gradients token by token.
#include "harness/tests/planted_faults/faulty_gradient_head.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <vector>

#include "interface/dtype.h"

namespace gdn::testing {
namespace {

using Index = Eigen::Index;
using Vector = Eigen::VectorXd;

double in_bfloat16(double x) {
  return static_cast<double>(round_to(DType::bfloat16, static_cast<float>(x)));
}
double in_float32(double x) { return static_cast<double>(static_cast<float>(x)); }

Matrix lower(Matrix m) {
  m.triangularView<Eigen::StrictlyUpper>().setZero();
  return m;
}
Matrix strictly_lower(Matrix m) {
  m.triangularView<Eigen::Upper>().setZero();
  return m;
}

struct Chunk {
  Index first = 0, size = 0;
  Matrix Q, K, V, dO;
  Vector beta, gamma, rho;
  double whole = 1;  // gamma_C
  Matrix ratio;      // Gamma, lower
  Matrix L;          // unit lower
  Matrix S;          // before the chunk
  Matrix written;    // V'
};

class FaultyGradients {
 public:
  FaultyGradients(GradientHead& head, Fault fault) : head_(head), fault_(fault) {}

  void run() {
    Matrix S = head_.state;
    std::vector<Chunk> chunks;
    for (Index first = 0; first < head_.query.rows(); first += kFaultyChunk) {
      chunks.push_back(forward(first, S));
    }
    after_ = S;
    if (is(Fault::gradient_final_state_ignored)) head_.d_state.setZero();
    stale_d_state_ = head_.d_state;
    for (auto chunk = chunks.rbegin(); chunk != chunks.rend(); ++chunk) backward(*chunk);
  }

 private:
  bool is(Fault fault) const { return fault_ == fault; }

  // A sum of log decays from one token to another: it holds no -inf - -inf, whatever they are.
  double decay(Index from, Index to) const {
    double sum = 0;
    for (Index t = from; t < to; ++t) sum += head_.log_decay(t);
    return std::exp(sum);
  }

  Chunk forward(Index first, Matrix& S) {
    Chunk c;
    c.first = first;
    c.size = std::min<Index>(kFaultyChunk, head_.query.rows() - first);
    c.Q = head_.query.middleRows(first, c.size);
    c.K = head_.key.middleRows(first, c.size);
    c.V = head_.value.middleRows(first, c.size);
    c.dO = head_.scale * head_.d_output.middleRows(first, c.size);
    c.beta = head_.beta.segment(first, c.size);
    c.gamma.resize(c.size);
    c.rho.resize(c.size);
    c.ratio = Matrix::Zero(c.size, c.size);
    for (Index i = 0; i < c.size; ++i) {
      c.gamma(i) = decay(first, first + i + 1);
      c.rho(i) = decay(first + i + 1, first + c.size);
      for (Index j = 0; j <= i; ++j) c.ratio(i, j) = decay(first + j + 1, first + i + 1);
    }
    c.whole = c.gamma(c.size - 1);
    c.L = strictly_lower(c.beta.asDiagonal() * (c.K * c.K.transpose()).cwiseProduct(c.ratio));
    c.L.diagonal().setOnes();
    c.S = S;
    c.written = c.L.triangularView<Eigen::UnitLower>().solve(
        Matrix(c.beta.asDiagonal() * (c.V - c.gamma.asDiagonal() * (c.K * S))));
    S = (c.whole * S + (c.rho.asDiagonal() * c.K).transpose() * c.written).eval();
    return c;
  }

  // The decays of a chunk as the backward pass of the fault has them.
  void spoil_decays(Chunk& c) const {
    const bool absent = head_.log_decay.isZero(0);
    if (is(Fault::gradient_absent_gates_unwritten) && absent) {
      for (Index i = 0; i < c.size; ++i) c.rho(i) = static_cast<double>(head_.unwritten[i]);
    }
    if (is(Fault::gradient_factored_decay)) {
      float sum = 0;
      std::vector<float> sums;
      for (Index i = 0; i < c.size; ++i) {
        sum += static_cast<float>(head_.log_decay(c.first + i));
        sums.push_back(sum);
      }
      for (Index i = 0; i < c.size; ++i) {
        c.rho(i) =
            static_cast<double>(std::exp(sum) * std::exp(-sums[static_cast<std::size_t>(i)]));
      }
    }
    if (is(Fault::gradient_tail_decay_behind) && c.size < kFaultyChunk) {
      const double behind = std::exp(head_.log_decay_behind.sum());
      c.whole *= behind;
      c.rho *= behind;
    }
    if (is(Fault::gradient_rho_ignored)) c.rho.setOnes();
  }

  void backward(Chunk& c) {
    spoil_decays(c);
    Matrix& D = head_.d_state;
    const Matrix P = lower((c.Q * c.K.transpose()).cwiseProduct(c.ratio));
    const Matrix d_written = c.rho.asDiagonal() * (c.K * D) + P.transpose() * c.dO;
    const auto L = c.L.triangularView<Eigen::UnitLower>();
    const Matrix Y =
        is(Fault::gradient_inverse_not_transposed)
            ? Matrix(L.solve(d_written))
            : Matrix(c.L.transpose().triangularView<Eigen::UnitUpper>().solve(d_written));
    const Matrix dP = is(Fault::gradient_scores_without_diagonal)
                          ? strictly_lower(c.dO * c.written.transpose())
                          : lower(c.dO * c.written.transpose());
    const Matrix dL = is(Fault::gradient_system_with_diagonal)
                          ? lower(-Y * c.written.transpose())
                          : strictly_lower(-Y * c.written.transpose());
    const Vector weight =
        is(Fault::gradient_gamma_ignored) ? c.beta : Vector(c.beta.cwiseProduct(c.gamma));
    const Index columns =
        is(Fault::gradient_first_64_columns) ? std::min<Index>(64, Y.cols()) : Y.cols();

    const Matrix A = c.gamma.asDiagonal() * (c.dO * c.S.transpose());
    const Matrix& read = is(Fault::gradient_state_after_chunk) ? after_ : c.S;
    const Matrix Z =
        weight.asDiagonal() * (Y.leftCols(columns) * read.leftCols(columns).transpose());
    const Matrix& behind = is(Fault::gradient_stale_d_state) ? stale_d_state_ : D;
    const Matrix E = c.rho.asDiagonal() * (c.written * behind.transpose());
    const Matrix N = c.beta.asDiagonal() * dL.cwiseProduct(c.ratio);
    const Matrix scores = dP.cwiseProduct(c.ratio);

    head_.d_query.middleRows(c.first, c.size) = A + scores * c.K;
    head_.d_key.middleRows(c.first, c.size) = E - Z + scores.transpose() * c.Q + N * c.K;
    if (!is(Fault::gradient_half_of_system)) {
      head_.d_key.middleRows(c.first, c.size) += N.transpose() * c.K;
    }
    head_.d_value.middleRows(c.first, c.size) =
        is(Fault::gradient_value_without_beta) ? Y : Matrix(c.beta.asDiagonal() * Y);
    store_betas(c, Y.leftCols(columns));
    store_log_decays(c, P, dP, dL, A, Z, E);
    after_ = c.S;
    stale_d_state_ = D;
    carry_back(c, Y, weight);
  }

  void store_betas(const Chunk& c, const Matrix& Y) {
    const Index columns = Y.cols();
    if (is(Fault::gradient_beta_not_divided) || is(Fault::gradient_beta_by_quotient)) {
      for (Index i = 0; i < c.size; ++i) {
        const double product = Y.row(i).dot(c.written.row(i));
        head_.d_beta(c.first + i) =
            is(Fault::gradient_beta_by_quotient) ? product / c.beta(i) : product;
      }
      return;
    }
    // r by its own sum: V' over beta would be 0 / 0 where nothing is written.
    const Matrix r = c.V - c.gamma.asDiagonal() * (c.K * c.S) -
                     strictly_lower((c.K * c.K.transpose()).cwiseProduct(c.ratio)) * c.written;
    for (Index i = 0; i < c.size; ++i) {
      head_.d_beta(c.first + i) = Y.row(i).dot(r.row(i).head(columns));
    }
  }

  void store_log_decays(const Chunk& c, const Matrix& P, const Matrix& dP, const Matrix& dL,
                        const Matrix& A, const Matrix& Z, const Matrix& E) {
    Matrix M = P.cwiseProduct(dP);
    if (!is(Fault::gradient_gate_without_system)) M += c.L.cwiseProduct(dL);
    const double product = c.whole * head_.d_state.cwiseProduct(c.S).sum();
    double of_states = product;
    if (is(Fault::gradient_gate_without_states)) of_states = 0;
    if (is(Fault::gradient_gate_stale_states)) of_states = stale_product_;
    stale_product_ = product;
    Vector rows(c.size), columns(c.size);  // what decays on the way to i, and from j on
    for (Index i = 0; i < c.size; ++i) {
      rows(i) = c.Q.row(i).dot(A.row(i)) - c.K.row(i).dot(Z.row(i));
      columns(i) = c.K.row(i).dot(E.row(i));
    }
    Vector d_g(c.size);
    if (is(Fault::gradient_gate_transposed_in_bfloat16)) {
      d_g = of_rows_less_columns(rows, columns, M, of_states);
    } else if (is(Fault::gradient_gate_by_identity)) {
      d_g = of_identity(c, P);
    } else {
      const Index inclusive = is(Fault::gradient_gate_prefix_inclusive) ? 1 : 0;
      const Index later = is(Fault::gradient_gate_crossing_late) ? 1 : 0;
      for (Index t = 0; t < c.size; ++t) {
        const Index from = std::min(t + later, c.size);
        d_g(t) = of_states + rows.tail(c.size - t).sum() + columns.head(t + inclusive).sum() +
                 M.block(from, 0, c.size - from, t).sum();
      }
    }
    const bool tail = c.size < kFaultyChunk;
    if (is(Fault::gradient_tail_row_twice) && tail) d_g(c.size - 1) += of_states;
    head_.d_log_decay.segment(c.first, c.size) = d_g;
  }

  // Of every accumulated log decay the sum of its row less that of its column, and of these the sums from
  // t on. Terms that no decay separates cancel, unless one of the two copies is rounded.
  static Vector of_rows_less_columns(const Vector& rows, const Vector& columns, const Matrix& M,
                                     double of_states) {
    const Index size = rows.size();
    Vector d_g(size);
    double sum = of_states + columns.sum();
    for (Index t = size - 1; t >= 0; --t) {
      sum += rows(t) - columns(t) + M.row(t).sum();
      sum -= M.col(t).unaryExpr([](double x) { return in_bfloat16(x); }).sum();
      d_g(t) = sum;
    }
    return d_g;
  }

  // As linear attention does without a decay within the chunk: o . d_o less v . d_v, from t on, in float32.
  Vector of_identity(const Chunk& c, const Matrix& P) const {
    const Matrix output = c.gamma.asDiagonal() * (c.Q * c.S) + P * c.written;
    Vector d_g(c.size);
    double sum = in_float32(head_.d_state.cwiseProduct(after_).sum());
    for (Index t = c.size - 1; t >= 0; --t) {
      const double of_output = output.row(t).dot(c.dO.row(t));
      const double of_value = c.V.row(t).dot(head_.d_value.row(c.first + t));
      sum = in_float32(sum + in_float32(in_float32(of_output) - in_float32(of_value)));
      d_g(t) = sum;
    }
    return d_g;
  }

  void carry_back(const Chunk& c, const Matrix& Y, const Vector& weight) {
    Matrix& D = head_.d_state;
    if (!is(Fault::gradient_d_state_not_decayed)) D *= c.whole;
    D += (c.gamma.asDiagonal() * c.Q).transpose() * c.dO;
    D -= (weight.asDiagonal() * c.K).transpose() * Y;
    if (c.size < kFaultyChunk) {
      const Matrix behind = head_.scale * head_.query_behind.transpose() * head_.d_output_behind;
      if (is(Fault::gradient_tail_with_rows_behind)) D += c.whole * behind;
      if (is(Fault::gradient_tail_masked_by_zero)) D += 0.0 * behind;
    }
    if (is(Fault::gradient_d_state_in_bfloat16)) {
      D = D.unaryExpr([](double x) { return in_bfloat16(x); }).eval();
    }
  }

  GradientHead& head_;
  Fault fault_;
  Matrix after_;              // the state after the chunk at hand
  Matrix stale_d_state_;      // D of the chunk before in the order of the loop
  double stale_product_ = 0;  // gamma_C <D, S> of it
};

// <S, D> of every token, which no quotient by a decay of 0 gives.
void store_decays(GradientHead& head) {
  std::vector<Matrix> before;
  Matrix S = head.state, D = head.d_state;
  for (Index t = 0; t < head.d_decay.size(); ++t) {
    before.push_back(S);
    S *= std::exp(head.log_decay(t));
    const Eigen::RowVectorXd r = head.value.row(t) - head.key.row(t) * S;
    S += head.beta(t) * head.key.row(t).transpose() * r;
  }
  for (Index t = head.d_decay.size() - 1; t >= 0; --t) {
    D += head.scale * head.query.row(t).transpose() * head.d_output.row(t);
    const Eigen::RowVectorXd w = head.key.row(t) * D;
    D -= head.beta(t) * head.key.row(t).transpose() * w;
    head.d_decay(t) = before[static_cast<std::size_t>(t)].cwiseProduct(D).sum();
    D *= std::exp(head.log_decay(t));
  }
}

}  // namespace

void run_faulty_gradient_head(GradientHead& head, Fault fault) {
  store_decays(head);
  FaultyGradients(head, fault).run();
}

}  // namespace gdn::testing
