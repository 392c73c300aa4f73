#include "harness/explain/fault_hypotheses.h"

#include <cmath>

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

Case without_norm(const Case& inputs) {
  Case c = inputs;
  c.problem.normalize_qk = false;
  return c;
}

// What the hypothesis makes of the case, and which of its tokens stands for token t of the case:
// t * tokens_per_token + offset.
struct Supposed {
  Case inputs;
  std::int64_t tokens_per_token = 1;
  std::int64_t offset = 0;
};

bool applies(Hypothesis hypothesis, const Problem& p) {
  switch (hypothesis) {
    case Hypothesis::tiled_heads:
      return p.num_key_heads > 1 && p.num_key_heads < p.num_value_heads;
    case Hypothesis::initial_state_transposed:
      return p.initial_state != InitialState::absent && p.key_head_dim == p.value_head_dim;
    case Hypothesis::initial_state_zero:
      return p.initial_state != InitialState::absent;
    case Hypothesis::no_norm:
      return p.normalize_qk;
    default:
      return true;
  }
}

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
      return {without_norm(inputs)};
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

}  // namespace

bool agrees(Hypothesis hypothesis, const CheckedReference& reference, const Outputs& outputs,
            const std::vector<reference::SequenceHead>& pairs, double limit) {
  const Case& inputs = reference.inputs();
  const Problem& p = inputs.problem;
  if (!is_plain(p) || !applies(hypothesis, p) || pairs.empty()) return false;
  const Supposed supposed = suppose(hypothesis, inputs);
  reference::EvaluationOptions options;
  options.pairs = pairs;
  const auto wide = reference::evaluate<double>(supposed.inputs, options);
  for (const reference::SequenceHead& pair : pairs) {
    double error = 0;
    double size = 0;
    for (std::int64_t t = inputs.first_token(pair.sequence);
         t < inputs.first_token(pair.sequence + 1); ++t) {
      const std::int64_t their_token = t * supposed.tokens_per_token + supposed.offset;
      for (std::int64_t j = 0; j < p.value_head_dim; ++j) {
        const auto place = [&](std::int64_t token) {
          return static_cast<std::size_t>(
              (token * p.num_value_heads + pair.value_head) * p.value_head_dim + j);
        };
        const double expected = wide["output"][place(their_token)];
        const double actual = static_cast<double>(outputs["output"][place(t)]);
        error += (actual - expected) * (actual - expected);
        size += expected * expected;
      }
    }
    if (!(std::sqrt(error) <= limit * std::sqrt(size))) return false;
  }
  return true;
}

}  // namespace gdn
