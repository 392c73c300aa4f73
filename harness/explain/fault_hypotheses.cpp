#include "harness/explain/fault_hypotheses.h"

#include <cmath>

#include "interface/batch_part.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn {
namespace {

bool is_plain(const Problem& p) {
  const Problem plain;
  return p.operation == gated_delta_operation() && p.update == plain.update &&
         p.steps == plain.steps && p.decay == plain.decay;
}

void copy_rows(const std::vector<float>& from, std::int64_t row, std::int64_t size,
               std::vector<float>& to) {
  to.insert(to.end(), from.begin() + row * size, from.begin() + (row + 1) * size);
}

Case with_tiled_heads(const Case& inputs) {
  const Problem& p = inputs.problem;
  Case c = inputs;
  c.problem.num_key_heads = p.num_value_heads;
  c["q"].clear();
  c["k"].clear();
  for (std::int64_t t = 0; t < p.total_tokens(); ++t) {
    for (std::int64_t h = 0; h < p.num_value_heads; ++h) {
      const std::int64_t row = t * p.num_key_heads + h % p.num_key_heads;
      copy_rows(inputs["q"], row, p.key_head_dim, c["q"]);
      copy_rows(inputs["k"], row, p.key_head_dim, c["k"]);
    }
  }
  return c;
}

// Every token as two: one that decays (`decay_first`) or updates, then one that does the other.
Case with_split_tokens(const Case& inputs, bool decay_first) {
  const Problem& p = inputs.problem;
  const auto gates = reference::decode_gates<double>(inputs);
  Case c = inputs;
  for (std::int64_t& length : c.problem.sequences.lengths) length *= 2;
  c.sequence_offsets = c.problem.sequences.offsets();
  c.problem.set_gate_encoding(GateEncoding::log_decay);
  c.problem.beta_encoding = BetaEncoding::beta;
  for (const char* name : {"q", "k", "v", gate_name(p), beta_name(p), "A_log", "dt_bias"}) {
    c.arrays.erase(name);
  }
  std::vector<float>& log_decay = c["log_decay"];
  std::vector<float>& beta = c["beta"];
  for (std::int64_t t = 0; t < p.total_tokens(); ++t) {
    for (const bool decays : {decay_first, !decay_first}) {
      copy_rows(inputs["q"], t, p.num_key_heads * p.key_head_dim, c["q"]);
      copy_rows(inputs["k"], t, p.num_key_heads * p.key_head_dim, c["k"]);
      copy_rows(inputs["v"], t, p.num_value_heads * p.value_head_dim, c["v"]);
      for (std::int64_t h = 0; h < p.num_value_heads; ++h) {
        const auto at = static_cast<std::size_t>(t * p.num_value_heads + h);
        log_decay.push_back(decays ? static_cast<float>(gates.log_decay[at]) : 0.0f);
        beta.push_back(decays ? 0.0f : static_cast<float>(gates.beta[at]));
      }
    }
  }
  return c;
}

Case with_transposed_state(const Case& inputs) {
  Case c = inputs;
  c.problem.state_layout =
      inputs.problem.state_layout == StateLayout::kv ? StateLayout::vk : StateLayout::kv;
  return c;
}

Case with_zero_state(const Case& inputs) {
  Case c = inputs;
  c.problem.initial_state = InitialState::absent;
  return c;
}

Case with_additive_update(const Case& inputs) {
  Case c = inputs;
  c.problem.update = UpdateRule::additive;
  return c;
}

Case with_norm(const Case& inputs, bool norm) {
  Case c = inputs;
  c.problem.normalize_qk = norm;
  return c;
}

Case with_scale(const Case& inputs, double scale) {
  Case c = inputs;
  c.problem.scale = scale;
  return c;
}

// Every gate or every beta as it is where nothing decays and nothing is weighed.
Case with_neutral(const Case& inputs, bool gates) {
  const auto decoded = reference::decode_gates<double>(inputs);
  Case c = inputs;
  const Problem& p = inputs.problem;
  for (const char* name : {gate_name(p), beta_name(p), "A_log", "dt_bias"}) {
    c.arrays.erase(name);
  }
  c.problem.set_gate_encoding(GateEncoding::log_decay);
  c.problem.beta_encoding = BetaEncoding::beta;
  for (std::size_t i = 0; i < decoded.beta.size(); ++i) {
    c["log_decay"].push_back(gates ? 0.0f : static_cast<float>(decoded.log_decay[i]));
    c["beta"].push_back(gates ? static_cast<float>(decoded.beta[i]) : 1.0f);
  }
  return c;
}

// What the hypothesis makes of the case, and which of its tokens stands for token t of the case:
// t * tokens_per_token + offset.
struct Supposed {
  Case inputs;
  std::int64_t tokens_per_token = 1;
  std::int64_t offset = 0;
};

Supposed suppose(Hypothesis hypothesis, const Case& inputs) {
  switch (hypothesis) {
    case Hypothesis::tiled_heads:
      return {with_tiled_heads(inputs)};
    case Hypothesis::initial_state_transposed:
      return {with_transposed_state(inputs)};
    case Hypothesis::initial_state_zero:
      return {with_zero_state(inputs)};
    case Hypothesis::no_correction:
      return {with_additive_update(inputs)};
    case Hypothesis::no_norm:
    case Hypothesis::norm:
      return {with_norm(inputs, hypothesis == Hypothesis::norm)};
    case Hypothesis::no_scale:
      return {with_scale(inputs, 1)};
    case Hypothesis::no_decay:
    case Hypothesis::no_beta:
      return {with_neutral(inputs, hypothesis == Hypothesis::no_decay)};
    case Hypothesis::final_state_transposed:
      return {inputs};
    case Hypothesis::read_before_update:
      return {with_split_tokens(inputs, true), 2, 0};
    case Hypothesis::decay_after_update:
      return {with_split_tokens(inputs, false), 2, 1};
    case Hypothesis::read_before_decay:
      break;
  }
  // Output t is what the state of token t - 1 gives to query t: let token t - 1 ask it.
  Supposed supposed{with_split_tokens(inputs, true), 2, 0};
  std::vector<float>& log_decay = supposed.inputs["log_decay"];
  for (std::size_t i = 0; i < log_decay.size(); ++i) {
    // The decay moves from the first half of a token to its second.
    const auto heads = static_cast<std::size_t>(inputs.problem.num_value_heads);
    if (i / heads % 2 == 0) std::swap(log_decay[i], log_decay[i + heads]);
  }
  return supposed;
}

// The head's matrix [rows, columns], in the other memory order.
void transpose_states(const Case& inputs, const std::vector<reference::SequenceHead>& pairs,
                      bool from_vk, std::vector<double>& pool) {
  const Problem& p = inputs.problem;
  const std::int64_t rows = from_vk ? p.value_head_dim : p.key_head_dim;
  const std::int64_t columns = p.key_head_dim * p.value_head_dim / rows;
  const Operand& state = p.operation->at("initial_state");
  for (const reference::SequenceHead& pair : pairs) {
    if (inputs.slot(pair.sequence) < 0) continue;
    std::vector<std::size_t> places;
    strips_of(state, inputs, {pair.sequence, pair.value_head}).for_each([&](std::int64_t at) {
      places.push_back(static_cast<std::size_t>(at));
    });
    std::vector<double> matrix;
    for (const std::size_t place : places) matrix.push_back(pool[place]);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        pool[places[static_cast<std::size_t>(j * rows + i)]] =
            matrix[static_cast<std::size_t>(i * columns + j)];
      }
    }
  }
}

}  // namespace

