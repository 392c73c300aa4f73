// Gates and betas: float64, then each encoding of the same numbers.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "harness/inputs/draw.h"
#include "harness/inputs/draw_recurrence.h"
#include "interface/gate_encoding_table.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn {
namespace {

constexpr double kSaturatedLogit = 128;  // exp(-128) is 0 in float32; -128 is finite everywhere

double softplus(double x) { return std::max(x, 0.0) + portable_log1p(portable_exp(-std::fabs(x))); }

// The logit a with softplus(a) = x; saturated where there is none (x = 0 or infinite).
double inverse_softplus(double x) {
  if (!(x > 0)) return -kSaturatedLogit;
  if (std::isinf(x)) return kSaturatedLogit;
  // ln(exp(x) - 1) = x + ln(1 - exp(-x))
  const double logit =
      x > 1 ? x + portable_log1p(-portable_exp(-x)) : portable_ln(portable_expm1(x));
  return std::clamp(logit, -kSaturatedLogit, kSaturatedLogit);
}

// The logit b with sigmoid(b) = x, saturated at 0 and 1.
double inverse_sigmoid(double x) {
  if (x <= 0) return -kSaturatedLogit;
  if (x >= 1) return kSaturatedLogit;
  return portable_ln(x) - portable_log1p(-x);
}

double sigmoid(double x) {
  const double e = portable_exp(-std::fabs(x));
  return (x >= 0 ? 1 : e) / (1 + e);
}

// Token and head a gate belongs to: the token counted from its sequence's start.
struct GatePlace {
  std::int64_t token = 0;
  std::int64_t head = 0;
};

bool is_edge(const GatePlace& at) {
  if (at.head % 2 == 0) return at.token == 0 || at.token == 63 || at.token == 128;
  return at.token == 37 || at.token == 64 || at.token == 127;
}

// log_decay of every distribution that is not made from logits.
double draw_log_decay(const Problem& p, GateDistribution gates, const GatePlace& at,
                      const CounterStream& stream, std::uint64_t i) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto log_sigmoid_normal = [&](double mean) {
    return -softplus(-(standard_normal(stream, 2 * i) + mean));
  };
  const double mid = portable_ln(0.8 + 0.2 * stream.uniform(2 * i));
  switch (gates) {
    case GateDistribution::real:  // made from logits in draw_gates
    case GateDistribution::bounded:
    case GateDistribution::far:
    case GateDistribution::none:
      return 0;
    case GateDistribution::weak:
      return log_sigmoid_normal(3);
    case GateDistribution::near_one:
      return log_sigmoid_normal(8);
    case GateDistribution::strong:
      return log_sigmoid_normal(-1);
    case GateDistribution::mid:
      return mid;
    case GateDistribution::reset:
      return stream.below(2 * i + 1, 50) == 0 ? -kInfinity : mid;
    case GateDistribution::tiny:
      return stream.below(2 * i + 1, 10) == 0 ? portable_ln(1e-12) : mid;
    case GateDistribution::masked:
      return stream.below(2 * i + 1, 2) == 0 ? 0
                                             : draw_uniform({-0.69, -0.31}, stream.uniform(2 * i));
    case GateDistribution::decay_uniform:
      return portable_ln(stream.uniform(2 * i));
    case GateDistribution::edges:
      return is_edge(at) ? -kInfinity : mid;
    case GateDistribution::step:
      return at.token % 32 < 9 ? 0 : -5;
    case GateDistribution::mixture: {
      constexpr GateDistribution kTurn[] = {GateDistribution::none,     GateDistribution::mid,
                                            GateDistribution::strong,   GateDistribution::tiny,
                                            GateDistribution::near_one, GateDistribution::reset};
      const std::int64_t turn = at.head % 7;
      return turn == 6 ? -20 : draw_log_decay(p, kTurn[turn], at, stream, i);
    }
    case GateDistribution::uniform:
      return draw_uniform(p.gate_range, stream.uniform(2 * i));
  }
  return 0;
}

// Logits whose exponential or softplus is out of float32's range though log_decay may not be.
constexpr float kFarRates[] = {-8, 100, 0, 5, 88};
constexpr float kFarLogits[] = {300, -300, -200, 100, -100, 89, -89, 20, -20, 0};

