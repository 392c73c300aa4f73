// Generated inputs. Every array is its own stream of the counter-based generator, and every row
// (token and head, or pool row) owns a fixed range of counters, so rows are made by any thread.
//
//   query        unit length, uniform direction
//   key          KeyDistribution
//   value        N(0, 1) entries
//   gate, beta   GateDistribution and BetaDistribution, made in float64, then encoded. With "real"
//                the logits come first (A ~ U(0, 16) and dt ~ logU(1e-3, 0.1), at least 1e-4, per
//                head; with decay=channel dt per channel; dt_bias = ln(exp(dt) - 1); decay_logit ~
//                N(0, 1) * 0.1) and are rounded to float32 before the other encodings are computed
//                from them. Otherwise the logits are made from log_decay with A_log = 0, dt_bias =
//                0. Every gate (with decay=channel every channel's) and every step's beta is drawn
//                by itself.
//   state        InitialState; rows are NaN where the initial state is absent, and the padding
//                after each row is NaN always: neither may be read
//   qkv          N(0, 1) entries; conv_weight N(0, 1) / sqrt(width); conv_bias N(0, 1) * 0.1;
//                conv_state N(0, 1). KeyDistribution does not apply: keys come out of the
//                convolution.
//   slot_index   a random injection (Fisher-Yates) into num_pool_rows() rows
#include "harness/inputs.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <thread>

#include "harness/counter_random.h"
#include "harness/execute.h"
#include "interface/error.h"
#include "reference/parallel.h"

namespace gdn {

void fill_normal(const CounterStream& stream, std::uint64_t first_counter, float* destination,
                 std::int64_t count) {
  constexpr std::int64_t kBlock = 256;
  std::uint64_t words[kBlock];
  float first[kBlock];
  float second[kBlock];
  const std::int64_t pairs = (count + 1) / 2;
  for (std::int64_t begin = 0; begin < pairs; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, pairs - begin);
    for (std::int64_t i = 0; i < n; ++i) {
      words[i] = stream.bits(first_counter + static_cast<std::uint64_t>(begin + i));
    }
    for (std::int64_t i = 0; i < n; ++i) normal_pair(words[i], &first[i], &second[i]);
    float* out = destination + 2 * begin;
    const std::int64_t whole = std::min(n, (count - 2 * begin) / 2);
    for (std::int64_t i = 0; i < whole; ++i) {
      out[2 * i] = first[i];
      out[2 * i + 1] = second[i];
    }
    if (whole < n) out[2 * whole] = first[whole];
  }
}

namespace {

// Runs body(begin, end) over [0, count) in as many ranges as there are threads worth starting.
template <typename Body>
void parallel_ranges(std::int64_t count, std::int64_t values_per_item, const Body& body) {
  constexpr std::int64_t kValuesWorthAThread = 1 << 16;
  const std::int64_t hardware = std::max(1u, std::thread::hardware_concurrency());
  const std::int64_t threads =
      std::clamp<std::int64_t>(count * values_per_item / kValuesWorthAThread, 1, hardware);
  reference::parallel_for(threads, static_cast<int>(threads), [&](std::int64_t i) {
    body(count * i / threads, count * (i + 1) / threads);
  });
}

void round_in_place(DType dtype, float* values, std::int64_t count) {
  if (dtype == DType::float32) return;
  constexpr std::int64_t kBlock = 4096;
  std::uint16_t encoded[kBlock];
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, count - begin);
    encode(dtype, values + begin, encoded, n);
    decode(dtype, encoded, values + begin, n);
  }
}

// rows x width values N(0, 1) * factor, rounded to dtype, each row `stride` elements after the
// last.
std::vector<float> normal_rows(const CounterStream& stream, std::int64_t rows, std::int64_t width,
                               std::int64_t stride, double factor, DType dtype) {
  std::vector<float> values(static_cast<std::size_t>(rows * stride),
                            std::numeric_limits<float>::quiet_NaN());
  // Work is cut into fixed pieces of a row, so that one long row is shared by the threads too.
  constexpr std::int64_t kPiece = 4096;
  const std::int64_t pieces = (width + kPiece - 1) / kPiece;
  const std::uint64_t counters_per_row = static_cast<std::uint64_t>(width + 1) / 2;
  const float scale = static_cast<float>(factor);
  parallel_ranges(rows * pieces, std::min(width, kPiece),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t item = begin; item < end; ++item) {
                      const std::int64_t row = item / pieces;
                      const std::int64_t at = item % pieces * kPiece;
                      const std::int64_t count = std::min(kPiece, width - at);
                      float* out = values.data() + row * stride + at;
                      fill_normal(stream,
                                  static_cast<std::uint64_t>(row) * counters_per_row +
                                      static_cast<std::uint64_t>(at / 2),
                                  out, count);
                      if (scale != 1.0f) {
                        for (std::int64_t i = 0; i < count; ++i) out[i] *= scale;
                      }
                      round_in_place(dtype, out, count);
                    }
                  });
  return values;
}