const std::vector<Hypothesis>& all_hypotheses() {
  static const std::vector<Hypothesis> all = {Hypothesis::decay_after_update,
                                              Hypothesis::read_before_update,
                                              Hypothesis::read_before_decay,
                                              Hypothesis::no_correction,
                                              Hypothesis::no_decay,
                                              Hypothesis::no_beta,
                                              Hypothesis::tiled_heads,
                                              Hypothesis::no_scale,
                                              Hypothesis::no_norm,
                                              Hypothesis::norm,
                                              Hypothesis::initial_state_zero,
                                              Hypothesis::initial_state_transposed,
                                              Hypothesis::final_state_transposed};
  return all;
}

std::string to_string(Hypothesis hypothesis) {
  switch (hypothesis) {
    case Hypothesis::tiled_heads:
      return "key head h % Hk for value head h";
    case Hypothesis::initial_state_transposed:
      return "the initial state read in the other memory order";
    case Hypothesis::initial_state_zero:
      return "an initial state that is not read";
    case Hypothesis::final_state_transposed:
      return "the final state written in the other memory order";
    case Hypothesis::no_correction:
      return "an update without the delta term";
    case Hypothesis::no_norm:
      return "queries and keys that are not normalised";
    case Hypothesis::norm:
      return "queries and keys that are normalised unasked";
    case Hypothesis::no_scale:
      return "queries that are not scaled";
    case Hypothesis::no_decay:
      return "gates that are not read";
    case Hypothesis::no_beta:
      return "betas that are not read";
    case Hypothesis::read_before_update:
      return "outputs read before the update";
    case Hypothesis::read_before_decay:
      return "outputs read from the state of the token before";
    case Hypothesis::decay_after_update:
      return "the decay after the update";
  }
  return "?";
}

