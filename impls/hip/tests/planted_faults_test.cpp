// Each planted fault is found, with the words that lead to it, and its sound twin passes. Faults
// are kernels of planted_faults.hip, or a sound kernel whose listing was edited where no C++ makes
// the fault.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>

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
  gfx906::LaunchResult launch(const gfx906::CodeObject& code, const std::string& kernel,
                              std::uint32_t threads, int count = 0) {
    const Arguments arguments{out_.data(), count};
    const auto first = reinterpret_cast<std::uint64_t>(out_.data());
    const std::uint64_t bytes = count > 0 ? static_cast<std::uint64_t>(count) * 4 : out_.size() * 4;
    return gfx906::launch(code, kernel, {}, {threads, 1, 1},
                          {reinterpret_cast<const char*>(&arguments), sizeof(arguments)}, 0,
                          {{first, first + bytes}}, options_);
  }
  gfx906::LaunchResult launch(const std::string& kernel, std::uint32_t threads, int count = 0) {
    return launch(code_, kernel, threads, count);
  }

  /// The launch is refused or ended by an error that holds all the words.
  void expect_ends_with(const gfx906::CodeObject& code, const std::string& kernel,
                        std::uint32_t threads, int count, ErrorKind kind,
                        const std::vector<std::string>& words) {
    try {
      launch(code, kernel, threads, count);
      ADD_FAILURE() << kernel << ": not found";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind);
      expect_words(error.what(), words);
    }
  }
  /// The launch goes on, and its first fault is of this kind and holds all the words.
  static void expect_found(const gfx906::LaunchResult& result, gfx906::FaultKind kind,
                           const std::vector<std::string>& words) {
    ASSERT_GT(result.num_faults, 0u);
    ASSERT_FALSE(result.faults.empty());
    EXPECT_EQ(result.faults[0].kind, kind);
    expect_words(result.faults[0].text, words);
  }
  static void expect_words(const std::string& text, const std::vector<std::string>& words) {
    for (const std::string& word : words) {
      EXPECT_NE(text.find(word), std::string::npos) << "'" << text << "' does not say " << word;
    }
  }

  /// The listing with one instruction of `kernel` put in another's place.
  std::string edited_listing(const std::string& kernel, const std::string& instruction,
                             const std::string& replacement) const {
    std::string listing = listing_;
    const std::size_t function = listing.find("<" + kernel + ">:");
    EXPECT_NE(function, std::string::npos) << kernel;
    const std::size_t at = listing.find(instruction, function);
    EXPECT_NE(at, std::string::npos) << instruction;
    return listing.replace(at, listing.find("//", at) - at, replacement + " ");
  }

  std::string elf_ = contents(GDN_PLANTED_PREFIX ".co");
  std::string listing_ = contents(GDN_PLANTED_PREFIX ".lst");
  gfx906::CodeObject code_{elf_, listing_};
  std::vector<int> out_ = std::vector<int>(256, -1);
  gfx906::LaunchOptions options_;
};

TEST_F(PlantedFaults, AMissingBarrierIsAnLdsRaceInEveryWaveOrder) {
  for (const auto order :
       {gfx906::WaveOrder::forward, gfx906::WaveOrder::reverse, gfx906::WaveOrder::random}) {
    options_.order = order;
    bool race = false;
    for (const gfx906::Fault& fault : launch("reverse_without_barrier", 256).faults) {
      if (fault.kind != gfx906::FaultKind::lds_race) continue;
      race = true;
      expect_words(fault.text, {"reverse_without_barrier: LDS race", "wave ", "ds_"});
    }
    EXPECT_TRUE(race);
    EXPECT_EQ(launch("reverse_sound", 256).num_faults, 0u);
    EXPECT_EQ(out_[0], 255);
  }
}

TEST_F(PlantedFaults, CodeForThirtyTwoLanesSumsHalfAWave) {
  launch("sum_of_half_waves", 64);
  EXPECT_EQ(out_[0], 32 * 33 / 2);
  EXPECT_EQ(out_[63], 64 * 65 / 2 - 32 * 33 / 2);
  launch("sum_sound", 64);
  EXPECT_EQ(out_[0], 64 * 65 / 2);
  EXPECT_EQ(out_[63], 64 * 65 / 2);
}

TEST_F(PlantedFaults, AnUnguardedTailIsOutOfBounds) {
  expect_ends_with(code_, "tail_unguarded", 64, 50, ErrorKind::device_failure,
                   {"tail_unguarded: out-of-bounds access", "global_store_dword", "200 bytes"});
  EXPECT_EQ(launch("tail_sound", 64, 50).num_faults, 0u);
  EXPECT_EQ(out_[49], 1);
  EXPECT_EQ(out_[50], -1);
}

TEST_F(PlantedFaults, ABarrierThatOneWaveNeverReachesIsDivergent) {
  expect_ends_with(code_, "barrier_of_one_wave", 128, 0, ErrorKind::device_failure,
                   {"barrier_of_one_wave: divergent barrier", "1 of 2 waves have ended"});
}

TEST_F(PlantedFaults, LdsReadBeforeItIsWrittenIsUndefined) {
  expect_found(launch("lds_never_written", 64), gfx906::FaultKind::undefined_value,
               {"lds_never_written: undefined value used", "global_store_dword", "LDS"});
}

TEST_F(PlantedFaults, ARegisterReadBeforeItIsWrittenIsUndefined) {
  const std::string listing = edited_listing("tail_sound", "v_mov_b32_e32 v1, 1", "s_nop 0");
  const gfx906::CodeObject code(elf_, listing);
  expect_found(launch(code, "tail_sound", 64, 50), gfx906::FaultKind::undefined_value,
               {"tail_sound: undefined value used", "global_store_dword v0, v1"});
}

TEST_F(PlantedFaults, AnUnknownInstructionIsRefusedBeforeTheKernelRuns) {
  const std::string listing =
      edited_listing("tail_sound", "v_mov_b32_e32 v1, 1", "v_frobnicate_b32 v1, 1");
  const gfx906::CodeObject code(elf_, listing);
  expect_ends_with(
      code, "tail_sound", 64, 50, ErrorKind::bad_input,
      {"kernel tail_sound", "instructions it does not know", "v_frobnicate_b32 v1, 1"});
  EXPECT_EQ(out_, std::vector<int>(256, -1));
  EXPECT_EQ(launch(code, "sum_sound", 64).num_faults, 0u);  // another kernel of the object
}

TEST_F(PlantedFaults, ScratchMemoryAndSpillsBreakABudget) {
  const std::vector<Budget> budgets = {{"", 256, 65536, 1}};
  std::map<std::string, std::string> found;
  for (const gfx906::KernelResources& kernel : gfx906::read_resources(elf_)) {
    for (const std::string& violation : budget_violations(kernel, budgets)) {
      found[kernel.name] += violation + "\n";
    }
  }
  expect_words(found["array_in_scratch"],
               {"array_in_scratch: ", "bytes of scratch per lane, at most 0"});
  expect_words(found["registers_spilled"], {"VGPR spills, at most 0", "bytes of scratch per lane"});
  EXPECT_EQ(found.size(), 2u) << "a sound kernel was found at fault";
}

TEST_F(PlantedFaults, AnUnknownKernelNamesTheNearest) {
  expect_ends_with(code_, "sum_sond", 64, 0, ErrorKind::bad_input, {"'sum_sond'", "'sum_sound'"});
}

}  // namespace
}  // namespace gdn::hip
