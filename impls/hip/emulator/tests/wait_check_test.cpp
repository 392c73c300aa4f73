// The proof of waits: each rule by itself, on programs of a few lines.
#include "hip/emulator/wait_check.h"

#include <gtest/gtest.h>

#include "interface/error.h"

namespace gdn::gfx906 {
namespace {

std::vector<MissingWait> check(const std::string& lines) {
  Kernel kernel;
  kernel.name = "listing";
  kernel.code = decode_listing(lines + "\ns_endpgm\n");
  return missing_waits(kernel);
}

/// "v1 needs vmcnt(0) at 2; ..." with indices of lines, or "" where nothing is missing.
std::string missing(const std::string& lines) {
  std::string all;
  for (const MissingWait& wait : check(lines)) {
    if (!all.empty()) all += "; ";
    all += wait.subject + " needs " + wait.needed + " at " + std::to_string(wait.index);
  }
  return all;
}

TEST(MissingWaits, AWaitBetweenLoadAndUseIsEnough) {
  EXPECT_EQ(missing("global_load_dword v1, v[2:3], off\ns_waitcnt vmcnt(0)\n"
                    "v_add_f32_e32 v4, v1, v1"),
            "");
  EXPECT_EQ(missing("ds_read_b64 v[4:5], v0\ns_waitcnt lgkmcnt(0)\nv_add_f32_e32 v4, v4, v5"), "");
  EXPECT_EQ(missing("s_load_dword s4, s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\ns_add_u32 s4, s4, 1"), "");
}

TEST(MissingWaits, AMissingOneNamesKernelAddressInstructionAndRegister) {
  const auto findings = check("global_load_dwordx2 v[6:7], v[2:3], off\nv_add_f32_e32 v4, v7, v1");
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].address, 4u);
  EXPECT_EQ(findings[0].text,
            "kernel listing at 0x4 'v_add_f32_e32 v4, v7, v1': v7 may be outstanding, expected "
            "s_waitcnt vmcnt(0) before");
}

TEST(MissingWaits, EveryKindOfLoadIsSeen) {
  EXPECT_EQ(missing("ds_read2_b32 v[1:2], v0 offset1:1\nv_mov_b32_e32 v3, v2"),
            "v2 needs lgkmcnt(0) at 1");
  EXPECT_EQ(missing("ds_bpermute_b32 v1, v0, v2\nv_mov_b32_e32 v3, v1"),
            "v1 needs lgkmcnt(0) at 1");
  EXPECT_EQ(missing("ds_add_rtn_u32 v1, v0, v2\nv_mov_b32_e32 v3, v1"), "v1 needs lgkmcnt(0) at 1");
  EXPECT_EQ(missing("buffer_load_dword v1, off, s[0:3], 0\nv_mov_b32_e32 v3, v1"),
            "v1 needs vmcnt(0) at 1");
  EXPECT_EQ(missing("global_atomic_add v1, v[2:3], v4, off glc\nv_mov_b32_e32 v3, v1"),
            "v1 needs vmcnt(0) at 1");
  EXPECT_EQ(missing("s_load_dwordx4 s[4:7], s[0:1], 0x0\nv_mov_b32_e32 v3, s7"),
            "s7 needs lgkmcnt(0) at 1");
  EXPECT_EQ(missing("flat_load_dword v1, v[2:3]\ns_waitcnt vmcnt(0)\nv_mov_b32_e32 v3, v1"),
            "v1 needs lgkmcnt(0) at 2");
  EXPECT_EQ(missing("flat_load_dword v1, v[2:3]\ns_waitcnt lgkmcnt(0)\nv_mov_b32_e32 v3, v1"),
            "v1 needs vmcnt(0) at 2");
}

