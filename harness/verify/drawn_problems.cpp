#include "harness/verify/drawn_problems.h"

#include <algorithm>
#include <optional>
#include <random>
#include <set>

#include "harness/operations/generate_case.h"
#include "interface/error.h"
#include "reference/reference.h"

namespace gdn {
namespace {

using Values = std::map<std::string, std::vector<std::string>>;

/// The same numbers with every standard library, which its distributions do not promise.
class Draw {
 public:
  Draw(std::uint64_t seed, std::uint64_t number) {
    std::seed_seq of{seed, seed >> 32, number, number >> 32};
    generator_.seed(of);
  }
  /// 0 .. count - 1.
  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(generator_() % static_cast<std::uint64_t>(count));
  }
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }
  bool one_in(std::int64_t count) { return below(count) == 0; }
  template <typename T>
  const T& of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(below(static_cast<std::int64_t>(values.size())))];
  }
  template <typename T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i > 1; --i)
      std::swap(values[i - 1],
                values[static_cast<std::size_t>(below(static_cast<std::int64_t>(i)))]);
  }

 private:
  std::mt19937_64 generator_;
};

std::int64_t draw_length(Draw& draw, bool is_short) {
  if (is_short) return draw.between(0, 16);
  switch (draw.below(5)) {
    case 0:
      return draw.between(0, 17);
    case 1:
      return std::max<std::int64_t>(0, 16 * draw.between(1, 12) + draw.between(-1, 1));
    case 2:
      return 64 * draw.between(1, 5) + draw.between(-1, 1);
    case 3:
      return draw.between(1, 200);
    default:
      return draw.between(1, 700);
  }
}

std::string draw_lengths(Draw& draw) {
  const bool is_short = draw.one_in(3);
  std::string text;
  for (std::int64_t left = draw.between(1, 5); left > 0; --left)
    text += (text.empty() ? "" : "+") + std::to_string(draw_length(draw, is_short));
  return text;
}

/// The problem with one field more, if it is one.
std::optional<Problem> with_field(const Problem& problem, const std::string& key,
                                  const std::string& value) {
  Problem changed = problem;
  try {
    problem_field(key).set(changed, value);
    changed.validate();
    // what another field leaves nothing to say does not come back from the text
    if (Problem::parse(changed.to_string()) == changed) return changed;
  } catch (const Error&) {
  }
  return std::nullopt;
}

std::optional<Problem> draw_problem(const Operation& operation, Draw& draw) {
  const Values& values = drawn_values();
  Problem problem;
  problem.operation = operation;
  const auto take = [&](const std::string& key, const std::string& value) {
    if (const auto changed = with_field(problem, key, value)) problem = *changed;
  };
  try {
    // What every operation has: together, for lengths decide what is valid.
    problem = Problem::parse(operation->name + ":heads=" + draw.of(values.at("heads")) +
                             ",dim=" + draw.of(values.at("dim")) + ",seq=" + draw_lengths(draw) +
                             ",dtype=" + draw.of(values.at("dtype")));
  } catch (const Error&) {
    return std::nullopt;
  }
  std::vector<std::string> keys = operation->fields;
  draw.shuffle(keys);
  for (const std::string& key : keys) {
    const auto found = values.find(key);
    if (found != values.end() && draw.one_in(2)) take(key, draw.of(found->second));
  }
  // Most forms have chunks of their own alone.
  if (draw.one_in(8)) take("chunk", draw.of(values.at("chunk")));
  take("seed", std::to_string(draw.between(1, 1000000)));
  return problem;
}

/// Keys longer than 1 let a state grow from token to token, beyond float32 where there are many; huge states leave
/// float16, and so do large rows with large states, or with states in it.
bool stays_in_range(const Problem& problem) {
  constexpr std::int64_t kMostOfLongKeys = 16;
  if (problem.token_dtype == DType::float16 && problem.initial_state == InitialState::huge)
    return false;
  if (problem.magnitudes == Magnitudes::edges) {
    if (problem.state_dtype == DType::float16) return false;
    if (problem.token_dtype == DType::float16 && problem.initial_state == InitialState::large)
      return false;
  }
  return problem.normalize_qk || problem.keys != KeyDistribution::unnormalised ||
         problem.sequences.longest() * problem.steps <= kMostOfLongKeys;
}

