#include "interface/operations/recurrence_operands.h"

#include <algorithm>
#include <utility>

#include "interface/case.h"
#include "interface/error.h"
#include "interface/gate_encoding_table.h"
#include "interface/index_array.h"
#include "interface/operations/dimensions.h"
#include "interface/parse_number.h"

namespace gdn {
namespace {

using Dimensions = std::vector<Dimension>;

Dimensions gate_shape(const Problem& p) {
  if (p.decay == DecayPer::head) return {dimension::T, dimension::Hv};
  return {dimension::T, dimension::Hv, dimension::Dk};
}

Dimensions dt_bias_shape(const Problem& p) {
  if (p.decay == DecayPer::head) return {dimension::Hv};
  return {dimension::Hv, dimension::Dk};
}

Dimensions beta_shape(const Problem& p) {
  if (p.steps == 1) return {dimension::T, dimension::Hv};
  return {dimension::T, dimension::steps, dimension::Hv};
}

Dimensions state_shape(const Problem& p) {
  if (p.state_layout == StateLayout::kv) {
    return {dimension::slots, dimension::Hv, dimension::Dk, dimension::Dv};
  }
  return {dimension::slots, dimension::Hv, dimension::Dv, dimension::Dk};
}

bool holds_logits(GateEncoding encoding) { return entry_of(encoding).has_rate_and_bias; }
bool holds_logits(BetaEncoding encoding) { return encoding != BetaEncoding::beta; }

template <auto encoding>
DType gate_dtype(const Problem& p) {
  const bool narrow = holds_logits(encoding) && p.logit_type == LogitType::token;
  return narrow ? p.token_dtype : DType::float32;
}

template <GateEncoding encoding>
Operand gate_operand() {
  return {.name = entry_of(encoding).operand,
          .shape = gate_shape,
          .dtype = gate_dtype<encoding>,
          .present = [](const Problem& p) { return p.gate_encoding == encoding; },
          .takes_token_stride = true,
          .may_have_form = true,
          .in_file = {.alternatives = "gate",
                      .infer_presence =
                          [](Problem& p, bool present) {
                            if (present) p.gate_encoding = encoding;
                          }},
          .rule = entry_of(encoding).rule};
}

template <BetaEncoding encoding>
Operand beta_operand() {
  return {.name = entry_of(encoding).operand,
          .shape = beta_shape,
          .dtype = gate_dtype<encoding>,
          .present = [](const Problem& p) { return p.beta_encoding == encoding; },
          .takes_token_stride = true,
          .may_have_form = true,
          .in_file = {.alternatives = "beta",
                      .infer_presence =
                          [](Problem& p, bool present) {
                            if (present) p.beta_encoding = encoding;
                          }},
          .rule = entry_of(encoding).rule};
}

template <std::size_t... at>
void append_gates(std::vector<Operand>& operands, std::index_sequence<at...>) {
  (operands.push_back(gate_operand<kGateEncodings[at].encoding>()), ...);
}

template <std::size_t... at>
void append_betas(std::vector<Operand>& operands, std::index_sequence<at...>) {
  (operands.push_back(beta_operand<kBetaEncodings[at].encoding>()), ...);
}

bool has_rate_and_bias(const Problem& p) { return entry_of(p.gate_encoding).has_rate_and_bias; }

}  // namespace

std::vector<Operand> gate_operands() {
  std::vector<Operand> operands;
  append_gates(operands, std::make_index_sequence<kGateEncodings.size()>());
  operands.push_back({.name = "A_log",
                      .shape = [](const Problem&) { return Dimensions{dimension::Hv}; },
                      .dtype = element_type::float32,
                      .present = has_rate_and_bias,
                      .may_have_form = true});
  operands.push_back({.name = "dt_bias",
                      .shape = dt_bias_shape,
                      .dtype = element_type::float32,
                      .present = has_rate_and_bias,
                      .may_have_form = true});
  append_betas(operands, std::make_index_sequence<kBetaEncodings.size()>());
  return operands;
}

Operand state_operand() {
  return {
      .name = "initial_state",
      .role = Role::in_place,
      .shape = state_shape,
      .dtype = element_type::state,
      .in_place = {.name_after = "final_state",
                   .read = [](const Problem& p) { return p.initial_state != InitialState::absent; },
                   .written = [](const Problem& p) { return p.final_state; },
                   .make_written = [](Problem& p) { p.final_state = true; }},
      .pool = {.row_padding = [](const Problem& p) { return p.pool_row_padding; }},
      .judging = {.per = JudgedPer::head},
      .in_file = {.when_absent = WhenAbsent::unread,
                  .infer_presence = [](Problem& p, bool present) {
                    p.initial_state = present ? InitialState::normal : InitialState::absent;
                  }}};
}

Operand rounding_seed_operand() {
  return {.name = kRoundingSeed,
          .shape = [](const Problem&) { return Dimensions{dimension::N}; },
          .present = [](const Problem& p) { return p.state_rounding == StateRounding::stochastic; },
          .in_file = {.infer_presence =
                          [](Problem& p, bool present) {
                            p.state_rounding =
                                present ? StateRounding::stochastic : StateRounding::nearest;
                          }},
          .index_rule = {[](const Case&, std::int64_t, std::int64_t value) { return value >= 0; },
                         "0 or more"}};
}

void fit_rounding_seeds(const Case& whole, const std::vector<PartOfSequence>& parts, Case& part) {
  if (whole.problem.state_rounding != StateRounding::stochastic) return;
  constexpr std::int64_t kApart = 0x9e3779b1;  // an odd number: seeds of parts are not neighbours
  for (std::size_t n = 0; n < parts.size(); ++n) {
    const std::int64_t before =
        std::max<std::int64_t>(0, parts[n].first_token - whole.first_token(parts[n].sequence));
    std::int64_t& seed = part.other_indices[kRoundingSeed][n];
    seed = (seed + before * kApart) & kLargestIndex;
  }
}

void validate_state_rounding(const Problem& p) {
  if (p.state_rounding == StateRounding::nearest) return;
  if (p.state_dtype == DType::float32) {
    throw_bad_input("problem: state_rounding=stochastic needs state=bf16 or state=f16");
  }
  if (!p.final_state) {
    throw_bad_input(
        "problem: state_rounding=stochastic needs ht=1: no final state is written otherwise");
  }
}

Operand recurrence_output_operand() {
  return {.name = "output",
          .role = Role::output,
          .shape =
              [](const Problem&) {
                return Dimensions{dimension::T, dimension::Hv, dimension::Dv};
              },
          .dtype = element_type::output,
          .judging = {.per = JudgedPer::head}};
}

std::vector<std::string> recurrence_fields() {
  return {"slots",     "out",  "state",  "layout", "h0",    "ht",    "pool_pad",
          "pool_rows", "norm", "scale",  "update", "steps", "decay", "gate",
          "bound",     "beta", "logits", "gates",  "betas", "keys",  "magnitudes"};
}

HonouredFields recurrence_options() {
  return {"slots",     "out",  "state", "layout", "h0",    "ht",  "pool_pad",
          "pool_rows", "norm", "scale", "gate",   "bound", "beta"};
}

HonouredFields recurrence_variants() { return {"update", "steps", "decay"}; }

void validate_recurrence(const Problem& p) {
  const bool may_pass_one = p.betas == BetaDistribution::two || p.betas == BetaDistribution::wide ||
                            p.betas == BetaDistribution::mixture || p.beta_range.high > 1;
  if (p.gate_encoding != GateEncoding::bounded && p.decay_bound != Problem().decay_bound) {
    throw_bad_input("problem: bound=" + shortest_text(p.decay_bound) +
                    " needs gate=bounded, the one encoding that has a bound");
  }
  const auto drawn = [&](auto... distribution) { return ((p.gates == distribution) || ...); };
  using Gates = GateDistribution;
  const bool may_pass_bound =
      drawn(Gates::reset, Gates::edges, Gates::tiny, Gates::step, Gates::mixture, Gates::far) ||
      (p.gates == Gates::uniform && p.gate_range.low < -p.decay_bound);
  if (p.gate_encoding == GateEncoding::bounded && may_pass_bound) {
    throw_bad_input(
        "problem: gate=bounded cannot hold log decays below -bound: gates=reset, edges, "
        "tiny, step, mixture, far or a range beyond -" +
        shortest_text(p.decay_bound));
  }
  const bool has_logits = holds_logits(p.gate_encoding) || holds_logits(p.beta_encoding);
  if (p.logit_type == LogitType::token && !has_logits) {
    throw_bad_input(
        "problem: logits=token needs logits: gate=logits, gate=bounded, beta=logit or beta=logit2");
  }
  const BetaEncodingEntry& beta = entry_of(p.beta_encoding);
  if (beta.most <= 1 && may_pass_one) {
    throw_bad_input("problem: beta=" + std::string(beta.name) +
                    " cannot hold values above 1: betas=two, wide, mixture or "
                    "a range beyond 1");
  }
}

const char* gate_name(const Problem& problem) { return entry_of(problem.gate_encoding).operand; }

const char* beta_name(const Problem& problem) { return entry_of(problem.beta_encoding).operand; }

}  // namespace gdn