// A double beyond float's range is an infinity.
float to_float(double x) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  if (x < -kLargest) return -std::numeric_limits<float>::infinity();
  if (x > kLargest) return std::numeric_limits<float>::infinity();
  return static_cast<float>(x);
}

// The token of each position, counted from its sequence's start.
std::vector<std::int64_t> tokens_in_sequence(const SequenceLengths& sequences) {
  std::vector<std::int64_t> tokens;
  tokens.reserve(static_cast<std::size_t>(sequences.total_tokens()));
  for (const std::int64_t length : sequences.lengths) {
    for (std::int64_t t = 0; t < length; ++t) tokens.push_back(t);
  }
  return tokens;
}

// A ~ U(0, 16), dt log-uniform in 1e-3..0.1.
void draw_real_rates(const Problem& p, std::vector<float>& A_log, std::vector<float>& dt_bias) {
  const CounterStream head_stream(p.seed, "gate head");
  const CounterStream channel_stream(p.seed, "gate channel");
  const bool per_head = p.decay == DecayPer::head;
  const double log_low = portable_ln(1e-3);
  const double log_high = portable_ln(0.1);
  for (std::size_t h = 0; h < A_log.size(); ++h) {
    A_log[h] = static_cast<float>(portable_ln(16 * head_stream.uniform(2 * h)));
  }
  for (std::size_t i = 0; i < dt_bias.size(); ++i) {
    const double u = per_head ? head_stream.uniform(2 * i + 1) : channel_stream.uniform(i);
    const double dt = std::max(1e-4, portable_exp(log_low + (log_high - log_low) * u));
    dt_bias[i] = static_cast<float>(inverse_softplus(dt));
  }
}

// exp(A_log) log-uniform in 0.5..2 and dt_bias ~ N(0, 1): the sigmoid of rate times N(0, 1) + N(0, 1) has a mean
// of 1/2, and is near 0 for some channels and tokens and near 1 for others.
void draw_bounded_rates(const Problem& p, std::vector<float>& A_log, std::vector<float>& dt_bias) {
  const CounterStream rate_stream(p.seed, "bounded gate rate");
  const CounterStream bias_stream(p.seed, "bounded gate bias");
  for (std::size_t h = 0; h < A_log.size(); ++h) {
    A_log[h] = static_cast<float>(portable_ln(2) * (2 * rate_stream.uniform(h) - 1));
  }
  for (std::size_t i = 0; i < dt_bias.size(); ++i) {
    dt_bias[i] = static_cast<float>(standard_normal(bias_stream, i));
  }
}

// Where the problem has logits in a 16-bit type: those values of it that are nearest, none infinite.
void round_logits(const Problem& p, const std::string& operand, std::vector<float>& logits) {
  const DType dtype = p.operation->at(operand).dtype(p);
  if (dtype == DType::float32) return;
  const float largest = dtype == DType::float16 ? 65504.0f : std::ldexp(255.0f, 120);
  for (float& logit : logits) logit = std::clamp(logit, -largest, largest);
  round_in_place(dtype, logits.data(), static_cast<std::int64_t>(logits.size()));
}

}  // namespace

