// Random functions, compiled for the host and for gfx906: the emulated machine code must give the
// bits that the host's gives, in every lane. -DGDN_FUZZ_SEEDS=N builds more of them.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>

#include "hip/emulator/emulator.h"
#include "hip/emulator/wait_check.h"

#define GDN_FUZZ_SEED(seed) \
  extern "C" void gdn_fuzz_host_##seed(const std::uint32_t*, std::uint32_t*, int);
#include "fuzz_seeds.inc"
#undef GDN_FUZZ_SEED

namespace gdn::gfx906 {
namespace {

constexpr int kWords = 84;
constexpr int kNumLanes = 256;

struct Seed {
  const char* name;
  void (*host)(const std::uint32_t*, std::uint32_t*, int);
};
const Seed kSeeds[] = {
#define GDN_FUZZ_SEED(seed) {#seed, &gdn_fuzz_host_##seed},
#include "fuzz_seeds.inc"
#undef GDN_FUZZ_SEED
};

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

class Fuzz : public testing::TestWithParam<Seed> {};

TEST_P(Fuzz, EmulatedCodeGivesTheHostsBits) {
  const std::string prefix = std::string(GDN_FUZZ_FOLDER "/fuzz_") + GetParam().name;
  const std::string elf = contents(prefix + ".co");
  const std::string listing = contents(prefix + ".lst");
  const CodeObject code(elf, listing);
  std::mt19937 random(5);
  std::vector<std::uint32_t> in(8 * kNumLanes);
  for (std::uint32_t& x : in) {
    x = static_cast<std::uint32_t>(random());
    if (random() % 8 == 0) x >>= random() % 32;  // small values too
  }
  std::vector<std::uint32_t> host(kWords * kNumLanes, 0), emulated(kWords * kNumLanes, 0);
  GetParam().host(in.data(), host.data(), kNumLanes);
  const struct {
    const void* in;
    void* out;
  } arguments{in.data(), emulated.data()};
  const auto range = [](const std::vector<std::uint32_t>& v) {
    const auto first = reinterpret_cast<std::uint64_t>(v.data());
    return MemoryRange{first, first + 4 * v.size()};
  };
  const auto result = launch(code, "fuzz", {kNumLanes / 64, 1, 1}, {64, 1, 1},
                             {reinterpret_cast<const char*>(&arguments), sizeof(arguments)}, 0,
                             {range(in), range(emulated)}, {});
  EXPECT_EQ(result.num_faults, 0u) << result.faults[0].text;
  for (std::size_t i = 0; i < host.size(); ++i) {
    ASSERT_EQ(host[i], emulated[i])
        << "seed " << GetParam().name << ", lane " << i / kWords << ", word " << i % kWords;
  }
}

TEST_P(Fuzz, NoWaitIsMissing) {
  const std::string prefix = std::string(GDN_FUZZ_FOLDER "/fuzz_") + GetParam().name;
  const std::string elf = contents(prefix + ".co");
  const std::string listing = contents(prefix + ".lst");
  const CodeObject code(elf, listing);
  for (const MissingWait& wait : missing_waits(code.find("fuzz"))) ADD_FAILURE() << wait.text;
}

INSTANTIATE_TEST_SUITE_P(All, Fuzz, testing::ValuesIn(kSeeds),
                         [](const testing::TestParamInfo<Seed>& seed) {
                           return std::string("seed_") + seed.param.name;
                         });

}  // namespace
}  // namespace gdn::gfx906