/// Some states do not fit into every dtype, which only their values show.
bool has_a_case(const Problem& problem) {
  try {
    validate(generate_case(problem));
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

const Values& drawn_values() {
  static const Values values = {
      {"heads", {"1/1", "1/2", "1/3", "2/2", "2/4", "2/8", "3/3", "4/4", "1/5"}},
      {"dim",
       {"128", "128", "128", "64", "64", "32", "16", "96x192", "128x256", "64x128", "128x64",
        "32x16", "8x20", "40x24", "4x4"}},
      {"dtype", {"bf16", "bf16", "f16", "f32"}},
      {"out", {"token", "f32"}},
      {"state", {"f32", "bf16", "f16"}},
      {"layout", {"kv", "vk"}},
      {"h0", {"absent", "normal", "normal", "large", "huge"}},
      {"ht", {"0", "1"}},
      {"slots", {"identity", "permuted", "padding"}},
      {"output_slots", {"same", "other"}},
      {"state_rounding", {"nearest", "stochastic"}},
      {"checkpoints", {"0", "1", "2", "5"}},
      {"checkpoint_dtype", {"state", "f32", "bf16", "f16", "i8"}},
      {"ring", {"16", "32", "5"}},
      {"pool_pad", {"0", "1", "8", "24"}},
      {"pool_rows", {"auto", "40"}},
      {"norm", {"0", "1"}},
      {"scale", {"auto", "1", "0.3", "-2"}},
      {"update", {"delta", "delta", "additive"}},
      {"steps", {"1", "1", "2", "3"}},
      {"decay", {"head", "channel"}},
      {"gate", {"log_decay", "decay", "neg_log_decay", "logits", "bounded"}},
      {"bound", {"5", "2.5", "0.7"}},
      {"beta", {"beta", "logit", "logit2"}},
      {"logits", {"f32", "token"}},
      {"chunk", {"auto", "16", "32", "64", "128"}},
      {"width", {"2", "3", "4", "5", "9", "15"}},
      {"bias", {"0", "1"}},
      {"act", {"none", "silu"}},
      {"conv_layout", {"channels", "time"}},
      {"conv_in_place", {"0", "1"}},
      {"window", {"carried", "read", "written", "none"}},
      {"window_layout", {"time", "channels"}},
      {"window_length", {"auto", "8", "17"}},
      {"window_order", {"oldest_first", "ring"}},
      {"fresh", {"0", "1"}},
      {"residual", {"0", "1", "tensor"}},
      {"weights", {"token", "f32"}},
      {"gated_norm", {"0", "1"}},
      {"norm_gate", {"silu", "sigmoid", "sigmoid2"}},
      {"norm_eps", {"1e-06", "1e-05"}},
      {"gates",
       {"real", "none", "weak", "near_one", "strong", "mid", "reset", "tiny", "masked",
        "decay_uniform", "edges", "step", "bounded", "far", "mixture", "-20..-0.0001", "-5"}},
      {"betas", {"sigmoid", "zero", "one", "two", "wide", "mixture", "0..2", "0.5"}},
      {"keys",
       {"unit", "unit", "correlated", "equal", "alternating", "zero", "unnormalised", "near_equal",
        "lengths"}},
      {"magnitudes", {"ordinary", "edges"}},
      {"accepted", {"mixture", "all", "none", "geometric", "alternating"}},
      {"ring_fill", {"mixture", "none", "all", "cycle"}},
  };
  return values;
}

std::vector<SuiteProblem> draw_problems(const DrawnProblems& wanted) {
  const std::vector<Operation> every = wanted.operations.empty() ? operations() : wanted.operations;
  constexpr std::uint64_t kTriesOfEach = 1000;
  std::vector<SuiteProblem> drawn;
  std::set<std::string> seen;
  for (std::int64_t i = 0; i < wanted.count; ++i) {
    Draw draw(wanted.seed, static_cast<std::uint64_t>(i));
    const Operation& operation = draw.of(every);
    for (std::uint64_t tries = 0; tries < kTriesOfEach; ++tries) {
      const std::optional<Problem> problem = draw_problem(operation, draw);
      if (!problem || reference::evaluation_flops(*problem) > wanted.most_operations) continue;
      if (!stays_in_range(*problem) || !has_a_case(*problem)) continue;
      if (!seen.insert(problem->to_string()).second) continue;
      drawn.push_back({*problem, "-", "drawn by seed " + std::to_string(wanted.seed)});
      break;
    }
  }
  return drawn;
}

}  // namespace gdn