void normalise(float* row, std::int64_t width) {
  // Four partial sums: a fixed order, and short dependency chains.
  double sums[4] = {0, 0, 0, 0};
  std::int64_t i = 0;
  for (; i + 4 <= width; i += 4) {
    for (int lane = 0; lane < 4; ++lane) {
      sums[lane] += static_cast<double>(row[i + lane]) * static_cast<double>(row[i + lane]);
    }
  }
  for (; i < width; ++i) sums[0] += static_cast<double>(row[i]) * static_cast<double>(row[i]);
  const double length = std::sqrt((sums[0] + sums[1]) + (sums[2] + sums[3]));
  const float scale = static_cast<float>(1.0 / length);
  for (i = 0; i < width; ++i) row[i] *= scale;
}

void fill_unit(const CounterStream& stream, std::uint64_t row, float* out, std::int64_t width) {
  fill_normal(stream, row * (static_cast<std::uint64_t>(width + 1) / 2), out, width);
  normalise(out, width);
}

std::vector<float> make_query(const Problem& p) {
  const std::int64_t rows = p.total_tokens() * p.num_key_heads;
  const std::int64_t width = p.key_head_dim;
  std::vector<float> values(static_cast<std::size_t>(rows * width));
  const CounterStream stream(p.seed, "query");
  parallel_ranges(rows, width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      fill_unit(stream, static_cast<std::uint64_t>(row), values.data() + row * width, width);
    }
    round_in_place(p.token_dtype, values.data() + begin * width, (end - begin) * width);
  });
  return values;
}

std::vector<float> make_key(const Problem& p) {
  const std::int64_t heads = p.num_key_heads;
  const std::int64_t rows = p.total_tokens() * p.steps * heads;
  const std::int64_t width = p.key_head_dim;
  std::vector<float> values(static_cast<std::size_t>(rows * width));
  const CounterStream stream(p.seed, "key");
  const CounterStream choice(p.seed, "key choice");
  // The direction keys of one head have in common.
  std::vector<float> common(static_cast<std::size_t>(heads * width));
  for (std::int64_t head = 0; head < heads; ++head) {
    fill_unit(CounterStream(p.seed, "key common"), static_cast<std::uint64_t>(head),
              common.data() + head * width, width);
  }
  const bool near_equal = p.keys == KeyDistribution::near_equal;
  const float cosine = near_equal ? 0.99f : 0.9f;
  const float sine = near_equal ? 0.141067360f : 0.435889894f;  // sqrt(1 - cosine^2)
  parallel_ranges(rows, width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      float* out = values.data() + row * width;
      const float* shared = common.data() + row % heads * width;
      const std::uint64_t counter = static_cast<std::uint64_t>(row);
      switch (p.keys) {
        case KeyDistribution::unit:
          fill_unit(stream, counter, out, width);
          break;
        case KeyDistribution::correlated:
        case KeyDistribution::near_equal:
          fill_unit(stream, counter, out, width);
          for (std::int64_t i = 0; i < width; ++i) out[i] = cosine * shared[i] + sine * out[i];
          normalise(out, width);
          break;
        case KeyDistribution::lengths: {
          fill_unit(stream, counter, out, width);
          // The square of the length is 10^u, u ~ U(-1, 1).
          const auto length =
              static_cast<float>(portable_exp(portable_ln(10) * (choice.uniform(counter) - 0.5)));
          for (std::int64_t i = 0; i < width; ++i) out[i] *= length;
          break;
        }
        case KeyDistribution::equal:
          std::copy(shared, shared + width, out);
          break;
        case KeyDistribution::alternating: {
          const float sign = row / heads % 2 == 0 ? 1.0f : -1.0f;
          for (std::int64_t i = 0; i < width; ++i) out[i] = sign * shared[i];
          break;
        }
        case KeyDistribution::zero:
          if (choice.below(counter, 8) == 0) {
            std::fill(out, out + width, 0.0f);
          } else {
            fill_unit(stream, counter, out, width);
          }
          break;
        case KeyDistribution::unnormalised:
          fill_normal(stream, counter * (static_cast<std::uint64_t>(width + 1) / 2), out, width);
          break;
      }
    }
    round_in_place(p.token_dtype, values.data() + begin * width, (end - begin) * width);
  });
  return values;
}

