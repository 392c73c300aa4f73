// What the gates and betas of a call are known to be where the kernels that read them are compiled.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/element.cuh"
#include "cuda/gates.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {

/// What gates and betas are known to be where a kernel is compiled. Kernels whose time is that of the warp
/// that reads gates are compiled apart for each: code that is never run costs them, too.
enum class GateForm {
  as_they_are,     ///< log decays and betas, float32
  float32_logits,  ///< logits of both, with rates and biases, float32
  token_logits,    ///< the same in the tokens' type, in pairs, with rates and biases in float32
  token_decays,    ///< log decays and betas, one or both in the tokens' type and in pairs
  any,
};
/// Whether numbers of 16 bits lie in pairs.
constexpr bool in_pairs(GateForm form) {
  return form == GateForm::token_logits || form == GateForm::token_decays;
}
/// Whether value heads 2 i and 2 i + 1 of a token share an aligned word of four bytes.
inline bool lies_in_pairs(const NumberArray& numbers, std::int64_t heads) {
  return numbers.inner_stride == 1 && numbers.stride % 2 == 0 && heads % 2 == 0 &&
         reinterpret_cast<std::uintptr_t>(numbers.data) % 4 == 0;
}
inline GateForm gate_form(const GateParams& p, DType token_dtype) {
  const auto both_are = [&](DType type) { return p.gate.type == type && p.beta.type == type; };
  const auto of_tokens = [&](const NumberArray& numbers) {
    return numbers.type == token_dtype && lies_in_pairs(numbers, p.num_value_heads);
  };
  if (p.gate_encoding == GateEncoding::log_decay && p.beta_encoding == BetaEncoding::beta) {
    if (both_are(DType::float32)) return GateForm::as_they_are;
    const auto is_known = [&](const NumberArray& numbers) {
      return numbers.type == DType::float32 || of_tokens(numbers);
    };
    return is_known(p.gate) && is_known(p.beta) ? GateForm::token_decays : GateForm::any;
  }
  if (p.gate_encoding != GateEncoding::logits || p.beta_encoding != BetaEncoding::logit ||
      p.A_log.type != DType::float32 || p.dt_bias.type != DType::float32)
    return GateForm::any;
  if (both_are(DType::float32)) return GateForm::float32_logits;
  return of_tokens(p.gate) && of_tokens(p.beta) ? GateForm::token_logits : GateForm::any;
}
/// visit(form) with the form as a constant.
template <typename Visit>
void with_gate_form(GateForm form, Visit visit) {
  switch (form) {
    case GateForm::as_they_are:
      return visit(std::integral_constant<GateForm, GateForm::as_they_are>{});
    case GateForm::float32_logits:
      return visit(std::integral_constant<GateForm, GateForm::float32_logits>{});
    case GateForm::token_logits:
      return visit(std::integral_constant<GateForm, GateForm::token_logits>{});
    case GateForm::token_decays:
      return visit(std::integral_constant<GateForm, GateForm::token_decays>{});
    case GateForm::any:
      return visit(std::integral_constant<GateForm, GateForm::any>{});
  }
}
/// The same gates, in which the compiler sees what Form says of them.
template <GateForm Form, typename Token>
__device__ __forceinline__ GateParams known_gates(GateParams p) {
  if constexpr (Form == GateForm::as_they_are) {
    p.gate_encoding = GateEncoding::log_decay;
    p.beta_encoding = BetaEncoding::beta;
    p.gate.type = p.beta.type = DType::float32;
  } else if constexpr (Form == GateForm::token_decays) {
    p.gate_encoding = GateEncoding::log_decay;
    p.beta_encoding = BetaEncoding::beta;
    if (p.gate.type != DType::float32) p.gate.type = kDType<Token>;
    if (p.beta.type != DType::float32) p.beta.type = kDType<Token>;
  } else if constexpr (Form != GateForm::any) {
    p.gate_encoding = GateEncoding::logits;
    p.beta_encoding = BetaEncoding::logit;
    p.A_log.type = p.dt_bias.type = DType::float32;
    p.gate.type = p.beta.type = Form == GateForm::float32_logits ? DType::float32 : kDType<Token>;
  }
  return p;
}

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
