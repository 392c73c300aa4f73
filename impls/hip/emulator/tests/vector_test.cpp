// VALU: float32, float64, float16, integers, carries, comparisons, modifiers, DPP and SDWA.
#include <cmath>
#include <limits>

#include "hip/emulator/lanes.h"
#include "wave_fixture.h"

namespace gdn::gfx906 {
namespace {

using Vector = WaveTest;

std::uint32_t pair(float low, float high) {
  return to_bits(static_cast<Half>(low)) | to_bits(static_cast<Half>(high)) << 16;
}

TEST_F(Vector, FusedAndUnfusedMultiplyAddDiffer) {
  const float a = 1.0f + std::ldexp(1.0f, -12);
  set_floats(0, [&](int) { return a; });
  set_floats(1, [&](int) { return -(a * a); });  // rounded
  run("v_fma_f32 v2, v0, v0, v1\nv_mad_f32 v3, v0, v0, v1\nv_mov_b32_e32 v4, v1\n"
      "v_fmac_f32_e32 v4, v0, v0");
  EXPECT_EQ(lane_float(2, 0), std::ldexp(1.0f, -24));
  EXPECT_EQ(lane_float(3, 0), 0.0f);
  EXPECT_EQ(lane_float(4, 63), std::ldexp(1.0f, -24));
}

TEST_F(Vector, DenormalsAreKeptExceptByMad) {
  set_floats(0, [](int) { return std::numeric_limits<float>::min(); });
  run("v_mul_f32_e32 v1, 0.5, v0\nv_mad_f32 v2, v0, 0.5, 0");
  EXPECT_EQ(lane_float(1, 5), std::numeric_limits<float>::min() / 2);
  EXPECT_EQ(lane_float(2, 5), 0.0f);
}

TEST_F(Vector, NegationAbsoluteValueAndClamp) {
  set_floats(0, [](int lane) { return static_cast<float>(lane) - 32; });
  run("v_add_f32_e64 v1, -|v0|, 1.0\nv_add_f32_e64 v3, v0, 0 clamp");
  EXPECT_EQ(lane_float(1, 0), -31.0f);
  EXPECT_EQ(lane_float(3, 0), 0.0f);
  EXPECT_EQ(lane_float(3, 63), 1.0f);
}

TEST_F(Vector, WritesOnlyLanesThatAreOn) {
  set_lanes(0, [](int) { return 1u; });
  wave().set_scalar64(kExec, 0xff);
  run("v_mov_b32_e32 v0, 7");
  EXPECT_EQ(lane(0, 7), 7u);
  EXPECT_EQ(lane(0, 8), 1u);
}

TEST_F(Vector, TranscendentalsAreCorrectlyRoundedAndFlushDenormals) {
  set_floats(0, [](int lane) { return static_cast<float>(lane) / 7 - 130; });
  run("v_exp_f32_e32 v1, v0\nv_rcp_f32_e32 v2, v0\nv_rsq_f32_e64 v3, |v0|\nv_log_f32_e64 v4, |v0|");
  const float x = static_cast<float>(63) / 7 - 130;
  EXPECT_EQ(lane_float(1, 0), 0.0f);  // 2^-130 is a denormal
  EXPECT_EQ(lane_float(1, 63), static_cast<float>(std::exp2(double{x})));
  EXPECT_EQ(lane_float(2, 63), static_cast<float>(1 / double{x}));
  EXPECT_EQ(lane_float(3, 63), static_cast<float>(1 / std::sqrt(-double{x})));
  EXPECT_EQ(lane_float(4, 63), static_cast<float>(std::log2(-double{x})));
}

TEST_F(Vector, TranscendentalNoiseMovesTheLastBitOnly) {
  options_.transcendental_ulp = 1;
  set_floats(0, [](int lane) { return 1.0f + static_cast<float>(lane); });
  run("v_rcp_f32_e32 v1, v0");
  int moved = 0;
  for (int i = 0; i < kLanes; ++i) {
    const auto exact = std::bit_cast<std::int32_t>(1.0f / (1.0f + static_cast<float>(i)));
    const int distance = static_cast<std::int32_t>(lane(1, i)) - exact;
    EXPECT_LE(std::abs(distance), 1);
    moved += distance != 0 ? 1 : 0;
  }
  EXPECT_GT(moved, 10);
}

TEST_F(Vector, DivisionSequenceIsCorrectlyRounded) {
  // The compiler's expansion of a / b, over quotients near the ends of the range too.
  const auto numerator = [](int lane) {
    return std::ldexp(1.0f + static_cast<float>(lane) / 97, 4 * lane - 120);
  };
  const auto denominator = [](int lane) {
    return std::ldexp(1.3f - static_cast<float>(lane) / 211, 60 - 2 * lane);
  };
  set_floats(0, numerator);
  set_floats(1, denominator);
  run("v_div_scale_f32 v2, s[0:1], v1, v1, v0\nv_rcp_f32_e32 v3, v2\n"
      "v_fma_f32 v4, -v2, v3, 1.0\nv_fma_f32 v3, v4, v3, v3\n"
      "v_div_scale_f32 v4, vcc, v0, v1, v0\nv_mul_f32_e32 v5, v4, v3\n"
      "v_fma_f32 v6, -v2, v5, v4\nv_fma_f32 v5, v6, v3, v5\nv_fma_f32 v2, -v2, v5, v4\n"
      "v_div_fmas_f32 v2, v2, v3, v5\nv_div_fixup_f32 v2, v2, v1, v0");
  for (int i = 0; i < kLanes; ++i) {
    const float quotient = numerator(i) / denominator(i);
    if (std::fabs(quotient) >= std::numeric_limits<float>::min()) {
      EXPECT_EQ(lane_float(2, i), quotient) << "lane " << i;
    } else {  // scaled down in a step of its own: a second rounding
      EXPECT_NEAR(lane_float(2, i), quotient, std::numeric_limits<float>::denorm_min()) << i;
    }
  }
}

TEST_F(Vector, Float64AndConversions) {
  set_doubles(0, [](int lane) { return 1.0 / (lane + 3); });
  run("v_fma_f64 v[2:3], v[0:1], v[0:1], -v[0:1]\nv_add_f64 v[4:5], v[0:1], 1.0\n"
      "v_cvt_f32_f64_e32 v6, v[0:1]\nv_cvt_f64_f32_e32 v[8:9], v6");
  const double x = 1.0 / 8;
  EXPECT_EQ(std::bit_cast<double>(lane64(2, 5)), std::fma(x, x, -x));
  EXPECT_EQ(std::bit_cast<double>(lane64(4, 4)), 1.0 / 7 + 1);
  EXPECT_EQ(lane_float(6, 4), static_cast<float>(1.0 / 7));
  EXPECT_EQ(std::bit_cast<double>(lane64(8, 4)), double{static_cast<float>(1.0 / 7)});
}

TEST_F(Vector, FloatToIntegerSaturatesAndNanIsZero) {
  const float inputs[] = {-1e20f, 1e20f, std::nanf(""), -1.9f, 3e9f};
  set_floats(0, [&](int lane) { return inputs[lane % 5]; });
  run("v_cvt_i32_f32_e32 v1, v0\nv_cvt_u32_f32_e32 v2, v0");
  EXPECT_EQ(lane(1, 0), 0x80000000u);
  EXPECT_EQ(lane(1, 1), 0x7fffffffu);
  EXPECT_EQ(lane(1, 2), 0u);
  EXPECT_EQ(lane(1, 3), 0xffffffffu);
  EXPECT_EQ(lane(2, 0), 0u);
  EXPECT_EQ(lane(2, 1), 0xffffffffu);
  EXPECT_EQ(lane(2, 4), 3000000000u);
}

TEST_F(Vector, HalfConversionsRoundToEvenAndTowardZero) {
  set_floats(0, [](int) { return 2049.0f; });  // between 2048 and 2050
  set_floats(1, [](int) { return 2051.0f; });  // between 2050 and 2052
  run("v_cvt_f16_f32_e32 v2, v0\nv_cvt_f16_f32_e32 v3, v1\nv_cvt_pkrtz_f16_f32 v4, v0, v1");
  EXPECT_EQ(lane(2, 0), to_bits(static_cast<Half>(2048.0f)));
  EXPECT_EQ(lane(3, 0), to_bits(static_cast<Half>(2052.0f)));
  EXPECT_EQ(lane(4, 0), pair(2048, 2050));
}

TEST_F(Vector, PackedHalvesDotProductsAndMixes) {
  set_lanes(0, [](int) { return pair(3, 5); });
  set_lanes(1, [](int) { return pair(7, 11); });
  set_floats(2, [](int) { return 0.5f; });
  run("v_pk_fma_f16 v3, v0, v1, v0\nv_pk_mul_f16 v4, v0, v1 op_sel:[1,0] op_sel_hi:[0,1]\n"
      "v_dot2_f32_f16 v5, v0, v1, v2\nv_pk_add_f16 v6, v0, v1 neg_lo:[0,1] neg_hi:[0,1]\n"
      "v_fma_mix_f32 v7, v0, v1, v2 op_sel:[1,0,0] op_sel_hi:[1,1,0]");
  EXPECT_EQ(lane(3, 0), pair(24, 60));
  EXPECT_EQ(lane(4, 0), pair(35, 33));
  EXPECT_EQ(lane_float(5, 0), 76.5f);
  EXPECT_EQ(lane(6, 0), pair(-4, -6));
  EXPECT_EQ(lane_float(7, 0), 35.5f);
}

TEST_F(Vector, FmaOfHalvesSelectsAndKeepsHalves) {
  set_lanes(0, [](int) { return pair(3, 5); });
  set_lanes(1, [](int) { return pair(7, 11); });
  for (int reg = 2; reg < 6; ++reg) set_lanes(reg, [](int) { return pair(100, 200); });
  run("v_fma_f16 v2, v0, v1, v0\nv_fma_f16 v3, v0, v1, v0 op_sel:[1,0,0,1]\n"
      "v_fma_f16 v4, -v0, |v1|, v0 op_sel:[1,1,0,0]\nv_fma_f16 v5, v0, v1, 1.0 clamp");
  EXPECT_EQ(lane(2, 0), pair(24, 200));
  EXPECT_EQ(lane(3, 0), pair(100, 38));
  EXPECT_EQ(lane(4, 0), pair(-52, 200));
  EXPECT_EQ(lane(5, 0), pair(1, 200));
}

TEST_F(Vector, MixesIntoHalvesClamp) {
  const float inputs[] = {-2.0f, 0.25f, 3.0f, std::nanf("")};
  const float expected[] = {0.0f, 0.25f, 1.0f, 0.0f};
  set_floats(0, [&](int lane) { return inputs[lane % 4]; });
  set_floats(1, [](int) { return 1.0f; });
  set_floats(2, [](int) { return 0.0f; });
  set_lanes(3, [](int) { return pair(100, 200); });
  set_lanes(4, [](int) { return pair(100, 200); });
  run("v_fma_mixlo_f16 v3, v0, v1, v2 clamp\nv_fma_mixhi_f16 v4, v0, v1, v2 clamp\n"
      "v_fma_mix_f32 v5, v0, v1, v2 clamp");
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(lane(3, i), pair(expected[i], 200)) << inputs[i];
    EXPECT_EQ(lane(4, i), pair(100, expected[i])) << inputs[i];
    EXPECT_EQ(lane_float(5, i), expected[i]) << inputs[i];
  }
}

TEST_F(Vector, TheMedianWithANanIsTheSmallestOfTheOthers) {
  const float nan = std::nanf("");
  const float inputs[][3] = {{3, 1, 2}, {nan, 5, 4}, {5, nan, 4}, {4, 5, nan}, {nan, nan, 7}};
  const float expected[] = {2, 4, 4, 4, 7};
  for (int k = 0; k < 3; ++k) set_floats(k, [&](int lane) { return inputs[lane % 5][k]; });
  run("v_med3_f32 v3, v0, v1, v2");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(lane_float(3, i), expected[i]) << "lane " << i;
}

TEST_F(Vector, CarriesPerLane) {
  set_lanes(0, [](int lane) { return lane % 2 == 0 ? 0xffffffffu : 1u; });
  set_lanes(1, [](int) { return 0u; });
  run("v_add_co_u32_e32 v2, vcc, 1, v0\nv_addc_co_u32_e32 v3, vcc, 0, v1, vcc\n"
      "v_sub_co_u32_e64 v4, s[0:1], v1, v0\nv_subrev_co_u32_e32 v5, vcc, v1, v0");
  EXPECT_EQ(lane(2, 0), 0u);
  EXPECT_EQ(lane(3, 0), 1u);
  EXPECT_EQ(lane(3, 1), 0u);
  EXPECT_EQ(wave().scalar64(0), kAllLanes);  // 0 - x borrows for every x here
  EXPECT_EQ(lane(5, 1), 1u);
  EXPECT_EQ(wave().vcc(), 0u);
}

TEST_F(Vector, IntegerProductsAndBits) {
  set_lanes(0, [](int) { return 0xfffffffdu; });
  run("v_mul_hi_i32 v1, v0, 2\nv_mul_hi_u32 v2, v0, 2\nv_mul_u32_u24_e32 v3, v0, v0\n"
      "v_mul_i32_i24_e32 v4, v0, v0\nv_bfe_i32 v5, v0, 1, 2\nv_bfi_b32 v6, v0, 0, v0\n"
      "v_perm_b32 v7, v0, v0, 0x0c0c0400\nv_alignbit_b32 v8, v0, v0, 4\nv_ffbh_u32_e32 v9, 1");
  EXPECT_EQ(lane(1, 0), 0xffffffffu);
  EXPECT_EQ(lane(2, 0), 1u);
  EXPECT_EQ(lane(3, 0), static_cast<std::uint32_t>(0xfffffdull * 0xfffffdull));
  EXPECT_EQ(lane(4, 0), 9u);
  EXPECT_EQ(lane(5, 0), 0xfffffffeu);
  EXPECT_EQ(lane(6, 0), 0u);
  EXPECT_EQ(lane(7, 0), 0x0000fdfdu);
  EXPECT_EQ(lane(8, 0), 0xdfffffffu);
  EXPECT_EQ(lane(9, 0), 31u);
}

TEST_F(Vector, ComparisonsWriteZeroForLanesThatAreOff) {
  set_floats(0, [](int lane) { return lane == 3 ? std::nanf("") : static_cast<float>(lane); });
  wave().set_scalar64(kExec, 0xff);
  run("v_cmp_gt_f32_e32 vcc, 2.0, v0\nv_cmp_ngt_f32_e64 s[0:1], 2.0, v0\n"
      "v_cmp_u_f32_e64 s[2:3], v0, v0\nv_cmp_class_f32_e64 s[4:5], v0, 3");
  EXPECT_EQ(wave().vcc(), 0b00000011u);
  EXPECT_EQ(wave().scalar64(0), 0b11111100u);
  EXPECT_EQ(wave().scalar64(2), 0b00001000u);
  EXPECT_EQ(wave().scalar64(4), 0b00001000u);
}

TEST_F(Vector, SelectionByMask) {
  set_lanes(0, [](int) { return 10u; });
  set_lanes(1, [](int) { return 20u; });
  wave().set_scalar64(kVcc, 2);
  run("v_cndmask_b32_e32 v2, v0, v1, vcc");
  EXPECT_EQ(lane(2, 0), 10u);
  EXPECT_EQ(lane(2, 1), 20u);
}

TEST_F(Vector, DppMovesLanesWithinRowsAndAcrossThem) {
  set_lanes(0, [](int lane) { return static_cast<std::uint32_t>(lane + 100); });
  set_lanes(1, [](int) { return 7u; });
  set_lanes(2, [](int) { return 7u; });
  set_lanes(3, [](int) { return 7u; });
  run("v_mov_b32_dpp v1, v0 row_shr:1 row_mask:0xf bank_mask:0xf\n"
      "v_mov_b32_dpp v2, v0 row_bcast:15 row_mask:0xa bank_mask:0xf\n"
      "v_mov_b32_dpp v3, v0 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf\n"
      "v_mov_b32_dpp v4, v0 row_half_mirror row_mask:0xf bank_mask:0xf\n"
      "v_mov_b32_dpp v5, v0 row_shl:2 row_mask:0xf bank_mask:0xf bound_ctrl:0");
  EXPECT_EQ(lane(1, 17), 116u);
  EXPECT_EQ(lane(1, 16), 7u);  // no source: not written
  EXPECT_EQ(lane(2, 16), 115u);
  EXPECT_EQ(lane(2, 32), 7u);  // row 2 is masked off
  EXPECT_EQ(lane(3, 5), 104u);
  EXPECT_EQ(lane(4, 9), 114u);
  EXPECT_EQ(lane(5, 14), 0u);  // no source: zero
}

TEST_F(Vector, SdwaSelectsAndPlacesParts) {
  set_lanes(0, [](int) { return 0x8899aabbu; });
  set_lanes(1, [](int) { return 0x11223344u; });
  run("v_add_u32_sdwa v2, v0, v1 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1 "
      "src1_sel:WORD_1\n"
      "v_mov_b32_sdwa v1, v0 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_0");
  EXPECT_EQ(lane(2, 0), 0xaau + 0x1122u);
  EXPECT_EQ(lane(1, 0), 0xaabb3344u);
}

TEST_F(Vector, LanesToScalarsAndBack) {
  set_lanes(0, [](int lane) { return static_cast<std::uint32_t>(lane * lane); });
  wave().set_scalar64(kExec, ~std::uint64_t{0} << 5);
  run("v_readfirstlane_b32 s0, v0\nv_readlane_b32 s1, v0, 9\nv_writelane_b32 v0, s1, 2");
  EXPECT_EQ(wave().s[0], 25u);
  EXPECT_EQ(wave().s[1], 81u);
  EXPECT_EQ(lane(0, 2), 81u);
}

TEST_F(Vector, CrossbarPermutations) {
  set_lanes(0, [](int lane) { return static_cast<std::uint32_t>(lane); });
  set_lanes(1, [](int lane) { return static_cast<std::uint32_t>(4 * (63 - lane)); });
  run("ds_bpermute_b32 v2, v1, v0\nds_permute_b32 v3, v1, v0\nds_swizzle_b32 v4, v0 offset:16415");
  EXPECT_EQ(lane(2, 0), 63u);
  EXPECT_EQ(lane(3, 63), 0u);
  EXPECT_EQ(lane(4, 3), 19u);  // xor 16 within 32 lanes
}

TEST_F(Vector, BitsBelowThisLane) {
  wave().set_scalar64(0, 0x8000000000000005ull);
  run("v_mbcnt_lo_u32_b32 v0, s0, 0\nv_mbcnt_hi_u32_b32 v0, s1, v0");
  EXPECT_EQ(lane(0, 0), 0u);
  EXPECT_EQ(lane(0, 2), 1u);
  EXPECT_EQ(lane(0, 63), 2u);
}

}  // namespace
}  // namespace gdn::gfx906
