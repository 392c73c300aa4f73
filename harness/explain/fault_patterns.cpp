#include "harness/explain/fault_patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/explain/convolution_patterns.h"
#include "harness/explain/fault_hypotheses.h"
#include "harness/explain/gradient_patterns.h"
#include "harness/explain/scaled_patterns.h"
#include "harness/run/element_place.h"
#include "harness/verify/worst_unit.h"

namespace gdn {
namespace {

constexpr std::size_t kMostHypothesisPairs = 4;

class Patterns {
 public:
  Patterns(const CheckedReference& reference, const Outputs& outputs, const Anatomy& anatomy)
      : reference_(reference),
        inputs_(reference.inputs()),
        p_(inputs_.problem),
        outputs_(outputs),
        anatomy_(anatomy) {
    for (const PairAnatomy& pair : anatomy_.wrong) {
      if (owns_no_slot(pair)) continue;
      if (pair.output_wrong()) output_wrong_.push_back(&pair);
      if (pair.state_wrong()) state_wrong_.push_back(&pair);
    }
    const auto ratio = [&](const PairAnatomy* pair) {
      return limit_ratio(*anatomy_.state_output(), pair->state, anatomy_.report.limits);
    };
    std::stable_sort(
        state_wrong_.begin(), state_wrong_.end(),
        [&](const PairAnatomy* a, const PairAnatomy* b) { return ratio(a) > ratio(b); });
  }

  std::vector<FaultPattern> find() {
    if (anatomy_.violation.empty()) return {};
    if (anatomy_.report.untouched_changed > 0) {
      add("untouched rows", "writes to pool rows or padding that no sequence owns",
          {fmt::format("{} elements changed", anatomy_.report.untouched_changed)});
    }
    if (anatomy_.report.padding_nonzero > 0) {
      add("padding slot", "computes sequences of slot -1, whose outputs are zeros",
          {fmt::format("{} of their output values are not zero", anatomy_.report.padding_nonzero)});
    }
    const auto of_convolution = find_convolution_patterns(reference_, outputs_);
    found_.insert(found_.end(), of_convolution.begin(), of_convolution.end());
    const auto of_gradients = find_gradient_patterns(reference_, outputs_, anatomy_);
    found_.insert(found_.end(), of_gradients.begin(), of_gradients.end());
    const auto of_scaled = find_scaled_patterns(reference_, outputs_, anatomy_);
    found_.insert(found_.end(), of_scaled.begin(), of_scaled.end());
    if (!has_recurrence() || anatomy_.wrong.empty()) return found_;
    const std::size_t others = found_.size();
    const bool downstream = std::any_of(
        of_convolution.begin(), of_convolution.end(),
        [](const FaultPattern& pattern) { return pattern.outputs.front() == "conv_output"; });
    of_recurrence(downstream);
    for (std::size_t i = 0; i < found_.size(); ++i) {
      const bool is_cause = downstream && !found_[i].outputs.empty();
      if (i < others && !is_cause) continue;
      found_[i].outputs.insert(found_[i].outputs.end(), {"output", "final_state"});
    }
    return found_;
  }

 private:
  // `downstream` of a convolution whose outputs are wrong: only what can be told all the same.
  void of_recurrence(bool downstream) {
    const std::size_t others = found_.size();
    if (non_finite()) return;
    if (output_wrong_.empty()) {
      final_state();
      return;
    }
    tail_chunk();
    hypotheses();
    constant_factor();
    rounded_state();
    if (downstream) return;
    if (found_.size() == others) rounded_arithmetic();
    if (found_.size() == others) {
      alone();
      chunk_stages();
    }
  }

