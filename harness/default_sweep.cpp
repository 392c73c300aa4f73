#include "harness/default_sweep.h"

#include <filesystem>

#include "harness/case_file.h"

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
    for (const char* layer : {"/layer0", "/layer1", "/layer2", "/layer3"}) {
      problems.push_back(case_problem(trace_file + ":" + layer, Operation::gated_delta));
    }
    problems.push_back(case_problem(trace_file + ":/layer0", Operation::gated_delta_layer));
  }
  // Qwen3-Next: 16/32 heads; the same over 4 and 8 ranks on a CPU.
  std::vector<std::string> texts;
  if (device.backend == "cuda" || device.backend == "hip") {
    for (const char* seq : {"16x2048", "8x4096", "4x8192", "2x16384", "1x32768", "1x2048"}) {
      texts.push_back("gated_delta:heads=16/32,dim=128,seq=" + std::string(seq) + ",dtype=bf16");
    }
    texts.push_back("gated_delta:heads=16/64,dim=128,seq=4x8192,dtype=bf16");
    texts.push_back("gated_delta:heads=2/8,dim=128,seq=1x8192,dtype=bf16");
    texts.push_back("gated_delta:heads=16/32,dim=128,seq=128x1,dtype=bf16,h0=normal");
    texts.push_back("causal_conv1d:heads=16/32,dim=128,seq=4x8192,dtype=bf16");
  } else {
    for (const char* seq : {"8x256", "4x512", "2x1024", "1x2048"}) {
      texts.push_back("gated_delta:heads=2/4,dim=128,seq=" + std::string(seq) + ",dtype=f32");
    }
    texts.push_back("gated_delta:heads=4/8,dim=128,seq=32x1,dtype=f32,h0=normal");
    texts.push_back("causal_conv1d:heads=2/4,dim=128,seq=4x512,dtype=f32");
  }
  for (const std::string& text : texts) problems.push_back(Problem::parse(text));
  return problems;
}

}  // namespace gdn
