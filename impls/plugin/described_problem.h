// A problem as a plug-in is told it, and the strings that its struct points to.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "interface/problem.h"
#include "plugin/gdnbench_plugin.h"

namespace gdn {

class DescribedProblem {
 public:
  explicit DescribedProblem(const Problem& problem);
  DescribedProblem(const DescribedProblem&) = delete;
  DescribedProblem& operator=(const DescribedProblem&) = delete;

  const gdnbench_plugin_problem& in_c() const { return in_c_; }

 private:
  std::string text_;
  std::deque<std::string> values_;  // of fields: they stay where they are
  std::vector<gdnbench_field> fields_;
  std::vector<gdnbench_operand> operands_;
  gdnbench_plugin_problem in_c_{};
};

}  // namespace gdn
