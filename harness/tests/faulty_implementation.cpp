#include "harness/tests/faulty_implementation.h"

#include <Eigen/Dense>
#include <cmath>
#include <limits>

#include "interface/error.h"

namespace gdn::testing {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
constexpr std::int64_t kChunk = 16;

bool is_chunkwise(Fault fault) {
  return fault == Fault::none_chunkwise || fault == Fault::wrong_w ||
         fault == Fault::inverted_decay_ratio || fault == Fault::dropped_tail_chunk;
}

// One head of one sequence, copied out of the arguments.
struct Head {
  Matrix query, key, value;   // [L, Dk], [L, Dk], [L, Dv]
  Eigen::VectorXd gamma_log;  // [L] log_decay
  Eigen::VectorXd beta;       // [L]
  Matrix state;               // [Dk, Dv]
  Matrix output;              // [L, Dv]
};

void run_recurrent(Head& head, Fault fault, double scale) {
  for (Eigen::Index t = 0; t < head.query.rows(); ++t) {
    const double decay = std::exp(head.gamma_log(t));
    const Eigen::VectorXd k = head.key.row(t).transpose();
    const Eigen::VectorXd q = head.query.row(t).transpose();
    if (fault != Fault::decay_after_update) head.state *= decay;
    if (fault == Fault::old_state_readout) {
      head.output.row(t) = scale * (head.state.transpose() * q).transpose();
    }
    const Eigen::VectorXd r = head.value.row(t).transpose() - head.state.transpose() * k;
    head.state += head.beta(t) * k * r.transpose();
    if (fault == Fault::decay_after_update) head.state *= decay;
    if (fault == Fault::state_rounded_per_token) {
      head.state = head.state.unaryExpr([](double x) {
        return static_cast<double>(round_to(DType::bfloat16, static_cast<float>(x)));
      });
    }
    if (fault != Fault::old_state_readout) {
      head.output.row(t) = scale * (head.state.transpose() * q).transpose();
    }
  }
}

// Contract section 2, in the W/U form so that the wrong W can be planted:
// L = I + strict_lower(diag(beta) (K K^T * D)), U = L^-1 diag(beta) V, W = L^-1 diag(beta)
// diag(gamma) K.
void run_chunkwise(Head& head, Fault fault, double scale) {
  const Eigen::Index length = head.query.rows();
  for (Eigen::Index first = 0; first < length; first += kChunk) {
    const Eigen::Index c = std::min<Eigen::Index>(kChunk, length - first);
    if (c < kChunk && fault == Fault::dropped_tail_chunk) {
      head.output.middleRows(first, c).setZero();
      continue;
    }
    const Matrix k = head.key.middleRows(first, c);
    const Matrix q = head.query.middleRows(first, c);
    const Eigen::VectorXd beta = head.beta.segment(first, c);
    Eigen::VectorXd log_gamma = head.gamma_log.segment(first, c);
    for (Eigen::Index i = 1; i < c; ++i) log_gamma(i) += log_gamma(i - 1);
    const Eigen::VectorXd gamma = log_gamma.array().exp();
    Matrix ratio = Matrix::Zero(c, c);
    for (Eigen::Index i = 0; i < c; ++i) {
      for (Eigen::Index j = 0; j <= i; ++j) {
        const double exponent = log_gamma(i) - log_gamma(j);
        ratio(i, j) = std::exp(fault == Fault::inverted_decay_ratio ? -exponent : exponent);
      }
    }
    Matrix lower = beta.asDiagonal() * (k * k.transpose()).cwiseProduct(ratio);
    lower.triangularView<Eigen::Upper>().setZero();
    lower.diagonal().setOnes();
    const auto inverse = lower.triangularView<Eigen::UnitLower>();
    const Matrix u = inverse.solve(Matrix(beta.asDiagonal() * head.value.middleRows(first, c)));
    const Eigen::VectorXd weight =
        fault == Fault::wrong_w ? beta : Eigen::VectorXd(beta.cwiseProduct(gamma));
    const Matrix w = inverse.solve(Matrix(weight.asDiagonal() * k));
    const Matrix corrected = u - w * head.state;
    Matrix scores = (q * k.transpose()).cwiseProduct(ratio);
    scores.triangularView<Eigen::StrictlyUpper>().setZero();
    head.output.middleRows(first, c) =
        scale * (gamma.asDiagonal() * (q * head.state) + scores * corrected);
    const Eigen::VectorXd to_end = (log_gamma(c - 1) - log_gamma.array()).exp();
    head.state =
        gamma(c - 1) * head.state + Matrix(to_end.asDiagonal() * k).transpose() * corrected;
  }
}

class FaultyPlan : public Plan {
 public:
  FaultyPlan(const Problem& problem, const GatedDeltaArguments& arguments, Fault fault)
      : problem_(problem), arguments_(arguments), fault_(fault) {
    if (is_chunkwise(fault)) info_.chunk = kChunk;
    info_.launches = 1;
  }
  const PlanInfo& info() const override { return info_; }

  void run() override {
    for (std::int64_t n = 0; n < problem_.num_sequences(); ++n) {
      for (std::int64_t h = 0; h < problem_.num_value_heads; ++h) run_head(n, h);
    }
  }

