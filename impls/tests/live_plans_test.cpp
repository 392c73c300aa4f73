// Plans of one implementation that are alive at once: a server holds one for every shape it serves.
// What planning or running one does to a kernel (its shared memory, say) must not break another.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "harness/operations/generate_case.h"
#include "harness/run/execute.h"
#include "interface/operations/gated_delta.h"
#include "tests/implementation_fixture.h"

namespace gdn {
namespace {

class LivePlans : public ImplementationTest {};

TEST_P(LivePlans, RunAfterOthersWerePlannedAndRun) {
  const std::string tokens = emulated() ? ",seq=1x20" : ",seq=1x200+1x33";
  std::vector<Case> cases;
  // Shapes that need different amounts of shared memory of the same kernels.
  for (const char* shape : {"heads=1/4,dim=128,dtype=bf16", "heads=1/1,dim=128,dtype=bf16",
                            "heads=1/1,dim=256,dtype=f32", "heads=1/1,dim=136x64,dtype=f32",
                            "heads=1/1,dim=64x40,dtype=f32"}) {
    const Problem problem = Problem::parse(std::string("gated_delta:") + shape + tokens);
    if (implementation().supports(problem)) cases.push_back(generate_case(problem));
  }
  if (cases.size() < 2) GTEST_SKIP() << "fewer than two of the problems are supported";
  for (const bool largest_last : {false, true}) {
    std::vector<std::unique_ptr<PlannedCase>> plans;
    for (const Case& inputs : cases) {
      plans.push_back(std::make_unique<PlannedCase>(implementation(), inputs, device()));
    }
    // Those planned first run last, and again when all have run.
    for (const bool again : {false, true}) {
      for (std::size_t i = cases.size(); i-- > 0;) {
        SCOPED_TRACE(implementation().description().name + (again ? " again on " : " on ") +
                     cases[i].problem.to_string() + (largest_last ? ", planned in reverse" : ""));
        expect_outputs_agree(cases[i], plans[i]->run());
      }
    }
    std::reverse(cases.begin(), cases.end());
  }
}

GDN_INSTANTIATE_FOR(LivePlans, gated_delta_operation());

}  // namespace
}  // namespace gdn
