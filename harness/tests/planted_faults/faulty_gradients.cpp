#include "harness/tests/planted_faults/faulty_gradients.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "harness/tests/planted_faults/faulty_gradient_head.h"
#include "interface/error.h"
#include "interface/gate_arithmetic.h"
#include "interface/operations/gated_delta_backward.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::testing {
namespace {

using Vector = Eigen::VectorXd;

std::atomic<int> gradient_runs_of_all_plans{0};

// The rows of q or k of a key head as the recurrence takes them, and what each was divided by.
struct KeyRows {
  Matrix unit;
  Vector length;
};

class FaultyGradientPlan : public Plan {
 public:
  FaultyGradientPlan(const Problem& problem, const GatedDeltaBackwardArguments& arguments,
                     Device& device, Fault fault)
      : p_(problem), a_(arguments), total_tokens_(problem.total_tokens()), fault_(fault) {
    info_.chunk = kFaultyChunk;
    info_.launches = 1;
    if (is(Fault::gradient_absent_gates_unwritten)) {
      info_.workspace_bytes = kFaultyChunk * static_cast<std::int64_t>(sizeof(float));
      unwritten_ = device.allocate(info_.workspace_bytes);
    }
    if (is(Fault::gradient_stride_ignored)) a_.d_output_token_stride = p_.values_per_token();
  }
  const PlanInfo& info() const override { return info_; }

  void run() override {
    run_ = ++gradient_runs_of_all_plans;
    const auto heads = static_cast<std::size_t>(p_.num_value_heads);
    of_A_log_.assign(heads, 0);
    of_dt_bias_.assign(heads, 0);
    left_over_.assign(heads, Matrix::Zero(p_.key_head_dim, p_.value_head_dim));
    for (std::int64_t n = 0; n < p_.num_sequences(); ++n) {
      for (std::int64_t key_head = 0; key_head < p_.num_key_heads; ++key_head) {
        run_group(n, key_head);
      }
    }
    if (a_.d_A_log == nullptr) return;
    for (std::size_t h = 0; h < heads; ++h) {
      a_.d_A_log[h] = static_cast<float>(of_A_log_[h]);
      a_.d_dt_bias[h] = static_cast<float>(of_dt_bias_[h]);
    }
  }

 private:
  bool is(Fault fault) const { return fault_ == fault; }

  // Rows [first, first + count) of one head; zeros past the last token of the arrays.
  Matrix rows(const void* source, std::int64_t token_stride, std::int64_t head, std::int64_t dim,
              std::int64_t first, std::int64_t count) const {
    Matrix read = Matrix::Zero(count, dim);
    std::vector<float> row(static_cast<std::size_t>(dim));
    const auto bytes = static_cast<std::int64_t>(size_of(p_.token_dtype));
    for (std::int64_t t = 0; t < count && first + t < total_tokens_; ++t) {
      const std::int64_t at = (first + t) * token_stride + head * dim;
      decode(p_.token_dtype, static_cast<const char*>(source) + at * bytes, row.data(), dim);
      for (std::int64_t i = 0; i < dim; ++i) read(t, i) = row[static_cast<std::size_t>(i)];
    }
    return read;
  }

  void store_rows(void* to, std::int64_t heads, std::int64_t head, std::int64_t first,
                  const Matrix& values) const {
    const std::int64_t dim = values.cols();
    const auto bytes = static_cast<std::int64_t>(size_of(p_.token_dtype));
    std::vector<float> row(static_cast<std::size_t>(dim));
    for (Eigen::Index t = 0; t < values.rows(); ++t) {
      for (std::int64_t i = 0; i < dim; ++i) {
        row[static_cast<std::size_t>(i)] = static_cast<float>(values(t, i));
      }
      const std::int64_t at = ((first + t) * heads + head) * dim;
      encode(p_.token_dtype, row.data(), static_cast<char*>(to) + at * bytes, dim);
    }
  }

  KeyRows key_rows(const void* source, std::int64_t token_stride, std::int64_t key_head,
                   std::int64_t first, std::int64_t count) const {
    KeyRows made{rows(source, token_stride, key_head, p_.key_head_dim, first, count),
                 Vector::Ones(count)};
    if (!p_.normalize_qk) return made;
    for (Eigen::Index t = 0; t < made.unit.rows(); ++t) {
      made.length(t) = std::sqrt(made.unit.row(t).squaredNorm() + 1e-6);
      made.unit.row(t) /= made.length(t);
    }
    return made;
  }