 private:
  void run_head(std::int64_t n, std::int64_t h) {
    const Problem& p = problem_;
    const std::int64_t first = arguments_.sequence_offsets[n];
    const std::int64_t length = arguments_.sequence_offsets[n + 1] - first;
    if (length == 0) return;
    const std::int64_t key_head =
        fault_ == Fault::tiled_head_map ? h % p.num_key_heads : h / p.value_heads_per_key_head();
    const std::int64_t dk = p.key_head_dim;
    const std::int64_t dv = p.value_head_dim;
    const auto copy = [&](const void* source, std::int64_t heads, std::int64_t head,
                          std::int64_t dim) {
      Matrix rows(length, dim);
      const float* values = static_cast<const float*>(source);
      for (std::int64_t t = 0; t < length; ++t) {
        for (std::int64_t i = 0; i < dim; ++i) {
          rows(t, i) = values[((first + t) * heads + head) * dim + i];
        }
      }
      return rows;
    };
    Head head;
    head.query = copy(arguments_.query, p.num_key_heads, key_head, dk);
    head.key = copy(arguments_.key, p.num_key_heads, key_head, dk);
    head.value = copy(arguments_.value, p.num_value_heads, h, dv);
    head.gamma_log.resize(length);
    head.beta.resize(length);
    for (std::int64_t t = 0; t < length; ++t) {
      const std::int64_t at = (first + t) * p.num_value_heads + h;
      head.gamma_log(t) = std::get<LogDecay>(arguments_.gate).values[at];
      head.beta(t) = std::get<BetaDirect>(arguments_.beta).values[at];
    }
    head.output = Matrix::Zero(length, dv);
    head.state = Matrix::Zero(dk, dv);
    float* row =
        static_cast<float*>(arguments_.state_pool) + n * p.state_row_stride() + h * dk * dv;
    if (p.initial_state != InitialState::absent) {
      for (std::int64_t i = 0; i < dk * dv; ++i) head.state(i / dv, i % dv) = row[i];
    }

    if (is_chunkwise(fault_)) {
      run_chunkwise(head, fault_, p.effective_scale());
    } else {
      run_recurrent(head, fault_, p.effective_scale());
    }

    float* output = static_cast<float*>(arguments_.output);
    for (std::int64_t t = 0; t < length; ++t) {
      for (std::int64_t i = 0; i < dv; ++i) {
        const bool skipped = fault_ == Fault::unwritten_element && n == 0 && h == 0 &&
                             t == length - 1 && i == dv / 2;
        if (skipped) continue;
        output[((first + t) * p.num_value_heads + h) * dv + i] =
            fault_ == Fault::all_nan ? std::numeric_limits<float>::quiet_NaN()
                                     : static_cast<float>(head.output(t, i));
      }
    }
    if (!p.final_state) return;
    for (std::int64_t i = 0; i < dk * dv; ++i) {
      const double value = fault_ == Fault::state_written_transposed ? head.state(i % dk, i / dk)
                                                                     : head.state(i / dv, i % dv);
      row[i] = static_cast<float>(value);
    }
  }

  Problem problem_;
  GatedDeltaArguments arguments_;
  Fault fault_;
  PlanInfo info_;
};

class FaultyImplementation : public Implementation {
 public:
  explicit FaultyImplementation(Fault fault) : fault_(fault) {
    description_.name = "cpu/faulty_" + name_of(fault);
    description_.backend = "cpu";
    description_.form = is_chunkwise(fault) ? "chunkwise" : "recurrent";
    description_.summary = "planted fault for tests: " + name_of(fault);
  }
  const Description& description() const override { return description_; }
  Support supports(const Problem& p) const override {
    const bool plain = p.token_dtype == DType::float32 && p.state_dtype == DType::float32 &&
                       p.state_layout == StateLayout::kv && p.slots == SlotMap::identity &&
                       p.gate_encoding == GateEncoding::log_decay &&
                       p.beta_encoding == BetaEncoding::beta && !p.normalize_qk;
    return plain ? Support::yes() : Support::no("the planted faults cover plain float32 cases");
  }
  std::int64_t workspace_bytes(const Problem&) const override { return 0; }
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device&) const override {
    require_supported(*this, problem);
    return std::make_unique<FaultyPlan>(problem, std::get<GatedDeltaArguments>(arguments), fault_);
  }

 private:
  Fault fault_;
  Description description_;
};

}  // namespace

std::string name_of(Fault fault) {
  switch (fault) {
    case Fault::none_recurrent:
      return "none_recurrent";
    case Fault::none_chunkwise:
      return "none_chunkwise";
    case Fault::wrong_w:
      return "wrong_w";
    case Fault::inverted_decay_ratio:
      return "inverted_decay_ratio";
    case Fault::tiled_head_map:
      return "tiled_head_map";
    case Fault::state_written_transposed:
      return "state_written_transposed";
    case Fault::old_state_readout:
      return "old_state_readout";
    case Fault::unwritten_element:
      return "unwritten_element";
    case Fault::all_nan:
      return "all_nan";
    case Fault::dropped_tail_chunk:
      return "dropped_tail_chunk";
    case Fault::decay_after_update:
      return "decay_after_update";
    case Fault::state_rounded_per_token:
      return "state_rounded_per_token";
  }
  return "";
}

std::vector<Fault> all_faults() {
  return {Fault::wrong_w,
          Fault::inverted_decay_ratio,
          Fault::tiled_head_map,
          Fault::state_written_transposed,
          Fault::old_state_readout,
          Fault::unwritten_element,
          Fault::all_nan,
          Fault::dropped_tail_chunk,
          Fault::decay_after_update,
          Fault::state_rounded_per_token};
}

Fault twin_of(Fault fault) {
  return is_chunkwise(fault) ? Fault::none_chunkwise : Fault::none_recurrent;
}

std::unique_ptr<Implementation> make_faulty(Fault fault) {
  return std::make_unique<FaultyImplementation>(fault);
}

}  // namespace gdn::testing
