// What a convention cannot express of a problem, before any number is looked at.
#include <algorithm>
#include <cmath>

#include "harness/conventions/semantics.h"
#include "interface/error.h"
#include "interface/operations/causal_conv1d.h"
#include "interface/operations/convolution_operands.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::conventions {
namespace {

bool holds(const std::vector<DType>& dtypes, DType dtype) {
  return std::find(dtypes.begin(), dtypes.end(), dtype) != dtypes.end();
}

class Requirements {
 public:
  Requirements(const Convention& convention, const Problem& problem)
      : convention_(convention), p_(problem) {}

  void check() const {
    if (p_.operation == gated_delta_operation()) {
      check_batch(convention_.batch);
      check_slots(convention_.slots);
      check_dtypes(convention_.token_dtypes, convention_.state_dtypes);
      check_delta();
      check_fields(recurrence_options());
    } else if (p_.operation == causal_conv1d_operation()) {
      if (!convention_.convolution) fail("has no convolution; the case is one of causal_conv1d");
      const Convolution& conv = *convention_.convolution;
      check_batch(conv.batch);
      check_slots(conv.slots);
      check_dtypes(conv.token_dtypes, conv.state_dtypes);
      check_convolution(conv);
      check_fields(convolution_options() + HonouredFields{"channels"});
    } else {
      fail("describes gated_delta and causal_conv1d; the case is one of " +
           to_string(p_.operation) + " (--op gated_delta takes the recurrence out of a layer)");
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw_bad_input("convention " + convention_.name + " " + what);
  }
  void require(bool condition, const std::string& what) const {
    if (!condition) fail(what);
  }

  void check_batch(const Batch& batch) const {
    const auto& lengths = p_.sequences.lengths;
    const bool equal = std::all_of(lengths.begin(), lengths.end(),
                                   [&](std::int64_t length) { return length == lengths.front(); });
    if (batch.kind == BatchKind::equal_lengths) {
      require(equal, "has no sequence offsets: sequences of equal length are expected, not seq=" +
                         p_.sequences.to_string());
    }
    if (batch.kind == BatchKind::one_token) {
      require(equal && lengths.front() == 1,
              "takes one token per sequence, not seq=" + p_.sequences.to_string());
    }
  }

  void check_slots(const Slots& slots) const {
    if (slots.dataset.empty()) {
      require(p_.slots == SlotMap::identity,
              "has no slot index: sequence n owns row n of the state; the case has a slot_index");
      require(p_.num_pool_rows() == p_.num_sequences(),
              "has no slot index: the state has a row per sequence, " +
                  std::to_string(p_.num_sequences()) + ", the case's pool has " +
                  std::to_string(p_.num_pool_rows()));
    } else if (p_.slots == SlotMap::padding) {
      require(!slots.padding.empty(), "has no padding slot; the case has a slot_index of -1");
      require(holds(slots.padding, p_.state_dtype), "leaves outputs of slot -1 undefined with a " +
                                                        long_name(p_.state_dtype) +
                                                        " state; the case has a slot_index of -1");
    }
  }

  void check_dtypes(const std::vector<DType>& tokens, const std::vector<DType>& states) const {
    // float32 holds every 16-bit value.
    const auto fits = [](const std::vector<DType>& dtypes, DType dtype) {
      return holds(dtypes, dtype) || holds(dtypes, DType::float32);
    };
    const auto names = [](const std::vector<DType>& dtypes) {
      std::string text;
      for (const DType dtype : dtypes) text += (text.empty() ? "" : " or ") + long_name(dtype);
      return text;
    };
    require(fits(tokens, p_.token_dtype), "takes " + names(tokens) + " tokens, not " +
                                              long_name(p_.token_dtype) +
                                              " (make the case with another dtype=)");
    require(fits(states, p_.state_dtype),
            "takes " + names(states) + " states, not " + long_name(p_.state_dtype));
    const DType output = holds(tokens, p_.token_dtype) ? p_.token_dtype : DType::float32;
    require(!p_.output_dtype || *p_.output_dtype == output,
            "writes outputs in the token dtype; the case wants " +
                long_name(p_.effective_output_dtype()) + " from " + long_name(p_.token_dtype) +
                " tokens");
  }

  void check_delta() const {
    const Problem plain;
    require(p_.update == plain.update && p_.steps == plain.steps && p_.decay == plain.decay,
            "is that of the gated delta rule, one decay per head and one step per token; the case "
            "is a variant");
    require(!convention_.square_state || p_.key_head_dim == p_.value_head_dim,
            "has square states, Dk = Dv; the case has dim=" + std::to_string(p_.key_head_dim) +
                "x" + std::to_string(p_.value_head_dim));
    require(p_.final_state || convention_.final_state_optional,
            "always writes the final state; the case has final_state = 0");
    if (convention_.scale == ScaleRule::fixed && p_.scale) {
      const double ratio = *p_.scale * std::sqrt(static_cast<double>(p_.key_head_dim));
      require(std::abs(ratio - 1) <= unit_roundoff(DType::float32),
              "has the fixed scale 1/sqrt(Dk); the case has scale=" + std::to_string(*p_.scale));
    }
    if (convention_.scale == ScaleRule::argument_zero_is_default) {
      require(!p_.scale || *p_.scale != 0, "takes a scale of 0 for 1/sqrt(Dk); the case means 0");
    }
  }

  // What came to problems after the conventions were written down.
  void check_fields(const HonouredFields& known) const {
    const std::string field = first_not_honoured(p_, known);
    require(field.empty(), "says nothing of " + field);
  }

  void check_convolution(const Convolution& conv) const {
    require(!p_.conv_bias || !conv.bias.empty(), "has no convolution bias; the case has one");
    require(conv.activation != ActivationRule::silu || p_.activation == Activation::silu,
            "always applies SiLU after the convolution; the case has activation none");
    require(conv.activation != ActivationRule::none || p_.activation == Activation::none,
            "has no activation in its convolution; the case has SiLU");
  }

  const Convention& convention_;
  const Problem& p_;
};

}  // namespace

void require_expressible(const Convention& convention, const Problem& problem) {
  Requirements(convention, problem).check();
}

}  // namespace gdn::conventions
