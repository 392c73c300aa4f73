// What the host knows of each encoding of gates and betas: names, texts, which values are legal. A
// line of the table for each; problem strings, case files, operands, conventions of other systems and
// the steps of DeltaProduct read it. Their arithmetic is where gate_encoding.h says.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "interface/gate_encoding.h"
#include "interface/operation.h"

namespace gdn {

struct GateEncodingEntry {
  GateEncoding encoding;
  const char* name;     ///< in problem strings and attributes: gate=logits
  const char* operand;  ///< the array that holds it
  const char* meaning;  ///< in terms of alpha = exp(g)
  ValueRule rule;
  /// Whether A_log and dt_bias stand beside it.
  bool has_rate_and_bias;
  /// The value that means g = 0, whatever A_log and dt_bias are (bounded: for every A_log above -80).
  float no_decay;
  /// The value that means g, with A_log = dt_bias = 0 and Problem::decay_bound; NaN where none does.
  double (*encode)(double log_decay, double bound);
};

inline constexpr std::array<GateEncodingEntry, 5> kGateEncodings = {{
    {.encoding = GateEncoding::log_decay,
     .name = "log_decay",
     .operand = "log_decay",
     .meaning = "ln alpha",
     .rule = {[](float x) { return x <= 0.0f; }, "a log decay of at most 0 (-inf allowed)"},
     .has_rate_and_bias = false,
     .no_decay = 0.0f,
     .encode = [](double log_decay, double) { return log_decay; }},
    {.encoding = GateEncoding::decay,
     .name = "decay",
     .operand = "decay",
     .meaning = "alpha",
     .rule = {[](float x) { return x >= 0.0f && x <= 1.0f; }, "a decay in 0..1"},
     .has_rate_and_bias = false,
     .no_decay = 1.0f,
     .encode = [](double log_decay, double) { return std::exp(log_decay); }},
    {.encoding = GateEncoding::neg_log_decay,
     .name = "neg_log_decay",
     .operand = "neg_log_decay",
     .meaning = "-ln alpha",
     .rule = {[](float x) { return x >= 0.0f; }, "a negated log decay of at least 0 (inf allowed)"},
     .has_rate_and_bias = false,
     .no_decay = 0.0f,
     .encode = [](double log_decay, double) { return -log_decay; }},
    {.encoding = GateEncoding::logits,
     .name = "logits",
     .operand = "decay_logit",
     .meaning = "a, of -exp(A_log) softplus(a + dt_bias) = ln alpha",
     .rule = {[](float x) { return std::isfinite(x); }, "a finite logit"},
     .has_rate_and_bias = true,
     .no_decay = -1e30f,  // softplus is exactly zero there, whatever the bias
     // -g = softplus(a), a = ln(expm1(-g)): neither no decay nor a reset has a finite a.
     .encode =
         [](double log_decay, double) {
           if (!(log_decay < 0) || std::isinf(log_decay)) {
             return std::numeric_limits<double>::quiet_NaN();
           }
           return -log_decay + std::log(-std::expm1(log_decay));
         }},
    {.encoding = GateEncoding::bounded,
     .name = "bounded",
     .operand = "bounded_decay_logit",
     .meaning = "f, of -bound sigmoid(exp(A_log) (f + dt_bias)) = ln alpha",
     .rule = {[](float x) { return std::isfinite(x); }, "a finite logit"},
     .has_rate_and_bias = true,
     .no_decay = std::numeric_limits<float>::lowest(),
     // -g / bound = sigmoid(f): neither no decay nor the bound itself has a finite f.
     .encode =
         [](double log_decay, double bound) {
           if (!(log_decay < 0 && log_decay > -bound)) {
             return std::numeric_limits<double>::quiet_NaN();
           }
           return std::log(-log_decay) - std::log(bound + log_decay);
         }},
}};

struct BetaEncodingEntry {
  BetaEncoding encoding;
  const char* name;
  const char* operand;
  const char* meaning;
  ValueRule rule;
  double most;                    ///< the largest beta that it can say
  double (*encode)(double beta);  ///< NaN where no value means it
};

inline constexpr std::array<BetaEncodingEntry, 3> kBetaEncodings = {{
    {.encoding = BetaEncoding::beta,
     .name = "beta",
     .operand = "beta",
     .meaning = "beta",
     .rule = {[](float x) { return x >= 0.0f && x <= 2.0f; }, "0..2"},
     .most = 2,
     .encode = [](double beta) { return beta; }},
    {.encoding = BetaEncoding::logit,
     .name = "logit",
     .operand = "beta_logit",
     .meaning = "logit of beta",
     .rule = {},
     .most = 1,
     .encode =
         [](double beta) {
           if (!(beta > 0 && beta < 1)) return std::numeric_limits<double>::quiet_NaN();
           return std::log(beta) - std::log1p(-beta);
         }},
    {.encoding = BetaEncoding::logit2,
     .name = "logit2",
     .operand = "beta_logit2",
     .meaning = "logit of beta / 2",
     .rule = {},
     .most = 2,
     .encode =
         [](double beta) {
           if (!(beta > 0 && beta < 2)) return std::numeric_limits<double>::quiet_NaN();
           return std::log(beta) - std::log(2 - beta);
         }},
}};

namespace detail {

constexpr bool in_order_of_enumeration() {
  for (std::size_t i = 0; i < kGateEncodings.size(); ++i) {
    if (static_cast<std::size_t>(kGateEncodings[i].encoding) != i) return false;
  }
  for (std::size_t i = 0; i < kBetaEncodings.size(); ++i) {
    if (static_cast<std::size_t>(kBetaEncodings[i].encoding) != i) return false;
  }
  return true;
}
static_assert(in_order_of_enumeration(), "the tables are indexed by the enumerations");

}  // namespace detail

constexpr const GateEncodingEntry& entry_of(GateEncoding encoding) {
  return kGateEncodings[static_cast<std::size_t>(encoding)];
}
constexpr const BetaEncodingEntry& entry_of(BetaEncoding encoding) {
  return kBetaEncodings[static_cast<std::size_t>(encoding)];
}

}  // namespace gdn