  void add(const std::string& place, const std::string& text,
           const std::vector<std::string>& evidence) {
    found_.push_back({place, text, evidence});
  }
  // The patterns below are those of a recurrence with a state per head.
  bool has_recurrence() const {
    return p_.operation->find_output("output") != nullptr &&
           p_.operation->find_output("final_state") != nullptr;
  }
  bool owns_no_slot(const PairAnatomy& pair) const {
    return inputs_.slot(pair.output.where.sequence) < 0;
  }
  double limit_of(const char* output) const {
    return reference::limit_of(anatomy_.report.limits, output).relative_l2;
  }
  double limit() const { return limit_of("output"); }
  std::size_t output_at(const PairAnatomy& pair, std::int64_t t, std::int64_t j) const {
    const std::int64_t token = inputs_.first_token(pair.output.where.sequence) + t;
    return static_cast<std::size_t>(
        (token * p_.num_value_heads + pair.output.where.head) * p_.value_head_dim + j);
  }
  float output(const PairAnatomy& pair, std::int64_t t, std::int64_t j) const {
    return outputs_["output"][output_at(pair, t, j)];
  }
  // The pair's final state, reference and actual, in memory order.
  struct StateElement {
    double reference;
    float actual;
    float before;  // the call
  };
  StateElement state(const PairAnatomy& pair, std::int64_t i) const {
    const std::int64_t n = pair.output.where.sequence;
    const auto in_row = [&](std::int64_t slot) {
      return static_cast<std::size_t>(slot * p_.state_row_stride() +
                                      pair.output.where.head * head_state_size() + i);
    };
    const std::size_t before = in_row(inputs_.slot(n));
    const std::size_t at = inputs_.output_slot(n) < 0 ? before : in_row(inputs_.output_slot(n));
    return {reference_.wide()["final_state"][at], outputs_["final_state"][at],
            inputs_["initial_state"][before]};
  }
  std::int64_t head_state_size() const { return p_.key_head_dim * p_.value_head_dim; }

  // ---- values that are not finite

  bool non_finite() {
    std::int64_t bad = 0;
    std::int64_t all = 0;
    std::int64_t bad_states = 0;
    std::string first;
    for (const PairAnatomy* pair : output_wrong_) {
      for (std::int64_t t = 0; t < pair->length; ++t) {
        for (std::int64_t j = 0; j < p_.value_head_dim; ++j, ++all) {
          if (std::isfinite(output(*pair, t, j))) continue;
          if (bad++ == 0) {
            first = fmt::format("the first: sequence {}, head {}, token {}, column {}, at {}",
                                pair->output.where.sequence, pair->output.where.head, t, j,
                                element_place(*p_.operation->find_output("output"), p_,
                                              static_cast<std::int64_t>(output_at(*pair, t, j))));
          }
        }
      }
      bad_states += pair->state.error.non_finite;
    }
    if (bad == 0 && bad_states == 0) return false;
    const std::string count = fmt::format(
        "{} of {} output values of the wrong pairs are not "
        "finite",
        bad, all);
    const std::string states = fmt::format("{} final state values are not finite", bad_states);
    if (bad == all) {
      add("not finite", "outputs never written (verified runs start from NaN), or NaN everywhere",
          {count, states});
    } else if (bad_states == 0) {
      add("unwritten",
          "elements never written (verified runs start from NaN), or an overflow on the way out",
          {count, first, "wrong tokens there: " + output_wrong_.front()->tokens.to_string(),
           "the final state is finite: no NaN went through the recurrence"});
    } else {
      add("not finite", "a NaN or an overflow that enters the state", {count, first, states});
    }
    return true;
  }

  // ---- outputs right, state wrong

