// Registers, LDS, spills and occupancy of every kernel, as the code objects' metadata has them.
#include <gtest/gtest.h>

#include <cstdio>

#include "hip/budgets.h"
#include "hip/code_objects.h"

namespace gdn::hip {
namespace {

TEST(Budgets, EveryKernelKeepsItsOwn) {
  for (const EmbeddedCodeObject& object : code_objects()) {
    const auto kernels = gfx906::read_resources(object.elf);
    ASSERT_FALSE(kernels.empty()) << object.name;
    std::printf("%s\n%s\n", object.name.c_str(), gfx906::resource_table(kernels).c_str());
    for (const gfx906::KernelResources& kernel : kernels) {
      for (const std::string& violation : budget_violations(kernel, kernel_budgets())) {
        ADD_FAILURE() << violation;
      }
    }
  }
}

TEST(Budgets, EachLimitIsSeparatelyChecked) {
  gfx906::KernelResources kernel;
  kernel.name = "k_1";
  kernel.vgprs = 84;
  kernel.lds_bytes = 32768;
  kernel.max_workgroup = 256;
  kernel.wave_size = 64;
  const std::vector<Budget> budgets = {{"k", 256, 65536, 1}, {"k_", 84, 32768, 2}};
  EXPECT_EQ(kernel.waves_per_simd(), 2);  // two workgroups' LDS, 4 waves each, on 4 SIMDs
  EXPECT_TRUE(budget_violations(kernel, budgets).empty());
  const auto broken = [&](auto change) {
    gfx906::KernelResources changed = kernel;
    change(changed);
    return budget_violations(changed, budgets).size();
  };
  EXPECT_EQ(broken([](auto& k) { k.vgprs = 85; }), 1u);
  EXPECT_EQ(broken([](auto& k) { k.vgpr_spills = 1; }), 1u);
  EXPECT_EQ(broken([](auto& k) { k.sgpr_spills = 1; }), 1u);
  EXPECT_EQ(broken([](auto& k) { k.scratch_bytes = 4; }), 1u);
  EXPECT_EQ(broken([](auto& k) { k.lds_bytes = 32772; }), 2u);  // and the occupancy falls
  EXPECT_EQ(broken([](auto& k) { k.wave_size = 32; }), 1u);
  EXPECT_EQ(broken([](auto& k) { k.name = "other"; }), 1u);
}

}  // namespace
}  // namespace gdn::hip
