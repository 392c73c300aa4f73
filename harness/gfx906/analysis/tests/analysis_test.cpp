// The analysis can be trusted: the unfused chain computes the recurrence, the cost model reproduces
// the published figures or misses them by what the page says, and the page's tables are what the
// emulator counts now.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "harness/gfx906/analysis/calibration.h"
#include "harness/gfx906/analysis/experiments.h"
#include "harness/gfx906/analysis/implementations.h"
#include "harness/gfx906/analysis/kernels.h"
#include "harness/gfx906/analysis/page.h"
#include "harness/gfx906/analysis/unfused.h"
#include "harness/operations/generate_case.h"
#include "harness/run/execute.h"
#include "hip/code_objects.h"
#include "hip/emulator_device.h"
#include "interface/operations/gated_delta.h"
#include "reference/errors.h"
#include "reference/reference.h"

namespace gdn::hip {
namespace {

TEST(AnalysisKernels, KeepTheirBudgets) {
  for (const EmbeddedCodeObject& object : analysis_code_objects()) {
    for (const gfx906::KernelResources& kernel : gfx906::read_resources(object.elf)) {
      for (const std::string& violation : budget_violations(kernel, analysis_budgets())) {
        ADD_FAILURE() << violation;
      }
    }
  }
}

class UnfusedChain : public testing::TestWithParam<const char*> {};

TEST_P(UnfusedChain, ComputesTheRecurrence) {
  const Case inputs = generate_case(Problem::parse(GetParam()));
  ASSERT_TRUE(unfused_chain().supports(inputs.problem))
      << unfused_chain().supports(inputs.problem).reason;
  const auto device = open_emulator();
  const Outputs outputs = execute(unfused_chain(), inputs, *device);
  const reference::ErrorReport report =
      reference::compare(inputs, reference::evaluate<double>(inputs), outputs);
  EXPECT_EQ(reference::violation(report, report.limits), "") << GetParam();
}

INSTANTIATE_TEST_SUITE_P(
    , UnfusedChain,
    testing::Values("gated_delta:heads=1/2,dim=128,seq=200,dtype=f32,gates=mid,h0=normal",
                    "gated_delta:heads=2/2,dim=64x128,seq=64,dtype=f32,gates=real",
                    "gated_delta:heads=1/4,dim=128x64,seq=129,dtype=f32,gates=mid,layout=vk,"
                    "h0=normal"),
    [](const testing::TestParamInfo<const char*>& instance) {
      return "problem_" + std::to_string(instance.index);
    });

TEST(UnfusedChainLaunches, AreOneKernelPerProductAndStep) {
  const Problem problem = Problem::parse("gated_delta:heads=1/2,dim=128,seq=192,dtype=f32");
  const auto launches = profile(unfused_chain(), problem).launches;
  // State in; 23 over all chunks; 14 for each of the 3; output and state out.
  EXPECT_EQ(launches.size(), 1u + 23u + 3u * 14u + 2u);
  const auto products = std::count_if(launches.begin(), launches.end(), [](const auto& launch) {
    return launch.kernel == "unfused_product";
  });
  EXPECT_EQ(products, 3 + 5 * 3);
}

std::string page() {
  std::ifstream file(GDN_SOURCE_DIR "/harness/gfx906/analysis/README.md");
  EXPECT_TRUE(file);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}
void expect_on_page(const std::string& name, const std::string& table) {
  EXPECT_EQ(block_of(page(), name), table)
      << name << ": run scripts/gfx906_analysis.sh --update and read the page again";
}

/// The model's misses are known and named: a change of the model that makes one worse is seen.
TEST(CostModel, ReproducesPublishedFiguresOrMissesThemAsStated) {
  const std::map<std::string, double> largest_miss = {
      {"float32 FMA, peak", 0.03},
      {"packed float16 FMA, peak", 0.03},
      {"float64 FMA, peak", 0.03},
      {"float32 FMA, measured, 64 CUs at 1730 MHz", 0.03},
      {"memory, reading", 0.02},
      {"memory, copying (read + written)", 0.02},
      {"LDS reads of 16 bytes a lane", 0.20},
      {"LDS reads of 8 bytes a lane", 0.55},
      {"LDS reads of 4 bytes a lane", 2.5},
      {"lane exchange by ds_bpermute", 0.05},
      {"lane exchange by DPP", 3.0},
      {"dependent FMA", 0.05},
      {"dependent LDS read (MI308X)", 0.20},
      {"dependent memory read (MI308X)", 0.05},
  };
  const std::vector<Calibration> results = calibrate();
  if (compiler_of(page()) == code_object_compiler()) {
    expect_on_page("calibration", calibration_table(results));
  }
  for (const Calibration& result : results) {
    if (result.published_high == 0) continue;
    const auto allowed = largest_miss.find(result.quantity);
    const double bound = allowed == largest_miss.end() ? 1e-3 : allowed->second;
    EXPECT_FALSE(!(std::abs(result.miss()) <= bound))
        << result.quantity << ": modelled " << result.modelled << " " << result.unit
        << ", published " << result.published_low << " to " << result.published_high;
  }
}

/// What lets one key head stand for sixteen: twice the heads is twice the counts. Only the gates of
/// neighbouring heads share cache lines.
TEST(Profile, HeadsCountAlike) {
  for (const Implementation* implementation :
       {&unfused_chain(), &find_implementation(gated_delta_operation(), "hip/fused"),
        &find_implementation(gated_delta_operation(), "hip/recurrent")}) {
    const auto counters = [&](const std::string& heads, int copies) {
      const std::string problem = "gated_delta:dim=128,seq=80,dtype=f32,h0=normal,heads=" + heads;
      return profile(*implementation, Problem::parse(problem), copies).counters();
    };
    const gfx906::Counters part = counters("1/2", 2), whole = counters("2/4", 1);
    const std::string& name = implementation->description().name;
    EXPECT_EQ(part.instructions, whole.instructions) << name;
    EXPECT_EQ(part.by_mnemonic, whole.by_mnemonic) << name;
    EXPECT_EQ(part.lds_cycles, whole.lds_cycles) << name;
    EXPECT_EQ(part.global_bytes_read, whole.global_bytes_read) << name;
    const auto expect_near = [&](const char* what, std::uint64_t a, std::uint64_t b) {
      EXPECT_NEAR(static_cast<double>(a), static_cast<double>(b), 0.01 * static_cast<double>(b))
          << name << " " << what;
    };
    expect_near("lines", part.global_lines, whole.global_lines);
    expect_near("path", part.path_cycles, whole.path_cycles);
    expect_near("memory lines", part.memory_lines_read, whole.memory_lines_read);
  }
}

TEST(Experiments, EveryVariantComputesTheSame) {
  for (const Experiment& result : run_solves(2)) {
    EXPECT_FALSE(!(result.relative_l2 <= 1e-6)) << result.variant << " " << result.relative_l2;
  }
  for (const Experiment& result : run_state_placements(1, 3)) {
    EXPECT_FALSE(!(result.relative_l2 <= 1e-6)) << result.variant << " " << result.relative_l2;
  }
}

TEST(Page, TablesAreWhatTheEmulatorCountsNow) {
  if (compiler_of(page()) != code_object_compiler()) {
    GTEST_SKIP() << "the page is of " << compiler_of(page()) << ", these code objects are of "
                 << code_object_compiler();
  }
  for (const Block& block : page_blocks()) {
    if (block.name != "calibration") expect_on_page(block.name, block.text());
  }
}

}  // namespace
}  // namespace gdn::hip