TEST(MissingWaits, EveryKindOfUseIsSeen) {
  const std::string load = "global_load_dword v1, v[2:3], off\n";
  EXPECT_EQ(missing(load + "global_store_dword v[2:3], v1, off"), "v1 needs vmcnt(0) at 1");
  EXPECT_EQ(missing(load + "ds_write_b32 v1, v2"), "v1 needs vmcnt(0) at 1");
  EXPECT_EQ(missing(load + "v_readfirstlane_b32 s0, v1"), "v1 needs vmcnt(0) at 1");
  const std::string mask = "s_load_dwordx2 vcc, s[0:1], 0x0\n";
  EXPECT_EQ(missing(mask + "s_cbranch_vccz 0"),
            "s106 needs lgkmcnt(0) at 1; s107 needs lgkmcnt(0) at 1");
  EXPECT_EQ(missing(mask + "v_div_fmas_f32 v2, v2, v3, v5"),
            "s106 needs lgkmcnt(0) at 1; s107 needs lgkmcnt(0) at 1");
}

TEST(MissingWaits, AWaitThatLeavesTheLoadItselfOutstandingIsTooWeak) {
  const std::string loads =
      "global_load_dword v1, v[8:9], off\nglobal_load_dword v2, v[8:9], off\n"
      "global_load_dword v3, v[8:9], off\n";
  EXPECT_EQ(missing(loads + "s_waitcnt vmcnt(2)\nv_mov_b32_e32 v4, v1"), "");
  EXPECT_EQ(missing(loads + "s_waitcnt vmcnt(1)\nv_mov_b32_e32 v4, v2"), "");
  EXPECT_EQ(missing(loads + "s_waitcnt vmcnt(2)\nv_mov_b32_e32 v4, v2"), "v2 needs vmcnt(1) at 4");
  EXPECT_EQ(missing("ds_read_b32 v1, v0\nds_read_b32 v2, v0\ns_waitcnt lgkmcnt(1)\n"
                    "v_add_f32_e32 v3, v1, v2"),
            "v2 needs lgkmcnt(0) at 3");
}

TEST(MissingWaits, StoresBehindALoadAreCounted) {
  const std::string lines =
      "global_load_dword v1, v[8:9], off\nglobal_store_dword v[8:9], v2, off\n"
      "global_store_dword v[8:9], v3, off\n";
  EXPECT_EQ(missing(lines + "s_waitcnt vmcnt(2)\nv_mov_b32_e32 v4, v1"), "");
  EXPECT_EQ(missing(lines + "s_waitcnt vmcnt(3)\nv_mov_b32_e32 v4, v1"), "v1 needs vmcnt(2) at 4");
  EXPECT_EQ(missing("ds_read_b32 v1, v0\nds_write_b32 v0, v2\ns_waitcnt lgkmcnt(1)\n"
                    "v_mov_b32_e32 v4, v1"),
            "");
}

TEST(MissingWaits, ScalarLoadsComeInAnyOrder) {
  EXPECT_EQ(missing("s_load_dword s4, s[0:1], 0x0\ns_load_dword s5, s[0:1], 0x4\n"
                    "s_waitcnt lgkmcnt(1)\ns_mov_b32 s6, s4"),
            "s4 needs lgkmcnt(0) at 3");
  EXPECT_EQ(missing("s_load_dword s4, s[0:1], 0x0\ns_load_dword s4, s[0:1], 0x4"),
            "s4 needs lgkmcnt(0) at 1");
  // Neither counts for the other: the scalar load behind may be done first.
  EXPECT_EQ(missing("ds_read_b32 v1, v0\ns_load_dword s4, s[0:1], 0x0\ns_waitcnt lgkmcnt(1)\n"
                    "v_mov_b32_e32 v2, v1"),
            "v1 needs lgkmcnt(0) at 3");
  EXPECT_EQ(missing("s_load_dword s4, s[0:1], 0x0\nds_read_b32 v1, v0\ns_waitcnt lgkmcnt(1)\n"
                    "s_mov_b32 s5, s4"),
            "s4 needs lgkmcnt(0) at 3");
}

