// gated_delta_layer in the harness: its inputs, its work (the sum of its steps'), its problems.
#include "interface/operations/gated_delta_layer.h"

#include "harness/inputs/draw.h"
#include "harness/inputs/draw_convolution.h"
#include "harness/inputs/draw_recurrence.h"
#include "harness/operations/convolution_flops.h"
#include "harness/operations/norm_flops.h"
#include "harness/operations/operation_harness.h"
#include "harness/operations/problem_texts.h"
#include "harness/operations/recurrence_flops.h"

namespace gdn {
namespace {

// z N(0, 1); norm_weight 1 + N(0, 1) / 4, as in a trained model near 1.
void draw_norm(Case& c) {
  const Problem& p = c.problem;
  const std::int64_t width = p.value_head_dim;
  c["z"] = normal_rows(CounterStream(p.seed, "z"), p.total_tokens() * p.num_value_heads, width,
                       width, 1, p.token_dtype);
  c["norm_weight"] =
      normal_rows(CounterStream(p.seed, "norm_weight"), 1, width, width, 0.25, p.token_dtype);
  for (float& weight : c["norm_weight"]) weight += 1.0f;
  round_in_place(p.token_dtype, c["norm_weight"].data(), width);
}

void draw(Case& c) {
  draw_gates(c);
  draw_betas(c);
  c["initial_state"] = draw_state_pool(c.problem);
  draw_convolution(c);
  if (c.problem.gated_norm) draw_norm(c);
}

FlopCount count_flops(const Case& inputs, std::int64_t plan_chunk) {
  const FlopCount convolution = convolution_flop_count(inputs, plan_chunk);
  FlopCount sum = recurrence_flop_count(inputs, plan_chunk);
  sum.chunkwise += convolution.chunkwise;
  sum.recurrent += convolution.recurrent;
  if (inputs.problem.gated_norm) {
    const double norm = gated_norm_flops(inputs);
    sum.chunkwise += norm;
    sum.recurrent += norm;
  }
  return sum;
}

Texts every_option(const std::string& seq, const std::string& dim) {
  Texts texts;
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    const std::string layer =
        "gated_delta_layer:heads=1/2,dim=" + dim + ",seq=" + seq + ",dtype=" + dtype + ",norm=1";
    texts.push_back(layer + ",gate=logits,beta=logit");
    texts.push_back(layer + ",h0=normal,gates=mid,bias=1,slots=permuted");
    texts.push_back(layer + ",h0=normal,state=bf16,layout=vk,conv_in_place=0,gate=decay");
    texts.push_back(layer + ",h0=normal,gate=logits,beta=logit,gated_norm=1");
  }
  return texts;
}

Texts suite(std::string_view name) {
  if (name == "quick") {
    Texts texts = every_option("1x70+1x2+1x0", "64");
    for (const char* variant :
         {"update=additive", "decay=channel", "gated_norm=1,norm_gate=sigmoid,norm_eps=1e-5"}) {
      texts.push_back(
          "gated_delta_layer:heads=1/"
          "2,dim=64,seq=1x130+1x0+1x5,dtype=bf16,gate=logits,beta=logit," +
          std::string(variant));
    }
    for (const char* dtype : {"f32", "bf16", "f16"}) {
      texts.push_back(
          "gated_delta_layer:heads=1/"
          "2,dim=64x32,seq=40+70+9,h0=normal,gated_norm=1,magnitudes=edges,"
          "dtype=" +
          std::string(dtype));
    }
    texts.push_back(
        "gated_delta_layer:heads=1/2,dim=64,seq=70+0+3,dtype=bf16,norm=1,h0=normal,checkpoints=2");
    return texts;
  }
  if (name == "grid") {
    const std::string seq = "1x130+1x3+1x0+1x1+1x64";
    Texts texts = every_option(seq, "128");
    for (const char* windows :
         {"window=written", "window=none", "h0=normal,window=read", "h0=normal,checkpoints=3",
          "h0=normal,checkpoints=2,checkpoint_dtype=bf16,layout=vk,slots=padding",
          "h0=normal,checkpoints=2,checkpoint_dtype=i8,slots=padding",
          "h0=normal,window_layout=channels,window_length=5,fresh=1,slots=permuted"}) {
      texts.push_back("gated_delta_layer:heads=1/2,dim=128,seq=" + seq +
                      ",dtype=bf16,gate=logits,beta=logit," + windows);
    }
    return texts;
  }
  if (name == "gpu") {
    return {
        "gated_delta_layer:heads=16/"
        "32,dim=128,seq=4x2048,dtype=bf16,norm=1,gate=logits,beta=logit",
        "gated_delta_layer:heads=16/"
        "32,dim=128,seq=4x2048,dtype=bf16,norm=1,gate=logits,beta=logit,gated_norm=1"};
  }
  if (name == "sanitizer") {
    return {
        "gated_delta_layer:heads=1/2,dim=64,seq=1x67+1x2,dtype=bf16,norm=1,gate=logits,beta=logit",
        "gated_delta_layer:heads=1/2,dim=64,seq=1x67+1x2,dtype=bf16,norm=1,h0=normal,gated_norm=1"};
  }
  return {};
}

Texts baseline() {
  return {
      "gated_delta_layer:heads=2/4,dim=64x64,seq=1x70+1x130,dtype=bf16,gates=real,gate=logits,"
      "beta=logit,norm=1,h0=normal",
      "gated_delta_layer:heads=2/4,dim=64x64,seq=1x70+1x130,dtype=bf16,gates=real,gate=logits,"
      "beta=logit,norm=1,h0=normal,gated_norm=1"};
}

}  // namespace

const OperationHarness& gated_delta_layer_harness() {
  static const OperationHarness harness = {
      .operation = gated_delta_layer_operation(),
      .draw = draw,
      .count_flops = count_flops,
      .flops_text = recurrence_flops_text,
      .suite = suite,
      .baseline = baseline,
      .default_sweep = [](const DeviceInfo&) { return Texts{}; }};
  return harness;
}

}  // namespace gdn
