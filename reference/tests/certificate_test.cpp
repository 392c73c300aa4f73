// The reference's own error, certified: float64 against the 64-bit mantissa of long double, on
// problems chosen to be ill-conditioned. Rounding errors of n tokens add up to about
// sqrt(n) 2^-53 (and at worst n 2^-53) of the state where nothing is forgotten: 4096 tokens, 7e-15
// to 4.5e-13. Every problem must stay below 1e-12, four orders under float32's roundoff of 6e-8.
#include <gtest/gtest.h>

#include <cstdio>

#include "harness/operations/generate_case.h"
#include "reference/tests/dense_formulation.h"

namespace gdn::reference::testing {
namespace {

constexpr double kCertifiedError = 1e-12;

class Certificate : public ::testing::TestWithParam<const char*> {};

TEST_P(Certificate, Float64IsWithin1e12OfLongDouble) {
  static_assert(std::numeric_limits<long double>::digits > std::numeric_limits<double>::digits);
  const Problem problem = Problem::parse(GetParam());
  const Case c = generate_case(problem);
  const auto wide = evaluate<long double>(c);
  const auto reference = evaluate<double>(c);
  const double output = relative_difference(reference["output"], wide["output"]);
  const double state = relative_difference(reference["final_state"], wide["final_state"]);
  std::printf("  %-90s output %.1e  state %.1e\n", GetParam(), output, state);
  EXPECT_TRUE(output <= kCertifiedError) << output;
  EXPECT_TRUE(state <= kCertifiedError) << state;
  // The certificate compares two computations, not one with itself.
  EXPECT_GT(output, 0.0);
}

INSTANTIATE_TEST_SUITE_P(
    IllConditioned, Certificate,
    ::testing::Values(
        "gated_delta:heads=1/1,dim=64x32,seq=1x4096,gates=none,betas=two,keys=equal",
        "gated_delta:heads=1/1,dim=64x32,seq=1x4096,gates=none,betas=two,keys=alternating",
        "gated_delta:heads=1/1,dim=64x32,seq=1x4096,gates=none,betas=two,keys=correlated",
        "gated_delta:heads=1/1,dim=64x32,seq=1x4096,gates=none,betas=two",
        "gated_delta:heads=1/1,dim=64x32,seq=1x4096,gates=none,betas=one,keys=equal,h0=large",
        "gated_delta:heads=1/1,dim=64x32,seq=1x4096,gates=near_one,betas=wide,keys=correlated,"
        "h0=large",
        "gated_delta:heads=1/1,dim=64x32,seq=1x4096,gates=near_one,betas=zero,h0=large",
        "gated_delta:heads=1/1,dim=64x32,seq=1x1024,gates=reset,betas=two,keys=equal,h0=large",
        "gated_delta:heads=1/1,dim=64x32,seq=1x1024,gates=tiny,betas=two,keys=zero,gate=logits",
        "gated_delta:heads=1/1,dim=64x32,seq=1x1024,gates=mid,keys=unnormalised,norm=1,betas=two",
        // Keys of length about 8 without normalisation: the state grows by up to 63 a token.
        "gated_delta:heads=1/1,dim=64x32,seq=1x48,gates=mid,keys=unnormalised",
        "gated_delta:heads=1/1,dim=64x32,seq=1x2048,gates=real,gate=logits,beta=logit",
        "gated_delta:heads=1/1,dim=64x32,seq=1x1024,gates=none,betas=two,keys=equal,steps=4",
        "gated_delta:heads=1/1,dim=64x32,seq=1x2048,gates=none,keys=equal,update=additive,h0=large",
        "gated_delta:heads=1/1,dim=64x32,seq=1x1024,gates=near_one,betas=wide,keys=correlated,"
        "decay=channel,h0=large",
        "gated_delta_layer:heads=1/2,dim=64x32,seq=1x1024,gates=real,gate=logits,beta=logit"),
    [](const auto& parameter) { return "Case" + std::to_string(parameter.index); });

}  // namespace
}  // namespace gdn::reference::testing