TEST(MissingWaits, AFlatAccessBehindALoadDoesNotCount) {
  EXPECT_EQ(missing("global_load_dword v1, v[8:9], off\nflat_load_dword v2, v[8:9]\n"
                    "s_waitcnt vmcnt(1)\nv_mov_b32_e32 v3, v1"),
            "v1 needs vmcnt(0) at 3");
}

TEST(MissingWaits, CountersAreSeparate) {
  EXPECT_EQ(missing("global_load_dword v1, v[8:9], off\ns_waitcnt lgkmcnt(0)\n"
                    "v_mov_b32_e32 v3, v1"),
            "v1 needs vmcnt(0) at 2");
  EXPECT_EQ(missing("ds_read_b32 v1, v0\ns_waitcnt vmcnt(0)\nv_mov_b32_e32 v3, v1"),
            "v1 needs lgkmcnt(0) at 2");
}

TEST(MissingWaits, APendingDestinationIsNotOverwrittenButInOrder) {
  EXPECT_EQ(missing("global_load_dword v1, v[8:9], off\nv_mov_b32_e32 v1, 0"),
            "v1 needs vmcnt(0) at 1");
  EXPECT_EQ(missing("global_load_dword v1, v[8:9], off\nds_read_b32 v1, v0"),
            "v1 needs vmcnt(0) at 1");
  // The later of two loads of one queue arrives last.
  EXPECT_EQ(missing("global_load_dword v1, v[8:9], off\nglobal_load_dword v1, v[8:9], off"), "");
  EXPECT_EQ(missing("global_load_dword v1, v[8:9], off\nglobal_load_dword v1, v[8:9], off\n"
                    "global_load_dword v2, v[8:9], off\ns_waitcnt vmcnt(2)\nv_mov_b32_e32 v3, v1"),
            "v1 needs vmcnt(1) at 4");
  // What a load or store was given may change as soon as it is issued.
  EXPECT_EQ(missing("global_load_dword v1, v[8:9], off\nv_mov_b32_e32 v8, 0"), "");
  EXPECT_EQ(missing("global_store_dword v[8:9], v1, off\nv_mov_b32_e32 v1, 0"), "");
}

TEST(MissingWaits, AnAddressThatIsLoadedIsWaitedFor) {
  EXPECT_EQ(missing("global_load_dwordx2 v[8:9], v[8:9], off\nglobal_load_dword v1, v[8:9], off"),
            "v8 needs vmcnt(0) at 1; v9 needs vmcnt(0) at 1");
}

TEST(MissingWaits, AtAJoinTheWorseBranchCounts) {
  // One branch waits, the other does not.
  EXPECT_EQ(missing("global_load_dword v1, v[8:9], off\ns_cbranch_scc0 1\ns_waitcnt vmcnt(0)\n"
                    "v_mov_b32_e32 v2, v1"),
            "v1 needs vmcnt(0) at 3");
  // One branch has issued more behind the load: less may be left outstanding.
  const std::string uneven =
      "global_load_dword v1, v[8:9], off\ns_cbranch_scc0 1\n"
      "global_store_dword v[8:9], v3, off\n";
  EXPECT_EQ(missing(uneven + "s_waitcnt vmcnt(1)\nv_mov_b32_e32 v2, v1"), "v1 needs vmcnt(0) at 4");
  EXPECT_EQ(missing(uneven + "s_waitcnt vmcnt(0)\nv_mov_b32_e32 v2, v1"), "");
  // One branch alone loads.
  EXPECT_EQ(missing("s_cbranch_execz 1\nds_read_b32 v1, v0\nv_mov_b32_e32 v2, v1"),
            "v1 needs lgkmcnt(0) at 2");
}