  // From the gradients of rows divided by their length to those of the rows.
  Matrix through_norm(const KeyRows& rows, Matrix gradient, bool projected) const {
    if (!p_.normalize_qk) return gradient;
    for (Eigen::Index t = 0; t < gradient.rows(); ++t) {
      const double along = projected ? rows.unit.row(t).dot(gradient.row(t)) : 0;
      gradient.row(t) = (gradient.row(t) - along * rows.unit.row(t)).eval() / rows.length(t);
    }
    return gradient;
  }

  std::int64_t slot_of(std::int64_t n) const {
    return a_.forward.slot_index ? a_.forward.slot_index[n] : n;
  }

  std::int64_t state_bytes(std::int64_t slot, std::int64_t head) const {
    const std::int64_t at =
        slot * p_.state_row_stride() + head * p_.key_head_dim * p_.value_head_dim;
    return at * static_cast<std::int64_t>(size_of(p_.state_dtype));
  }
  Matrix load_state(const void* pool, std::int64_t slot, std::int64_t head) const {
    Matrix state = Matrix::Zero(p_.key_head_dim, p_.value_head_dim);
    if (pool == nullptr) return state;
    std::vector<float> values(static_cast<std::size_t>(state.size()));
    decode(p_.state_dtype, static_cast<const char*>(pool) + state_bytes(slot, head), values.data(),
           state.size());
    std::copy(values.begin(), values.end(), state.data());
    return state;
  }
  void store_state(std::int64_t slot, std::int64_t head, const Matrix& state) const {
    std::vector<float> values;
    const std::int64_t dk = p_.key_head_dim, dv = p_.value_head_dim;
    for (std::int64_t i = 0; i < dk * dv; ++i) {
      const double x =
          is(Fault::gradient_state_transposed) ? state(i % dk, i / dk) : state(i / dv, i % dv);
      values.push_back(static_cast<float>(x));
    }
    encode(p_.state_dtype, values.data(),
           static_cast<char*>(a_.d_initial_state) + state_bytes(slot, head), state.size());
  }

  bool has_rate() const { return p_.gate_encoding == GateEncoding::logits; }
  double log_decay_of(std::int64_t token, std::int64_t head) const {
    return gate_arithmetic::decode_log_decay(
        p_.gate_encoding, double{value_at(a_.forward.gate, token, head)},
        has_rate() ? double{value_at(a_.forward.A_log, 0, head)} : 0.0,
        has_rate() ? double{value_at(a_.forward.dt_bias, 0, head)} : 0.0, p_.decay_bound);
  }

  void store_gate(const GradientHead& head, std::int64_t t, std::int64_t token, std::int64_t h) {
    const double d_log_decay = head.d_log_decay(t);
    double d_gate = d_log_decay;
    if (has_rate()) d_gate = through_rate(d_log_decay, head.log_decay(t), token, h);
    if (p_.gate_encoding == GateEncoding::neg_log_decay && !is(Fault::gradient_gate_not_negated)) {
      d_gate = -d_log_decay;
    }
    if (p_.gate_encoding == GateEncoding::decay) {
      d_gate = is(Fault::gradient_decay_by_quotient) ? d_log_decay / std::exp(head.log_decay(t))
                                                     : head.d_decay(t);
    }
    a_.d_gate[token * p_.num_value_heads + h] = static_cast<float>(d_gate);
  }

  // By a token's logit, and what it adds to the sums.
  double through_rate(double d_log_decay, double log_decay, std::int64_t token, std::int64_t head) {
    const auto h = static_cast<std::size_t>(head);
    const float A_log = value_at(a_.forward.A_log, 0, head);
    const double bias = is(Fault::gradient_slope_without_bias)
                            ? 0.0
                            : double{value_at(a_.forward.dt_bias, 0, head)};
    const double x = double{value_at(a_.forward.gate, token, head)} + bias;
    double slope = -std::exp(double{A_log}) * gate_arithmetic::sigmoid(x);
    if (is(Fault::gradient_slope_in_float32)) {
      slope =
          static_cast<double>(-std::exp(A_log) * gate_arithmetic::sigmoid(static_cast<float>(x)));
    }
    const bool nothing = d_log_decay == 0 && !is(Fault::gradient_slope_in_float32);
    const double d_logit = nothing ? 0 : d_log_decay * slope;
    of_dt_bias_[h] += d_logit;
    of_A_log_[h] += nothing ? 0 : d_log_decay * log_decay;
    return d_logit;
  }

