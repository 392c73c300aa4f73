// gated_delta_layer_backward in the harness: the layer's inputs with the gradients that are given, the work
// of its steps, and the identities of two of them, which the whole keeps.
#include "interface/operations/gated_delta_layer_backward.h"

#include <cmath>
#include <limits>

#include "harness/inputs/draw.h"
#include "harness/operations/convolution_flops.h"
#include "harness/operations/norm_flops.h"
#include "harness/operations/operation_harness.h"
#include "harness/operations/problem_texts.h"
#include "harness/operations/recurrence_flops.h"
#include "interface/operations/convolution_operands.h"

namespace gdn {

const OperationHarness& causal_conv1d_backward_harness();
const OperationHarness& gated_delta_backward_harness();
const OperationHarness& gated_delta_layer_harness();

namespace {

// As gated_delta_layer; d_output and d_final_window are N(0, 1), d_final_state N(0, 1) / sqrt(Dk). Beside
// float16 tokens the norm has a sixteenth of that d_output: what it hands on is divided by the size of a
// row, and stays within the type.
void draw(Case& c) {
  const Problem& p = c.problem;
  gated_delta_layer_harness().draw(c);
  if (!p.reads_conv_window()) c.arrays.erase("conv_state");
  const std::int64_t Dv = p.value_head_dim;
  const double factor = p.gated_norm && p.token_dtype == DType::float16 ? 0x1p-4 : 1;
  c["d_output"] = normal_rows(CounterStream(p.seed, "d_output"),
                              p.total_tokens() * p.num_value_heads, Dv, Dv, factor, p.token_dtype);
  const std::int64_t stride = p.state_row_stride();
  if (p.final_state) {
    c["d_final_state"] = normal_rows(
        CounterStream(p.seed, "d_final_state"), p.num_pool_rows(), stride - p.pool_row_padding,
        stride, 1 / std::sqrt(static_cast<double>(p.key_head_dim)), p.state_dtype);
  } else {
    c["d_final_state"].assign(static_cast<std::size_t>(p.num_pool_rows() * stride),
                              std::numeric_limits<float>::quiet_NaN());
  }
  if (!p.writes_conv_window()) return;
  const std::int64_t row = p.conv_channels() * p.window_places();
  c["d_final_window"] = normal_rows(CounterStream(p.seed, "d_final_window"), p.num_pool_rows(), row,
                                    row, 1, p.state_dtype);
}

FlopCount count_flops(const Case& inputs, std::int64_t plan_chunk) {
  FlopCount sum = gated_delta_backward_harness().count_flops(inputs, plan_chunk);
  const auto add = [&](const FlopCount& step) {
    sum.chunkwise += step.chunkwise;
    sum.recurrent += step.recurrent;
  };
  add(convolution_flop_count(inputs, plan_chunk));
  add(causal_conv1d_backward_harness().count_flops(inputs, plan_chunk));
  if (!inputs.problem.gated_norm) return sum;
  add(recurrence_flop_count(inputs, plan_chunk));
  const double norm = gated_norm_gradient_flops(inputs);
  add({0, norm, norm});
  return sum;
}

std::string flops_text(std::int64_t chunk) {
  return gated_delta_backward_harness().flops_text(chunk) +
         ", and what the convolution, its gradients and the norm's take";
}

// ---- problems

std::string problem(const std::string& rest) { return "gated_delta_layer_backward:" + rest; }

Texts problems(Texts texts) {
  for (std::string& text : texts) text = problem(text);
  return texts;
}

Texts quick() {
  return problems({
      "heads=1/2,dim=64,seq=70+2+0+1,dtype=f32,gates=mid,h0=normal",
      "heads=2/4,dim=64x32,seq=40+0+3,dtype=f32,gate=logits,beta=logit,gated_norm=1,ht=0,"
      "window=none",
      "heads=1/2,dim=64,seq=70+2+0+1,dtype=bf16,gate=logits,beta=logit,ht=0,window=none",
      "heads=1/2,dim=64,seq=70+2+0+1,dtype=bf16,gate=logits,beta=logit,gated_norm=1,h0=normal,"
      "slots=padding",
      "heads=1/3,dim=32,seq=40+9,dtype=f16,gates=real,bias=1,h0=normal,slots=permuted",
      "heads=1/2,dim=32,seq=40+9,dtype=f16,gates=real,gated_norm=1,norm_gate=sigmoid,norm_eps=1e-3",
      "heads=1/"
      "2,dim=64,seq=40+0+5,dtype=bf16,layout=vk,state=bf16,pool_pad=24,slots=padding,fresh=1,"
      "window_layout=channels,weights=f32,bias=1",
      "heads=3/3,dim=64x32,seq=40+30+9,dtype=f32,gates=mid,magnitudes=edges",
      "heads=3/3,dim=64x32,seq=40+30+9,dtype=bf16,gates=mid,magnitudes=edges",
      "heads=3/3,dim=64x32,seq=40+30+9,dtype=f32,gates=mid,gated_norm=1,h0=normal,magnitudes=edges",
      "heads=3/3,dim=64x32,seq=40+30+9,dtype=bf16,gates=mid,gated_norm=1,magnitudes=edges",
      "heads=1/2,dim=128,seq=130+0+70,dtype=bf16,gates=weak,h0=normal,slots=padding",
      "heads=1/2,dim=128,seq=130+3,dtype=bf16,gates=weak,ht=0,window=none,gated_norm=1",
  });
}

Texts grid() {
  Texts texts;
  for (const char* seq : {"1x1", "1x65+1x0+1x1", "12x1", "1x129+1x5"}) {
    for (const char* dtype : {"f32", "bf16", "f16"}) {
      const std::size_t i = texts.size();
      texts.push_back(problem(
          "heads=" + turn({"1/1", "2/4", "1/3"}, i, 1) + ",dim=" + turn({"128", "64x96"}, i, 1) +
          ",seq=" + seq + ",dtype=" + dtype +
          ",gates=" + turn({"mid", "weak", "strong", "reset"}, i, 1) +
          turn({"", ",gated_norm=1"}, i, 3) + turn({"", ",width=2", ",bias=1,act=none"}, i, 1) +
          turn({"", ",h0=normal", ",h0=normal,slots=padding,pool_pad=24", ",ht=0,window=none",
                ",h0=normal,layout=vk,state=bf16", ",h0=normal,ht=0,window=read",
                ",window=written,gate=logits,beta=logit"},
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
    return problems(
        {"heads=16/32,dim=128,seq=4x2048,dtype=bf16,gate=logits,beta=logit,ht=0,window=none",
         "heads=16/32,dim=128,seq=4x2048,dtype=bf16,gate=logits,beta=logit,ht=0,window=none,"
         "gated_norm=1",
         "heads=2/"
         "6,dim=128,seq=1000+77+0+2001,dtype=bf16,gates=weak,h0=normal,slots=padding,bias=1"});
  }
  if (name == "sanitizer") {
    return problems(
        {"heads=1/2,dim=64,seq=1x40+1x0+1x17,dtype=f32,gates=mid,h0=normal,slots=padding",
         "heads=1/2,dim=128,seq=70+0+2,dtype=bf16,gates=mid,gated_norm=1"});
  }
  return {};
}

Texts baseline() {
  return problems({"heads=1/2,dim=64x32,seq=1x70+1x30,dtype=f32,gates=mid,h0=normal,gated_norm=1",
                   "heads=1/2,dim=64,seq=40+0+5,dtype=bf16,gates=real,gate=logits,beta=logit,ht=0,"
                   "window=none"});
}

Texts default_sweep(const DeviceInfo& device) {
  return {problem(device.has_own_memory
                      ? "heads=16/32,dim=128,seq=4x8192,dtype=bf16,ht=0,window=none,gated_norm=1"
                      : "heads=2/4,dim=64,seq=2x256,dtype=f32,ht=0,window=none,gated_norm=1")};
}

// Of one of the steps' identities that is about operands of the whole alone.
OwnCheck check_of(const OperationHarness& step, const std::string& name) {
  for (const OwnCheck& check : step.checks) {
    if (check.name == name) return check;
  }
  return {};
}

}  // namespace

const OperationHarness& gated_delta_layer_backward_harness() {
  static const OperationHarness harness = {
      .operation = gated_delta_layer_backward_operation(),
      .draw = draw,
      .count_flops = count_flops,
      .flops_text = flops_text,
      .suite = suite,
      .baseline = baseline,
      .default_sweep = default_sweep,
      .checks = {check_of(causal_conv1d_backward_harness(), "weights"),
                 check_of(gated_delta_backward_harness(), "first_gate")}};
  return harness;
}

}  // namespace gdn