bool has_hypotheses(const Problem& problem) { return is_plain(problem); }

std::string why_not_posed(Hypothesis hypothesis, const Problem& p) {
  const bool no_initial_state = p.initial_state == InitialState::absent;
  const bool vectors = p.key_head_dim == 1 || p.value_head_dim == 1;
  switch (hypothesis) {
    case Hypothesis::tiled_heads:
      if (p.num_key_heads == 1) return "there is one key head";
      return p.num_key_heads == p.num_value_heads ? "there are as many key heads as value heads"
                                                  : "";
    case Hypothesis::initial_state_transposed:
      if (vectors) return "a state is a vector";
      [[fallthrough]];
    case Hypothesis::initial_state_zero:
      return no_initial_state ? "there is no initial state" : "";
    case Hypothesis::final_state_transposed:
      if (vectors) return "a state is a vector";
      return p.final_state ? "" : "no final state is written";
    case Hypothesis::no_norm:
      return p.normalize_qk ? "" : "no norm is asked for";
    case Hypothesis::norm:
      return p.normalize_qk ? "a norm is asked for" : "";
    case Hypothesis::no_scale:
      return p.effective_scale() == 1 ? "the scale is 1" : "";
    default:
      return "";
  }
}

Arrays<double> supposed_outputs(Hypothesis hypothesis, const Case& inputs,
                                const reference::EvaluationOptions& options) {
  const Problem& p = inputs.problem;
  const Supposed supposed = suppose(hypothesis, inputs);
  Arrays<double> wide = reference::evaluate<double>(supposed.inputs, options);
  const bool is_vk = p.state_layout == StateLayout::vk;
  if (p.final_state && hypothesis == Hypothesis::initial_state_transposed) {
    transpose_states(inputs, reference::pairs_of(p, options), !is_vk, wide["final_state"]);
  }
  if (hypothesis == Hypothesis::final_state_transposed) {
    transpose_states(inputs, reference::pairs_of(p, options), is_vk, wide["final_state"]);
  }
  if (supposed.tokens_per_token == 1) return wide;
  const std::int64_t token = p.num_value_heads * p.value_head_dim;
  std::vector<double> output;
  for (std::int64_t t = 0; t < p.total_tokens(); ++t) {
    const auto from =
        wide["output"].begin() + (t * supposed.tokens_per_token + supposed.offset) * token;
    output.insert(output.end(), from, from + token);
  }
  wide["output"] = std::move(output);
  return wide;
}

bool agrees(Hypothesis hypothesis, const CheckedReference& reference, const Outputs& outputs,
            const std::vector<reference::SequenceHead>& pairs, double limit) {
  const Case& inputs = reference.inputs();
  const Problem& p = inputs.problem;
  if (!is_plain(p) || !why_not_posed(hypothesis, p).empty() || pairs.empty()) return false;
  reference::EvaluationOptions options;
  options.pairs = pairs;
  const auto wide = supposed_outputs(hypothesis, inputs, options);
  for (const reference::SequenceHead& pair : pairs) {
    double error = 0;
    double size = 0;
    for (std::int64_t t = inputs.first_token(pair.sequence);
         t < inputs.first_token(pair.sequence + 1); ++t) {
      for (std::int64_t j = 0; j < p.value_head_dim; ++j) {
        const auto at = static_cast<std::size_t>(
            (t * p.num_value_heads + pair.value_head) * p.value_head_dim + j);
        const double expected = wide["output"][at];
        const double actual = static_cast<double>(outputs["output"][at]);
        error += (actual - expected) * (actual - expected);
        size += expected * expected;
      }
    }
    if (!(std::sqrt(error) <= limit * std::sqrt(size))) return false;
  }
  return true;
}

}  // namespace gdn
