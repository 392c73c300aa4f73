// Generated inputs: the same numbers everywhere, the distributions they promise, and gate encodings
// that describe one decay.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "harness/inputs/counter_random.h"
#include "harness/operations/generate_case.h"
#include "interface/error.h"
#include "reference/reference.h"

namespace gdn {
namespace {

Case generated(const std::string& text) { return generate_case(Problem::parse(text)); }

std::uint64_t fingerprint(const std::vector<float>& values) {
  std::uint64_t hash = values.size();
  for (const float value : values) hash = mix64(hash ^ std::bit_cast<std::uint32_t>(value));
  return hash;
}

struct Moments {
  double mean = 0;
  double variance = 0;
};
Moments moments(const std::vector<float>& values) {
  Moments m;
  const double n = static_cast<double>(values.size());
  for (const float x : values) m.mean += static_cast<double>(x) / n;
  for (const float x : values) m.variance += std::pow(static_cast<double>(x) - m.mean, 2) / n;
  return m;
}

TEST(PortableMath, AgreesWithTheLibrary) {
  for (double x = -700; x < 700; x += 0.37) {
    EXPECT_NEAR(portable_exp(x) / std::exp(x), 1, 1e-14) << x;
    EXPECT_NEAR(portable_ln(std::exp(x)), x, 1e-13 * std::max(1.0, std::abs(x))) << x;
  }
  for (double x = -0.9; x < 3; x += 0.0137) {
    EXPECT_NEAR(portable_expm1(x), std::expm1(x), 1e-15 * std::max(1.0, std::abs(std::expm1(x))));
    EXPECT_NEAR(portable_log1p(x), std::log1p(x), 1e-14) << x;
  }
  EXPECT_EQ(portable_exp(-std::numeric_limits<double>::infinity()), 0);
}

// Frozen: baselines and stored rows name problems by seed. If this fails, the generator changed,
// and every stored number made from it is void.
TEST(Inputs, OneSeedIsTheSameNumbersForEver) {
  const Case c = generated("gated_delta:heads=1/2,dim=8x6,seq=1x5+1x3,dtype=bf16,h0=normal,seed=7");
  EXPECT_EQ(fingerprint(c["q"]), 630715692544046517u) << "query";
  EXPECT_EQ(fingerprint(c["k"]), 11014294748288776576u) << "key";
  EXPECT_EQ(fingerprint(c["v"]), 16267084730320268878u) << "value";
  EXPECT_EQ(fingerprint(c["log_decay"]), 12157056647820273038u) << "gate";
  EXPECT_EQ(fingerprint(c["beta"]), 9101867717516069134u) << "beta";
  EXPECT_EQ(fingerprint(c["initial_state"]), 4771578150472837853u) << "state";
}

// Of everything that is drawn, under its name.
std::uint64_t fingerprint(const Case& c) {
  std::map<std::string, std::uint64_t> parts;
  for (const auto& [name, values] : c.arrays) {
    std::uint64_t hash = values.size();
    for (const float value : values) {
      // Of what must not be read it only counts that it is not a number.
      const float told = std::isnan(value) ? std::numeric_limits<float>::quiet_NaN() : value;
      hash = mix64(hash ^ std::bit_cast<std::uint32_t>(told));
    }
    parts[name] = hash;
  }
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& indices) {
    std::uint64_t hash = indices.size();
    for (const std::int64_t index : indices) hash = mix64(hash ^ static_cast<std::uint64_t>(index));
    parts[name] = hash;
  };
  add("slot_index", c.slot_index);
  for (const auto& [name, indices] : c.other_indices) add(name, indices);
  std::uint64_t all = parts.size();
  for (const auto& [name, hash] : parts) {
    for (const char letter : name) all = mix64(all ^ static_cast<unsigned char>(letter));
    all = mix64(all ^ hash);
  }
  return all;
}

struct FrozenCase {
  const char* problem;
  std::uint64_t fingerprint;
};

// Every distribution, encoding and index that a problem can ask for. Frozen as those above are: a
// number that is wrong here is another's than the one that a stored row was measured with.
constexpr FrozenCase kFrozenCases[] = {
    {"gated_delta:heads=1/2,dim=7x5,seq=1x9+1x0+1x20,dtype=f32,seed=3,h0=large",
     15326855474256005098u},
    {"gated_delta:heads=2/"
     "4,dim=5x6,seq=1x12+1x17,dtype=f16,h0=normal,slots=permuted,pool_pad=3,layout=vk",
     15301049493349539652u},
    {"gated_delta:heads=2/"
     "2,dim=4,seq=7x2,dtype=bf16,h0=huge,slots=padding,state=bf16,keys=correlated",
     13053270884536086964u},
    {"gated_delta:heads=2/"
     "2,dim=4,seq=7x2,dtype=f32,h0=normal,slots=padding,pool_rows=5,keys=near_equal",
     12750446272262600559u},
    {"gated_delta:heads=2/"
     "2,dim=6,seq=7x3,dtype=f32,h0=normal,slots=permuted,output_slots=other,keys=equal",
     6500400853384610281u},
    {"gated_delta:heads=2/2,dim=6,seq=7x3,dtype=f32,h0=normal,output_slots=other,keys=lengths",
     12518163258132432063u},
    {"gated_delta:heads=2/"
     "2,dim=6,seq=3x9,dtype=f32,keys=alternating,state=bf16,state_rounding=stochastic",
     3752893926235184704u},
    {"gated_delta:heads=2/2,dim=6,seq=1x200+1x150+1x90+1x0,dtype=bf16,keys=zero,checkpoints=4",
     3821859766756427635u},
    {"gated_delta:heads=1/2,dim=9,seq=20,dtype=f16,keys=unnormalised,norm=1,steps=3,decay=channel",
     8923031907158526574u},
    {"gated_delta:heads=1/2,dim=4,seq=30,gates=none,betas=zero", 11744200048443093934u},
    {"gated_delta:heads=1/2,dim=4,seq=30,gates=weak,betas=one", 8987476235387786577u},
    {"gated_delta:heads=1/2,dim=4,seq=30,gates=near_one,betas=two", 17650029898385088189u},
    {"gated_delta:heads=1/2,dim=4,seq=30,gates=strong,betas=wide", 12016190913628540878u},
    {"gated_delta:heads=1/2,dim=4,seq=30,gates=mid,betas=mixture,gate=decay", 4538469689261188430u},
    {"gated_delta:heads=1/2,dim=4,seq=90,gates=reset,betas=0.25..0.75,gate=neg_log_decay",
     4325832324731786315u},
    {"gated_delta:heads=1/2,dim=4,seq=30,gates=tiny,betas=0.5,beta=logit", 11505280587092247533u},
    {"gated_delta:heads=1/2,dim=4,seq=30,gates=masked,betas=mixture,beta=logit2",
     18372259675770832435u},
    {"gated_delta:heads=1/2,dim=4,seq=30,gates=decay_uniform,betas=wide,beta=logit2,gate=logits",
     3130688739182853487u},
    {"gated_delta:heads=1/2,dim=4,seq=70+200,gates=edges,gate=logits,logits=token,dtype=f16",
     15866452379522596646u},
    {"gated_delta:heads=1/2,dim=4,seq=40+20,gates=step", 18128654188021967473u},
    {"gated_delta:heads=1/2,dim=4,seq=30,gates=bounded,gate=bounded,bound=4,decay=channel",
     527924666693912251u},
    {"gated_delta:heads=1/2,dim=4,seq=30,gates=bounded,beta=logit,logits=token,dtype=bf16",
     14421369788033272511u},
    {"gated_delta:heads=5/5,dim=4,seq=30,gates=far,gate=logits,logits=token,dtype=f16",
     5652040390016532597u},
    {"gated_delta:heads=5/5,dim=4,seq=30,gates=far,gate=neg_log_decay", 8308482162988734382u},
    {"gated_delta:heads=7/7,dim=4,seq=30,gates=mixture", 4407693798226821658u},
    {"gated_delta:heads=1/2,dim=4,seq=30,gates=-20..-0.5,gate=logits", 10524241746068064432u},
    {"gated_delta:heads=1/2,dim=4,seq=30,gates=real,gate=logits,decay=channel",
     2784543692894825326u},
    {"gated_delta:heads=3/3,dim=8,seq=16+9+13,dtype=bf16,magnitudes=edges,norm=1",
     4903016362577094064u},
    {"gated_delta:heads=3/3,dim=8,seq=16+9+13,dtype=f16,magnitudes=edges", 2556777230286802696u},
    {"gated_delta_backward:heads=1/2,dim=4x6,seq=5+0+3,dtype=f16,h0=normal,state=bf16,pool_pad=2",
     10147939839045554116u},
    {"gated_delta_backward:heads=1/2,dim=4x6,seq=5+3,dtype=bf16,ht=0", 3535757510586864216u},
    {"gated_delta_training:heads=1/2,dim=4x6,seq=5+3,dtype=bf16,h0=normal", 13951171687051704077u},
    {"gated_delta_layer:heads=1/2,dim=8,seq=1x9+1x2,dtype=f16,gate=logits,beta=logit,norm=1",
     3503250919394215698u},
    {"gated_delta_verify:heads=1/2,dim=4,seq=3x4+0+9+1+6+7,dtype=bf16,h0=normal",
     9589555244958273111u},
    {"gated_delta_verify:heads=1/2,dim=4,seq=3x4+0+9,dtype=f32,accepted=geometric",
     5647374751530954993u},
    {"gated_delta_ring:heads=1/2,dim=4x6,seq=5x3+0+2,dtype=bf16,h0=normal,slots=padding,pool_pad=2",
     785798157012701317u},
    {"gated_delta_ring:heads=1/"
     "2,dim=4x6,seq=9x3,dtype=f16,norm=1,keys=unnormalised,ring_fill=cycle,ring=13",
     12562908533266341267u},
    {"gated_delta_ring:heads=1/2,dim=4,seq=5x3,dtype=f32,ring_fill=all", 11080463964693140419u},
    {"gated_delta_ring:heads=1/2,dim=4,seq=5x3,dtype=f32,ring_fill=none", 11301842712458245401u},
    {"causal_conv1d:heads=1/2,dim=5,seq=1x9+1x0+1x2,dtype=bf16,bias=1,width=7,slots=padding",
     3441117838868961252u},
    {"causal_conv1d:channels=6,seq=9x2,dtype=f16,weights=f32,bias=1,window_order=ring,residual="
     "tensor",
     11489869018964225132u},
    {"causal_conv1d:channels=6,seq=5+9,dtype=f32,fresh=1,state=bf16,window_length=6",
     7414166332121041355u},
    {"causal_conv1d:channels=6,seq=5+9,dtype=f32,window=written,conv_layout=time",
     6217761440621074685u},
    {"causal_conv1d:channels=9,seq=5+9+3,dtype=f16,conv_layout=time,magnitudes=edges",
     15178462455376967925u},
    {"causal_conv1d_backward:channels=6,seq=5+9,dtype=bf16,conv_layout=time,bias=1",
     14044648922214999828u},
    {"causal_conv1d_backward:channels=6,seq=5+9,dtype=f16,window=none", 11474352288471931434u},
    {"gated_rms_norm:heads=1/5,dim=3x70,seq=1x9+1x2,dtype=f16", 9332841556006446457u},
    {"gated_rms_norm:heads=1/5,dim=3x70,seq=1x9+1x2,dtype=bf16", 3374994661539116870u},
    {"gated_rms_norm_backward:heads=1/4,dim=8x9,seq=7+3,dtype=f16", 4539171829787319765u},
    {"gated_rms_norm_backward:heads=1/4,dim=8x9,seq=7+3,dtype=f32", 3730571224032501978u},
};

TEST(Inputs, EveryDistributionIsTheSameNumbersForEver) {
  for (const FrozenCase& frozen : kFrozenCases) {
    EXPECT_EQ(fingerprint(generated(frozen.problem)), frozen.fingerprint) << frozen.problem;
  }
}

// Rows own fixed counters, so a shorter problem (made by fewer threads) is a prefix of a longer
// one.
TEST(Inputs, DoNotDependOnHowTheWorkIsSplit) {
  const Case small = generated("gated_delta:heads=2/4,dim=32,seq=3,dtype=f32,seed=11");
  const Case large = generated("gated_delta:heads=2/4,dim=32,seq=20000,dtype=f32,seed=11");
  EXPECT_TRUE(std::equal(small["q"].begin(), small["q"].end(), large["q"].begin()));
  EXPECT_TRUE(std::equal(small["k"].begin(), small["k"].end(), large["k"].begin()));
  EXPECT_TRUE(std::equal(small["v"].begin(), small["v"].end(), large["v"].begin()));
  EXPECT_TRUE(
      std::equal(small["log_decay"].begin(), small["log_decay"].end(), large["log_decay"].begin()));
  EXPECT_TRUE(std::equal(small["beta"].begin(), small["beta"].end(), large["beta"].begin()));
}

TEST(Inputs, SeedsAndArraysAreUnrelated) {
  const Case a = generated("gated_delta:heads=1/1,dim=64,seq=64,seed=1");
  const Case b = generated("gated_delta:heads=1/1,dim=64,seq=64,seed=2");
  EXPECT_NE(a["v"], b["v"]);
  EXPECT_NE(a["q"], a["k"]);
  double cosine = 0;
  for (std::size_t i = 0; i < a["v"].size(); ++i) {
    cosine += static_cast<double>(a["v"][i]) * static_cast<double>(b["v"][i]) / 4096;
  }
  EXPECT_LT(std::abs(cosine), 0.08);
}

TEST(Inputs, ValuesAreStandardNormal) {
  const Case c = generated("gated_delta:heads=1/4,dim=16x128,seq=1000");
  const Moments m = moments(c["v"]);
  EXPECT_NEAR(m.mean, 0, 0.01);
  EXPECT_NEAR(m.variance, 1, 0.01);
  const auto beyond =
      std::count_if(c["v"].begin(), c["v"].end(), [](float x) { return std::abs(x) > 1.959964f; });
  EXPECT_NEAR(static_cast<double>(beyond) / static_cast<double>(c["v"].size()), 0.05, 0.002);
}

TEST(Inputs, KeyDistributions) {
  const auto row = [](const Case& c, std::int64_t t) {
    return std::vector<double>(c["k"].begin() + t * 64, c["k"].begin() + (t + 1) * 64);
  };
  const auto dot = [](const std::vector<double>& a, const std::vector<double>& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  };
  const std::string base = "gated_delta:heads=1/1,dim=64,seq=400,keys=";
  const Case unit = generated(base + "unit");
  const Case correlated = generated(base + "correlated");
  const Case equal = generated(base + "equal");
  const Case alternating = generated(base + "alternating");
  const Case zero = generated(base + "zero");
  const Case long_keys = generated(base + "unnormalised,norm=1");
  const Case near_equal = generated(base + "near_equal");
  const Case lengths = generated(base + "lengths");
  double shortest = 100;
  double longest = 0;
  double mean_cosine = 0;
  int zero_rows = 0;
  double mean_square = 0;
  for (std::int64_t t = 0; t + 1 < 400; ++t) {
    EXPECT_NEAR(dot(row(unit, t), row(unit, t)), 1, 1e-6);
    mean_cosine += dot(row(correlated, t), row(correlated, t + 1)) / 399;
    EXPECT_EQ(row(equal, t), row(equal, t + 1));
    EXPECT_NEAR(dot(row(alternating, t), row(alternating, t + 1)), -1, 1e-6);
    zero_rows += dot(row(zero, t), row(zero, t)) == 0 ? 1 : 0;
    EXPECT_NEAR(dot(row(near_equal, t), row(near_equal, t + 1)), 0.98, 0.02);
    shortest = std::min(shortest, dot(row(lengths, t), row(lengths, t)));
    longest = std::max(longest, dot(row(lengths, t), row(lengths, t)));
    mean_square += dot(row(long_keys, t), row(long_keys, t)) / 399;
  }
  EXPECT_NEAR(mean_cosine, 0.81, 0.03);  // 0.9 with the common direction, twice
  EXPECT_NEAR(zero_rows, 50, 25);
  EXPECT_NEAR(mean_square, 64, 3);
  EXPECT_NEAR(shortest, 0.1, 0.01);
  EXPECT_NEAR(longest, 10, 0.5);
}

class GateDistributions : public ::testing::TestWithParam<const char*> {};

// exp of the decoded log decay, from every encoding of one seed, to float32 rounding: each of the
// encodings' float32 values is off by at most half an ulp of itself.
TEST_P(GateDistributions, EveryEncodingDescribesTheSameDecay) {
  for (const char* decay : {"head", "channel"}) {
    const std::string base =
        "gated_delta:heads=2/4,dim=4,seq=500,seed=3,decay=" + std::string(decay) +
        ",gates=" + GetParam();
    const auto direct = reference::decode_gates<double>(generated(base)).log_decay;
    for (const char* encoding : {"decay", "neg_log_decay", "logits"}) {
      const std::string text = base + ",gate=" + encoding;
      const auto decoded = reference::decode_gates<double>(generated(text)).log_decay;
      for (std::size_t i = 0; i < direct.size(); ++i) {
        const double alpha = std::exp(direct[i]);
        const double bound = 3e-7 * (std::abs(direct[i]) < 100 ? 1 + std::abs(direct[i]) : 1);
        ASSERT_TRUE(std::abs(std::exp(decoded[i]) - alpha) <= bound * alpha + 1e-50)
            << text << " at " << i << ": " << std::exp(decoded[i]) << " and " << alpha;
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, GateDistributions,
                         ::testing::Values("real", "none", "weak", "near_one", "strong", "mid",
                                           "reset", "tiny", "masked", "decay_uniform", "step",
                                           "-20..-0.0001", "-5"));

// Of log decays within its bound gate=bounded says the same as log_decay; at its bound and at zero it
// saturates. `bounded` draws its own operands, which the other encodings follow.
TEST(Inputs, BoundedLogitsDescribeTheSameDecay) {
  for (const char* gates :
       {"real", "none", "weak", "near_one", "mid", "masked", "bounded", "-5", "-4.5..-0.0001"}) {
    for (const char* decay : {"head", "channel"}) {
      const std::string base =
          "gated_delta:heads=2/4,dim=4,seq=500,seed=3,decay=" + std::string(decay) +
          ",gates=" + gates;
      const auto direct = reference::decode_gates<double>(generated(base)).log_decay;
      for (const char* encoding : {"bounded", "logits", "decay"}) {
        const std::string text = base + ",gate=" + encoding;
        const auto decoded = reference::decode_gates<double>(generated(text)).log_decay;
        ASSERT_EQ(decoded.size(), direct.size());
        for (std::size_t i = 0; i < direct.size(); ++i) {
          ASSERT_TRUE(std::fabs(std::exp(decoded[i]) - std::exp(direct[i])) <= 1e-6)
              << text << " at " << i << ": " << decoded[i] << " and " << direct[i];
        }
      }
    }
  }
  // Beyond the bound it is the bound.
  for (const double g : reference::decode_gates<double>(
                            generated("gated_delta:dim=4,seq=200,gates=mid,gate=bounded,bound=0.1"))
                            .log_decay) {
    EXPECT_GE(g, -0.1);
  }
}

// Released models with bounded gates have log decays of about half the bound in the mean. A kernel that is asked for
// less than that hardly forgets, and one that is asked for the bound alone remembers nothing.
TEST(Inputs, BoundedGatesDecayByHalfTheirBoundAndSpread) {
  for (const char* options : {"decay=head", "decay=channel", "decay=channel,gate=bounded",
                              "decay=head,gate=bounded,logits=token,dtype=bf16"}) {
    std::vector<double> means;  // of the seeds, of their heads and channels
    double mean = 0, weak = 0, strong = 0;
    constexpr int kSeeds = 8;
    std::string texts;
    for (int seed = 1; seed <= kSeeds; ++seed) {
      const std::string text =
          "gated_delta:heads=1/256,dim=4,seq=50,gates=bounded,seed=" + std::to_string(seed) + "," +
          options;
      texts += text + "\n";
      const Case c = generated(text);
      EXPECT_EQ(c.problem.decay_bound, 5);
      const auto log_decay = reference::decode_gates<double>(c).log_decay;
      const auto per_token = static_cast<std::size_t>(c.problem.gates_per_token());
      std::vector<double> of_channel(per_token);
      const auto size = static_cast<double>(log_decay.size());
      for (std::size_t i = 0; i < log_decay.size(); ++i) {
        const double g = log_decay[i];
        EXPECT_TRUE(g >= -5 && g <= 0) << text << " at " << i << ": " << g;
        of_channel[i % per_token] += g * static_cast<double>(per_token) / size;
        mean += g / size / kSeeds;
        weak += (g > -0.5 ? 1 : 0) / size / kSeeds;
        strong += (g < -4.5 ? 1 : 0) / size / kSeeds;
      }
      means.insert(means.end(), of_channel.begin(), of_channel.end());
    }
    EXPECT_GT(mean, -2.8) << texts;
    EXPECT_LT(mean, -2.2) << texts;
    EXPECT_GT(weak, 0.03) << texts;
    EXPECT_GT(strong, 0.03) << texts;
    EXPECT_LT(weak + strong, 0.5) << texts;
    // Channels differ by their biases, whatever their tokens are.
    const auto [least, most] = std::minmax_element(means.begin(), means.end());
    EXPECT_LT(*least, -3.5) << texts;
    EXPECT_GT(*most, -1.5) << texts;
  }
}

TEST(Inputs, OnlyResetGivesInfiniteLogDecay) {
  for (const char* gates : {"real", "none", "weak", "near_one", "strong", "mid", "tiny", "reset"}) {
    const Case c = generated("gated_delta:heads=2/4,dim=4,seq=1000,gates=" + std::string(gates));
    const auto infinite = std::count_if(c["log_decay"].begin(), c["log_decay"].end(),
                                        [](float g) { return std::isinf(g); });
    const double share = static_cast<double>(infinite) / static_cast<double>(c["log_decay"].size());
    if (std::string(gates) == "reset") {
      EXPECT_NEAR(share, 0.02, 0.01);
    } else {
      EXPECT_EQ(infinite, 0) << gates;
    }
  }
}

// The initialisation of published models: A ~ U(0, 16), dt ~ logU(1e-3, 0.1), of every head.
TEST(Inputs, RealGatesHaveTheRatesOfPublishedInitialisations) {
  const Case c = generated("gated_delta:heads=1/4096,dim=1,seq=1,gates=real,gate=logits,seed=9");
  double mean_rate = 0, largest_rate = 0, mean_log_step = 0;
  for (std::size_t h = 0; h < 4096; ++h) {
    const double rate = std::exp(static_cast<double>(c["A_log"][h]));
    const double step = std::log1p(std::exp(static_cast<double>(c["dt_bias"][h])));
    EXPECT_GE(step, 1e-3 * 0.999) << h;
    EXPECT_LE(step, 0.1 * 1.001) << h;
    mean_rate += rate / 4096;
    largest_rate = std::max(largest_rate, rate);
    mean_log_step += std::log(step) / 4096;
  }
  // Four standard deviations of the means: 16 / sqrt(12 * 4096) and ln(100) / sqrt(12 * 4096).
  EXPECT_NEAR(mean_rate, 8, 0.29);
  EXPECT_NEAR(largest_rate, 16, 0.1);
  EXPECT_NEAR(mean_log_step, std::log(1e-2), 0.084);
}

TEST(Inputs, EdgesAndStepsLieWhereTheyAreSaidToLie) {
  const Case edges = generated("gated_delta:heads=1/2,dim=4,seq=70+200,gates=edges");
  const Case step = generated("gated_delta:heads=1/1,dim=4,seq=40+20,gates=step");
  const auto is_reset = [&](std::size_t t, std::size_t h) {
    return std::isinf(edges["log_decay"][2 * t + h]);
  };
  for (const std::size_t t : {0, 63, 70, 70 + 63, 70 + 128}) EXPECT_TRUE(is_reset(t, 0)) << t;
  for (const std::size_t t : {37, 64, 70 + 37, 70 + 64, 70 + 127}) EXPECT_TRUE(is_reset(t, 1)) << t;
  EXPECT_EQ(std::count_if(edges["log_decay"].begin(), edges["log_decay"].end(),
                          [](float g) { return std::isinf(g); }),
            10);
  EXPECT_EQ(step["log_decay"][8], 0.0f);
  EXPECT_EQ(step["log_decay"][9], -5.0f);
  EXPECT_EQ(step["log_decay"][32], 0.0f);
  EXPECT_EQ(step["log_decay"][40 + 8], 0.0f);  // the second sequence starts over
  EXPECT_EQ(step["log_decay"][40 + 9], -5.0f);
}

// The product of far logits, whose factors overflow or vanish in float32, is what the reference
// makes of them.
TEST(Inputs, FarLogitsDescribeTheSameDecayInEveryEncoding) {
  const std::string base = "gated_delta:heads=5/5,dim=4,seq=200,gates=far";
  const auto logits = reference::decode_gates<double>(generated(base + ",gate=logits")).log_decay;
  const Case direct = generated(base);
  bool finite_product_of_extremes = false;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double alpha = std::exp(logits[i]);
    EXPECT_NEAR(std::exp(static_cast<double>(direct["log_decay"][i])), alpha, 1e-5 * alpha) << i;
    finite_product_of_extremes |= i % 5 == 1 && logits[i] < 0 && logits[i] > -1e-30;
  }
  EXPECT_TRUE(finite_product_of_extremes);  // exp(100) softplus(-200)
}

TEST(Inputs, HeadsOfAMixtureAndRangesOfUniformOnes) {
  const Case mixture = generated("gated_delta:heads=7/7,dim=4,seq=50,gates=mixture,betas=mixture");
  const std::set<float> betas(mixture["beta"].begin(), mixture["beta"].end());
  EXPECT_EQ(betas, (std::set<float>{0, 1, 2}));
  for (std::size_t t = 0; t < 50; ++t) {
    EXPECT_EQ(mixture["log_decay"][7 * t], 0.0f);
    EXPECT_EQ(mixture["log_decay"][7 * t + 6], -20.0f);
  }
  const Case range = generated("gated_delta:dim=4,seq=900,gates=-20..-1,betas=0.5..0.75");
  const auto [lowest, highest] =
      std::minmax_element(range["log_decay"].begin(), range["log_decay"].end());
  EXPECT_NEAR(*lowest, -20, 0.2);
  EXPECT_NEAR(*highest, -1, 0.2);
  const auto [least, most] = std::minmax_element(range["beta"].begin(), range["beta"].end());
  EXPECT_NEAR(*least, 0.5, 0.01);
  EXPECT_NEAR(*most, 0.75, 0.01);
}

TEST(Inputs, BetaLogitAndBetaAgree) {
  for (const char* betas : {"sigmoid", "zero", "one", "0.1..0.9", "0.835"}) {
    const std::string base = "gated_delta:heads=1/2,dim=4,seq=200,betas=" + std::string(betas);
    const auto direct = reference::decode_gates<double>(generated(base)).beta;
    const auto logit = reference::decode_gates<double>(generated(base + ",beta=logit")).beta;
    for (std::size_t i = 0; i < direct.size(); ++i) ASSERT_NEAR(direct[i], logit[i], 1e-7) << base;
  }
  EXPECT_THROW(generated("gated_delta:dim=4,betas=wide,beta=logit"), Error);
}

TEST(Inputs, BetaLogit2ReachesTwo) {
  for (const char* betas : {"sigmoid", "zero", "one", "two", "wide", "mixture", "0.1..1.9"}) {
    const std::string base = "gated_delta:heads=1/2,dim=4,seq=200,betas=" + std::string(betas);
    const auto direct = reference::decode_gates<double>(generated(base)).beta;
    const auto logit2 = reference::decode_gates<double>(generated(base + ",beta=logit2")).beta;
    for (std::size_t i = 0; i < direct.size(); ++i) ASSERT_NEAR(direct[i], logit2[i], 3e-7) << base;
  }
}

TEST(Inputs, WhatMustNotBeReadIsNan) {
  const Case absent = generated("gated_delta:heads=1/2,dim=8,seq=2x4");
  EXPECT_TRUE(std::all_of(absent["initial_state"].begin(), absent["initial_state"].end(),
                          [](float x) { return std::isnan(x); }));
  const Case padded = generated("gated_delta:heads=1/2,dim=8,seq=2x4,h0=normal,pool_pad=5");
  const std::int64_t stride = padded.problem.state_row_stride();
  for (std::size_t i = 0; i < padded["initial_state"].size(); ++i) {
    const bool padding = static_cast<std::int64_t>(i) % stride >= stride - 5;
    EXPECT_EQ(std::isnan(padded["initial_state"][i]), padding) << i;
  }
}

TEST(Inputs, SlotsAreAnInjectionWithPaddingWhereAsked) {
  const Case permuted = generated("gated_delta:heads=1/1,dim=4,seq=20x3,slots=permuted,seed=5");
  const std::set<std::int64_t> used(permuted.slot_index.begin(), permuted.slot_index.end());
  EXPECT_EQ(used.size(), 20u);
  EXPECT_GE(*used.begin(), 0);
  EXPECT_LT(*used.rbegin(), 23);
  EXPECT_FALSE(std::is_sorted(permuted.slot_index.begin(), permuted.slot_index.end()));
  const Case padding = generated("gated_delta:heads=1/1,dim=4,seq=20x3,slots=padding,seed=5");
  EXPECT_EQ(std::count(padding.slot_index.begin(), padding.slot_index.end(), -1), 6);
}

// Each channel's gate and each step's key and beta are draws of their own, on their distributions.
TEST(Inputs, VariantsAreDrawnChannelByChannelAndStepByStep) {
  const Case channels = generated("gated_delta:heads=1/2,dim=16x4,seq=500,gates=mid,decay=channel");
  ASSERT_EQ(channels["log_decay"].size(), 500u * 2 * 16);
  const std::set<float> distinct(channels["log_decay"].begin(), channels["log_decay"].end());
  EXPECT_GT(distinct.size(), 15000u);
  double mean = 0;
  for (const float g : channels["log_decay"]) mean += std::exp(static_cast<double>(g)) / 16000;
  EXPECT_NEAR(mean, 0.9, 0.002);

  const Case real = generated("gated_delta:heads=2/4,dim=16,seq=3,gate=logits,decay=channel");
  EXPECT_EQ(real["A_log"].size(), 4u);
  ASSERT_EQ(real["dt_bias"].size(), 4u * 16);
  EXPECT_EQ(std::set<float>(real["dt_bias"].begin(), real["dt_bias"].end()).size(), 64u);

  const Case steps = generated("gated_delta:heads=1/2,dim=16x4,seq=100,steps=3");
  EXPECT_EQ(steps["k"].size(), 100u * 3 * 16);
  EXPECT_EQ(steps["v"].size(), 100u * 3 * 2 * 4);
  EXPECT_EQ(std::set<float>(steps["beta"].begin(), steps["beta"].end()).size(), 600u);
  EXPECT_EQ(std::set<float>(steps["k"].begin(), steps["k"].end()).size(), 4800u);
}

// What a norm's test cases must hold, each kind in a head of its own: rows that eps decides, zeros,
// rows far above 1, and gates beyond where exp overflows on both sides.
TEST(Inputs, NormsHaveHeadsOfSmallRowsOfLargeOnesAndOfFarGates) {
  const Case c = generated("gated_rms_norm:heads=1/4,dim=64,seq=400,dtype=bf16");
  int zeros = 0, below_eps = 0, large = 0, far_up = 0, far_down = 0;
  for (std::size_t row = 0; row < 1600; ++row) {
    double mean = 0;
    for (std::size_t j = row * 64; j < (row + 1) * 64; ++j) {
      mean += static_cast<double>(c["x"][j]) * static_cast<double>(c["x"][j]) / 64;
      far_up += c["z"][j] > 89 ? 1 : 0;
      far_down += c["z"][j] < -89 ? 1 : 0;
      EXPECT_TRUE(row % 4 == 3 || std::abs(c["z"][j]) < 6) << j;
    }
    zeros += mean == 0 ? 1 : 0;
    below_eps += mean > 0 && mean < 1e-6 ? 1 : 0;
    large += mean > 100 ? 1 : 0;
    EXPECT_TRUE(row % 4 == 1 || row % 4 == 2 || (mean > 0.2 && mean < 3)) << row;
  }
  EXPECT_NEAR(zeros, 50, 25);  // of the 400 rows of head 1
  EXPECT_NEAR(below_eps, 270, 50);
  EXPECT_GT(large, 380);
  EXPECT_NEAR(far_up, 1900, 200);  // of the 25600 gates of head 3
  EXPECT_NEAR(far_down, 1900, 200);
}

TEST(Inputs, EveryGeneratedCaseIsValidAndRounded) {
  for (const char* text :
       {"gated_delta:heads=2/6,dim=16x24,seq=1x7+1x0+1x33,dtype=f16,state=bf16,h0=large,layout=vk",
        "causal_conv1d:heads=1/2,dim=8,seq=1x9+1x0+1x2,dtype=bf16,bias=1,width=7,slots=padding",
        "causal_conv1d:heads=1/2,dim=8,seq=1x9+1x2,dtype=bf16,conv_layout=time",
        "gated_delta_layer:heads=1/2,dim=8,seq=1x9+1x2,dtype=f16,gate=logits,beta=logit,norm=1",
        "gated_delta:heads=2/4,dim=8,seq=1x9+1x2,dtype=bf16,steps=3,decay=channel,gates=reset",
        "gated_delta_layer:heads=1/2,dim=8,seq=9,gate=logits,decay=channel,update=additive",
        "gated_delta_verify:heads=2/4,dim=8x6,seq=4+0+7+3+1x16,dtype=f16,h0=normal",
        "gated_rms_norm:heads=1/8,dim=8x70,seq=1x9+1x2,dtype=f16",
        "gated_rms_norm:heads=1/8,dim=8x70,seq=1x9+1x2,dtype=bf16",
        "gated_delta:heads=1/1,dim=4,seq=1x0"}) {
    const Case c = generated(text);
    EXPECT_NO_THROW(validate(c)) << text;
    for (const char* name :
         {"q", "k", "v", "qkv", "conv_weight", "conv_bias", "x", "z", "weight"}) {
      if (!c.arrays.has(name)) continue;
      for (const float x : c[name]) {
        const DType dtype = c.problem.operation->at(name).dtype(c.problem);
        ASSERT_EQ(x, round_to(dtype, x)) << text << ": " << name;
      }
    }
    if (!c.arrays.has("conv_state")) continue;
    for (const float x : c["conv_state"]) ASSERT_EQ(x, round_to(c.problem.state_dtype, x)) << text;
  }
}

// What a commit costs depends on how many sequences accept something, so that problems can say it.
TEST(Acceptance, IsDrawnAsTheFieldSays) {
  const std::string text = "gated_delta_verify:heads=1/1,dim=4,seq=2000x6+0+1+9,accepted=";
  const auto accepted = [&](const std::string& pattern) {
    return generated(text + pattern).other_indices["accepted"];
  };
  const std::vector<std::int64_t> lengths = Problem::parse(text + "all").sequences.lengths;
  EXPECT_EQ(accepted("all"), lengths) << text;
  EXPECT_EQ(accepted("none"), std::vector<std::int64_t>(lengths.size(), 0)) << text;
  const auto alternating = accepted("alternating");
  for (std::size_t n = 0; n < lengths.size(); ++n) {
    ASSERT_EQ(alternating[n], n % 2 == 0 ? lengths[n] : 0) << text << "alternating, sequence " << n;
  }
  // The chance of at least k of a draft's 6 tokens is 0.8^k; its standard error is below 0.0112.
  const auto geometric = accepted("geometric");
  double chance = 1;
  for (std::int64_t k = 1; k <= 6; ++k) {
    chance *= 0.8;
    const auto reached = std::count_if(geometric.begin(), geometric.begin() + 2000,
                                       [&](std::int64_t count) { return count >= k; });
    EXPECT_NEAR(static_cast<double>(reached) / 2000, chance, 0.045) << text << "geometric, " << k;
  }
  for (std::size_t n = 2000; n < lengths.size(); ++n) {
    EXPECT_TRUE(geometric[n] >= 0 && geometric[n] <= lengths[n])
        << text << "geometric, sequence " << n << ": " << geometric[n];
  }
}

TEST(Acceptance, BelongsToDraftsAndIsAMixtureUnlessSaid) {
  const std::string drafts = "gated_delta_verify:heads=1/1,dim=4x4,seq=1x6,dtype=f32";
  EXPECT_EQ(Problem::parse(drafts + ",accepted=mixture").to_string(),
            Problem::parse(drafts).to_string());
  EXPECT_EQ(Problem::parse(drafts + ",accepted=all").to_string(), drafts + ",accepted=all");
  EXPECT_THROW(Problem::parse(drafts + ",accepted=half"), Error);
  EXPECT_THROW(Problem::parse("gated_delta:heads=1/1,dim=4,seq=6,accepted=all"), Error);
}

}  // namespace
}  // namespace gdn
