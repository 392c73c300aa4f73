// Packed listings: what the emulator runs is what llvm-objdump printed, instruction by instruction.
#include "hip/emulator/packed_listing.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "hip/code_objects.h"
#include "hip/emulator/code_object.h"
#include "interface/error.h"

namespace gdn::hip {
namespace {

std::string whole_listing(const std::string& name) {
  std::ifstream file(std::string(GDN_LISTINGS) + name + ".lst");
  EXPECT_TRUE(file) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

// Both have the branches, which a wrong address would lead elsewhere. The smaller objects alone, since every kernel of
// a listing is decoded.
TEST(PackedListings, DecodeAsTheWholeOnes) {
  int compared = 0;
  for (const EmbeddedCodeObject& object : code_objects()) {
    if (object.elf.size() > 100 * 1024) continue;
    const gfx906::CodeObject packed(object.elf, object.listing());
    const gfx906::CodeObject whole(object.elf, whole_listing(object.name));
    for (const gfx906::KernelResources& resources : gfx906::read_resources(object.elf)) {
      const auto& is = packed.find(resources.name).code;
      const auto& was = whole.find(resources.name).code;
      ASSERT_EQ(is.size(), was.size()) << resources.name;
      for (std::size_t i = 0; i < is.size(); ++i) {
        ASSERT_EQ(is[i].text, was[i].text) << resources.name << ", instruction " << i;
        ASSERT_EQ(is[i].address, was[i].address) << resources.name << ": " << is[i].text;
        ASSERT_EQ(is[i].next_address, was[i].next_address) << resources.name << ": " << is[i].text;
        ASSERT_EQ(is[i].target, was[i].target) << resources.name << ": " << is[i].text;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 10000);
}

TEST(PackedListings, TakeLessThanHalfOfWhatTheyUnpackTo) {
  for (const EmbeddedCodeObject& object : code_objects()) {
    if (object.elf.size() < 100 * 1024) continue;
    EXPECT_LT(object.packed_listing.size(), object.listing().size() / 2) << object.name;
  }
}

TEST(PackedListings, PlacesAreToldWhereInstructionsDoNotFollowEachOther) {
  EXPECT_EQ(gfx906::unpack_listing("3\n1 s_nop 0\n2 v_mul_u32_u24_e32 v74, 0x110, v71\n1 s_endpgm\n"
                                   "0000000000002100 <a>:\n0 1 0 @5288 1 2 \n"
                                   "0000000000006000 <b>:\n2 \n"),
            "\n0000000000002100 <a>:\n"
            "s_nop 0 // 2100: 0\n"
            "v_mul_u32_u24_e32 v74, 0x110, v71 // 2104: 0 0\n"
            "s_nop 0 // 210c: 0\n"
            "v_mul_u32_u24_e32 v74, 0x110, v71 // 5288: 0 0\n"
            "s_endpgm // 5290: 0\n"
            "\n0000000000006000 <b>:\n"
            "s_endpgm // 6000: 0\n");
}

TEST(PackedListings, WhatIsNoneIsRefusedByItsLine) {
  for (const auto& [text, line] : {std::pair<std::string, int>{"", 1},
                                   {"x\n", 1},
                                   {"-1\n", 1},
                                   {"999\n", 1},
                                   {"1\n", 1},
                                   {"1\n0 s_nop 0\n", 2},
                                   {"1\ns_nop 0\n", 2},
                                   {"1\n1 s_nop 0\n0 0\n", 3},
                                   {"1\n1 s_nop 0\n0000 <a>:\n0 1\n", 4},
                                   {"1\n1 s_nop 0\n0000 <a>:\n0 @x 0\n", 4},
                                   {"1\n1 s_nop 0\n0000 <a>:\n0 a\n", 4}}) {
    try {
      gfx906::unpack_listing(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).rfind("packed listing: line " + std::to_string(line), 0),
                0u)
          << text << ": " << error.what();
    }
  }
}

}  // namespace
}  // namespace gdn::hip