  void store_beta(double d_beta, std::int64_t token, std::int64_t h) const {
    if (p_.beta_encoding != BetaEncoding::beta && !is(Fault::gradient_beta_logit_raw)) {
      const double x = value_at(a_.forward.beta, token, h);
      const double most = p_.beta_encoding == BetaEncoding::logit2 ? 2 : 1;
      d_beta *= most * gate_arithmetic::sigmoid(x) * gate_arithmetic::sigmoid(-x);
    }
    a_.d_beta[token * p_.num_value_heads + h] = static_cast<float>(d_beta);
  }

  void store_zeros(std::int64_t first, std::int64_t length, std::int64_t head) {
    store_rows(a_.d_value, p_.num_value_heads, head, first,
               Matrix::Zero(length, p_.value_head_dim));
    for (std::int64_t t = first; t < first + length; ++t) {
      a_.d_gate[t * p_.num_value_heads + head] = a_.d_beta[t * p_.num_value_heads + head] = 0;
    }
  }

  void run_group(std::int64_t n, std::int64_t key_head) {
    const GatedDeltaArguments& f = a_.forward;
    const std::int64_t first = f.sequence_offsets[n];
    const std::int64_t length = f.sequence_offsets[n + 1] - first;
    const KeyRows q = key_rows(f.query, f.query_token_stride, key_head, first, length);
    const KeyRows k = key_rows(f.key, f.key_token_stride, key_head, first, length);
    Matrix d_query = Matrix::Zero(length, p_.key_head_dim), d_key = d_query;
    const std::int64_t group = p_.value_heads_per_key_head();
    for (std::int64_t h = key_head * group; h < (key_head + 1) * group; ++h) {
      if (slot_of(n) < 0 && !is(Fault::gradient_padding_computed)) {
        store_zeros(first, length, h);
        continue;
      }
      const GradientHead head = run_head(n, h, first, length, q, k);
      if (is(Fault::gradient_last_head_of_group)) {
        d_query.setZero();
        d_key.setZero();
      }
      d_query += head.d_query;
      d_key += head.d_key;
    }
    if (is(Fault::gradient_order_of_runs) && run_ % 2 == 0) {
      d_query *= 1 + 2 * unit_roundoff(p_.token_dtype);
    }
    store_rows(a_.d_query, p_.num_key_heads, key_head, first,
               through_norm(q, d_query, !is(Fault::gradient_query_not_projected)));
    store_rows(a_.d_key, p_.num_key_heads, key_head, first,
               through_norm(k, d_key, !is(Fault::gradient_key_not_projected)));
  }

