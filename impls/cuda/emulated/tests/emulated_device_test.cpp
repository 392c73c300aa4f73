// What the emulated device says of itself, and an implementation of two builds.
#include "cuda/emulated/emulated_device.h"

#include <gtest/gtest.h>

#include "interface/error.h"
#include "interface/problem.h"

namespace gdn::cuda_emulated {
namespace {

TEST(EmulatedDevice, HasNeitherAClockNorAModelOfOne) {
  const auto device = open(0);
  EXPECT_TRUE(device->info().emulated);
  EXPECT_FALSE(device->info().has_time);
  EXPECT_FALSE(device->info().modelled_time);
  EXPECT_THROW(device->time_launch([] {}, [] {}), Error);
}

class Ranked final : public Implementation {
 public:
  explicit Ranked(int least) : least_(least) { description_.rank = -1; }
  const Description& description() const override { return description_; }
  Support supports(const Problem&) const override { return {}; }
  int rank(const Problem& problem) const override { return least_ + (problem.key_head_dim > 16); }
  std::int64_t workspace_bytes(const Problem&) const override { return 0; }
  std::unique_ptr<Plan> plan(const Problem&, const Arguments&, Device&) const override {
    return nullptr;
  }

 private:
  Description description_;
  int least_;
};

TEST(Twin, IsOfTheRankThatTheProblemDecides) {
  const Ranked gpu(100), emulated(200);
  const Twin twin(gpu, emulated);
  for (const char* text :
       {"gated_delta:heads=1/1,dim=16,seq=8", "gated_delta:heads=1/1,dim=64,seq=8"}) {
    const Problem problem = Problem::parse(text);
    EXPECT_EQ(twin.rank(problem), gpu.rank(problem)) << text;
  }
}

}  // namespace
}  // namespace gdn::cuda_emulated