// ---- gates and betas: float64, then each encoding of the same numbers

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

double standard_normal(const CounterStream& stream, std::uint64_t counter) {
  float first = 0;
  float second = 0;
  normal_pair(stream.bits(counter), &first, &second);
  return static_cast<double>(first);
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

double draw_uniform(const ValueRange& range, double u) {
  return range.low == range.high ? range.low : range.low + (range.high - range.low) * u;
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
    case GateDistribution::real:  // made from logits in make_gate
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

GateValues make_gate(const Problem& p) {
  const std::int64_t heads = p.num_value_heads;
  const std::int64_t per_token = p.gates_per_token();
  GateValues gate;
  gate.encoding = p.gate_encoding;
  std::vector<float> A_log(static_cast<std::size_t>(heads), 0.0f);
  std::vector<float> dt_bias(static_cast<std::size_t>(per_token), 0.0f);
  const bool far = p.gates == GateDistribution::far;
  const bool from_logits = far || p.gates == GateDistribution::real;
  for (std::int64_t h = 0; far && h < heads; ++h) A_log[h] = kFarRates[h % 5];
  if (p.gates == GateDistribution::real) {
    const CounterStream head_stream(p.seed, "gate head");
    const CounterStream channel_stream(p.seed, "gate channel");
    const bool per_head = p.decay == DecayPer::head;
    const double log_low = portable_ln(1e-3);
    const double log_high = portable_ln(0.1);
    for (std::int64_t h = 0; h < heads; ++h) {
      A_log[h] = static_cast<float>(
          portable_ln(16 * head_stream.uniform(static_cast<std::uint64_t>(2 * h))));
    }
    for (std::int64_t i = 0; i < per_token; ++i) {
      const auto counter = static_cast<std::uint64_t>(i);
      const double u =
          per_head ? head_stream.uniform(2 * counter + 1) : channel_stream.uniform(counter);
      const double dt = std::max(1e-4, portable_exp(log_low + (log_high - log_low) * u));
      dt_bias[i] = static_cast<float>(inverse_softplus(dt));
    }
  }
  gate.values.resize(static_cast<std::size_t>(p.total_tokens() * per_token));
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
        logit = far ? kFarLogits[stream.below(2 * counter, 10)]
                    : static_cast<float>(0.1 * standard_normal(stream, 2 * counter));
        log_decay = -portable_exp(static_cast<double>(A_log[h])) *
                    softplus(static_cast<double>(logit) + static_cast<double>(dt_bias[of_token]));
      } else {
        const GatePlace at{token_in_sequence[static_cast<std::size_t>(i / per_token)],
                           static_cast<std::int64_t>(h)};
        log_decay = draw_log_decay(p, p.gates, at, stream, counter);
        logit = static_cast<float>(inverse_softplus(-log_decay));
      }
      float& out = gate.values[static_cast<std::size_t>(i)];
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
          out = logit;
          break;
      }
    }
  });
  if (p.gate_encoding == GateEncoding::logits) {
    gate.A_log = std::move(A_log);
    gate.dt_bias = std::move(dt_bias);
  }
  return gate;
}

bool may_pass_one(const Problem& p) {
  return p.betas == BetaDistribution::two || p.betas == BetaDistribution::wide ||
         p.betas == BetaDistribution::mixture || p.beta_range.high > 1;
}

// The logit b with sigmoid(b) = x, saturated at 0 and 1.
float inverse_sigmoid(double x) {
  if (x <= 0) return -static_cast<float>(kSaturatedLogit);
  if (x >= 1) return static_cast<float>(kSaturatedLogit);
  return static_cast<float>(portable_ln(x) - portable_log1p(-x));
}

