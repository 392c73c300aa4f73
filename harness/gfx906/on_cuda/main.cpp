// gfx906_on_cuda: every gfx906 kernel, built by the CUDA compiler with waves of 64 and of 32 lanes,
// on an NVIDIA card against the float64 reference: problems of up to 32768 tokens a sequence, which
// the emulator is too slow for. Exit 0: all agree; 1: one does not; 3: no CUDA device.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "harness/gfx906/on_cuda/on_cuda_device.h"
#include "harness/operations/generate_case.h"
#include "harness/run/execute.h"
#include "harness/verify/verify.h"
#include "interface/error.h"
#include "interface/implementation.h"

namespace gdn::hip {
namespace {

constexpr const char* kUsage =
    "usage: gfx906_on_cuda [--quick]\n"
    "  --quick   sequences of up to 257 tokens only\n";

std::vector<std::string> problems(bool quick) {
  std::vector<std::string> list;
  // Short ones of every dtype first: a run that is stopped has seen all kernels.
  const auto options = [](const std::string& dtype) {
    return ",gates=real,h0=normal,norm=1,dtype=" + dtype;
  };
  for (const std::string dtype : {"f32", "f16", "bf16"}) {
    list.push_back("gated_delta:heads=2/4,dim=128,seq=0+257+1+64+63+130" + options(dtype));
    list.push_back("gated_delta:heads=1/2,dim=200x33,seq=70+129,slots=padding,layout=vk" +
                   options(dtype));
  }
  list.push_back("causal_conv1d:heads=2/4,dim=128,seq=0+257+1+64,dtype=f16");
  list.push_back("gated_rms_norm:heads=2/4,dim=128,seq=0+257+1+64,dtype=f16");
  list.push_back("gated_rms_norm_backward:heads=2/4,dim=128,seq=0+257+1+64,dtype=f16");
  list.push_back("gated_delta_layer:heads=2/4,dim=128,seq=257+3,gate=logits,beta=logit,dtype=f16");
  if (quick) return list;
  for (const std::string dtype : {"f16", "f32", "bf16"})
    list.push_back("gated_delta:heads=2/4,dim=128,seq=32768" + options(dtype));
  list.push_back("causal_conv1d:heads=4/8,dim=128,seq=32768,dtype=f16");
  list.push_back("gated_delta_layer:heads=2/4,dim=128,seq=32768,gate=logits,beta=logit,dtype=f16");
  for (const std::string dtype : {"f16", "f32", "bf16"})
    list.push_back("gated_delta:heads=4/8,dim=128,seq=4x8192" + options(dtype));
  return list;
}

/// Median of five, after two that are not counted; the card's, not gfx906's.
double median_time_ms(const Implementation& implementation, const Case& inputs, Device& device) {
  DeviceCase on_device(inputs, device);
  const auto plan = implementation.plan(inputs.problem, on_device.arguments(), device);
  std::vector<double> times_ms;
  for (int run = 0; run < 7; ++run) {
    const TimeSample sample =
        device.time_launch([&] { on_device.restore_state_async(); }, [&] { plan->run(); });
    if (run >= 2) times_ms.push_back(sample.time_ms);
  }
  std::sort(times_ms.begin(), times_ms.end());
  return times_ms[times_ms.size() / 2];
}

std::string error_text(const reference::TensorError& error) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.1e (%.1fx)", error.relative_l2, error.floor_ratio);
  return text;
}

int run(bool quick) {
  std::vector<std::unique_ptr<Device>> devices;
  for (const int wave : {64, 32}) devices.push_back(open_on_cuda(wave, 0));
  std::printf(
      "errors are relative L2 against float64 (times the rounding floor); times are this "
      "card's\n\n%-22s %4s %8s %10s  errors\n",
      "implementation", "wave", "verdict", "time_ms");
  int failed = 0;
  for (const std::string& text : problems(quick)) {
    const Case inputs = generate_case(Problem::parse(text));
    const CheckedReference reference(inputs);
    std::printf("\n%s, %s\n", text.c_str(), reference.coverage().c_str());
    for (const Implementation* implementation : all_implementations()) {
      const Description& description = implementation->description();
      if (description.backend != "hip" || description.operation != inputs.problem.operation ||
          !implementation->supports(inputs.problem)) {
        continue;
      }
      for (std::size_t i = 0; i < devices.size(); ++i) {
        const int wave = i == 0 ? 64 : 32;
        const VerifyResult result = verify(*implementation, reference, *devices[i]);
        if (!result.passed()) {
          ++failed;
          std::printf("%-22s %4d %8s %s\n", description.name.c_str(), wave, "FAIL",
                      result.reason.c_str());
          continue;
        }
        std::printf("%-22s %4d %8s %10.3f", description.name.c_str(), wave, "pass",
                    median_time_ms(*implementation, inputs, *devices[i]));
        for (const reference::OutputErrors& output : result.report.outputs) {
          std::printf("  %s %s", output.name().c_str(), error_text(output.worst().error).c_str());
        }
        std::printf("\n");
        std::fflush(stdout);
      }
    }
  }
  std::printf("\n%s\n", failed == 0 ? "all agree" : (std::to_string(failed) + " failed").c_str());
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace gdn::hip

int main(int argc, char** argv) {
  const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
  if (argc > 1 && !quick) {
    std::fprintf(stderr, "%s", gdn::hip::kUsage);
    return 2;
  }
  try {
    return gdn::hip::run(quick);
  } catch (const gdn::Error& error) {
    std::fprintf(stderr, "gfx906_on_cuda: %s\n", error.what());
    return gdn::exit_code(error.kind());
  }
}
