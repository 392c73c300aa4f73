#include "hip/budgets.h"

namespace gdn::hip {

const std::vector<Budget>& kernel_budgets() {
  // A CU has 4 SIMDs of 256 VGPRs and 64 KB of LDS. One wave per SIMD is what a state of 128
  // columns in registers costs; kernels that wait for memory or for sums want several.
  static const std::vector<Budget> budgets = {
      {"hold_stream", 16, 0, 10},
      {"copy_words", 32, 0, 8},
      {"copy_rows", 32, 0, 8},
      {"quantize_", 48, 0, 5},
      {"fma_chain", 32, 0, 8},
      {"conv_", 64, 0, 4},
      {"conv_gradients_4_", 64, 0, 4},
      {"conv_gradients_15_", 128, 0, 2},
      {"conv_gradient_sums", 32, 2048, 8},
      {"norm_", 64, 0, 4},
      {"norm_gradients_packets_f32", 68, 0, 3},
      {"norm_gradients_sum", 32, 2048, 8},
      {"naive_", 48, 0, 5},
      {"recurrent_", 64, 0, 4},
      {"recurrent_columns_", 192, 0, 1, 40},
      {"verify_dpp_", 64, 0, 4, 32},
      {"verify_columns_", 192, 0, 1, 40},
      {"commit_dpp_", 64, 0, 4},
      {"commit_columns_", 192, 0, 1, 40},
      {"backward_load_", 160, 0, 1},
      {"backward_store_", 168, 0, 1},
      // What is known of the arrays and of the item at hand is scalar; D alone is half the registers
      // of 256 rows.
      {"backward_walk_", 256, 18624, 1, 136},
      {"backward_sum_", 32, 4096, 8},
      {"backward_prepare_", 224, 40960, 1, 112},
      {"backward_chains_", 168, 32768, 1},
      {"backward_chains_16_256", 248, 24576, 1},
      {"backward_gradients_", 128, 32768, 2},
      {"ring_dpp_", 48, 0, 5, 8},
      {"ring_columns_", 196, 0, 1, 56},
      {"chunkwise_prepare_", 208, 22528, 1, 128},
      {"chunkwise_walk_", 220, 53248, 1, 64},
      {"chunkwise_outputs_", 216, 56320, 1},
      {"chunkwise_channel_", 128, 56320, 1, 64},
      {"fused_16_64_", 132, 16384, 1, 64},
      {"fused_16_128_", 176, 20480, 1, 36},
      {"fused_16_256_", 240, 36864, 1, 64},
      {"fused_32_64_", 200, 32768, 1, 72},
      {"fused_32_128_", 232, 40960, 1, 45},
      // States inside the call, and final ones rounded by chance: what is known of them, and of where
      // to store, is scalar.
      {"checkpoints_recurrent_", 64, 0, 4, 72},
      {"checkpoints_recurrent_columns_", 216, 0, 1, 48},
      {"checkpoints_segments", 32, 0, 8},
      {"checkpoints_walk_", 232, 53248, 1, 84},
      {"checkpoints_fused_16_256_", 248, 36864, 1, 64},
      {"checkpoints_fused_32_", 232, 40960, 1, 56},
  };
  return budgets;
}

std::vector<std::string> budget_violations(const gfx906::KernelResources& kernel,
                                           const std::vector<Budget>& budgets) {
  const Budget* budget = nullptr;
  for (const Budget& candidate : budgets) {
    if (kernel.name.starts_with(candidate.prefix) &&
        (budget == nullptr || candidate.prefix.size() > budget->prefix.size())) {
      budget = &candidate;
    }
  }
  if (budget == nullptr) return {kernel.name + ": no budget"};
  std::vector<std::string> violations;
  const auto at_most = [&](const char* what, int used, int allowed) {
    if (used > allowed) {
      violations.push_back(kernel.name + ": " + std::to_string(used) + " " + what + ", at most " +
                           std::to_string(allowed));
    }
  };
  at_most("VGPR spills", kernel.vgpr_spills, 0);
  at_most("SGPR spills", kernel.sgpr_spills, budget->sgpr_spills);
  at_most("bytes of scratch per lane", kernel.scratch_bytes, 0);
  at_most("VGPRs", kernel.vgprs, budget->vgprs);
  at_most("bytes of LDS", kernel.lds_bytes, budget->lds_bytes);
  if (kernel.waves_per_simd() < budget->waves_per_simd) {
    violations.push_back(kernel.name + ": " + std::to_string(kernel.waves_per_simd()) +
                         " waves per SIMD, at least " + std::to_string(budget->waves_per_simd));
  }
  if (kernel.wave_size != 64) violations.push_back(kernel.name + ": not wave 64");
  return violations;
}

}  // namespace gdn::hip