  void final_state() {
    if (state_wrong_.empty()) return;
    if (state_unchanged()) {
      add("final state", "a final state that is never written",
          {"every output is right", "the wrong rows of the pool hold what they held before"});
      return;
    }
    bool transposed = p_.key_head_dim > 1 && p_.value_head_dim > 1;
    for (const PairAnatomy* pair : state_wrong_) {
      // What [Dk, Dv] is in memory, read as [Dv, Dk].
      const std::int64_t rows =
          p_.state_layout == StateLayout::kv ? p_.key_head_dim : p_.value_head_dim;
      const std::int64_t columns = head_state_size() / rows;
      double error = 0;
      double size = 0;
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) {
          const double expected = state(*pair, i * columns + j).reference;
          error += std::pow(static_cast<double>(state(*pair, j * rows + i).actual) - expected, 2);
          size += expected * expected;
        }
      }
      transposed = transposed && std::sqrt(error) <= limit_of("final_state") * std::sqrt(size);
    }
    if (transposed) {
      add("state layout", "the final state written in the other memory order ([Dk, Dv], [Dv, Dk])",
          {"every output is right", "transposed, every final state is right"});
    } else {
      const PairAnatomy& worst = *state_wrong_.front();
      add("final state", "the final state's last update or its store",
          {"every output is right", "key rows " + worst.state_rows.to_string() +
                                        ", value columns " + worst.state_columns.to_string()});
    }
  }

  bool state_unchanged() const {
    for (const PairAnatomy* pair : state_wrong_) {
      for (std::int64_t i = 0; i < head_state_size(); ++i) {
        const StateElement element = state(*pair, i);
        if (!(element.actual == round_to(p_.state_dtype, element.before))) return false;
      }
    }
    return true;
  }

  // ---- by position

  void tail_chunk() {
    const std::int64_t chunk = anatomy_.chunk;
    bool zero = true;
    for (const PairAnatomy* pair : output_wrong_) {
      const std::int64_t tail = pair->length / chunk * chunk;
      if (tail == 0 || tail == pair->length || pair->tokens.members.front() < tail) return;
      zero = zero && pair->all_zero;
    }
    const PairAnatomy& worst = *output_wrong_.front();
    std::vector<std::string> evidence = {fmt::format(
        "sequence {}: wrong tokens {}, whole chunks of {} end at {}", worst.output.where.sequence,
        worst.tokens.to_string(), chunk, worst.length / chunk * chunk)};
    if (zero) evidence.push_back("the outputs there are zero");
    add("tail chunk", "tokens behind the last whole chunk", evidence);
  }

  // What the first wrong tokens and the final states leave of a chunk's stages: products inside the
  // chunk (scores, triangular inverse), what it takes from the state, what it leaves in the state.
  void chunk_stages() {
    const std::int64_t chunk = anatomy_.chunk;
    bool first_chunk_right = true;
    bool first_token_right = true;
    bool inside_chunks = true;
    for (const PairAnatomy* pair : output_wrong_) {
      const std::int64_t first = pair->tokens.members.front();
      inside_chunks = inside_chunks && first % chunk != 0;
      first_chunk_right = first_chunk_right && first >= chunk;
      first_token_right = first_token_right && first > 0;
    }
    const bool states_right = p_.final_state && state_wrong_.empty();
    const bool no_initial_state = p_.initial_state == InitialState::absent;
    std::vector<std::string> evidence = where_it_starts();
    if (states_right) evidence.push_back("every final state is right");
    if (first_chunk_right) {
      evidence.push_back(
          fmt::format("the first chunk of {} tokens is right in every sequence", chunk));
      if (inside_chunks) {
        add("mid-chunk",
            "a position: each error starts inside a chunk whose first token, which reads the "
            "state passed on, is right",
            evidence);
      } else if (states_right && no_initial_state) {
        add("chunk readout", "what a chunk's outputs take from the incoming state (gamma Q S)",
            evidence);
      } else {
        add("state pass",
            "the state passed between chunks, or what a chunk takes from it (W, gamma)", evidence);
      }
    } else if (first_token_right) {
      evidence.push_back("the first token of every sequence is right");
      if (states_right) {
        add("scores", "what outputs take from other tokens of their chunk (Q K^T, decays, mask)",
            evidence);
      } else {
        add("intra-chunk",
            "products inside a chunk (decay ratios, mask, triangular inverse), the gates, or how "
            "an "
            "update is read by the next token",
            evidence);
      }
    } else if (states_right) {
      add("readout", "what only the outputs see: queries, scale, the product with the state",
          evidence);
    } else if (no_initial_state) {
      evidence.push_back("the first token is wrong, without an initial state");
      add("token", "each token's own arithmetic: keys, values, norm, gates, readout", evidence);
    } else {
      evidence.push_back("the first token is wrong, and there is an initial state");
      add("incoming state", "what is taken from the initial state, or each token's own arithmetic",
          evidence);
    }
  }