TEST(MissingWaits, ALoadIsCarriedAroundALoop) {
  // Used in the next round; the last instruction branches back to the first.
  EXPECT_EQ(missing("v_add_f32_e32 v2, v2, v1\nglobal_load_dword v1, v[8:9], off\n"
                    "s_cbranch_scc1 65533"),
            "v1 needs vmcnt(0) at 0");
  EXPECT_EQ(missing("s_waitcnt vmcnt(0)\nv_add_f32_e32 v2, v2, v1\n"
                    "global_load_dword v1, v[8:9], off\ns_cbranch_scc1 65532"),
            "");
  // Two rounds ahead: the first round has one load fewer behind it.
  EXPECT_EQ(missing("global_load_dword v1, v[8:9], off\ns_waitcnt vmcnt(1)\n"
                    "v_add_f32_e32 v2, v2, v1\nglobal_load_dword v3, v[8:9], off\n"
                    "s_cbranch_scc1 65532"),
            "v1 needs vmcnt(0) at 2");
}

TEST(MissingWaits, CodeThatNoPathReachesIsNotJudged) {
  EXPECT_EQ(missing("global_load_dword v1, v[8:9], off\ns_branch 1\nv_mov_b32_e32 v2, v1"), "");
}

TEST(MissingWaits, LdsIsDoneAtABarrier) {
  EXPECT_EQ(missing("ds_write_b32 v0, v1\ns_barrier"), "LDS needs lgkmcnt(0) at 1");
  EXPECT_EQ(missing("ds_read_b32 v1, v0\ns_barrier"), "LDS needs lgkmcnt(0) at 1");
  EXPECT_EQ(missing("ds_write_b32 v0, v1\ns_waitcnt lgkmcnt(0)\ns_barrier"), "");
  EXPECT_EQ(missing("flat_store_dword v[2:3], v1\ns_barrier"), "LDS needs lgkmcnt(0) at 1");
  // Lanes that exchange values touch no memory, and wait in the same queue.
  EXPECT_EQ(missing("ds_bpermute_b32 v1, v0, v2\ns_barrier"), "");
  EXPECT_EQ(missing("ds_write_b32 v0, v1\nds_bpermute_b32 v1, v0, v2\ns_waitcnt lgkmcnt(1)\n"
                    "s_barrier"),
            "");
}

TEST(MissingWaits, TheEndOfACountersRangeIsNoWait) {
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += "ds_read_b32 v" + std::to_string(10 + i) + ", v0\n";
  EXPECT_EQ(missing(lines + "s_waitcnt lgkmcnt(14)\nv_mov_b32_e32 v1, v10"), "");
  EXPECT_EQ(missing(lines + "s_waitcnt lgkmcnt(15)\nv_mov_b32_e32 v1, v10"),
            "v10 needs lgkmcnt(14) at 21");
}

TEST(MissingWaits, WhatIsNotKnownIsRefused) {
  const auto refusal = [](const Kernel& kernel) -> std::string {
    try {
      missing_waits(kernel);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      return error.what();
    }
    return "";
  };
  const auto message = [&](const std::string& lines) {
    Kernel kernel;
    kernel.name = "listing";
    kernel.code = decode_listing(lines + "\ns_endpgm\n");
    return refusal(kernel);
  };
  EXPECT_EQ(message("v_mov_b32_e32 v0, v1\nv_frobnicate_f32 v0, v1"),
            "gfx906 wait check: kernel listing at 0x4 'v_frobnicate_f32 v0, v1': not known to the "
            "emulator");
  EXPECT_NE(message("s_waitcnt 0xc07f"), "");
  EXPECT_NE(message("s_load_dword m0, s[0:1], 0x0"), "");
  Kernel endless;
  endless.name = "endless";
  endless.code = decode_listing("v_mov_b32_e32 v0, v1");
  EXPECT_EQ(refusal(endless),
            "gfx906 wait check: kernel endless at 0 'v_mov_b32_e32 v0, v1': the kernel goes on "
            "past its end");
  endless.code.clear();
  EXPECT_EQ(refusal(endless), "gfx906 wait check: kernel endless is empty");
}

}  // namespace
}  // namespace gdn::gfx906