  GradientHead run_head(std::int64_t n, std::int64_t h, std::int64_t first, std::int64_t length,
                        const KeyRows& q, const KeyRows& k) {
    const GatedDeltaArguments& f = a_.forward;
    const std::int64_t dk = p_.key_head_dim, dv = p_.value_head_dim;
    const std::int64_t slot = slot_of(n), key_head = h / p_.value_heads_per_key_head();
    GradientHead head;
    head.scale = is(Fault::gradient_scale_ignored) ? 1 : p_.effective_scale();
    head.query = q.unit;
    head.key = k.unit;
    head.value = rows(f.value, f.value_token_stride, h, dv, first, length);
    head.d_output = rows(a_.d_output, a_.d_output_token_stride, h, dv, first, length);
    head.log_decay.resize(length);
    head.beta.resize(length);
    for (std::int64_t t = 0; t < length; ++t) {
      head.log_decay(t) = log_decay_of(first + t, h);
      head.beta(t) =
          gate_arithmetic::decode_beta(p_.beta_encoding, double{value_at(f.beta, first + t, h)});
    }
    const bool has_state = slot >= 0 && p_.initial_state != InitialState::absent;
    head.state = load_state(has_state ? f.state_pool : nullptr, slot, h);
    head.d_state = load_state(slot >= 0 && p_.final_state ? a_.d_final_state : nullptr, slot, h);
    head.d_query = head.d_key = Matrix::Zero(length, dk);
    head.d_value = Matrix::Zero(length, dv);
    head.d_log_decay = head.d_beta = Vector::Zero(length);
    if (p_.gate_encoding == GateEncoding::decay) head.d_decay = Vector::Zero(length);
    read_behind(head, first + length, h, key_head);
    head.unwritten = unwritten_.as<float>();
    Matrix& left_over = left_over_[static_cast<std::size_t>(h)];
    if (is(Fault::gradient_d_state_not_cleared)) head.d_state += left_over;
    run_faulty_gradient_head(head, fault_);
    left_over = head.d_state;

    store_rows(a_.d_value, p_.num_value_heads, h, first, head.d_value);
    if (is(Fault::gradient_sums_of_last_sequence)) {
      of_A_log_[static_cast<std::size_t>(h)] = of_dt_bias_[static_cast<std::size_t>(h)] = 0;
    }
    for (std::int64_t t = 0; t < length; ++t) {
      store_gate(head, t, first + t, h);
      store_beta(head.d_beta(t), first + t, h);
    }
    const bool skipped =
        slot < 0 || (is(Fault::gradient_empty_skipped) && length == 0) ||
        (is(Fault::gradient_absent_state_skipped) && p_.initial_state == InitialState::absent);
    if (!skipped) store_state(is(Fault::gradient_row_of_sequence) ? n : slot, h, head.d_state);
    return head;
  }

  void read_behind(GradientHead& head, std::int64_t end, std::int64_t h,
                   std::int64_t key_head) const {
    const std::int64_t behind = (kFaultyChunk - head.query.rows() % kFaultyChunk) % kFaultyChunk;
    head.query_behind = rows(a_.forward.query, a_.forward.query_token_stride, key_head,
                             p_.key_head_dim, end, behind);
    head.d_output_behind =
        rows(a_.d_output, a_.d_output_token_stride, h, p_.value_head_dim, end, behind);
    head.log_decay_behind = Vector::Zero(behind);
    for (std::int64_t t = 0; t < behind && end + t < total_tokens_; ++t) {
      head.log_decay_behind(t) = log_decay_of(end + t, h);
    }
  }

  Problem p_;
  GatedDeltaBackwardArguments a_;
  std::int64_t total_tokens_;  // a sum over all sequences
  Fault fault_;
  PlanInfo info_;
  DeviceBuffer unwritten_;
  std::vector<double> of_A_log_, of_dt_bias_;  // [Hv]
  std::vector<Matrix> left_over_;              // [Hv] D of the sequence before
  int run_ = 0;
};

class FaultyGradientsImplementation : public Implementation {
 public:
  explicit FaultyGradientsImplementation(Fault fault) : fault_(fault) {
    description_.name = "cpu/faulty_" + name_of(fault);
    description_.operation = gated_delta_backward_operation();
    description_.honours = {"slots", "state", "h0",   "ht",   "pool_pad", "pool_rows",
                            "norm",  "scale", "gate", "beta", "layout"};
    description_.backend = "cpu";
    description_.form = "chunkwise";
    description_.summary = "planted fault for tests: " + name_of(fault);
  }
  const Description& description() const override { return description_; }
  Support supports(const Problem& p) const override {
    if (p.state_layout != StateLayout::kv) return Support::no("the planted faults hold [Dk, Dv]");
    return p.gate_encoding == GateEncoding::bounded ? Support::no("gates are not bounded")
                                                    : Support::yes();
  }
  std::int64_t workspace_bytes(const Problem&) const override {
    return fault_ == Fault::gradient_absent_gates_unwritten
               ? kFaultyChunk * static_cast<std::int64_t>(sizeof(float))
               : 0;
  }
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_supported(*this, problem);
    return std::make_unique<FaultyGradientPlan>(
        problem, gated_delta_backward_arguments(problem, arguments), device, fault_);
  }

 private:
  Fault fault_;
  Description description_;
};

}  // namespace

std::unique_ptr<Implementation> make_faulty_gradients(Fault fault) {
  return std::make_unique<FaultyGradientsImplementation>(fault);
}

}  // namespace gdn::testing
