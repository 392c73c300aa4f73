#include "harness/tests/planted_faults/faulty_norm.h"

#include <cmath>

#include "interface/dtype.h"
#include "interface/operations/gated_rms_norm.h"

namespace gdn::testing {
namespace {

struct NamedNormFault {
  NormFault fault;
  const char* name;
};
constexpr NamedNormFault kNormFaults[] = {
    {NormFault::eps_dropped, "eps_dropped"},
    {NormFault::eps_dropped_clamped, "eps_dropped_clamped"},
    {NormFault::eps_outside_root, "eps_outside_root"},
    {NormFault::eps_of_layer_norm, "eps_of_layer_norm"},
    {NormFault::eps_in_sum, "eps_in_sum"},
    {NormFault::sum_for_mean, "sum_for_mean"},
    {NormFault::mean_over_dk, "mean_over_dk"},
    {NormFault::mean_over_token, "mean_over_token"},
    {NormFault::mean_subtracted, "mean_subtracted"},
    {NormFault::norm_after_gate, "norm_after_gate"},
    {NormFault::weight_ignored, "weight_ignored"},
    {NormFault::weight_plus_one, "weight_plus_one"},
    {NormFault::weight_of_head, "weight_of_head"},
    {NormFault::gate_ignored, "gate_ignored"},
    {NormFault::gate_silu, "gate_silu"},
    {NormFault::gate_not_doubled, "gate_not_doubled"},
    {NormFault::gate_of_x, "gate_of_x"},
    {NormFault::gate_overflows, "gate_overflows"},
    {NormFault::squares_in_float16, "squares_in_float16"},
    {NormFault::x_rounded, "x_rounded"},
    {NormFault::last_rows_left_out, "last_rows_left_out"},
};

std::vector<float> read(DType dtype, const void* array, std::int64_t first, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  decode(dtype, static_cast<const char*>(array) + first * static_cast<std::int64_t>(size_of(dtype)),
         values.data(), count);
  return values;
}

class FaultyNormPlan : public Plan {
 public:
  FaultyNormPlan(const Problem& problem, const GatedRmsNormArguments& arguments, NormFault fault)
      : p_(problem),
        heads_(problem.num_value_heads),
        width_(problem.value_head_dim),
        a_(arguments),
        fault_(fault) {
    info_.launches = 1;
  }
  const PlanInfo& info() const override { return info_; }

  void run() override {
    std::int64_t tokens = a_.sequence_offsets[p_.num_sequences()];
    if (is(NormFault::last_rows_left_out) && tokens % 2 == 1) --tokens;
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t h = 0; h < heads_; ++h) run_row(t, h);
    }
  }

 private:
  bool is(NormFault fault) const { return fault_ == fault; }

  double gate(double z) const {
    if (is(NormFault::gate_ignored)) return 1;
    double s = 1 / (1 + std::exp(-z));
    if (is(NormFault::gate_overflows)) {
      const float e = std::exp(static_cast<float>(z));
      s = static_cast<double>(e / (1 + e));
    }
    NormGate kind = p_.norm_gate;
    if (is(NormFault::gate_silu) && kind != NormGate::sigmoid2) {
      kind = kind == NormGate::silu ? NormGate::sigmoid : NormGate::silu;
    }
    if (is(NormFault::gate_not_doubled) && kind != NormGate::silu) {
      kind = kind == NormGate::sigmoid ? NormGate::sigmoid2 : NormGate::sigmoid;
    }
    if (kind == NormGate::silu) return z * s;
    return kind == NormGate::sigmoid ? s : 2 * s;
  }

  double square(double x) const {
    if (!is(NormFault::squares_in_float16)) return x * x;
    return static_cast<double>(round_to(DType::float16, static_cast<float>(x * x)));
  }

  // Of the values of one row, or of all heads of a token.
  double mean_of_squares(const std::vector<double>& x) const {
    double squares = is(NormFault::eps_in_sum) ? p_.norm_eps : 0;
    for (const double value : x) squares += square(value);
    if (is(NormFault::sum_for_mean)) return squares;
    if (is(NormFault::mean_over_dk)) return squares / static_cast<double>(p_.key_head_dim);
    return squares / static_cast<double>(x.size());
  }

