// Every HIP implementation of gated_delta, executed as gfx906 machine code, over the axes of
// contract section 1.1: small sizes, one or two of every option, the three wave orders and noise on
// the transcendental instructions.
#include <vector>

#include "emulated_fixture.h"

namespace gdn::hip {
namespace {

class EmulatedGatedDelta : public testing::TestWithParam<const Implementation*> {
 protected:
  void expect_agree(const std::vector<std::string>& problems,
                    const gfx906::LaunchOptions& options = {}) {
    for (const std::string& problem : problems) {
      expect_emulated_agrees(*GetParam(), "gated_delta:" + problem, options);
    }
  }
};

std::vector<const Implementation*> hip_implementations() {
  std::vector<const Implementation*> found;
  for (const Implementation* implementation : all_implementations()) {
    const Description& description = implementation->description();
    if (description.backend == "hip" && description.operation == Operation::gated_delta) {
      found.push_back(implementation);
    }
  }
  return found;
}

TEST_P(EmulatedGatedDelta, LengthsAroundChunkBoundaries) {
  expect_agree({"heads=1,dim=64x32,dtype=f32,gates=mid,h0=normal,seq=0+1+2+15+16+17",
                "heads=1,dim=64x32,dtype=f32,gates=mid,h0=normal,seq=31+32+33+63+64+65",
                "heads=1/2,dim=32x48,dtype=f32,gates=mid,seq=129+0+1",
                "heads=2/4,dim=32,dtype=f32,gates=real,h0=normal,seq=9x1"});
}

TEST_P(EmulatedGatedDelta, ThePublishedHeadSize) {
  expect_agree({"heads=1/2,dim=128,dtype=f32,gates=real,h0=normal,seq=70",
                "heads=1/2,dim=128,dtype=f16,gates=real,h0=normal,seq=70",
                "heads=1/2,dim=128,dtype=bf16,gates=real,h0=normal,seq=70"});
}

TEST_P(EmulatedGatedDelta, HeadDimsThatFillNoTile) {
  expect_agree({"heads=1,dim=1x1,dtype=f32,gates=mid,h0=normal,seq=40",
                "heads=1,dim=60x100,dtype=f32,gates=mid,h0=normal,seq=40",
                "heads=1,dim=96x7,dtype=f32,gates=mid,h0=normal,seq=40",
                "heads=1,dim=200x33,dtype=f32,gates=mid,h0=normal,seq=40"});
}

TEST_P(EmulatedGatedDelta, GroupedValueHeads) {
  expect_agree({"heads=2/6,dim=32,dtype=f32,gates=mid,h0=normal,seq=20+35",
                "heads=3/3,dim=32,dtype=f32,gates=mid,h0=normal,seq=20"});
}

TEST_P(EmulatedGatedDelta, GateAndBetaInputs) {
  for (const char* gate : {"log_decay", "decay", "neg_log_decay", "logits"}) {
    expect_agree(
        {std::string("heads=1/2,dim=32,seq=50,dtype=f32,gates=real,beta=logit,gate=") + gate});
  }
  for (const char* gates : {"none", "near_one", "strong", "reset", "tiny"}) {
    expect_agree({std::string("heads=1,dim=32,seq=120,dtype=f32,h0=normal,gates=") + gates});
  }
  expect_agree({"heads=1,dim=32,seq=80,dtype=f32,gates=reset,gate=decay",
                "heads=1,dim=32,seq=80,dtype=f32,gates=mid,betas=two",
                "heads=1,dim=32,seq=80,dtype=f32,gates=mid,betas=zero"});
}

TEST_P(EmulatedGatedDelta, KeysNormAndScale) {
  for (const char* keys : {"correlated", "equal", "alternating", "zero"}) {
    expect_agree({std::string("heads=1,dim=32,seq=80,dtype=f32,gates=mid,keys=") + keys});
  }
  expect_agree({"heads=1,dim=64x32,seq=80,dtype=f32,gates=mid,keys=unnormalised,norm=1",
                "heads=1,dim=32,seq=80,dtype=f16,gates=mid,norm=1",
                "heads=1,dim=32,seq=40,dtype=f32,gates=mid,keys=zero,norm=1,scale=-0.25"});
}

TEST_P(EmulatedGatedDelta, TokenStateAndOutputTypes) {
  for (const char* token : {"f32", "bf16", "f16"}) {
    for (const char* state : {"f32", "bf16", "f16"}) {
      expect_agree({std::string("heads=1,dim=32,seq=40+9,gates=mid,h0=normal,dtype=") + token +
                    ",state=" + state});
    }
    expect_agree({std::string("heads=1,dim=32,seq=40,gates=mid,out=f32,dtype=") + token});
  }
}

TEST_P(EmulatedGatedDelta, StatesSlotsAndLayouts) {
  expect_agree({"heads=1/2,dim=32x48,seq=20+0+33+7,dtype=f32,gates=mid,h0=normal,slots=padding",
                "heads=1/2,dim=32x48,seq=20+0+33+7,dtype=f32,gates=mid,h0=normal,slots=permuted,"
                "layout=vk,pool_pad=5",
                "heads=1,dim=32,seq=33,dtype=f32,gates=mid,h0=absent,ht=0",
                "heads=1,dim=32,seq=33,dtype=f32,gates=mid,h0=large,ht=0",
                "heads=1,dim=32,seq=33+2,dtype=bf16,gates=mid,h0=normal,slots=padding,layout=vk"});
}

// No result may depend on which wave runs first, on where waves are switched, or on the last bit of
// a transcendental instruction.
TEST_P(EmulatedGatedDelta, WaveOrdersAndTranscendentalNoise) {
  const std::string problem = "heads=1/2,dim=64,seq=70+33,dtype=f32,gates=real,h0=normal,norm=1";
  for (const auto order :
       {gfx906::WaveOrder::forward, gfx906::WaveOrder::reverse, gfx906::WaveOrder::random}) {
    gfx906::LaunchOptions options;
    options.order = order;
    options.preempt_every = order == gfx906::WaveOrder::random ? 9 : 0;
    expect_agree({problem}, options);
  }
  gfx906::LaunchOptions noisy;
  noisy.transcendental_ulp = 1;
  expect_agree({problem}, noisy);
}

std::string name_of_case(const testing::TestParamInfo<const Implementation*>& info) {
  std::string name = info.param->description().name;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, EmulatedGatedDelta, testing::ValuesIn(hip_implementations()),
                         name_of_case);

}  // namespace
}  // namespace gdn::hip
