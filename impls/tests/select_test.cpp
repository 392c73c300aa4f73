// "The best that runs here" is the implementation of highest rank among those that do the problem,
// with the reason why none above it was taken.
#include "interface/select.h"

#include <gtest/gtest.h>

#include "interface/error.h"

namespace gdn {
namespace {

TEST(Select, TakesTheHighestRankThatDoesTheProblem) {
  for (const Backend& backend : backends()) {
    if (!backend.status().available) continue;
    const auto device = open_device(backend.name);
    for (const Implementation* any : all_implementations()) {
      if (any->description().backend != device->info().runs) continue;
      for (const std::string& text : any->description().examples) {
        const Problem problem = Problem::parse(text);
        SCOPED_TRACE(backend.name + ": " + text);
        if (!runs_on(*any, device->info())) continue;
        const Selection selection = select(problem, device->info());
        ASSERT_NE(selection.implementation, nullptr);
        EXPECT_TRUE(selection.implementation->supports(problem));
        EXPECT_EQ(selection.implementation->description().operation, problem.operation);
        EXPECT_EQ(selection.implementation->description().backend, device->info().runs);
        EXPECT_GE(selection.implementation->rank(problem), any->rank(problem))
            << any->description().name;
        EXPECT_EQ(selection.reason.rfind(selection.implementation->description().name + ": ", 0),
                  0u)
            << selection.reason;
        EXPECT_EQ(selection.reason.find('\n'), std::string::npos);
      }
    }
  }
}

// Calls of few tokens pass through once, with states inside them too.
TEST(Select, ShortCallsWithCheckpointsAreDecodes) {
  if (!find_backend("cuda-emulated").status().available) GTEST_SKIP();
  const auto device = open_device("cuda-emulated");
  for (const char* more : {"", ",layout=vk,state=bf16,checkpoint_dtype=f32", ",decay=channel"}) {
    const Problem problem =
        Problem::parse("gated_delta:heads=2/4,dim=128,seq=16x4,dtype=bf16,h0=normal,checkpoints=2" +
                       std::string(more));
    EXPECT_EQ(select(problem, device->info()).implementation->description().name, "cuda/decode")
        << more;
  }
}

// A layer that is a chain is chosen as the form of the recurrence that it is made of is: also where a problem
// decides.
TEST(Select, AChainRanksAsItsMainStep) {
  for (const char* text : {"heads=1/2,dim=64,seq=5x1,dtype=bf16", "heads=1/2,dim=64,seq=300"}) {
    const Problem layer = Problem::parse("gated_delta_layer:" + std::string(text));
    const Problem step = Problem::parse("gated_delta:" + std::string(text));
    for (const Implementation* any : all_implementations()) {
      if (any->description().operation != layer.operation) continue;
      const std::string& name = any->description().name;
      if (name == "cuda/decode_one_launch") continue;  // no chain
      EXPECT_EQ(any->rank(layer), find_implementation(step.operation, name).rank(step))
          << name << ", " << text;
    }
  }
}

// One launch is chosen for a token a sequence, of few, where the layer ends in the norm; without it, of many, and of more
// tokens or with states inside the call, the chain.
TEST(Select, ALayersTokenOfFewSequencesIsOneLaunch) {
  if (!find_backend("cuda-emulated").status().available) GTEST_SKIP();
  const auto device = open_device("cuda-emulated");
  const auto chosen = [&](const std::string& more) {
    const Problem problem = Problem::parse("gated_delta_layer:heads=2/4,dim=128,dtype=bf16" + more);
    return select(problem, device->info()).implementation->description().name;
  };
  EXPECT_EQ(chosen(",seq=16x1,gated_norm=1"), "cuda/decode_one_launch");
  EXPECT_EQ(chosen(",seq=3x1+0+1,gated_norm=1,layout=vk"), "cuda/decode_one_launch");
  EXPECT_EQ(chosen(",seq=64x1,gated_norm=1"), "cuda/decode_one_launch");  // of 4 value heads: 256
  EXPECT_EQ(chosen(",seq=65x1,gated_norm=1"), "cuda/decode");
  EXPECT_EQ(chosen(",seq=16x1"), "cuda/decode");
  EXPECT_EQ(chosen(",seq=16x2,gated_norm=1"), "cuda/decode");
  EXPECT_EQ(chosen(",seq=16x1,gated_norm=1,checkpoints=1"), "cuda/decode");
}

// Whoever ranks above the chosen one and refuses is named with its reason.
TEST(Select, SaysWhyTheBetterOnesWereLeftOut) {
  const auto device = open_device("cpu");
  for (const char* text : {"gated_delta:heads=1/2,dim=64,seq=300,dtype=bf16",
                           "gated_delta:heads=1/2,dim=64,seq=300,steps=2",
                           "gated_delta:heads=1/2,dim=64,seq=300,decay=channel"}) {
    const Problem problem = Problem::parse(text);
    const Selection selection = select(problem, device->info());
    for (const Implementation* other : all_implementations()) {
      if (other->description().operation != problem.operation ||
          other->description().backend != "cpu" || other->supports(problem) ||
          other->rank(problem) <= selection.implementation->rank(problem)) {
        continue;
      }
      EXPECT_NE(selection.reason.find(other->description().name + " does not do it: "),
                std::string::npos)
          << text << ": " << selection.reason;
    }
  }
}

TEST(Select, RefusesWithEveryReasonWhereNobodyDoesIt) {
  const auto device = open_device("cpu");
  DeviceInfo none = device->info();
  none.runs = "nothing";
  try {
    select(Problem::parse("gated_delta:dim=64"), none);
    FAIL() << "something was chosen";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_NE(std::string(error.what()).find("nothing here does it"), std::string::npos)
        << error.what();
  }
}

TEST(ChooseImplementations, NamesTheNearestForAnUnknownOne) {
  const auto device = open_device("cpu");
  try {
    choose_implementations({"cpu/naiv"}, device->info());
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_NE(std::string(error.what()).find("'cpu/naive'"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace gdn
