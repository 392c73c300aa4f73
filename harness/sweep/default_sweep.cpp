#include "harness/sweep/default_sweep.h"

#include <filesystem>

#include "harness/operations/make_case.h"
#include "harness/operations/operation_harness.h"

namespace gdn {
namespace {

constexpr const char* kTraceFile = "data/gdn_lm_trace.h5";

}  // namespace

std::string find_trace_file() {
  std::error_code ignored;
  // The path as typed from the repository's root keeps Problem strings the same on every machine.
  if (std::filesystem::exists(kTraceFile, ignored)) return kTraceFile;
  const auto executable = std::filesystem::read_symlink("/proc/self/exe", ignored);
  for (const auto& folder : {executable.parent_path(), executable.parent_path().parent_path()}) {
    if (std::filesystem::exists(folder / kTraceFile, ignored))
      return (folder / kTraceFile).string();
  }
  return "";
}

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
