// causal_conv1d and gated_delta_layer on the HIP backend, executed as gfx906 machine code.
#include <vector>

#include "emulated_fixture.h"

namespace gdn::hip {
namespace {

void expect_agree(Operation operation, const std::vector<std::string>& problems) {
  int run = 0;
  for (const Implementation* implementation : all_implementations()) {
    const Description& description = implementation->description();
    if (description.backend != "hip" || description.operation != operation) continue;
    ++run;
    for (const std::string& problem : problems) expect_emulated_agrees(*implementation, problem);
  }
  EXPECT_GT(run, 0);
}

TEST(EmulatedConvolution, WidthsBiasAndActivation) {
  expect_agree(Operation::causal_conv1d,
               {"causal_conv1d:heads=1,dim=32,seq=70,dtype=f32",
                "causal_conv1d:heads=1,dim=32,seq=70,dtype=f32,width=2,act=none",
                "causal_conv1d:heads=1,dim=8x100,seq=20,dtype=f32,width=15,bias=1",
                "causal_conv1d:heads=1,dim=8x100,seq=20,dtype=f16,bias=1",
                "causal_conv1d:heads=1,dim=8x100,seq=20,dtype=bf16,state=f16"});
}

TEST(EmulatedConvolution, RaggedSequencesShorterThanTheWindow) {
  expect_agree(Operation::causal_conv1d,
               {"causal_conv1d:heads=1,dim=16,seq=0+1+2+3+4+65+0,dtype=f32",
                "causal_conv1d:heads=1,dim=16,seq=0+1+2+3+4+65+0,dtype=bf16,slots=padding,width=7",
                "causal_conv1d:heads=1,dim=16,seq=5x1,dtype=f32,slots=permuted"});
}

TEST(EmulatedConvolution, TimeFastestLayoutAndWindowsOutOfPlace) {
  expect_agree(Operation::causal_conv1d,
               {"causal_conv1d:heads=1,dim=16,seq=33+0+70,dtype=f32,conv_layout=time",
                "causal_conv1d:heads=1,dim=16,seq=33+0+2,dtype=f32,conv_in_place=0",
                "causal_conv1d:heads=1,dim=16,seq=33+0+2,dtype=f16,conv_layout=time,"
                "conv_in_place=0,slots=permuted"});
}

TEST(EmulatedLayer, EveryFormAroundTheConvolution) {
  expect_agree(Operation::gated_delta_layer,
               {"gated_delta_layer:heads=1/2,dim=32,seq=40+0+3,dtype=f32,gate=logits,beta=logit,"
                "h0=normal",
                "gated_delta_layer:heads=1/2,dim=32,seq=40,dtype=bf16,gate=logits,beta=logit",
                "gated_delta_layer:heads=1,dim=32,seq=4x1,dtype=f32,gate=logits,beta=logit,"
                "h0=normal,slots=padding"});
}

}  // namespace
}  // namespace gdn::hip