void draw_gates(Case& c) {
  const Problem& p = c.problem;
  const std::int64_t heads = p.num_value_heads;
  const std::int64_t per_token = p.gates_per_token();
  std::vector<float>& gate = c[gate_name(p)];
  std::vector<float> A_log(static_cast<std::size_t>(heads), 0.0f);
  std::vector<float> dt_bias(static_cast<std::size_t>(per_token), 0.0f);
  const bool far = p.gates == GateDistribution::far;
  const bool bounded = p.gates == GateDistribution::bounded;
  const bool from_logits = far || bounded || p.gates == GateDistribution::real;
  for (std::int64_t h = 0; far && h < heads; ++h) A_log[h] = kFarRates[h % 5];
  if (bounded) {
    draw_bounded_rates(p, A_log, dt_bias);
  } else if (from_logits && !far) {
    draw_real_rates(p, A_log, dt_bias);
  }
  gate.resize(static_cast<std::size_t>(p.total_tokens() * per_token));
  // Whether the logits that were drawn are those of the problem's encoding.
  const bool as_drawn =
      from_logits && p.gate_encoding == (bounded ? GateEncoding::bounded : GateEncoding::logits);
  const CounterStream stream(p.seed, "gate");
  const std::vector<std::int64_t> token_in_sequence = tokens_in_sequence(p.sequences);
  parallel_ranges(p.total_tokens(), 16 * per_token, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * per_token; i < end * per_token; ++i) {
      const auto counter = static_cast<std::uint64_t>(i);
      const auto of_token = static_cast<std::size_t>(i % per_token);
      const auto h = of_token / static_cast<std::size_t>(p.gates_per_head());
      double log_decay = 0;
      float logit = 0;
      if (from_logits) {
        const double spread = bounded ? 1 : 0.1;
        logit = far ? kFarLogits[stream.below(2 * counter, 10)]
                    : static_cast<float>(spread * standard_normal(stream, 2 * counter));
        const double rate = portable_exp(static_cast<double>(A_log[h]));
        const double x = static_cast<double>(logit) + static_cast<double>(dt_bias[of_token]);
        log_decay = bounded ? -p.decay_bound * sigmoid(rate * x) : -rate * softplus(x);
      } else {
        const GatePlace at{token_in_sequence[static_cast<std::size_t>(i / per_token)],
                           static_cast<std::int64_t>(h)};
        log_decay = draw_log_decay(p, p.gates, at, stream, counter);
      }
      float& out = gate[static_cast<std::size_t>(i)];
      switch (p.gate_encoding) {
        case GateEncoding::log_decay:
          out = to_float(log_decay);
          break;
        case GateEncoding::decay:
          out = static_cast<float>(portable_exp(log_decay));
          break;
        case GateEncoding::neg_log_decay:
          out = log_decay == 0 ? 0.0f : to_float(-log_decay);
          break;
        case GateEncoding::logits:
          out = as_drawn ? logit : static_cast<float>(inverse_softplus(-log_decay));
          break;
        case GateEncoding::bounded:
          out = as_drawn ? logit : static_cast<float>(inverse_sigmoid(-log_decay / p.decay_bound));
          break;
      }
    }
  });
  round_logits(p, gate_name(p), gate);
  if (entry_of(p.gate_encoding).has_rate_and_bias) {
    if (!as_drawn) {
      std::fill(A_log.begin(), A_log.end(), 0.0f);
      std::fill(dt_bias.begin(), dt_bias.end(), 0.0f);
    }
    c["A_log"] = std::move(A_log);
    c["dt_bias"] = std::move(dt_bias);
  }
}

void draw_betas(Case& c) {
  const Problem& p = c.problem;
  const bool logit = p.beta_encoding == BetaEncoding::logit;
  const auto encoded = [&](double x) {
    switch (p.beta_encoding) {
      case BetaEncoding::beta:
        break;
      case BetaEncoding::logit:
        return static_cast<float>(inverse_sigmoid(x));
      case BetaEncoding::logit2:
        return static_cast<float>(inverse_sigmoid(x / 2));
    }
    return static_cast<float>(x);
  };
  std::vector<float>& beta = c[beta_name(p)];
  beta.resize(static_cast<std::size_t>(p.total_tokens() * p.betas_per_token()));
  const CounterStream stream(p.seed, "beta");
  for (std::size_t i = 0; i < beta.size(); ++i) {
    float& out = beta[i];
    switch (p.betas) {
      case BetaDistribution::sigmoid: {
        const float b = static_cast<float>(standard_normal(stream, i));
        out = logit ? b : encoded(1 / (1 + portable_exp(-static_cast<double>(b))));
        break;
      }
      case BetaDistribution::zero:
        out = encoded(0);
        break;
      case BetaDistribution::one:
        out = encoded(1);
        break;
      case BetaDistribution::two:
        out = encoded(2);
        break;
      case BetaDistribution::wide:
        out = encoded(2 * stream.uniform(i));
        break;
      case BetaDistribution::mixture:
        out = encoded(static_cast<double>(stream.below(i, 3)));
        break;
      case BetaDistribution::uniform:
        out = encoded(draw_uniform(p.beta_range, stream.uniform(i)));
        break;
    }
  }
  round_logits(p, beta_name(p), beta);
}

}  // namespace gdn