  double root(double mean) const {
    if (is(NormFault::eps_dropped) || is(NormFault::eps_in_sum)) return std::sqrt(mean);
    if (is(NormFault::eps_dropped_clamped)) return mean > 0 ? std::sqrt(mean) : 1;
    if (is(NormFault::eps_outside_root)) return std::sqrt(mean) + p_.norm_eps;
    return std::sqrt(mean + (is(NormFault::eps_of_layer_norm) ? 1e-5 : p_.norm_eps));
  }

  double weight(std::int64_t head, std::int64_t j) const {
    if (is(NormFault::weight_ignored)) return 1;
    const std::int64_t at = is(NormFault::weight_of_head) ? (head + j) % width_ : j;
    return static_cast<double>(read(p_.token_dtype, a_.weight, at, 1)[0]) +
           (is(NormFault::weight_plus_one) ? 1 : 0);
  }

  void run_row(std::int64_t token, std::int64_t head) const {
    const std::int64_t first = (token * heads_ + head) * width_;
    const std::int64_t x_first = token * a_.x_token_stride + head * width_;
    const std::int64_t z_first = token * a_.z_token_stride + head * width_;
    const std::vector<float> given = read(p_.token_dtype, a_.x, x_first, width_);
    const std::vector<float> z =
        is(NormFault::gate_of_x) ? given : read(p_.token_dtype, a_.z, z_first, width_);
    std::vector<double> x(given.begin(), given.end());
    if (is(NormFault::norm_after_gate)) {
      for (std::size_t j = 0; j < x.size(); ++j) x[j] *= gate(static_cast<double>(z[j]));
    }
    if (is(NormFault::mean_subtracted)) {
      double sum = 0;
      for (const double value : x) sum += value;
      for (double& value : x) value -= sum / static_cast<double>(width_);
    }
    std::vector<double> of_mean = x;
    if (is(NormFault::mean_over_token)) {
      const auto all = read(p_.token_dtype, a_.x, token * a_.x_token_stride, heads_ * width_);
      of_mean.assign(all.begin(), all.end());
    }
    const double divisor = root(mean_of_squares(of_mean));
    std::vector<float> y;
    for (std::int64_t j = 0; j < width_; ++j) {
      const auto at = static_cast<std::size_t>(j);
      double value = x[at] / divisor;
      if (is(NormFault::x_rounded)) {
        value = static_cast<double>(round_to(DType::bfloat16, static_cast<float>(value)));
      }
      value *= weight(head, j);
      if (!is(NormFault::norm_after_gate)) value *= gate(static_cast<double>(z[at]));
      y.push_back(static_cast<float>(value));
    }
    const DType output = p_.effective_output_dtype();
    encode(output, y.data(),
           static_cast<char*>(a_.y) + first * static_cast<std::int64_t>(size_of(output)), width_);
  }

  Problem p_;
  std::int64_t heads_;
  std::int64_t width_;
  GatedRmsNormArguments a_;
  NormFault fault_;
  PlanInfo info_;
};

class FaultyNorm : public Implementation {
 public:
  explicit FaultyNorm(NormFault fault) : fault_(fault) {
    description_.name = "cpu/faulty_norm_" + name_of(fault);
    description_.operation = gated_rms_norm_operation();
    description_.honours = {"out", "norm_gate", "norm_eps"};
    description_.backend = "cpu";
    description_.form = "naive";
    description_.summary = "planted fault for tests: " + name_of(fault);
  }
  const Description& description() const override { return description_; }
  Support supports(const Problem&) const override { return Support::yes(); }
  std::int64_t workspace_bytes(const Problem&) const override { return 0; }
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device&) const override {
    return std::make_unique<FaultyNormPlan>(problem, gated_rms_norm_arguments(problem, arguments),
                                            fault_);
  }

 private:
  NormFault fault_;
  Description description_;
};

}  // namespace

const std::vector<NormFault>& norm_faults() {
  static const std::vector<NormFault> faults = [] {
    std::vector<NormFault> all;
    for (const NamedNormFault& entry : kNormFaults) all.push_back(entry.fault);
    return all;
  }();
  return faults;
}

std::string name_of(NormFault fault) {
  for (const NamedNormFault& entry : kNormFaults) {
    if (entry.fault == fault) return entry.name;
  }
  return "none";
}

std::unique_ptr<Implementation> make_faulty_norm(NormFault fault) {
  return std::make_unique<FaultyNorm>(fault);
}

}  // namespace gdn::testing
