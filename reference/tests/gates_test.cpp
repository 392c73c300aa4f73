// Gates at the extremes: what gate_arithmetic.h defines.
#include <gtest/gtest.h>

#include <limits>

#include "interface/gate_arithmetic.h"

namespace gdn::gate_arithmetic {
namespace {

template <typename Scalar>
class Gates : public ::testing::Test {
 public:
  // Relative tolerance: a few roundings, and those of an exponent of size `exponent`.
  static double tolerance(double exponent = 1) {
    return 4 * (1 + std::abs(exponent)) *
           static_cast<double>(std::numeric_limits<Scalar>::epsilon());
  }
};
using Scalars = ::testing::Types<float, double, long double>;
TYPED_TEST_SUITE(Gates, Scalars);

template <typename Scalar>
double relative(Scalar actual, long double expected) {
  return static_cast<double>(std::abs((static_cast<long double>(actual) - expected) / expected));
}

TYPED_TEST(Gates, SoftplusIsExactForLargeAndSmallArguments) {
  EXPECT_EQ(softplus(TypeParam(1000)), TypeParam(1000));
  EXPECT_EQ(softplus(TypeParam(3e38)), TypeParam(3e38));
  EXPECT_LE(relative(softplus(TypeParam(0)), std::log(2.0L)), this->tolerance());
  for (int x : {-80, -50, -30, -10, -1, 1, 10, 25, 60}) {
    // ln(1 + e^x) = log1p(e^x) in the widest type, which overflows nowhere here.
    EXPECT_LE(relative(softplus(TypeParam(x)), std::log1p(std::exp(static_cast<long double>(x)))),
              this->tolerance(x))
        << x;
  }
}

TYPED_TEST(Gates, LogSoftplusIsContinuousWhereItsBranchesMeet) {
  for (double x : {-41.0, -40.0, -39.0, -5.0, 0.0, 5.0}) {
    const long double wide = std::log(std::log1p(std::exp(static_cast<long double>(x))));
    EXPECT_LE(relative(log_softplus(TypeParam(x)), wide), this->tolerance(4)) << x;
  }
  EXPECT_EQ(log_softplus(TypeParam(-1e30)), TypeParam(-1e30));
}

TYPED_TEST(Gates, SigmoidSaturatesWithoutNaN) {
  EXPECT_EQ(sigmoid(TypeParam(0)), TypeParam(0.5));
  EXPECT_EQ(sigmoid(TypeParam(1e30)), TypeParam(1));
  EXPECT_EQ(sigmoid(TypeParam(-1e30)), TypeParam(0));
  for (int x : {-80, -20, -1, 1, 20}) {
    EXPECT_LE(relative(sigmoid(TypeParam(x)), 1 / (1 + std::exp(-static_cast<long double>(x)))),
              this->tolerance(x))
        << x;
  }
}

TYPED_TEST(Gates, OverflowingRateTimesVanishingSoftplusIsTheRealProduct) {
  // exp(100) softplus(-200) = exp(-100): in float32 naively infinity * 0.
  const TypeParam g = log_decay_from_logit(TypeParam(100), TypeParam(-200));
  EXPECT_FALSE(std::isnan(g));
  EXPECT_TRUE(g <= 0);
  EXPECT_EQ(std::exp(g), TypeParam(1));
  // exp(100) softplus(-100) = 1.
  EXPECT_LE(relative(log_decay_from_logit(TypeParam(100), TypeParam(-100)), -1.0L),
            this->tolerance(200));
  // exp(-200) softplus(300), and both factors far out of range of every type.
  EXPECT_LE(std::abs(static_cast<double>(log_decay_from_logit(TypeParam(-200), TypeParam(300)))),
            1e-80);
  EXPECT_LE(relative(log_decay_from_logit(TypeParam(2e4), TypeParam(-2e4)), -1.0L),
            this->tolerance(4e4));
}

TYPED_TEST(Gates, OverflowingProductIsAFullReset) {
  const TypeParam g = log_decay_from_logit(TypeParam(3e4), TypeParam(5));
  EXPECT_EQ(g, -std::numeric_limits<TypeParam>::infinity());
  EXPECT_EQ(std::exp(g), TypeParam(0));
  EXPECT_EQ(log_decay_from_logit(TypeParam(3e38), TypeParam(3e38)),
            -std::numeric_limits<TypeParam>::infinity());
}

// -bound / 2 where the product is zero, 0 and -bound where it is far from it; exp(A_log) may leave every
// type, and meets arguments of zero.
TYPED_TEST(Gates, BoundedLogDecayStaysWithinItsBound) {
  const auto g = [](double A_log, double x, double bound) {
    return log_decay_from_bounded_logit(TypeParam(A_log), TypeParam(x), TypeParam(bound));
  };
  EXPECT_EQ(g(0, 0, 5), TypeParam(-2.5));
  for (const double A_log : {-20.0, 20.0, 100.0, 800.0, 3e4, 3e38}) {
    EXPECT_EQ(g(A_log, 0, 3), TypeParam(-1.5)) << A_log;
  }
  for (const double A_log : {20.0, 100.0, 800.0, 3e4, 3e38}) {
    EXPECT_EQ(g(A_log, 1, 5), TypeParam(-5)) << A_log;
    EXPECT_EQ(g(A_log, -1, 5), TypeParam(0)) << A_log;
    EXPECT_EQ(g(A_log, 3e38, 5), TypeParam(-5)) << A_log;
    EXPECT_EQ(g(A_log, -3e38, 5), TypeParam(0)) << A_log;
  }
  const long double small = 300 * std::exp(-20.0L);
  EXPECT_LE(relative(g(-20, 300, 5), -5 / (1 + std::exp(-small))), this->tolerance());
  // ln 3 / 2 twice: sigmoid(ln 3) = 3/4; and of its negative 1/4.
  EXPECT_LE(relative(g(std::log(2.0), std::log(3.0) / 2, 4), -3.0L), 1e-6);
  EXPECT_LE(relative(g(std::log(2.0), -std::log(3.0) / 2, 4), -1.0L), 1e-6);
  // Near zero it keeps its relative accuracy.
  EXPECT_LE(relative(g(0, -60, 2), -2 / (1 + std::exp(60.0L))), this->tolerance(60));
}

TYPED_TEST(Gates, BetasOfBothLogits) {
  EXPECT_EQ(decode_beta(BetaEncoding::beta, TypeParam(1.5)), TypeParam(1.5));
  EXPECT_EQ(decode_beta(BetaEncoding::logit, TypeParam(0)), TypeParam(0.5));
  EXPECT_EQ(decode_beta(BetaEncoding::logit2, TypeParam(0)), TypeParam(1));
  EXPECT_EQ(decode_beta(BetaEncoding::logit2, TypeParam(1e30)), TypeParam(2));
  EXPECT_EQ(decode_beta(BetaEncoding::logit2, TypeParam(-1e30)), TypeParam(0));
  EXPECT_LE(relative(decode_beta(BetaEncoding::logit2, TypeParam(std::log(3.0))), 1.5L), 1e-6);
}

TYPED_TEST(Gates, OrdinaryArguments) {
  for (double A_log : {-3.0, 0.0, 2.7}) {
    for (double x : {-9.0, -0.1, 4.0}) {
      const long double expected = -std::exp(static_cast<long double>(TypeParam(A_log))) *
                                   std::log1p(std::exp(static_cast<long double>(TypeParam(x))));
      EXPECT_LE(relative(log_decay_from_logit(TypeParam(A_log), TypeParam(x)), expected),
                this->tolerance(10))
          << A_log << " " << x;
    }
  }
}

}  // namespace
}  // namespace gdn::gate_arithmetic
