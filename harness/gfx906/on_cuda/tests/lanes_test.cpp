// The lane exchanges of the CUDA build (lanes_cuda.h), executed on the host: waves of 64 made of
// two warps must give the bits that gfx906's own instructions give on the emulator, whatever the
// order in which the threads run; waves of 32 what the definitions say.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cuda/emulated/grid.h"
#include "hip/dpp_source.h"
#include "hip/emulator/emulator.h"

void exchange_lanes_on_host(const float* in, float* out);

namespace gdn::hip {
namespace {

constexpr int kThreads = 128, kResults = 24;

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Small integers, all different: sums of them are exact.
std::vector<float> inputs() {
  std::vector<float> in(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    in[static_cast<std::size_t>(i)] = static_cast<float>(i * 3 + 1);
  }
  return in;
}

/// The results of the machine code, on waves of 64.
std::vector<float> on_gfx906(const std::vector<float>& in) {
  std::vector<float> out(kResults * kThreads, -1.0f);
  const std::string elf = contents(GDN_LANES_PREFIX ".co");
  const std::string listing = contents(GDN_LANES_PREFIX ".lst");
  const gfx906::CodeObject code(elf, listing);
  const struct {
    const float* in;
    float* out;
  } arguments{in.data(), out.data()};
  const auto range = [](const std::vector<float>& v) {
    const auto first = reinterpret_cast<std::uint64_t>(v.data());
    return gfx906::MemoryRange{first, first + 4 * v.size()};
  };
  const auto result = gfx906::launch(code, "exchange_lanes", {}, {kThreads, 1, 1},
                                     {reinterpret_cast<const char*>(&arguments), sizeof(arguments)},
                                     0, {range(in), range(out)}, {});
  EXPECT_EQ(result.num_faults, 0u);
  return out;
}

/// What the exchanges of lanes_body.h are by their definitions, on waves of 32; -1: not stated
/// here.
float defined(const std::vector<float>& in, int exchange, int thread) {
  const int lane = thread % 32, first = thread - lane;
  const auto of = [&](int l) { return in[static_cast<std::size_t>(first + l)]; };
  switch (exchange) {
    case 0:
      return of(5);
    case 1:
      return of((lane * 7 + 3) % 32);
    case 2:
      return of(lane < 1 ? lane : lane - 1);
    case 3:
      return of(lane < 8 ? lane : lane - 8) + 0.5f;
    case 4:
      return of(lane < 16 ? lane : lane - 16);
    case 5:
      return of(lane ^ 1);
    case 6:
      return of(lane ^ 16);
    case 7:
      return of(31);
    case 8:
      return static_cast<float>(thread / 32);
    case 20:  // row_bcast:15 into row 1
      return lane >= 16 ? of(15) : 0.0f;
    case 23: {
      float sum = 0.0f;
      for (int l = 0; l < 32; ++l) sum += of(l);
      return sum;
    }
    default:
      return -1.0f;
  }
}

TEST(LanesOnCuda, ExchangeAsGfx906DoesInEveryThreadOrder) {
  using cuda_grid::ThreadOrder;
  const std::vector<float> in = inputs(), gfx906 = on_gfx906(in);
  for (const auto& [order, seed] : {std::pair{ThreadOrder::forward, 1u},
                                    {ThreadOrder::reverse, 1u},
                                    {ThreadOrder::random, 1u},
                                    {ThreadOrder::random, 2u},
                                    {ThreadOrder::random, 3u}}) {
    cuda_grid::set_execution_options({order, seed});
    std::vector<float> out(kResults * kThreads, -2.0f);
    exchange_lanes_on_host(in.data(), out.data());
    for (int i = 0; i < kResults * kThreads; ++i) {
      const int exchange = i / kThreads, thread = i % kThreads;
      const auto at = static_cast<std::size_t>(i);
      const float expected = GDN_WAVE == 64 ? gfx906[at] : defined(in, exchange, thread);
      if (expected == -1.0f) continue;
      ASSERT_EQ(out[at], expected) << "order " << static_cast<int>(order) << ", seed " << seed
                                   << ", exchange " << exchange << ", thread " << thread;
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
