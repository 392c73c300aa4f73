// The lane exchanges of the CUDA build (lanes_cuda.h), executed on the host (host_warps.h): waves
// of 64 made of two warps must give the bits that gfx906's own instructions give on the emulator,
// in whatever order the threads run; waves of 32 what the definitions say.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "hip/emulator/emulator.h"
#include "hip/on_cuda/dpp_source.h"

void exchange_lanes_on_host_64(const float* in, float* out, unsigned seed);
void exchange_lanes_on_host_32(const float* in, float* out, unsigned seed);

namespace gdn::hip {
namespace {

constexpr int kThreads = 128, kResults = 24;
constexpr unsigned kSeeds = 8;

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Small integers, all different: sums of them are exact.
std::vector<float> inputs() {
  std::vector<float> in(kThreads);
  for (int i = 0; i < kThreads; ++i)
    in[static_cast<std::size_t>(i)] = static_cast<float>(i * 3 + 1);
  return in;
}

TEST(LanesOnCuda, TwoWarpsExchangeAsOneGfx906Wave) {
  std::vector<float> in = inputs(), expected(kResults * kThreads, -1.0f);
  const gfx906::CodeObject code(contents(GDN_LANES_PREFIX ".co"),
                                contents(GDN_LANES_PREFIX ".lst"));
  const struct {
    const float* in;
    float* out;
  } arguments{in.data(), expected.data()};
  const auto range = [](const std::vector<float>& v) {
    const auto first = reinterpret_cast<std::uint64_t>(v.data());
    return gfx906::MemoryRange{first, first + 4 * v.size()};
  };
  const auto result = gfx906::launch(code, "exchange_lanes", {}, {kThreads, 1, 1},
                                     {reinterpret_cast<const char*>(&arguments), sizeof(arguments)},
                                     0, {range(in), range(expected)}, {});
  ASSERT_EQ(result.num_faults, 0u) << result.faults[0].text;
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    std::vector<float> out(kResults * kThreads, -2.0f);
    exchange_lanes_on_host_64(in.data(), out.data(), seed);
    for (std::size_t i = 0; i < out.size(); ++i) {
      ASSERT_EQ(out[i], expected[i])
          << "seed " << seed << ", exchange " << i / kThreads << ", thread " << i % kThreads;
    }
  }
}

TEST(LanesOnCuda, AWarpExchangesByItself) {
  const std::vector<float> in = inputs();
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    std::vector<float> out(kResults * kThreads, -2.0f);
    exchange_lanes_on_host_32(in.data(), out.data(), seed);
    const auto at = [&](int exchange, int thread) {
      return out[static_cast<std::size_t>(exchange * kThreads + thread)];
    };
    for (int thread = 0; thread < kThreads; ++thread) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", thread " + std::to_string(thread));
      const int lane = thread % 32, first = thread - lane;
      const auto of = [&](int l) { return in[static_cast<std::size_t>(first + l)]; };
      ASSERT_EQ(at(0, thread), of(5));
      ASSERT_EQ(at(1, thread), of((lane * 7 + 3) % 32));
      ASSERT_EQ(at(2, thread), of(lane < 1 ? lane : lane - 1));
      ASSERT_EQ(at(3, thread), of(lane < 8 ? lane : lane - 8) + 0.5f);
      ASSERT_EQ(at(6, thread), of(lane ^ 16));
      ASSERT_EQ(at(7, thread), of(31));
      ASSERT_EQ(at(8, thread), static_cast<float>(thread / 32));
      ASSERT_EQ(at(20, thread), lane >= 16 ? of(15) : 0.0f);  // row_bcast:15 into row 1
      float sum = 0.0f;
      for (int l = 0; l < 32; ++l) sum += of(l);
      ASSERT_EQ(at(23, thread), sum);
    }
  }
}

TEST(DppSource, KnowsWhichMovesLeaveAHalfOfTheWave) {
  EXPECT_TRUE(dpp_within_halves(0x118, 0xf));
  EXPECT_TRUE(dpp_within_halves(0x142, 0xa));
  EXPECT_FALSE(dpp_within_halves(0x142, 0xf));  // row 2 reads lane 31
  EXPECT_FALSE(dpp_within_halves(0x143, 0xc));
  EXPECT_EQ(dpp_source(0x138, 0), -2);  // wave_shr: no kernel uses it
}

}  // namespace
}  // namespace gdn::hip
