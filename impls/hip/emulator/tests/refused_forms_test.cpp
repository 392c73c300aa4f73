// Forms that would be executed as other ones are refused, and the plain forms beside them are not.
#include "hip/emulator/refused_forms.h"

#include <gtest/gtest.h>

#include "hip/emulator/decoder.h"

namespace gdn::gfx906 {
namespace {

bool known(const char* text) { return decode(text).execute != nullptr; }

TEST(RefusedForms, OutputModifiersThatTheCardIgnores) {
  EXPECT_TRUE(known("v_mul_f32_e64 v0, v1, v2"));
  EXPECT_FALSE(known("v_mul_f32_e64 v0, v1, v2 mul:2"));
  EXPECT_FALSE(known("v_add_f16_e64 v0, v1, v2 mul:4"));
  EXPECT_FALSE(known("v_add_f32_e64 v0, v1, v2 div:2"));
}

TEST(RefusedForms, ClampOfAnythingButAFloatResult) {
  for (const char* text :
       {"v_add_f32_e64 v0, v1, v2 clamp", "v_add_f16_e64 v0, v1, v2 clamp",
        "v_fma_mixlo_f16 v0, v1, v2, v3 clamp", "v_pk_add_f16 v0, v1, v2 clamp",
        "v_cvt_f16_f32_e64 v0, v1 clamp", "v_dot2_f32_f16 v0, v1, v2, v3 clamp"}) {
    EXPECT_TRUE(known(text)) << text;
  }
  for (const char* text :
       {"v_cmp_lt_f32_e64 s[0:1], v1, v2 clamp",
        "v_mad_u64_u32 v[0:1], s[0:1], v2, v3, v[4:5] clamp", "v_add_u32_e64 v0, v1, v2 clamp",
        "v_pack_b32_f16 v0, v1, v2 clamp", "v_cvt_pkrtz_f16_f32 v0, v1, v2 clamp",
        "v_cvt_u32_f32_e64 v0, v1 clamp", "v_fma_f64 v[0:1], v[2:3], v[4:5], v[6:7] clamp"}) {
    EXPECT_FALSE(known(text)) << text;
  }
}

TEST(RefusedForms, HalvesSelectedWhereNobodyLooks) {
  EXPECT_TRUE(known("v_fma_f16 v0, v1, v2, v3 op_sel:[1,0,0,1]"));
  EXPECT_TRUE(known("v_pack_b32_f16 v0, v1, v2 op_sel:[1,0,0]"));
  EXPECT_TRUE(known("v_pack_b32_f16 v0, -v1, v2"));
  EXPECT_FALSE(known("v_pack_b32_f16 v0, -v1, v2 op_sel:[1,0,0]"));
  EXPECT_FALSE(known("v_mad_u32_u24 v0, v1, v2, v3 op_sel:[1,0,0,0]"));
}

TEST(RefusedForms, TheSecondOffsetOfAScalarLoad) {
  EXPECT_TRUE(known("s_load_dword s0, s[2:3], s4"));
  EXPECT_FALSE(known("s_load_dword s0, s[2:3], s4 offset:0x10"));
}

TEST(RefusedForms, WaitsThatAreNotWrittenOut) {
  EXPECT_TRUE(known("s_waitcnt vmcnt(1) expcnt(0) lgkmcnt(2)"));
  EXPECT_FALSE(known("s_waitcnt 0xc07f"));
  EXPECT_FALSE(known("s_waitcnt vmcnt(1) & lgkmcnt(2)"));
}

}  // namespace
}  // namespace gdn::gfx906
