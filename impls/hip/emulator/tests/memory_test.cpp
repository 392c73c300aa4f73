// LDS, global and scalar memory: what is moved, and every fault that must be found.
#include <algorithm>
#include <random>

#include "interface/error.h"
#include "wave_fixture.h"

namespace gdn::gfx906 {
namespace {

class MemoryTest : public WaveTest {
 protected:
  MemoryTest() {
    for (std::size_t i = 0; i < memory_.size(); ++i) memory_[i] = static_cast<std::uint32_t>(i * 3);
  }
  std::vector<MemoryRange> ranges() const {
    const auto first = reinterpret_cast<std::uint64_t>(memory_.data());
    return {{first, first + sizeof(memory_)}};
  }
  void set_address(int scalar) {
    wave().set_scalar64(scalar, reinterpret_cast<std::uint64_t>(memory_.data()));
  }
  alignas(64) std::array<std::uint32_t, 512> memory_;
};

TEST_F(MemoryTest, GlobalLoadsAndStoresOfEveryWidth) {
  set_address(0);
  set_lanes(0, [](int lane) { return static_cast<std::uint32_t>(16 * lane); });
  run("global_load_dwordx4 v[4:7], v0, s[0:1] offset:16\nglobal_load_ushort v8, v0, s[0:1] "
      "offset:2\n"
      "global_store_dwordx2 v0, v[5:6], s[0:1]\nglobal_store_short v0, v7, s[0:1] offset:8",
      ranges());
  EXPECT_EQ(lane(4, 1), 24u);
  EXPECT_EQ(lane(7, 2), 45u);
  EXPECT_EQ(lane(8, 0), 0u);
  EXPECT_EQ(memory_[0], 15u);
  EXPECT_EQ(memory_[1], 18u);
  EXPECT_EQ(memory_[2] & 0xffff, 21u);
  EXPECT_EQ(num_faults(), 0u);
}

TEST_F(MemoryTest, ScalarLoads) {
  set_address(0);
  run("s_load_dwordx4 s[4:7], s[0:1], 0x8", ranges());
  EXPECT_EQ(wave().s[4], 6u);
  EXPECT_EQ(wave().s[7], 15u);
}

TEST_F(MemoryTest, AnAccessOneByteBeyondABufferIsFound) {
  set_address(0);
  set_lanes(0, [](int lane) { return lane == 40 ? 2045u : 0u; });
  try {
    run("global_load_dword v1, v0, s[0:1]", ranges());
    FAIL() << "not found";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::device_failure);
    EXPECT_NE(std::string(error.what()).find("out-of-bounds"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("global_load_dword v1"), std::string::npos);
  }
}

TEST_F(MemoryTest, LanesThatAreOffAreNotChecked) {
  set_address(0);
  set_lanes(0, [](int lane) { return lane >= 32 ? 1u << 30 : 0u; });
  wave().set_scalar64(kExec, 0xffffffff);
  run("global_load_dword v1, v0, s[0:1]", ranges());
  EXPECT_EQ(num_faults(), 0u);
}

TEST_F(MemoryTest, LdsMovesDataAndStrides) {
  set_lanes(0, [](int lane) { return static_cast<std::uint32_t>(4 * lane); });
  set_lanes(1, [](int lane) { return static_cast<std::uint32_t>(lane + 1000); });
  run("ds_write_b32 v0, v1\nds_write_b32 v0, v1 offset:256");
  wave().set_scalar64(kExec, 0xffff);
  run("ds_read2_b32 v[2:3], v0 offset0:1 offset1:2\nds_read2st64_b32 v[4:5], v0 offset0:0 "
      "offset1:1\n"
      "ds_read_u16 v6, v0 offset:4");
  EXPECT_EQ(lane(2, 5), 1006u);
  EXPECT_EQ(lane(3, 5), 1007u);
  EXPECT_EQ(lane(5, 3), 1003u);
  EXPECT_EQ(lane(6, 0), 1001u);
  EXPECT_EQ(num_faults(), 0u);
}

TEST_F(MemoryTest, LdsOutOfBoundsIsFound) {
  set_lanes(0, [](int) { return 1022u; });  // of 1024
  EXPECT_THROW(run("ds_read_b32 v1, v0"), Error);
}

TEST_F(MemoryTest, ARaceBetweenWavesNamesThemAndABarrierEndsIt) {
  set_lanes(0, [](int lane) { return static_cast<std::uint32_t>(4 * lane); });
  set_lanes(1, [](int) { return 1u; });
  run("ds_write_b32 v0, v1");
  wave().id = 1;
  run("ds_read_b32 v2, v0");
  ASSERT_EQ(num_faults(), 1u);
  EXPECT_EQ(faults()[0].kind, FaultKind::lds_race);
  EXPECT_NE(faults()[0].text.find("written last by wave 0"), std::string::npos) << faults()[0].text;
  EXPECT_NE(faults()[0].text.find("wave 1"), std::string::npos);
  context().lds.next_interval();
  run("ds_read_b32 v2, v0");
  EXPECT_EQ(num_faults(), 1u);
}

TEST_F(MemoryTest, ReadingWhatAnotherWaveReadIsNoRaceButWritingItIs) {
  set_lanes(0, [](int lane) { return static_cast<std::uint32_t>(4 * lane); });
  set_lanes(1, [](int) { return 1u; });
  run("ds_write_b32 v0, v1");
  context().lds.next_interval();
  run("ds_read_b32 v2, v0");
  wave().id = 3;
  run("ds_read_b32 v2, v0");
  EXPECT_EQ(num_faults(), 0u);
  run("ds_write_b32 v0, v1");
  EXPECT_EQ(num_faults(), 1u);
}

TEST_F(MemoryTest, HalvesOfOneDwordAreDifferentLocations) {
  set_lanes(0, [](int lane) { return static_cast<std::uint32_t>(4 * lane); });
  set_lanes(1, [](int) { return 1u; });
  run("ds_write_b16 v0, v1");
  wave().id = 1;
  run("ds_write_b16 v0, v1 offset:2");
  EXPECT_EQ(num_faults(), 0u);
}

TEST_F(MemoryTest, AnUndefinedRegisterIsFoundWhereItDecides) {
  set_address(0);
  set_lanes(0, [](int lane) { return static_cast<std::uint32_t>(4 * lane); });
  run("v_add_u32_e32 v1, v2, v0\nv_mov_b32_e32 v3, v1", ranges());
  EXPECT_EQ(num_faults(), 0u);  // computed with, not used
  run("global_store_dword v0, v3, s[0:1]", ranges());
  EXPECT_EQ(num_faults(), 1u);
  wave().v_defined[0] = ~std::uint64_t{4};
  run("global_load_dword v4, v0, s[0:1]", ranges());
  EXPECT_EQ(num_faults(), 2u);
}

TEST_F(MemoryTest, AnUndefinedLaneOfAComparisonIsFoundInExec) {
  set_lanes(0, [](int) { return 1u; });
  wave().v_defined[0] = ~std::uint64_t{1};
  run("v_cmp_eq_u32_e32 vcc, 1, v0");
  EXPECT_EQ(num_faults(), 0u);
  run("s_and_saveexec_b64 s[0:1], vcc");
  EXPECT_EQ(num_faults(), 1u);
  // Masked out by a defined zero, the lane decides nothing.
  wave().set_scalar64(kExec, kAllLanes);
  run("v_cmp_eq_u32_e32 vcc, 1, v0\ns_mov_b64 s[2:3], -2\ns_and_b64 vcc, vcc, s[2:3]\n"
      "s_and_saveexec_b64 s[0:1], vcc");
  EXPECT_EQ(num_faults(), 1u);
}

TEST_F(MemoryTest, FaultsBeyondTheMostAreCountedAndOneThatEndsTheLaunchStillDoes) {
  options_.max_faults = 2;
  set_address(0);
  set_lanes(0, [](int lane) { return static_cast<std::uint32_t>(4 * lane); });
  const std::string store = "global_store_dword v0, v2, s[0:1]\n";  // of what nobody wrote
  run(store, ranges());
  EXPECT_EQ(faults().size(), 1u);
  run(store + store + store, ranges());
  EXPECT_EQ(num_faults(), 4u);
  EXPECT_EQ(faults().size(), 2u);
  set_lanes(0, [](int) { return 2048u; });
  EXPECT_THROW(run("global_load_dword v1, v0, s[0:1]", ranges()), Error);
}

TEST_F(MemoryTest, UndefinedLdsIsNamed) {
  set_address(0);
  set_lanes(0, [](int lane) { return static_cast<std::uint32_t>(4 * lane); });
  run("ds_read_b32 v1, v0\nglobal_store_dword v0, v1, s[0:1]", ranges());
  ASSERT_EQ(num_faults(), 1u);
  EXPECT_NE(faults()[0].text.find("read before it was written"), std::string::npos)
      << faults()[0].text;
}

// Lanes that read what a lane near them has just read are not looked at again.
TEST_F(MemoryTest, WhatALaneReadsOfLdsIsAsDefinedAsItsOwnAddress) {
  for (unsigned int seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const auto any = [&] { return random() | std::uint64_t{random()} << 32; };
    run("");
    context().lds.reset(1024);
    set_lanes(0, [](int lane) { return static_cast<std::uint32_t>(4 * lane); });
    set_lanes(1, [](int lane) { return static_cast<std::uint32_t>(lane + 1000); });
    const std::uint64_t written = any(), reading = any();
    wave().set_scalar64(kExec, written);
    run("ds_write_b32 v0, v1");
    std::array<std::uint32_t, kLanes> dword{};
    for (std::size_t lane = 0; lane < dword.size(); ++lane) {
      const auto kind = random() % 4;
      dword[lane] = kind < 2 && lane >= 1    ? dword[lane - 1]
                    : kind == 2 && lane >= 8 ? dword[lane - 8]
                                             : random() % kLanes;
    }
    set_lanes(2, [&](int lane) { return 4 * dword[static_cast<std::size_t>(lane)]; });
    set_lanes(3, [](int) { return 7u; });
    wave().set_scalar64(kExec, reading);
    run("ds_read_b32 v3, v2");
    for (int i = 0; i < kLanes; ++i) {
      const std::uint32_t at = dword[static_cast<std::size_t>(i)];
      const bool reads = (reading >> i & 1) != 0, defined = !reads || (written >> at & 1) != 0;
      EXPECT_EQ(wave().v_defined[3] >> i & 1, defined ? 1u : 0u) << "seed " << seed << ", " << i;
      if (defined) {
        EXPECT_EQ(lane(3, i), reads ? at + 1000 : 7u) << "seed " << seed << ", " << i;
      }
    }
  }
}

TEST_F(MemoryTest, BankConflictsAndCacheLinesAreCounted) {
  options_.profile = true;
  set_address(0);
  set_lanes(0, [](int lane) { return static_cast<std::uint32_t>(4 * lane); });
  set_lanes(1, [](int lane) { return static_cast<std::uint32_t>(128 * (lane % 8)); });  // one bank
  set_lanes(2, [](int) { return 0u; });
  run("ds_write_b32 v0, v2");
  EXPECT_EQ(context().counters.lds_cycles, 2u);
  EXPECT_EQ(context().counters.lds_conflict_cycles, 0u);
  run("ds_write_b32 v1, v2");
  EXPECT_EQ(context().counters.lds_cycles, 2u + 16u);
  EXPECT_EQ(context().counters.lds_conflict_cycles, 14u);
  run("global_load_dword v3, v0, s[0:1]", ranges());
  EXPECT_EQ(context().counters.global_lines, 4u);
  run("global_load_dword v3, v1, s[0:1]", ranges());
  EXPECT_EQ(context().counters.global_lines, 4u + 8u);
}

TEST(Decoder, UnknownInstructionsAndOperandsAreMarked) {
  const auto code = decode_listing(
      "v_frobnicate_f32 v0, v1\nv_add_f32_e32 v0, v1, q2\n"
      "v_add_f32_e32 v0, v1, v2 sideways:1\nv_add_f32_e32 v0, v1, v2");
  ASSERT_EQ(code.size(), 4u);
  EXPECT_EQ(code[0].execute, nullptr);
  EXPECT_EQ(code[1].execute, nullptr);
  EXPECT_EQ(code[2].execute, nullptr);
  EXPECT_NE(code[3].execute, nullptr);
}

TEST(CodeObjectFile, RefusesWhatIsNotOne) {
  EXPECT_THROW(CodeObject("not an ELF file", ""), Error);
  EXPECT_THROW(read_resources(std::string(4096, '\0')), Error);
}

}  // namespace
}  // namespace gdn::gfx906
