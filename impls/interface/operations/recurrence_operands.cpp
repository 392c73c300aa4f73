#include "interface/operations/recurrence_operands.h"

#include <cmath>

#include "interface/error.h"
#include "interface/operations/dimensions.h"

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

template <GateEncoding encoding>
Operand gate_operand(const char* name, const ValueRule& rule) {
  return {.name = name,
          .shape = gate_shape,
          .dtype = element_type::float32,
          .present = [](const Problem& p) { return p.gate_encoding == encoding; },
          .takes_token_stride = true,
          .alternatives = "gate",
          .infer_presence =
              [](Problem& p, bool present) {
                if (present) p.gate_encoding = encoding;
              },
          .rule = rule};
}

template <BetaEncoding encoding>
Operand beta_operand(const char* name, const ValueRule& rule) {
  return {.name = name,
          .shape = beta_shape,
          .dtype = element_type::float32,
          .present = [](const Problem& p) { return p.beta_encoding == encoding; },
          .takes_token_stride = true,
          .alternatives = "beta",
          .infer_presence =
              [](Problem& p, bool present) {
                if (present) p.beta_encoding = encoding;
              },
          .rule = rule};
}

bool has_logits(const Problem& p) { return p.gate_encoding == GateEncoding::logits; }
bool is_finite(float x) { return std::isfinite(x); }

}  // namespace

std::vector<Operand> gate_operands() {
  return {
      gate_operand<GateEncoding::log_decay>(
          "log_decay",
          {[](float x) { return x <= 0.0f; }, "a log decay of at most 0 (-inf allowed)"}),
      gate_operand<GateEncoding::decay>(
          "decay", {[](float x) { return x >= 0.0f && x <= 1.0f; }, "a decay in 0..1"}),
      gate_operand<GateEncoding::neg_log_decay>(
          "neg_log_decay",
          {[](float x) { return x >= 0.0f; }, "a negated log decay of at least 0 (inf allowed)"}),
      gate_operand<GateEncoding::logits>("decay_logit", {is_finite, "a finite logit"}),
      {.name = "A_log",
       .shape = [](const Problem&) { return Dimensions{dimension::Hv}; },
       .dtype = element_type::float32,
       .present = has_logits},
      {.name = "dt_bias",
       .shape = dt_bias_shape,
       .dtype = element_type::float32,
       .present = has_logits},
      beta_operand<BetaEncoding::beta>("beta",
                                       {[](float x) { return x >= 0.0f && x <= 2.0f; }, "0..2"}),
      beta_operand<BetaEncoding::logit>("beta_logit", {nullptr, nullptr}),
  };
}

Operand state_operand() {
  return {.name = "initial_state",
          .role = Role::in_place,
          .shape = state_shape,
          .dtype = element_type::state,
          .judged_per = JudgedPer::head,
          .name_after = "final_state",
          .read = [](const Problem& p) { return p.initial_state != InitialState::absent; },
          .written = [](const Problem& p) { return p.final_state; },
          .make_written = [](Problem& p) { p.final_state = true; },
          .row_padding = [](const Problem& p) { return p.pool_row_padding; },
          .when_absent = WhenAbsent::unread,
          .infer_presence =
              [](Problem& p, bool present) {
                p.initial_state = present ? InitialState::normal : InitialState::absent;
              }};
}

Operand recurrence_output_operand() {
  return {.name = "output",
          .role = Role::output,
          .shape =
              [](const Problem&) {
                return Dimensions{dimension::T, dimension::Hv, dimension::Dv};
              },
          .dtype = element_type::output,
          .judged_per = JudgedPer::head};
}

std::vector<std::string> recurrence_fields() {
  return {"slots", "out",    "state", "layout", "h0",   "ht",   "pool_pad", "pool_rows", "norm",
          "scale", "update", "steps", "decay",  "gate", "beta", "gates",    "betas",     "keys"};
}

HonouredFields recurrence_options() {
  return {"slots",    "out",       "state", "layout", "h0",   "ht",
          "pool_pad", "pool_rows", "norm",  "scale",  "gate", "beta"};
}

HonouredFields recurrence_variants() { return {"update", "steps", "decay"}; }

void validate_recurrence(const Problem& p) {
  const bool may_pass_one = p.betas == BetaDistribution::two || p.betas == BetaDistribution::wide ||
                            p.betas == BetaDistribution::mixture || p.beta_range.high > 1;
  if (p.beta_encoding == BetaEncoding::logit && may_pass_one) {
    throw_bad_input(
        "problem: beta=logit cannot hold values above 1: betas=two, wide, mixture or "
        "a range beyond 1");
  }
}

const char* gate_name(const Problem& problem) {
  switch (problem.gate_encoding) {
    case GateEncoding::log_decay:
      return "log_decay";
    case GateEncoding::decay:
      return "decay";
    case GateEncoding::neg_log_decay:
      return "neg_log_decay";
    case GateEncoding::logits:
      return "decay_logit";
  }
  return "";
}

const char* beta_name(const Problem& problem) {
  return problem.beta_encoding == BetaEncoding::beta ? "beta" : "beta_logit";
}

}  // namespace gdn
