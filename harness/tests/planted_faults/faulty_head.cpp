#include "harness/tests/planted_faults/faulty_head.h"

#include <Eigen/Dense>
#include <bit>
#include <cmath>
#include <optional>
#include <vector>

#include "interface/dtype.h"

namespace gdn::testing {
namespace {

using Index = Eigen::Index;

double rounded(DType dtype, double x) {
  return static_cast<double>(round_to(dtype, static_cast<float>(x)));
}
Matrix rounded(DType dtype, const Matrix& m) {
  return m.unaryExpr([dtype](double x) { return rounded(dtype, x); });
}

// The 10 bits of mantissa that tensor cores keep of a float32 operand.
double to_tf32(double x) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(x));
  return static_cast<double>(std::bit_cast<float>((bits + 0x1000u) & 0xFFFFE000u));
}

// An operand of a matrix product.
Matrix operand(Fault fault, const Matrix& m) {
  if (fault == Fault::products_in_bfloat16) return rounded(DType::bfloat16, m);
  if (fault == Fault::products_in_tf32) return m.unaryExpr([](double x) { return to_tf32(x); });
  return m;
}

void run_recurrent(FaultyHead& head, Fault fault) {
  for (Index t = 0; t < head.query.rows(); ++t) {
    const double decay = std::exp(head.log_decay(t));
    const Eigen::VectorXd k = head.key.row(t).transpose();
    const Eigen::VectorXd q = head.query.row(t).transpose();
    if (fault == Fault::window_restart && t == 512) head.state.setZero();
    if (fault != Fault::decay_after_update) {
      head.state = decay == 0 ? Matrix::Zero(head.state.rows(), head.state.cols())
                              : Matrix(decay * head.state);
    }
    if (fault == Fault::old_state_readout) {
      head.output.row(t) = head.scale * (head.state.transpose() * q).transpose();
    }
    Eigen::VectorXd r = head.value.row(t).transpose();
    if (fault != Fault::no_delta_term) r -= head.state.transpose() * k;
    head.state += head.beta(t) * k * r.transpose();
    if (fault == Fault::decay_after_update) head.state *= decay;
    if (fault == Fault::state_rounded_per_token) head.state = rounded(DType::bfloat16, head.state);
    Matrix readout = (head.state.transpose() * q).transpose();
    if (fault == Fault::readout_in_float16) readout = rounded(DType::float16, readout);
    if (fault != Fault::old_state_readout) head.output.row(t) = head.scale * readout;
  }
}

// Decays within a chunk: exponentials of differences of accumulated log decays. A reset cuts the
// chunk into spans, between which decays are exactly 0.
struct ChunkDecays {
  Eigen::VectorXd accumulated;  // G_i, resets left out
  std::vector<Index> span;      // the first token of i's span; -1: reaches the initial state
  Fault fault;

  ChunkDecays(const Eigen::VectorXd& log_decay, Fault planted) : fault(planted) {
    accumulated.resize(log_decay.size());
    double sum = 0;
    Index start = -1;
    for (Index i = 0; i < log_decay.size(); ++i) {
      const bool reset = std::isinf(log_decay(i)) && fault != Fault::prefix_difference;
      if (reset) {
        start = i;
      } else {
        sum += log_decay(i);
      }
      if (fault == Fault::cumsum_in_bfloat16) sum = rounded(DType::bfloat16, sum);
      accumulated(i) = sum;
      span.push_back(start);
    }
  }
  double from_initial(Index i) const {
    return span[static_cast<std::size_t>(i)] >= 0 ? 0 : std::exp(accumulated(i));
  }
  double between(Index i, Index j) const {
    if (j < span[static_cast<std::size_t>(i)]) return 0;
    const double exponent = accumulated(i) - accumulated(j);
    const auto f = [](double x) { return std::exp(static_cast<float>(x)); };
    switch (fault) {
      case Fault::inverted_decay_ratio:
        return std::exp(-exponent);
      case Fault::masked_by_exponent:
        return i != j && exponent >= 0 ? 0 : std::exp(exponent);
      case Fault::factored_decay:
        return static_cast<double>(f(accumulated(i)) * f(-accumulated(j)));
      case Fault::mid_chunk_anchor: {
        const double middle = accumulated(accumulated.size() / 2);
        return static_cast<double>(f(accumulated(i) - middle) * f(middle - accumulated(j)));
      }
      default:
        return std::exp(exponent);
    }
  }
};

