// float16 tokens: products of rows of q and k by v_dot2_f32_f16, whose operands are exact and whose
// sums are float32. Nothing but the machine code shows whether the compiler made them.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "emulated_run.h"
#include "hip/code_objects.h"
#include "interface/operations/gated_delta.h"

namespace gdn::hip {
namespace {

std::int64_t occurrences(std::string_view text, std::string_view word) {
  std::int64_t count = 0;
  for (std::size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + word.size())) {
    ++count;
  }
  return count;
}

/// The part of a code object's listing that is one kernel's.
std::string_view part_of(std::string_view listing, const std::string& kernel) {
  const std::size_t first = listing.find("<" + kernel + ">:");
  EXPECT_NE(first, std::string_view::npos) << kernel;
  if (first == std::string_view::npos) return {};
  return listing.substr(first, listing.find(">:\n", first + kernel.size() + 3) - first);
}

TEST(Float16, KernelsOfFloat16TokensHoldDot2AndNoOthersDo) {
  int with_dot2 = 0;
  for (const EmbeddedCodeObject& object : code_objects()) {
    if (object.name != "gated_delta_fused" && object.name != "gated_delta_chunkwise") continue;
    const std::string listing = object.listing();
    for (const gfx906::KernelResources& kernel : gfx906::read_resources(object.elf)) {
      const std::int64_t dot2 = occurrences(part_of(listing, kernel.name), "v_dot2_f32_f16");
      // chunkwise_walk multiplies with float32 states only.
      const bool expected =
          kernel.name.ends_with("_f16") && kernel.name.find("_walk_") == std::string::npos;
      EXPECT_EQ(dot2 > 0, expected) << kernel.name << ": " << dot2 << " v_dot2_f32_f16";
      with_dot2 += expected ? 1 : 0;
    }
  }
  EXPECT_GE(with_dot2, 8);
}

std::uint64_t vector_instructions(const gfx906::Counters& counters) {
  return counters.instructions[static_cast<std::size_t>(gfx906::Unit::vector)];
}

gfx906::Counters counters_of(const std::string& implementation, const std::string& dtype) {
  gfx906::Counters counters =
      emulate(find_implementation(gated_delta_operation(), implementation),
              "gated_delta:heads=1,dim=128,seq=64,gates=mid,chunk=32,dtype=" + dtype)
          .counters;
  std::printf(
      "%s, %s, 64 tokens of one head, D = 128: %llu wave instructions, %llu vector, %llu "
      "v_dot2_f32_f16, %llu LDS cycles\n",
      implementation.c_str(), dtype.c_str(), static_cast<unsigned long long>(counters.total()),
      static_cast<unsigned long long>(vector_instructions(counters)),
      static_cast<unsigned long long>(counters.by_mnemonic["v_dot2_f32_f16"]),
      static_cast<unsigned long long>(counters.lds_cycles));
  return counters;
}

// Per wave and chunk of 32: K K^T and Q K^T, each in three of four blocks of 16 x 16 (one lies
// above the diagonal), an entry a thread and block, 128 / 2 instructions an entry.
constexpr std::uint64_t kDot2OfTwoChunks = 2 * 4 * (2 * 3 * 64);

TEST(Float16, Dot2TakesHalfTheInstructionsOfTheRowProducts) {
  for (const char* implementation : {"hip/fused", "hip/chunkwise"}) {
    gfx906::Counters half = counters_of(implementation, "f16");
    gfx906::Counters single = counters_of(implementation, "f32");
    EXPECT_EQ(half.by_mnemonic["v_dot2_f32_f16"], kDot2OfTwoChunks) << implementation;
    EXPECT_EQ(single.by_mnemonic["v_dot2_f32_f16"], 0u) << implementation;
    EXPECT_LT(vector_instructions(half), vector_instructions(single)) << implementation;
    EXPECT_LT(half.lds_cycles, single.lds_cycles) << implementation;
  }
}

}  // namespace
}  // namespace gdn::hip
