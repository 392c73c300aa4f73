// SALU: results, SCC, exec handling, branches.
#include "wave_fixture.h"

namespace gdn::gfx906 {
namespace {

using Scalar = WaveTest;

TEST_F(Scalar, AdditionsCarryIntoSixtyFourBits) {
  wave().set_scalar64(0, 0xffffffff'fffffffeull);
  wave().set_scalar64(2, 3);
  run("s_add_u32 s4, s0, s2\ns_addc_u32 s5, s1, s3");
  EXPECT_EQ(wave().scalar64(4), 1u);
  EXPECT_TRUE(wave().scc);  // out of 64 bits
  run("s_sub_u32 s4, s2, s0\ns_subb_u32 s5, s3, s1");
  EXPECT_EQ(wave().scalar64(4), 5u);
  EXPECT_TRUE(wave().scc);  // borrow
}

TEST_F(Scalar, SignedOverflowSetsScc) {
  wave().set_scalar(0, 0x7fffffff);
  run("s_add_i32 s1, s0, 1");
  EXPECT_EQ(wave().s[1], 0x80000000u);
  EXPECT_TRUE(wave().scc);
  run("s_add_i32 s1, s0, -1");
  EXPECT_FALSE(wave().scc);
  run("s_mov_b32 s1, s0\ns_addk_i32 s1, 0x1");
  EXPECT_TRUE(wave().scc);
}

TEST_F(Scalar, ShiftsFieldsAndProducts) {
  wave().set_scalar(0, 0x80000010u);
  wave().set_scalar64(2, 0x00000001'80000000ull);
  run("s_ashr_i32 s4, s0, 4\ns_lshr_b32 s5, s0, 4\ns_bfe_u32 s6, s0, 0x40004\n"
      "s_bfe_i32 s7, s0, 0x1001f\ns_mul_hi_u32 s8, s0, s0\ns_lshl_b64 s[10:11], s[2:3], 1\n"
      "s_bcnt1_i32_b64 s12, s[2:3]\ns_ff1_i32_b64 s13, s[2:3]\ns_mul_hi_i32 s14, s0, 2");
  EXPECT_EQ(wave().s[4], 0xf8000001u);
  EXPECT_EQ(wave().s[5], 0x08000001u);
  EXPECT_EQ(wave().s[6], 1u);
  EXPECT_EQ(wave().s[7], 0xffffffffu);
  EXPECT_EQ(wave().s[8], 0x40000010u);
  EXPECT_EQ(wave().scalar64(10), 0x00000003'00000000ull);
  EXPECT_EQ(wave().s[12], 2u);
  EXPECT_EQ(wave().s[13], 31u);
  EXPECT_EQ(wave().s[14], 0xffffffffu);
}

TEST_F(Scalar, InlineConstantsExtendTheirSignAndLiteralsDoNot) {
  run("s_mov_b64 s[0:1], -1\ns_mov_b64 s[2:3], 0xffffffff\ns_movk_i32 s4, 0x8000\n"
      "s_mov_b32 s5, 1.0");
  EXPECT_EQ(wave().scalar64(0), ~std::uint64_t{0});
  EXPECT_EQ(wave().scalar64(2), 0xffffffffu);
  EXPECT_EQ(wave().s[4], 0xffff8000u);
  EXPECT_EQ(wave().s[5], 0x3f800000u);
}

TEST_F(Scalar, SaveExecKeepsTheOldMask) {
  wave().set_scalar64(0, 0x0f);
  run("s_and_saveexec_b64 s[2:3], s[0:1]\ns_xor_b64 s[4:5], exec, s[2:3]");
  EXPECT_EQ(wave().exec(), 0x0fu);
  EXPECT_EQ(wave().scalar64(2), kAllLanes);
  EXPECT_EQ(wave().scalar64(4), ~std::uint64_t{0x0f});
}

TEST_F(Scalar, BranchesFollowScc) {
  wave().set_scalar(0, 5);
  // Counts down: s1 = 5 + 4 + 3 + 2 + 1.
  run("s_mov_b32 s1, 0\ns_add_i32 s1, s1, s0\ns_sub_i32 s0, s0, 1\ns_cmp_lg_u32 s0, 0\n"
      "s_cbranch_scc1 65532");
  EXPECT_EQ(wave().s[1], 15u);
}

TEST_F(Scalar, ComparisonsOfBothSigns) {
  wave().set_scalar(0, 0xffffffffu);
  run("s_cmp_gt_u32 s0, 1\ns_cselect_b32 s1, 1, 2\ns_cmp_gt_i32 s0, 1\ns_cselect_b32 s2, 1, 2\n"
      "s_cmpk_eq_i32 s0, 0xffff\ns_cselect_b32 s3, 1, 2\ns_bitcmp1_b32 s0, 31\n"
      "s_cselect_b32 s4, 1, 2");
  EXPECT_EQ(wave().s[1], 1u);
  EXPECT_EQ(wave().s[2], 2u);
  EXPECT_EQ(wave().s[3], 1u);
  EXPECT_EQ(wave().s[4], 1u);
}

}  // namespace
}  // namespace gdn::gfx906
