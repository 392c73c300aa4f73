#include "harness/gfx906/analysis/kernels.h"

namespace gdn::hip {

const std::vector<Budget>& analysis_budgets() {
  static const std::vector<Budget> budgets = {
      {"calibrate_", 28, 16640, 3}, {"solve_by_", 136, 32768, 1},    {"state_", 124, 65536, 1},
      {"unfused_", 68, 9216, 3},    {"unfused_solve", 56, 32768, 1},
  };
  return budgets;
}

void add_analysis_kernels() {
  static const bool added = [] {
    add_code_objects(analysis_code_objects());
    return true;
  }();
  static_cast<void>(added);
}

}  // namespace gdn::hip
