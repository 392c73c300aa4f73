// Each planted fault (planted_faults.hip) is found, and its sound twin passes.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <numeric>

#include "hip/budgets.h"
#include "hip/emulator/emulator.h"
#include "interface/error.h"

namespace gdn::hip {
namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

class PlantedFaults : public testing::Test {
 protected:
  struct Arguments {
    int* out;
    int count;
  };
  gfx906::LaunchResult launch(const std::string& kernel, std::uint32_t threads, int count = 0) {
    const Arguments arguments{out_.data(), count};
    const auto first = reinterpret_cast<std::uint64_t>(out_.data());
    const std::uint64_t bytes = count > 0 ? static_cast<std::uint64_t>(count) * 4 : out_.size() * 4;
    return gfx906::launch(code_, kernel, {}, {threads, 1, 1},
                          {reinterpret_cast<const char*>(&arguments), sizeof(arguments)}, 0,
                          {{first, first + bytes}}, options_);
  }
  void expect_ends_with(const std::string& kernel, std::uint32_t threads, int count,
                        const std::string& words) {
    try {
      launch(kernel, threads, count);
      ADD_FAILURE() << kernel << ": not found";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::device_failure);
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }

  std::string elf_ = contents(GDN_PLANTED_PREFIX ".co");
  gfx906::CodeObject code_{elf_, contents(GDN_PLANTED_PREFIX ".lst")};
  std::vector<int> out_ = std::vector<int>(256, -1);
  gfx906::LaunchOptions options_;
};

TEST_F(PlantedFaults, AMissingBarrierIsFoundInEveryWaveOrder) {
  for (const auto order :
       {gfx906::WaveOrder::forward, gfx906::WaveOrder::reverse, gfx906::WaveOrder::random}) {
    options_.order = order;
    const auto faulty = launch("reverse_without_barrier", 256);
    EXPECT_GT(faulty.num_faults, 0u);
    ASSERT_FALSE(faulty.faults.empty());
    EXPECT_EQ(launch("reverse_sound", 256).num_faults, 0u);
    EXPECT_EQ(out_[0], 255);
  }
  options_.order = gfx906::WaveOrder::forward;
  const auto faults = launch("reverse_without_barrier", 256).faults;
  const bool race = std::any_of(faults.begin(), faults.end(), [](const gfx906::Fault& fault) {
    return fault.kind == gfx906::FaultKind::lds_race;
  });
  EXPECT_TRUE(race);
}

TEST_F(PlantedFaults, CodeForThirtyTwoLanesGivesTheWrongSum) {
  launch("sum_of_half_waves", 64);
  EXPECT_NE(out_[0], 64 * 65 / 2);
  launch("sum_sound", 64);
  EXPECT_EQ(out_[0], 64 * 65 / 2);
  EXPECT_EQ(out_[63], 64 * 65 / 2);
}

TEST_F(PlantedFaults, AnUnguardedTailIsOutOfBounds) {
  expect_ends_with("tail_unguarded", 64, 50, "out-of-bounds");
  EXPECT_EQ(launch("tail_sound", 64, 50).num_faults, 0u);
  EXPECT_EQ(out_[49], 1);
  EXPECT_EQ(out_[50], -1);
}

TEST_F(PlantedFaults, ABarrierThatOneWaveNeverReachesIsFound) {
  expect_ends_with("barrier_of_one_wave", 128, 0, "divergent barrier");
}

TEST_F(PlantedFaults, LdsReadBeforeItIsWrittenIsFound) {
  const auto result = launch("lds_never_written", 64);
  ASSERT_GT(result.num_faults, 0u);
  EXPECT_EQ(result.faults[0].kind, gfx906::FaultKind::undefined_value);
}

TEST_F(PlantedFaults, ScratchMemoryBreaksABudget) {
  const std::vector<Budget> budgets = {{"", 256, 65536, 1}};
  bool seen = false;
  for (const gfx906::KernelResources& kernel : gfx906::read_resources(elf_)) {
    const auto violations = budget_violations(kernel, budgets);
    EXPECT_EQ(violations.empty(), kernel.name != "array_in_scratch") << kernel.name;
    seen |= kernel.name == "array_in_scratch";
  }
  EXPECT_TRUE(seen);
}

TEST_F(PlantedFaults, AnUnknownKernelNamesTheNearest) {
  try {
    launch("sum_sond", 64);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("sum_sound"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace gdn::hip