BetaValues make_beta(const Problem& p) {
  const bool logit = p.beta_encoding == BetaEncoding::logit;
  if (logit && may_pass_one(p)) {
    throw_bad_input(
        "problem: beta=logit cannot hold values above 1: betas=two, wide, mixture or "
        "a range beyond 1");
  }
  BetaValues beta;
  beta.encoding = p.beta_encoding;
  beta.values.resize(static_cast<std::size_t>(p.total_tokens() * p.betas_per_token()));
  const CounterStream stream(p.seed, "beta");
  for (std::size_t i = 0; i < beta.values.size(); ++i) {
    float& out = beta.values[i];
    switch (p.betas) {
      case BetaDistribution::sigmoid: {
        const float b = static_cast<float>(standard_normal(stream, i));
        out = logit ? b : static_cast<float>(1 / (1 + portable_exp(-static_cast<double>(b))));
        break;
      }
      case BetaDistribution::zero:
        out = logit ? -static_cast<float>(kSaturatedLogit) : 0.0f;
        break;
      case BetaDistribution::one:
        out = logit ? static_cast<float>(kSaturatedLogit) : 1.0f;
        break;
      case BetaDistribution::two:
        out = 2.0f;
        break;
      case BetaDistribution::wide:
        out = static_cast<float>(2 * stream.uniform(i));
        break;
      case BetaDistribution::mixture:
        out = static_cast<float>(stream.below(i, 3));
        break;
      case BetaDistribution::uniform: {
        const double x = draw_uniform(p.beta_range, stream.uniform(i));
        out = logit ? inverse_sigmoid(x) : static_cast<float>(x);
        break;
      }
    }
  }
  return beta;
}

// ---- pools

std::vector<float> make_state_pool(const Problem& p) {
  const std::int64_t rows = p.num_pool_rows();
  const std::int64_t stride = p.state_row_stride();
  if (p.initial_state == InitialState::absent) {
    return std::vector<float>(static_cast<std::size_t>(rows * stride),
                              std::numeric_limits<float>::quiet_NaN());
  }
  const double factor = p.initial_state == InitialState::huge ? 1e5
                        : p.initial_state == InitialState::large
                            ? 1e3
                            : 1 / std::sqrt(static_cast<double>(p.key_head_dim));
  return normal_rows(CounterStream(p.seed, "state"), rows, stride - p.pool_row_padding, stride,
                     factor, p.state_dtype);
}

std::vector<std::int64_t> make_slot_index(const Problem& p) {
  if (p.slots == SlotMap::identity) return {};
  std::vector<std::int64_t> rows(static_cast<std::size_t>(p.num_pool_rows()));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  const CounterStream stream(p.seed, "slots");
  for (std::size_t i = rows.size() - 1; i > 0; --i)
    std::swap(rows[i], rows[stream.below(i, i + 1)]);
  rows.resize(static_cast<std::size_t>(p.num_sequences()));
  if (p.slots == SlotMap::padding) {
    for (std::size_t n = 2; n < rows.size(); n += 3) rows[n] = -1;
  }
  return rows;
}

void make_conv(const Problem& p, Case& c) {
  const std::int64_t channels = p.conv_channels();
  const std::int64_t taps = p.conv_width - 1;
  const bool by_time = p.conv_layout == ConvLayout::time;
  const std::int64_t rows = by_time ? channels : p.total_tokens();
  const std::int64_t width = by_time ? p.total_tokens() : channels;
  const auto normal = [&](const char* name, std::int64_t n, std::int64_t m, double factor,
                          DType dtype) {
    return normal_rows(CounterStream(p.seed, name), n, m, m, factor, dtype);
  };
  c.qkv = normal("qkv", rows, width, 1, p.token_dtype);
  c.conv_weight = normal("conv_weight", channels, p.conv_width,
                         1 / std::sqrt(static_cast<double>(p.conv_width)), p.token_dtype);
  if (p.conv_bias) c.conv_bias = normal("conv_bias", 1, channels, 0.1, p.token_dtype);
  c.conv_state = normal("conv_state", p.num_pool_rows(), channels * taps, 1, p.state_dtype);
}

}  // namespace

Case generate_case(const Problem& p) {
  p.validate();
  if (!p.case_file.empty()) {
    throw_bad_input("problem: case=" + p.case_file + " is read from its file, not generated");
  }
  require_host_memory(p);
  Case c;
  c.problem = p;
  c.sequence_offsets = p.sequences.offsets();
  c.slot_index = make_slot_index(p);
  if (p.operation == Operation::gated_delta) {
    c.query = make_query(p);
    c.key = make_key(p);
    c.value =
        normal_rows(CounterStream(p.seed, "value"), p.total_tokens() * p.steps * p.num_value_heads,
                    p.value_head_dim, p.value_head_dim, 1, p.token_dtype);
  }
  if (p.operation != Operation::causal_conv1d) {
    c.gate = make_gate(p);
    c.beta = make_beta(p);
    c.state_pool = make_state_pool(p);
  }
  if (p.operation != Operation::gated_delta) make_conv(p, c);
  return c;
}

}  // namespace gdn
