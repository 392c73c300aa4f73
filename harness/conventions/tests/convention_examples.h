// One case per convention that shows a wrong reading, and the kernel that knows only that
// convention's documentation (foreign_kernels.h).
#pragma once

#include <string>
#include <vector>

#include "interface/case.h"

namespace gdn::conventions {

struct Example {
  const char* convention;
  const char* gated_delta;  ///< converts to the convention without rounding
  const char* convolution;  ///< empty: it has none
  bool has_convolution() const { return *convolution != '\0'; }
  std::vector<const char*> problems() const;
};

/// In the order of all_conventions().
const std::vector<Example>& examples();

/// The case of one of its problems; gates in 16 bits where the convention wants them so.
Case example_case(const Example& example, const char* problem);

/// Runs the convention's kernel of the case's operation from file to file.
void run_foreign_kernel(const Example& example, const Case& ours, const std::string& inputs,
                        const std::string& outputs);

}  // namespace gdn::conventions
