// gated_rms_norm in the harness: its inputs, its work, its problems.
#include "interface/operations/gated_rms_norm.h"

#include "harness/inputs/draw_gated_norm.h"
#include "harness/operations/norm_flops.h"
#include "harness/operations/operation_harness.h"
#include "harness/operations/problem_texts.h"

namespace gdn {
namespace {

// ---- work

FlopCount count_flops(const Case& inputs, std::int64_t) {
  const double flops = gated_norm_flops(inputs);
  return {0, flops, flops};
}

std::string flops_text(std::int64_t) { return "5 per element of y"; }

// ---- problems

std::string problem(const std::string& heads, const std::string& dim, const std::string& seq,
                    const std::string& dtype) {
  return "gated_rms_norm:heads=" + heads + ",dim=" + dim + ",seq=" + seq + ",dtype=" + dtype;
}

Texts quick() {
  Texts texts;
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    texts.push_back(problem("2/4", "64", "1x9+1x2+1x0", dtype));
    texts.push_back(problem("1/5", "32x100", "1x9+1x1", dtype) + ",norm_gate=sigmoid,out=f32");
    texts.push_back(problem("2/6", "64x128", "3x1+1x5", dtype) +
                    ",norm_gate=sigmoid2,norm_eps=1e-5");
  }
  return texts;
}

// Every Dv that rows of vectors, parts of them or several of them make, and the largest.
Texts grid() {
  Texts texts;
  std::size_t index = 0;
  for (const char* dim : {"64x1", "8x3", "24x20", "128x64", "64x100", "128", "128x192", "256",
                          "192x512", "512x1000", "128x1024", "1x4096"}) {
    for (const char* dtype : {"f32", "bf16", "f16"}) {
      for (const char* gate : {"silu", "sigmoid", "sigmoid2"}) {
        texts.push_back(problem(turn({"1/4", "3/6", "1/5", "16/32"}, index, 1), dim,
                                turn({"1x17+1x1", "1x3+1x0+1x9", "4x1"}, index, 2), dtype) +
                        ",norm_gate=" + gate + turn({"", ",norm_eps=1e-5"}, index, 1) +
                        turn({"", ",out=f32"}, index, 3));
        ++index;
      }
    }
  }
  return texts;
}

Texts suite(std::string_view name) {
  if (name == "quick") return quick();
  if (name == "grid") return grid();
  if (name == "gpu") return {problem("16/32", "128", "4x8192", "bf16")};
  if (name == "sanitizer") {
    return {problem("1/4", "64", "1x9+1x2+1x0", "bf16"), problem("1/3", "8x20", "1x5", "f16")};
  }
  return {};
}

Texts baseline() {
  return {problem("2/4", "64x128", "1x70+1x13", "bf16"),
          problem("1/5", "64x100", "1x70+1x13", "f32") + ",norm_gate=sigmoid,norm_eps=1e-5"};
}

Texts default_sweep(const DeviceInfo& device) {
  return {device.has_own_memory ? problem("16/32", "128", "4x8192", "bf16")
                                : problem("2/4", "128", "4x512", "f32")};
}

}  // namespace

const OperationHarness& gated_rms_norm_harness() {
  static const OperationHarness harness = {
      .operation = gated_rms_norm_operation(),
      .draw = draw_gated_norm,
      .count_flops = count_flops,
      .flops_text = flops_text,
      .suite = suite,
      .baseline = baseline,
      .default_sweep = default_sweep,
      // Of z it is what lies beyond the range of exp: drawn above.
      .takes_any_magnitude = [](const Problem&, const Operand& operand) {
        return operand.name == "x";
      }};
  return harness;
}

}  // namespace gdn
