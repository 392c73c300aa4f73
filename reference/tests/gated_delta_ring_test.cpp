// The reference of gated_delta_ring (contract 1.11) against that of gated_delta: however the tokens are cut into
// calls, records folded or not, and tokens behind the ones that stay dropped; and one head of one element by hand.
#include "interface/operations/gated_delta_ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "harness/operations/generate_case.h"
#include "reference/reference.h"

namespace gdn::reference::testing {
namespace {

// One head of one element, S <- a S, S <- S + k u with u = b (v - S k), o = S q, by hand: the records are
// (k 1, u 2, a 0.5) and (k 0.5, u 4, a 0.25), the older one at the last place of the ring.
TEST(GatedDeltaRingReference, OfOneElementByHand) {
  Case c = generate_case(
      Problem::parse("gated_delta_ring:heads=1/1,dim=1x1,seq=2,ring=4,dtype=f32,h0=normal,scale=1,"
                     "gate=decay"));
  c["q"] = {2, 3};
  c["k"] = {1, 0.5};
  c["v"] = {4, -2};
  c["decay"] = {0.5, 0.25};
  c["beta"] = {0.5, 1};
  c["initial_state"] = {16};
  c.other_indices["ring_first"] = {3};
  c.other_indices["ring_length"] = {2};
  c["ring_key"] = {0.5, 7, 7, 1};
  c["ring_update"] = {4, 7, 7, 2};
  c["ring_decay"] = {0.25, 0.75, 0.75, 0.5};
  // S with the records: 8 + 2 = 10, 2.5 + 2 = 4.5. The tokens: 2.25, u = 0.875, S = 3.125; 0.78125,
  // u = -2 - 0.390625 = -2.390625, S = -0.4140625.
  for (const std::int64_t fold : {0, 1}) {
    c.other_indices["ring_fold"] = {fold};
    const auto result = evaluate<double>(c);
    EXPECT_NEAR(result["output"][0], 6.25, 1e-15);
    EXPECT_NEAR(result["output"][1], -1.2421875, 1e-15);
    EXPECT_EQ(result["final_state"][0], fold == 0 ? 16 : 4.5);
    const std::vector<double> keys = {0.5, 1, 0.5, 1};
    const std::vector<double> updates = {4, 0.875, -2.390625, 2};
    const std::vector<double> decays = {0.25, 0.5, 0.25, 0.5};
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(result["ring_key"][i], keys[i]);
      EXPECT_NEAR(result["ring_update"][i], updates[i], 1e-15);
      EXPECT_NEAR(result["ring_decay"][i], decays[i], 1e-15);
      const bool written = i == 1 || i == 2;
      EXPECT_EQ(result["ring_update_terms"][i] > 0, written);
      EXPECT_EQ(result["ring_decay_terms"][i] > 0, written);
    }
  }
}

TEST(GatedDeltaRingReference, ARowThatIsNotReadIsAlwaysFolded) {
  for (const char* fill : {"none", "mixture"}) {
    Case c = generate_case(Problem::parse(
        "gated_delta_ring:heads=1/2,dim=4x3,seq=2+2,ring=8,dtype=f32,gates=mid,h0=absent,"
        "ring_fill=" +
        std::string(fill)));
    c.other_indices["ring_fold"] = {0, 1};
    const auto as_told = evaluate<double>(c);
    c.other_indices["ring_fold"] = {1, 1};
    const auto folded = evaluate<double>(c);
    for (const double element : as_told["final_state"]) EXPECT_TRUE(std::isfinite(element));
    EXPECT_EQ(as_told["final_state"], folded["final_state"]);
    EXPECT_EQ(as_told["output"], folded["output"]);
  }
}

// What a server does: calls of a few tokens, of which some stay. Their outputs, and the state whenever it is
// folded, are those of gated_delta on the tokens that stayed.
class Served {
 public:
  explicit Served(const std::string& options)
      : whole_(generate_case(Problem::parse("gated_delta:heads=2/4,dim=12x10,seq=40,dtype=f32,"
                                            "h0=normal,gates=mid" +
                                            options))),
        next_(generate_case(Problem::parse("gated_delta_ring:heads=2/4,dim=12x10,seq=3,ring=8,"
                                           "dtype=f32,h0=normal,gates=mid" +
                                           options))) {
    next_["initial_state"] = whole_["initial_state"];
    next_.other_indices["ring_first"] = {5};
    next_.other_indices["ring_length"] = {0};
    next_.other_indices["ring_fold"] = {0};
  }

  // A call on the three tokens behind the ones that stayed; `stay` of them do.
  void call(std::int64_t stay, bool fold) {
    for (const char* name : {"q", "k", "v", "log_decay", "beta"}) {
      const auto width = static_cast<std::ptrdiff_t>(next_[name].size() / 3);
      std::copy_n(whole_[name].begin() + done_ * width, 3 * width, next_[name].begin());
    }
    next_.other_indices["ring_fold"] = {fold};
    const auto result = evaluate<double>(next_);
    const auto expected = evaluate<double>(first_tokens(done_ + 3));
    const std::size_t values = result["output"].size();
    for (std::size_t i = 0; i < values; ++i) {
      const double o = expected["output"][expected["output"].size() - values + i];
      EXPECT_NEAR(result["output"][i], o, 1e-5) << "after " << done_ << " tokens";
    }
    if (fold) {
      const auto before = evaluate<double>(first_tokens(done_));
      for (std::size_t i = 0; i < before["final_state"].size(); ++i) {
        EXPECT_NEAR(result["final_state"][i], before["final_state"][i], 1e-5)
            << "after " << done_ << " tokens";
      }
    }
    for (const char* name : {"ring_key", "ring_update", "ring_decay"}) {
      std::transform(result[name].begin(), result[name].end(), next_[name].begin(),
                     [](double x) { return static_cast<float>(x); });
    }
    std::transform(result["final_state"].begin(), result["final_state"].end(),
                   next_["initial_state"].begin(), [](double x) { return static_cast<float>(x); });
    std::int64_t& first = next_.other_indices["ring_first"][0];
    std::int64_t& length = next_.other_indices["ring_length"][0];
    if (fold) first = (first + length) % 8;
    length = (fold ? 0 : length) + stay;
    done_ += stay;
  }
  std::int64_t length() const { return next_.other_indices["ring_length"][0]; }

 private:
  Case first_tokens(std::int64_t count) const {
    Case c = whole_;
    c.problem.sequences.lengths = {count};
    c.sequence_offsets = {0, count};
    for (const char* name : {"q", "k", "v", "log_decay", "beta"}) {
      c[name].resize(whole_[name].size() / 40 * static_cast<std::size_t>(count));
    }
    return c;
  }

  Case whole_;
  Case next_;
  std::int64_t done_ = 0;
};

TEST(GatedDeltaRingReference, CallsOfAFewTokensAreGatedDeltaOfThoseThatStay) {
  for (const char* options : {"", ",norm=1,keys=unnormalised", ",layout=vk"}) {
    SCOPED_TRACE(options);
    Served served(options);
    for (const std::int64_t stay : {3, 1, 0, 2, 3, 3, 0, 2, 1, 3, 3, 3, 2}) {
      served.call(stay, served.length() > 2);
    }
  }
}

}  // namespace
}  // namespace gdn::reference::testing
