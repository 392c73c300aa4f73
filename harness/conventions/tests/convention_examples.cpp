#include "harness/conventions/tests/convention_examples.h"

#include "harness/conventions/convention.h"
#include "harness/conventions/tests/foreign_kernels.h"
#include "harness/operations/generate_case.h"
#include "interface/operations/causal_conv1d.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::conventions {

std::vector<const char*> Example::problems() const {
  std::vector<const char*> problems = {gated_delta};
  if (has_convolution()) problems.push_back(convolution);
  return problems;
}

// Decays between 0.8 and 1, a non-symmetric initial state, grouped heads that are neither equal to
// the key heads nor of one key head, tails: what makes a wrong reading visible.
const std::vector<Example>& examples() {
  static const std::vector<Example> all = {
      {"max",
       "gated_delta:heads=2/6,dim=12,seq=1x37+1x0+1x5,dtype=f32,state=bf16,h0=normal,gates=mid,"
       "gate=decay,norm=1,keys=unnormalised,slots=permuted,seed=3",
       "causal_conv1d:heads=1/"
       "2,dim=8,seq=1x5+1x0+1x2,dtype=f32,state=bf16,act=none,slots=permuted"},
      {"huggingface",
       "gated_delta:heads=6/6,dim=12,seq=2x37,dtype=bf16,h0=normal,gates=mid,norm=1,seed=3",
       "causal_conv1d:heads=1/2,dim=8,seq=2x5,dtype=f16,state=f16,bias=1"},
      {"fla",
       "gated_delta:heads=2/6,dim=12x8,seq=1x37+1x0+1x5,dtype=bf16,h0=normal,gates=mid,norm=1,"
       "scale=0.3,seed=3",
       "causal_conv1d:heads=1/2,dim=8,seq=1x5+1x0+1x2,dtype=bf16,bias=1,act=none"},
      {"flashinfer-prefill",
       "gated_delta:heads=2/6,dim=12,seq=1x37+1x0+1x5,dtype=f16,state=bf16,layout=vk,h0=normal,"
       "gates=mid,gate=decay,slots=permuted,scale=0.3,seed=3",
       ""},
      {"flashinfer-decode",
       "gated_delta:heads=2/6,dim=12,seq=9x1,dtype=f16,layout=vk,h0=normal,gate=logits,beta=logit,"
       "norm=1,slots=padding,seed=3",
       ""},
      {"ggml",
       "gated_delta:heads=2/6,dim=12,seq=2x37,dtype=f32,layout=vk,h0=normal,gates=mid,seed=3",
       "causal_conv1d:heads=1/2,dim=8,seq=2x5,dtype=f32,act=none"},
      {"mlx-native",
       "gated_delta:heads=2/6,dim=12,seq=2x37,dtype=f32,layout=vk,h0=normal,gates=mid,"
       "gate=neg_log_decay,scale=1,seed=3",
       "causal_conv1d:heads=1/2,dim=8,seq=2x5,dtype=bf16"},
      {"vllm",
       "gated_delta:heads=2/6,dim=12,seq=1x37+1x0+1x5+1x3,dtype=bf16,state=f16,layout=vk,h0=normal,"
       "gates=mid,norm=1,slots=padding,seed=3",
       "causal_conv1d:heads=1/"
       "2,dim=8,seq=1x5+1x0+1x2,dtype=bf16,state=bf16,bias=1,conv_layout=time,"
       "slots=padding"},
  };
  return all;
}

Case example_case(const Example& example, const char* problem) {
  Case c = generate_case(Problem::parse(problem));
  if (find_convention(example.convention).gates_in_token_dtype) {
    for (float& x : c[gate_name(c.problem)]) x = round_to(c.problem.token_dtype, x);
    for (float& x : c[beta_name(c.problem)]) x = round_to(c.problem.token_dtype, x);
  }
  return c;
}

void run_foreign_kernel(const Example& example, const Case& ours, const std::string& inputs,
                        const std::string& outputs) {
  if (ours.problem.operation == causal_conv1d_operation()) {
    testing::run_foreign_convolution(example.convention, inputs, outputs);
  } else {
    testing::run_foreign_gated_delta(example.convention, inputs, outputs);
  }
}

}  // namespace gdn::conventions
