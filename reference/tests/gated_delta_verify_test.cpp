// The reference of gated_delta_verify (contract 1.6) against that of gated_delta on cases cut here: the
// output is that of all draft tokens, the state that of the accepted ones; and one draft by hand.
#include "interface/operations/gated_delta_verify.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/operations/generate_case.h"
#include "reference/reference.h"

namespace gdn::reference::testing {
namespace {

using Tokens = std::vector<std::int64_t>;

// One sequence of a draft, its first tokens, as a case of gated_delta: gates as log_decay, slots
// identity.
Case first_tokens_of(const Case& draft, std::int64_t sequence, std::int64_t count) {
  const Problem& p = draft.problem;
  Case c;
  c.problem =
      Problem::parse("gated_delta:heads=" + std::to_string(p.num_key_heads) + "/" +
                     std::to_string(p.num_value_heads) + ",dim=" + std::to_string(p.key_head_dim) +
                     "x" + std::to_string(p.value_head_dim) + ",seq=" + std::to_string(count) +
                     ",dtype=f32,h0=normal,steps=" + std::to_string(p.steps));
  c.sequence_offsets = {0, count};
  const auto take = [&](const char* name, std::int64_t width) {
    const auto begin = draft[name].begin() + draft.first_token(sequence) * width;
    c[name].assign(begin, begin + count * width);
  };
  take("q", p.num_key_heads * p.key_head_dim);
  take("k", p.keys_per_token());
  take("v", p.values_per_token());
  take("log_decay", p.gates_per_token());
  take("beta", p.betas_per_token());
  const auto row = draft["initial_state"].begin() + draft.slot(sequence) * p.state_row_stride();
  c["initial_state"].assign(row, row + p.state_row_stride() - p.pool_row_padding);
  return c;
}

TEST(GatedDeltaVerifyReference, IsGatedDeltaOfTheDraftAndOfItsAcceptedTokens) {
  Case draft = generate_case(
      Problem::parse("gated_delta_verify:heads=2/4,dim=12x10,seq=5+4+0+7+3,dtype=f32,h0=normal,"
                     "gates=mid,slots=permuted,pool_pad=3,steps=2"));
  const Problem& p = draft.problem;
  const std::int64_t per_token = p.num_value_heads * p.value_head_dim;
  for (const Tokens& accepted :
       {Tokens{5, 4, 0, 7, 3}, Tokens{0, 0, 0, 0, 0}, Tokens{1, 3, 0, 6, 0}}) {
    draft.other_indices["accepted"] = accepted;
    const auto result = evaluate<double>(draft);
    for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
      SCOPED_TRACE("sequence " + std::to_string(n));
      const auto whole = evaluate<double>(first_tokens_of(draft, n, draft.length(n)));
      const auto output = result["output"].begin() + draft.first_token(n) * per_token;
      EXPECT_TRUE(std::equal(whole["output"].begin(), whole["output"].end(), output));
      const std::int64_t k = accepted[static_cast<std::size_t>(n)];
      const auto cut = evaluate<double>(first_tokens_of(draft, n, k));
      const auto row = result["final_state"].begin() + draft.slot(n) * p.state_row_stride();
      EXPECT_TRUE(std::equal(cut["final_state"].begin(), cut["final_state"].end(), row));
    }
  }
}

// One head of one element: S <- a S, S <- S + b k (v - S k), o = S q, by hand.
TEST(GatedDeltaVerifyReference, OfOneElementByHand) {
  Case draft = generate_case(
      Problem::parse("gated_delta_verify:heads=1/1,dim=1x1,seq=2,dtype=f32,h0=normal,scale=1,"
                     "gate=decay"));
  draft["q"] = {2, 3};
  draft["k"] = {1, 0.5};
  draft["v"] = {4, -2};
  draft["decay"] = {0.5, 0.25};
  draft["beta"] = {0.5, 1};
  draft["initial_state"] = {8};
  // S1 = 4 + 0.5 (4 - 4) = 4; S2 = 1 + 0.5 (-2 - 0.5) = -0.25.
  const std::vector<double> states = {8, 4, -0.25};
  for (std::int64_t k = 0; k <= 2; ++k) {
    draft.other_indices["accepted"] = {k};
    const auto result = evaluate<double>(draft);
    EXPECT_NEAR(result["output"][0], 8, 1e-15);
    EXPECT_NEAR(result["output"][1], -0.75, 1e-15);
    EXPECT_NEAR(result["final_state"][0], states[static_cast<std::size_t>(k)], 1e-15);
  }
}

}  // namespace
}  // namespace gdn::reference::testing
