// causal_conv1d in the harness: its inputs, its work, its problems.
#include "interface/operations/causal_conv1d.h"

#include "harness/inputs/draw_convolution.h"
#include "harness/operations/convolution_flops.h"
#include "harness/operations/operation_harness.h"
#include "harness/operations/problem_texts.h"

namespace gdn {
namespace {

Texts every_option(const std::string& seq, const std::string& dim) {
  Texts texts;
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    const std::string conv =
        "causal_conv1d:heads=1/2,dim=" + dim + ",seq=" + seq + ",dtype=" + dtype;
    texts.push_back(conv);
    texts.push_back(conv + ",width=2,act=none,slots=padding");
    texts.push_back(conv + ",width=3,bias=1,slots=permuted,conv_in_place=0");
    texts.push_back(conv + ",conv_layout=time,state=bf16");
  }
  return texts;
}

// How callers hold windows and weights, and what they add to the output.
Texts every_window(const std::string& seq) {
  Texts texts;
  for (const char* dtype : {"f32", "bf16"}) {
    for (const char* window :
         {"window=read", "window=written,slots=permuted", "window=none",
          "window_layout=channels,slots=padding", "window_length=4", "window_length=40",
          "window_order=ring", "window_order=ring,window_length=40,slots=permuted", "fresh=1",
          "residual=1", "residual=tensor", "checkpoints=3,slots=padding",
          "checkpoints=2,window_order=ring,window_length=7"}) {
      texts.push_back("causal_conv1d:heads=1/2,dim=64,seq=" + seq + ",dtype=" + dtype + "," +
                      window);
    }
  }
  for (const char* dtype : {"bf16", "f16"}) {
    for (const char* options : {"", ",width=9", ",conv_layout=time", ",window=none"}) {
      texts.push_back("causal_conv1d:heads=1/2,dim=64,seq=" + seq + ",dtype=" + dtype +
                      ",weights=f32,bias=1" + options);
    }
  }
  return texts;
}

Texts suite(std::string_view name) {
  if (name == "quick") {
    Texts texts = every_option("1x70+1x2+1x0", "64");
    for (const char* dtype : {"f32", "bf16", "f16"}) {
      texts.push_back("causal_conv1d:heads=1/2,dim=32x64,seq=9+40+30+1,magnitudes=edges,dtype=" +
                      std::string(dtype));
    }
    texts.push_back("causal_conv1d:channels=131,seq=70+2+0+1,dtype=bf16");
    texts.push_back(
        "causal_conv1d:channels=132,seq=9+40+30+1,magnitudes=edges,dtype=bf16,residual=tensor");
    texts.push_back("causal_conv1d:channels=36,seq=70+2+0+1,dtype=bf16,checkpoints=3");
    return texts;
  }
  if (name == "grid") {
    Texts texts = every_option("1x130+1x3+1x0+1x1+1x64", "128");
    for (std::string& text : every_window("1x130+1x3+1x0+1x1+1x64")) {
      texts.push_back(std::move(text));
    }
    return texts;
  }
  if (name == "gpu") return {"causal_conv1d:heads=16/32,dim=128,seq=4x8192,dtype=bf16"};
  if (name == "sanitizer") {
    return {"causal_conv1d:heads=1/2,dim=64,seq=1x9+1x2+1x0,dtype=bf16,slots=permuted",
            "causal_conv1d:channels=133,seq=9+2+0+1,dtype=bf16,slots=padding,checkpoints=2"};
  }
  return {};
}

Texts baseline() {
  return {"causal_conv1d:heads=2/4,dim=64x64,seq=1x70+1x130,dtype=bf16",
          "causal_conv1d:heads=2/4,dim=64x64,seq=1x3+1x130,dtype=f32,bias=1,act=none"};
}

Texts default_sweep(const DeviceInfo& device) {
  return {device.has_own_memory ? "causal_conv1d:heads=16/32,dim=128,seq=4x8192,dtype=bf16"
                                : "causal_conv1d:heads=2/4,dim=128,seq=4x512,dtype=f32"};
}

}  // namespace

const OperationHarness& causal_conv1d_harness() {
  static const OperationHarness harness = {.operation = causal_conv1d_operation(),
                                           .draw = draw_convolution,
                                           .count_flops = convolution_flop_count,
                                           .flops_text = convolution_flops_text,
                                           .suite = suite,
                                           .baseline = baseline,
                                           .default_sweep = default_sweep};
  return harness;
}

}  // namespace gdn
