#include "harness/sweep/default_sweep.h"

#include "harness/files/data_file.h"
#include "harness/operations/make_case.h"
#include "harness/operations/operation_harness.h"

namespace gdn {
std::string find_trace_file() { return find_data_file("gdn_lm_trace.h5"); }

std::vector<Problem> default_sweep_problems(const DeviceInfo& device,
                                            const std::string& trace_file) {
  std::vector<Problem> problems;
  if (!trace_file.empty()) {
    // Each layer's inner step, and the whole of the first.
    for (const char* layer : {"/layer0", "/layer1", "/layer2", "/layer3"}) {
      const std::string path = trace_file + ":" + layer;
      problems.push_back(case_problem(path, operations_of_case(path).front()));
    }
    const std::string path = trace_file + ":/layer0";
    problems.push_back(case_problem(path, operations_of_case(path).back()));
  }
  for (const OperationHarness* harness : operation_harnesses()) {
    for (const std::string& text : harness->default_sweep(device)) {
      problems.push_back(Problem::parse(text));
    }
  }
  return problems;
}

}  // namespace gdn
