// The stages of gated_delta on their own, of every implementation, through inputs that leave
// nothing else to see: the decay, beta, the normalisation of keys and queries, and the transition
// over whole chunks, against float64 values made here from their definitions.
#include <cmath>

#include "harness/operations/generate_case.h"
#include "harness/run/execute.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"
#include "reference/errors.h"
#include "reference/reference.h"
#include "tests/implementation_fixture.h"

namespace gdn {
namespace {

constexpr double kUnitRoundoff = 0x1p-24;

class GatedDeltaStages : public ImplementationTest {
 protected:
  Case make(const std::string& text) const { return generate_case(Problem::parse(text)); }
  bool supported(const Case& inputs) const { return implementation().supports(inputs.problem).ok; }
  /// Sequences of one token: each another gate, beta, key and query.
  std::int64_t single_tokens() const { return emulated() ? 10 : 40; }
  std::string single_token_sequences() const {
    return "seq=" + std::to_string(single_tokens()) + "x1";
  }
};

// Element (i, j) of head h of sequence n's state in a pool of identity slots, layout kv.
float state_element(const Problem& p, const std::vector<float>& pool, std::int64_t n,
                    std::int64_t h, std::int64_t i, std::int64_t j) {
  const std::int64_t at =
      n * p.state_row_stride() + (h * p.key_head_dim + i) * p.value_head_dim + j;
  return pool[static_cast<std::size_t>(at)];
}

// beta = 0 and one token: the final state is exp(g) times the initial one.
TEST_P(GatedDeltaStages, DecayAlone) {
  bool any = false;
  for (const char* gates :
       {"gates=far,gate=logits", "gates=far", "gates=real,gate=logits", "gates=strong,gate=decay",
        "gates=-20..0,gate=neg_log_decay", "gates=tiny", "gates=reset", "gates=near_one",
        "gates=bounded,gate=bounded", "gates=near_one,gate=bounded,bound=0.1"}) {
    const Case inputs = make("gated_delta:heads=5/5,dim=64,dtype=f32,betas=zero,h0=normal," +
                             single_token_sequences() + "," + gates);
    const Problem& p = inputs.problem;
    if (!supported(inputs)) continue;
    any = true;
    const auto decoded = reference::decode_gates<double>(inputs).log_decay;
    const Outputs outputs = execute(implementation(), inputs, device());
    for (std::int64_t n = 0; n < single_tokens(); ++n) {
      for (std::int64_t h = 0; h < 5; ++h) {
        const double g = decoded[static_cast<std::size_t>(n * 5 + h)];
        const double before = state_element(p, inputs["initial_state"], n, h, 3, 7);
        const double after = state_element(p, outputs["final_state"], n, h, 3, 7);
        const double expected = std::isinf(g) ? 0 : std::exp(g) * before;
        // g is rounded a few times on its way from logits; below float32's range all is zero.
        const double bound = (8 + 8 * std::min(std::fabs(g), 104.0)) * kUnitRoundoff;
        EXPECT_TRUE(std::fabs(after - expected) <= bound * std::fabs(expected) + 0x1p-126)
            << p.to_string() << ", sequence " << n << ", head " << h << ", g " << g << ": " << after
            << ", expected " << expected;
      }
    }
  }
  if (!any) GTEST_SKIP() << "float32 tokens are not supported";
}

// One token from a state of zeros: the final state is beta k v^T, an entry a product of three.
TEST_P(GatedDeltaStages, BetaAndKeyNormAlone) {
  bool any = false;
  for (const char* options :
       {"beta=logit", "beta=logit2", "betas=wide,beta=logit2", "betas=mixture",
        "betas=0.1..0.9,beta=logit", "betas=one,norm=1,keys=lengths",
        "betas=one,norm=1,keys=unnormalised", "betas=one,norm=1,keys=zero"}) {
    Case inputs = make("gated_delta:heads=2/2,dim=64,dtype=f32,gates=none," +
                       single_token_sequences() + "," + options);
    const Problem& p = inputs.problem;
    if (!supported(inputs)) continue;
    any = true;
    if (p.normalize_qk) {  // every fifth key so short that the 1e-6 under the root shows
      for (std::size_t i = 0; i < inputs["k"].size(); ++i) {
        if (i / 128 % 5 == 4) inputs["k"][i] *= 1e-3f;
      }
    }
    const auto beta = reference::decode_gates<double>(inputs).beta;
    const Outputs outputs = execute(implementation(), inputs, device());
    for (std::int64_t row = 0; row < 2 * single_tokens(); ++row) {  // token and head
      const std::int64_t n = row / 2, h = row % 2;
      double squares = 0;
      for (std::int64_t i = 0; i < 64; ++i) {
        const double k = inputs["k"][static_cast<std::size_t>(row * 64 + i)];
        squares += k * k;
      }
      const double length = p.normalize_qk ? std::sqrt(squares + 1e-6) : 1;
      for (const std::int64_t i : {0, 17, 63}) {
        const double k = inputs["k"][static_cast<std::size_t>(row * 64 + i)] / length;
        const double v = inputs["v"][static_cast<std::size_t>(row * 64 + 5)];
        const double expected = beta[static_cast<std::size_t>(row)] * k * v;
        const double got = state_element(p, outputs["final_state"], n, h, i, 5);
        EXPECT_TRUE(std::fabs(got - expected) <= 16 * kUnitRoundoff * std::fabs(expected) + 1e-37)
            << p.to_string() << ", sequence " << n << ", head " << h << ", element " << i << ": "
            << got << ", expected " << expected;
      }
    }
  }
  if (!any) GTEST_SKIP() << "float32 tokens are not supported";
}

// beta = 0 and no decay: outputs are scale S^T q of the initial state, with q of unit length.
TEST_P(GatedDeltaStages, QueryNormAlone) {
  Case inputs =
      make("gated_delta:heads=2/2,dim=64,dtype=f32,gates=none,betas=zero,h0=normal,norm=1," +
           single_token_sequences());
  const Problem& p = inputs.problem;
  if (!supported(inputs)) GTEST_SKIP() << "float32 tokens are not supported";
  for (std::size_t i = 0; i < inputs["q"].size(); ++i) {
    inputs["q"][i] *= i / 128 % 5 == 4 ? 1e-3f : 3.0f;
  }
  const Outputs outputs = execute(implementation(), inputs, device());
  for (std::int64_t row = 0; row < 2 * single_tokens(); ++row) {
    double squares = 0;
    for (std::int64_t i = 0; i < 64; ++i) {
      const double q = inputs["q"][static_cast<std::size_t>(row * 64 + i)];
      squares += q * q;
    }
    double error = 0, norm = 0;
    for (std::int64_t j = 0; j < 64; ++j) {
      double expected = 0;
      for (std::int64_t i = 0; i < 64; ++i) {
        expected += state_element(p, inputs["initial_state"], row / 2, row % 2, i, j) *
                    static_cast<double>(inputs["q"][static_cast<std::size_t>(row * 64 + i)]);
      }
      expected *= p.effective_scale() / std::sqrt(squares + 1e-6);
      const double got = outputs["output"][static_cast<std::size_t>(row * 64 + j)];
      error += (got - expected) * (got - expected);
      norm += expected * expected;
    }
    EXPECT_TRUE(std::sqrt(error) <= 16 * kUnitRoundoff * std::sqrt(norm))
        << p.to_string() << ", token and head " << row << ": " << std::sqrt(error / norm);
  }
}

using Dense = std::vector<double>;  // row-major D x D

Dense product(const Dense& a, const Dense& b, std::int64_t D) {
  Dense c(a.size(), 0);
  for (std::int64_t i = 0; i < D; ++i) {
    for (std::int64_t k = 0; k < D; ++k) {
      for (std::int64_t j = 0; j < D; ++j) c[i * D + j] += a[i * D + k] * b[k * D + j];
    }
  }
  return c;
}

// exp(g_t) (I - beta_t k_t k_t^T), multiplied up pair by pair: not in the order of the recurrence.
Dense product_of_transitions(const Case& inputs, std::int64_t first, std::int64_t last) {
  const std::int64_t D = inputs.problem.key_head_dim;
  if (last - first > 1) {
    const std::int64_t middle = (first + last) / 2;
    return product(product_of_transitions(inputs, middle, last),
                   product_of_transitions(inputs, first, middle), D);
  }
  const double decay = std::exp(static_cast<double>(inputs[gate_name(inputs.problem)][first]));
  const double beta = inputs[beta_name(inputs.problem)][first];
  const float* k = inputs["k"].data() + first * D;
  Dense transition(static_cast<std::size_t>(D * D));
  for (std::int64_t i = 0; i < D; ++i) {
    for (std::int64_t j = 0; j < D; ++j) {
      const double identity = i == j ? 1 : 0;
      transition[i * D + j] =
          decay * (identity - beta * static_cast<double>(k[i]) * static_cast<double>(k[j]));
    }
  }
  return transition;
}

// Values of zero, from the identity: the final state is the product of the tokens' transitions.
TEST_P(GatedDeltaStages, ChunkTransitionIsTheProductOfTokenTransitions) {
  bool any = false;
  for (const char* options :
       {"seq=64,gates=mid", "seq=130,gates=mid", "seq=63,gates=none",
        "seq=65,gates=weak,betas=wide", "seq=64,gates=near_one,keys=correlated",
        "seq=128,gates=none,betas=two"}) {
    Case inputs = make("gated_delta:heads=1/1,dim=64,h0=normal,dtype=f32," + std::string(options));
    const Problem& p = inputs.problem;
    if (!supported(inputs)) continue;
    any = true;
    std::fill(inputs["v"].begin(), inputs["v"].end(), 0.0f);
    std::fill(inputs["initial_state"].begin(), inputs["initial_state"].end(), 0.0f);
    for (std::int64_t i = 0; i < 64; ++i)
      inputs["initial_state"][static_cast<std::size_t>(i * 65)] = 1;
    const Outputs outputs = execute(implementation(), inputs, device());
    const Dense expected = product_of_transitions(inputs, 0, p.total_tokens());
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double difference = static_cast<double>(outputs["final_state"][i]) - expected[i];
      error += difference * difference;
      norm += expected[i] * expected[i];
    }
    const double limit = 2 * reference::error_limits(p).at("final_state").relative_l2;
    EXPECT_TRUE(std::sqrt(error / norm) <= limit)
        << p.to_string() << ": " << std::sqrt(error / norm) << ", limit " << limit;
  }
  if (!any) GTEST_SKIP() << "float32 tokens are not supported";
}

GDN_INSTANTIATE_FOR(GatedDeltaStages, gated_delta_operation());

}  // namespace
}  // namespace gdn
