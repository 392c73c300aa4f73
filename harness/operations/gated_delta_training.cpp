// gated_delta_training in the harness: the inputs and checks of gated_delta_backward, the work of both
// calls, and problems on how the two meet.
#include "interface/operations/gated_delta_training.h"

#include "harness/operations/operation_harness.h"
#include "harness/operations/problem_texts.h"
#include "harness/operations/recurrence_flops.h"

namespace gdn {

const OperationHarness& gated_delta_backward_harness();

namespace {

FlopCount count_flops(const Case& inputs, std::int64_t plan_chunk) {
  FlopCount count = gated_delta_backward_harness().count_flops(inputs, plan_chunk);
  const FlopCount forward = recurrence_flop_count(inputs, plan_chunk);
  count.chunkwise += forward.chunkwise;
  count.recurrent += forward.recurrent;
  return count;
}

// Of each: 2 (3 Dk Dv + 2 C (Dk + Dv)) and 2 (8 Dk Dv + 4 C (Dk + Dv)).
std::string flops_text(std::int64_t chunk) {
  return "2 (11 Dk Dv + 6 C (Dk + Dv)) per token and value head, C = " +
         (chunk > 0 ? std::to_string(chunk) : "chunk (64 where not chunked)");
}

// ---- problems: each call has its own lists, so that these are about what both share

std::string problem(const std::string& rest) { return "gated_delta_training:" + rest; }

Texts problems(Texts texts) {
  for (std::string& text : texts) text = problem(text);
  return texts;
}

Texts quick() {
  return problems({
      "heads=2/4,dim=64x32,seq=1x40+1x0+1x3,dtype=f32,gates=mid,h0=normal",
      "heads=1/3,dim=64,seq=1x33+1x0+1x1,dtype=bf16,gates=mid",
      "heads=2/4,dim=32,seq=2x40,dtype=f16,gates=real,ht=0,norm=1,gate=logits,beta=logit",
      "heads=1/2,dim=32x16,seq=9+0+40+2,dtype=f32,gates=mid,h0=normal,ht=0,slots=padding",
      "heads=1/2,dim=32,seq=40+0+5+7,dtype=bf16,h0=normal,layout=vk,slots=padding,pool_pad=24,"
      "state=bf16",
      "heads=3/3,dim=64x32,seq=40+9+1,dtype=f32,gates=mid,norm=1,magnitudes=edges,ht=0",
      "heads=1/2,dim=128,seq=9+0+3,dtype=bf16,gates=weak,h0=normal,slots=permuted,norm=1,"
      "keys=unnormalised",
      "heads=1/2,dim=128,seq=9+3,dtype=bf16,gates=weak,ht=0,norm=1",
      "heads=1/2,dim=128,seq=130+0+70,dtype=bf16,gates=weak,h0=normal,slots=padding",
  });
}

Texts grid() {
  Texts texts;
  for (const char* seq : {"1x1", "1x65+1x0+1x1", "12x1", "1x129+1x5"}) {
    for (const char* dtype : {"f32", "bf16", "f16"}) {
      const std::size_t i = texts.size();
      texts.push_back(
          problem("heads=" + turn({"1/1", "2/4", "1/3"}, i, 1) +
                  ",dim=" + turn({"128", "64x96"}, i, 1) + ",seq=" + seq + ",dtype=" + dtype +
                  ",gates=" + turn({"mid", "weak", "strong", "reset"}, i, 1) +
                  turn({"", ",h0=normal", ",h0=normal,slots=padding,pool_pad=24", ",ht=0",
                        ",h0=normal,layout=vk,state=bf16", ",h0=normal,ht=0,norm=1",
                        ",slots=permuted,gate=logits,beta=logit"},
                       i, 1) +
                  ",seed=" + std::to_string(i + 1)));
    }
  }
  return texts;
}

Texts suite(std::string_view name) {
  if (name == "quick") return quick();
  if (name == "grid") return grid();
  if (name == "gpu") {
    return problems({"heads=16/32,dim=128,seq=4x8192,dtype=bf16,ht=0,norm=1",
                     "heads=16/48,dim=128,seq=1000+77+0+2001,dtype=bf16,gates=weak,h0=normal,"
                     "slots=padding,gate=logits,beta=logit",
                     "heads=3/6,dim=128,seq=40x130,dtype=bf16,gates=strong,layout=vk,state=bf16"});
  }
  if (name == "sanitizer") {
    return problems(
        {"heads=1/2,dim=64,seq=1x40+1x0+1x17,dtype=f32,gates=mid,h0=normal,slots=padding",
         "heads=1/3,dim=128,seq=70+0+129,dtype=bf16,gates=mid,norm=1"});
  }
  return {};
}

Texts baseline() {
  return problems({"heads=1/2,dim=64x32,seq=1x100,dtype=f32,gates=mid,h0=normal",
                   "heads=1/2,dim=64,seq=40+0+5,dtype=bf16,gates=real,norm=1,ht=0"});
}

Texts default_sweep(const DeviceInfo& device) {
  return {problem(device.has_own_memory ? "heads=16/32,dim=128,seq=4x8192,dtype=bf16,ht=0,norm=1"
                                        : "heads=2/4,dim=64,seq=2x256,dtype=f32,ht=0,norm=1")};
}

}  // namespace

const OperationHarness& gated_delta_training_harness() {
  static const OperationHarness harness = [] {
    OperationHarness training = gated_delta_backward_harness();
    training.operation = gated_delta_training_operation();
    training.count_flops = count_flops;
    training.flops_text = flops_text;
    training.suite = suite;
    training.baseline = baseline;
    training.default_sweep = default_sweep;
    training.inner_steps = {};
    return training;
  }();
  return harness;
}

}  // namespace gdn