// (I + N)^-1 for strictly lower N of 16 rows: (I - N)(I + N^2)(I + N^4)(I + N^8).
Matrix inverse_by_doubling(const Matrix& strictly_lower, int rounds, std::optional<DType> dtype) {
  const auto kept = [&](const Matrix& m) { return dtype ? rounded(*dtype, m) : m; };
  const Matrix identity = Matrix::Identity(strictly_lower.rows(), strictly_lower.cols());
  Matrix inverse = kept(identity - strictly_lower);
  Matrix power = kept(strictly_lower);
  for (int round = 1; round < rounds; ++round) {
    power = kept(power * power);
    inverse = kept(inverse * kept(identity + power));
  }
  return inverse;
}

// L^-1 x by substitution, or as the fault has it.
Matrix solved(const Matrix& L, const Matrix& x, Fault fault) {
  const Matrix strictly_lower = L.triangularView<Eigen::StrictlyLower>();
  switch (fault) {
    case Fault::short_neumann:
      return inverse_by_doubling(strictly_lower, 3, std::nullopt) * x;
    case Fault::doubling_in_float16:
      return inverse_by_doubling(strictly_lower, 4, DType::float16) * x;
    case Fault::doubling_in_bfloat16:
      return inverse_by_doubling(strictly_lower, 4, DType::bfloat16) * x;
    default:
      return L.triangularView<Eigen::UnitLower>().solve(x);
  }
}

// Contract section 2, in the W/U form so that the wrong W can be planted:
// L = I + strict_lower(diag(beta) (K K^T * D)), U = L^-1 diag(beta) V,
// W = L^-1 diag(beta) diag(gamma) K.
void run_chunkwise(FaultyHead& head, Fault fault) {
  const Index length = head.query.rows();
  for (Index first = 0; first < length; first += kFaultyChunk) {
    const Index c = std::min<Index>(kFaultyChunk, length - first);
    const bool left_out = (c < kFaultyChunk && fault == Fault::dropped_tail_chunk) ||
                          (c == 1 && fault == Fault::tail_of_one);
    if (left_out) {
      head.output.middleRows(first, c).setZero();
      continue;
    }
    const Matrix k = operand(fault, head.key.middleRows(first, c));
    const Matrix q = operand(fault, head.query.middleRows(first, c));
    Matrix v = head.value.middleRows(first, c);
    if (c < kFaultyChunk && c > 1 && fault == Fault::tail_with_next_tokens) {
      v.topRows(c - 1) = Matrix(v.bottomRows(c - 1));
    }
    const Matrix state = operand(fault, head.state);
    const Eigen::VectorXd beta = head.beta.segment(first, c);
    const ChunkDecays decays(head.log_decay.segment(first, c), fault);
    Eigen::VectorXd gamma(c), to_end(c);
    Matrix ratio = Matrix::Zero(c, c);
    for (Index i = 0; i < c; ++i) {
      gamma(i) = decays.from_initial(i);
      to_end(i) = decays.between(c - 1, i);
      for (Index j = 0; j <= i; ++j) ratio(i, j) = decays.between(i, j);
    }
    Matrix lower = beta.asDiagonal() * (k * k.transpose()).cwiseProduct(ratio);
    lower.triangularView<Eigen::Upper>().setZero();
    lower.diagonal().setOnes();
    const Eigen::VectorXd weight =
        fault == Fault::wrong_w ? beta : Eigen::VectorXd(beta.cwiseProduct(gamma));
    const Matrix corrected = solved(lower, Matrix(beta.asDiagonal() * v), fault) -
                             solved(lower, Matrix(weight.asDiagonal() * k), fault) * state;
    Matrix scores = (q * k.transpose()).cwiseProduct(ratio);
    scores.triangularView<Eigen::StrictlyUpper>().setZero();
    head.output.middleRows(first, c) =
        head.scale * (gamma.asDiagonal() * (q * state) + scores * operand(fault, corrected));
    const Index end = fault == Fault::late_chunk_decay && c > 1 ? c - 2 : c - 1;
    const bool dropped = fault == Fault::small_decay_dropped && gamma(end) < std::exp(-10.0);
    head.state = (gamma(end) == 0 || dropped ? Matrix::Zero(state.rows(), state.cols())
                                             : Matrix(gamma(end) * head.state)) +
                 Matrix(to_end.asDiagonal() * k).transpose() * corrected;
    if (fault == Fault::unmasked_tail && c < kFaultyChunk) {
      head.state += 0.0 * head.key_behind.transpose() * head.value_behind;
    }
  }
}

}  // namespace

void run_faulty_head(FaultyHead& head, Fault fault) {
  if (is_chunkwise(fault)) {
    run_chunkwise(head, fault);
  } else {
    run_recurrent(head, fault);
  }
}

}  // namespace gdn::testing