  std::vector<std::string> where_it_starts() const {
    const PairAnatomy& worst = *output_wrong_.front();
    const std::int64_t chunk = anatomy_.chunk;
    const std::int64_t first = worst.tokens.members.front();
    std::string errors;
    const std::size_t begin =
        static_cast<std::size_t>(std::max<std::int64_t>(first / chunk - 1, 0));
    for (std::size_t i = begin; i < worst.chunk_errors.size() && i < begin + 5; ++i) {
      errors += fmt::format(" {:.1e}", worst.chunk_errors[i]);
    }
    return {fmt::format("sequence {}, head {}: the first wrong token is {}, index {} of chunk {}",
                        worst.output.where.sequence, worst.output.where.head, first, first % chunk,
                        first / chunk),
            fmt::format("errors from chunk {} on:{}", begin, errors)};
  }

  // ---- by hypothesis

  bool supposed(Hypothesis hypothesis) const {
    std::vector<reference::SequenceHead> pairs;
    for (const PairAnatomy* pair : output_wrong_) {
      if (pairs.size() < kMostHypothesisPairs)
        pairs.push_back({pair->output.where.sequence, pair->output.where.head});
    }
    return agrees(hypothesis, reference_, outputs_, pairs, limit());
  }

  void hypotheses() {
    const std::string within = "within the limit";
    if (supposed(Hypothesis::tiled_heads)) {
      add("head map", "key head h % Hk (tiled) where h / (Hv/Hk) (grouped) is meant",
          {"wrong heads: " + anatomy_.heads.to_string(),
           "with the tiled map the reference agrees " + within});
    }
    if (supposed(Hypothesis::initial_state_transposed)) {
      add("state layout", "the initial state read in the other memory order",
          {"with a transposed initial state the reference agrees " + within});
    }
    if (supposed(Hypothesis::initial_state_zero)) {
      add("initial state", "an initial state that is not read",
          {"without an initial state the reference agrees " + within});
    }
    if (supposed(Hypothesis::no_correction)) {
      add("delta term", "an update without the correction by what the state holds for the key",
          {"with S + beta k v^T the reference agrees " + within});
    }
    if (supposed(Hypothesis::no_norm)) {
      add("norm", "queries and keys that are not normalised",
          {"without normalisation the reference agrees " + within});
    }
    if (supposed(Hypothesis::read_before_update)) {
      add("readout", "outputs read from the decayed state before the token's update",
          {"so read, the reference agrees " + within});
    } else if (supposed(Hypothesis::read_before_decay)) {
      add("readout", "outputs read from the state of the token before",
          {"so read, the reference agrees " + within});
    }
    if (supposed(Hypothesis::decay_after_update)) {
      add("decay order", "the decay applied after the token's update instead of before",
          {"in that order the reference agrees " + within});
    }
  }

  // Outputs that are one factor times the reference, in every wrong pair.
  void constant_factor() {
    double product = 0;
    double squares = 0;
    double actual_squares = 0;
    for (const PairAnatomy* pair : output_wrong_) {
      const std::int64_t first = inputs_.first_token(pair->output.where.sequence);
      for (std::int64_t t = 0; t < pair->length; ++t) {
        for (std::int64_t j = 0; j < p_.value_head_dim; ++j) {
          const auto at = static_cast<std::size_t>(
              ((first + t) * p_.num_value_heads + pair->output.where.head) * p_.value_head_dim + j);
          const double expected = reference_.wide()["output"][at];
          const double actual = static_cast<double>(outputs_["output"][at]);
          product += actual * expected;
          squares += expected * expected;
          actual_squares += actual * actual;
        }
      }
    }
    if (!(squares > 0)) return;
    const double factor = product / squares;
    const double residual = std::sqrt(std::max(0.0, actual_squares - factor * product));
    if (factor == 0 || !(residual <= limit() * std::abs(factor) * std::sqrt(squares))) return;
    std::vector<std::string> evidence = {
        fmt::format("outputs are {:.6g} times the reference, within the limit", factor)};
    const double root = std::sqrt(static_cast<double>(p_.key_head_dim));
    if (std::abs(factor / root - 1) < 1e-3) evidence.push_back("that factor is sqrt(Dk)");
    if (std::abs(factor * root - 1) < 1e-3) evidence.push_back("that factor is 1/sqrt(Dk)");
    add("scale", "the scale of q: left out, applied twice, or another", evidence);
  }

  // A float32 state all of whose elements are 16-bit numbers has been rounded.
  void rounded_state() {
    if (p_.state_dtype != DType::float32 || state_wrong_.empty()) return;
    for (const DType dtype : {DType::bfloat16, DType::float16}) {
      bool exact = true;
      for (const PairAnatomy* pair : state_wrong_) {
        for (std::int64_t i = 0; i < head_state_size(); ++i) {
          const float value = state(*pair, i).actual;
          exact = exact && round_to(dtype, value) == value;
        }
      }
      if (!exact) continue;
      add("precision", "a state kept in " + long_name(dtype) + " during the call",
          {"every element of the float32 final states is a " + long_name(dtype) + " number",
           fmt::format("the output error is {:.1f} unit roundoffs of {}",
                       output_wrong_.front()->output.error.relative_l2 / unit_roundoff(dtype),
                       long_name(dtype))});
      return;
    }
  }

  // An error of some 16-bit roundings, much the same from the first chunk to the last.
  void rounded_arithmetic() {
    double least = INFINITY;
    double most = 0;
    for (const PairAnatomy* pair : output_wrong_) {
      for (const double error : pair->chunk_errors) {
        least = std::min(least, error);
        most = std::max(most, error);
      }
    }
    if (!(most <= 8 * least)) return;
    for (const DType dtype : {DType::bfloat16, DType::float16}) {
      const double roundoff = unit_roundoff(dtype);
      if (unit_roundoff(p_.token_dtype) >= roundoff) continue;
      if (!(least >= roundoff / 4 && most <= 4 * roundoff)) continue;
      const char* name = dtype == DType::float16 ? "float16 or TF32" : "bfloat16";
      add("precision", fmt::format("operands, gates or sums rounded to {}", name),
          {fmt::format("errors of {:.2f} to {:.2f} unit roundoffs of {} in every chunk",
                       least / roundoff, most / roundoff, name)});
      return;
    }
  }

  void alone() {
    if (anatomy_.heads.members.size() == 1 && anatomy_.heads.total > 1) {
      add("one head", "what is particular to one head: its index, gates or state",
          {"wrong heads: " + anatomy_.heads.to_string()});
    }
    if (anatomy_.sequences.members.size() == 1 && anatomy_.sequences.total > 1) {
      add("one sequence", "what is particular to one sequence: its offset, length or slot",
          {"wrong sequences: " + anatomy_.sequences.to_string()});
    }
  }

  const CheckedReference& reference_;
  const Case& inputs_;
  const Problem& p_;
  const Outputs& outputs_;
  const Anatomy& anatomy_;
  // The worst first, each by its own error over limit.
  std::vector<const PairAnatomy*> output_wrong_;
  std::vector<const PairAnatomy*> state_wrong_;
  std::vector<FaultPattern> found_;
};

}  // namespace

std::vector<FaultPattern> find_patterns(const CheckedReference& reference, const Outputs& outputs,
                                        const Anatomy& anatomy) {
  return Patterns(reference, outputs, anatomy).find();
}

}  // namespace gdn
