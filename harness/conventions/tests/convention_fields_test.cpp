// Every field of every convention matters: with one changed, some case that agreed with the
// convention's own kernel no longer does, or one that it cannot express is accepted.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "harness/conventions/convert.h"
#include "harness/conventions/tests/convention_examples.h"
#include "harness/tests/temporary_folder.h"
#include "harness/verify/verify.h"
#include "interface/error.h"

namespace gdn::conventions {
namespace {

struct Change {
  std::string what;
  Convention convention;
};

class Changes {
 public:
  explicit Changes(const Convention& convention) : original_(convention) {}

  std::vector<Change> all() {
    batch();
    meanings();
    array("qkv", [](Convention& c) { return &c.qkv; });
    array("query", [](Convention& c) { return &c.query; });
    array("key", [](Convention& c) { return &c.key; });
    array("value", [](Convention& c) { return &c.value; });
    array("gate", [](Convention& c) { return &c.gate; });
    array("beta", [](Convention& c) { return &c.beta; });
    array("initial_state", [](Convention& c) { return &c.initial_state; });
    if (original_.packed_outputs.empty()) {  // else they have no names of their own
      array("output", [](Convention& c) { return &c.output; });
      array("final_state", [](Convention& c) { return &c.final_state; });
    }
    if (original_.convolution) convolution();
    return std::move(changes_);
  }

 private:
  void add(const std::string& what, const std::function<void(Convention&)>& change) {
    Change changed{what, original_};
    change(changed.convention);
    changes_.push_back(std::move(changed));
  }
  template <typename Value>
  void each_other(const std::string& what, const std::vector<Value>& values,
                  const std::function<Value*(Convention&)>& field) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      Convention copy = original_;
      if (*field(copy) == values[i]) continue;
      add(what + " is value " + std::to_string(i), [&](Convention& c) { *field(c) = values[i]; });
    }
  }

  void batch() {
    each_other<BatchKind>("batch.kind",
                          {BatchKind::ragged, BatchKind::equal_lengths, BatchKind::one_token},
                          [](Convention& c) { return &c.batch.kind; });
    if (!original_.batch.offsets.empty()) {
      add("batch.offsets", [](Convention& c) { c.batch.offsets += "_x"; });
    }
    if (original_.slots.dataset.empty()) return;
    add("slots.dataset", [](Convention& c) { c.slots.dataset += "_x"; });
    add("slots.first_row", [](Convention& c) { c.slots.first_row = 1 - c.slots.first_row; });
  }

  void meanings() {
    each_other<HeadMap>("heads", {HeadMap::grouped, HeadMap::tiled},
                        [](Convention& c) { return &c.heads; });
    // What a scale of 0 means, and an epsilon beside vectors that have not passed their norm, shows
    // only in files that hold them: EightPoints.QueryScale and NormEpsilon.
    std::vector<ScaleRule> scales = {ScaleRule::fixed, ScaleRule::by_caller};
    if (original_.scale != ScaleRule::argument_zero_is_default) {
      scales.push_back(ScaleRule::argument);
    }
    each_other<ScaleRule>("scale", scales, [](Convention& c) { return &c.scale; });
    std::vector<NormPlace> places = {NormPlace::in_kernel, NormPlace::in_kernel_by_flag};
    if (original_.norm.place != NormPlace::before) {
      places.push_back(NormPlace::before_flag_ignored);
    }
    if (original_.norm.place != NormPlace::before_flag_ignored) {
      places.push_back(NormPlace::before);
    }
    each_other<NormPlace>("norm.place", places, [](Convention& c) { return &c.norm.place; });
    each_other<GateEncoding>("gate_encoding",
                             {GateEncoding::log_decay, GateEncoding::decay,
                              GateEncoding::neg_log_decay, GateEncoding::logits},
                             [](Convention& c) { return &c.gate_encoding; });
    each_other<BetaEncoding>("beta_encoding", {BetaEncoding::beta, BetaEncoding::logit},
                             [](Convention& c) { return &c.beta_encoding; });
    if (!original_.A_log.empty()) {
      add("A_log", [](Convention& c) { c.A_log += "_x"; });
      add("dt_bias", [](Convention& c) { c.dt_bias += "_x"; });
    }
    if (!original_.packed_outputs.empty()) {
      add("packed_outputs", [](Convention& c) { c.packed_outputs.clear(); });
    }
  }

  // Another name; each two neighbouring axes exchanged.
  void array(const std::string& what, const std::function<Array*(Convention&)>& field) {
    Convention copy = original_;
    if (!field(copy)->exists()) return;
    add(what + ".name", [&](Convention& c) { field(c)->name += "_x"; });
    for (std::size_t i = 0; i + 1 < field(copy)->axes.size(); ++i) {
      const Axis next = field(copy)->axes[i + 1];
      if (field(copy)->axes[i] == Axis::one || next == Axis::one) continue;
      add(what + ".axes " + std::to_string(i) + ", " + std::to_string(i + 1),
          [&](Convention& c) { std::swap(field(c)->axes[i], field(c)->axes[i + 1]); });
    }
  }

  void convolution() {
    each_other<ActivationRule>("conv.activation", {ActivationRule::none, ActivationRule::silu},
                               [](Convention& c) { return &c.convolution->activation; });
    each_other<BatchKind>("conv.batch.kind",
                          {BatchKind::ragged, BatchKind::equal_lengths, BatchKind::one_token},
                          [](Convention& c) { return &c.convolution->batch.kind; });
    add("conv.unused_window",
        [](Convention& c) { c.convolution->unused_window = 1 - c.convolution->unused_window; });
    if (!original_.convolution->bias.empty()) {
      add("conv.bias", [](Convention& c) { c.convolution->bias += "_x"; });
    }
    if (!original_.convolution->slots.dataset.empty()) {
      add("conv.slots.first_row", [](Convention& c) {
        c.convolution->slots.first_row = 1 - c.convolution->slots.first_row;
      });
    }
    array("conv.input", [](Convention& c) { return &c.convolution->input; });
    array("conv.weight", [](Convention& c) { return &c.convolution->weight; });
    array("conv.window", [](Convention& c) { return &c.convolution->window; });
    array("conv.output", [](Convention& c) { return &c.convolution->output; });
    array("conv.new_window", [](Convention& c) { return &c.convolution->new_window; });
  }

  const Convention& original_;
  std::vector<Change> changes_;
};

// What the examples leave open: repeated heads, equal lengths, a scale, a norm, row 0 of a pool.
// Each convention expresses some of these and refuses the others.
const char* const kMoreProblems[] = {
    "gated_delta:heads=2/6,dim=12,seq=2x5,dtype=f32,h0=normal,gates=mid",
    "gated_delta:heads=2/6,dim=12,seq=2x5,dtype=bf16,h0=normal,gates=mid,scale=0.3",
    "gated_delta:heads=2/6,dim=12,seq=2x5,dtype=f32,h0=normal,gates=mid,scale=0.3",
    "gated_delta:heads=2/6,dim=12,seq=2x5,dtype=f32,gates=mid,norm=1,keys=unnormalised",
    "gated_delta:heads=2/6,dim=12,seq=2x5,dtype=bf16,gates=mid,norm=1,keys=unnormalised",
    "gated_delta:heads=2/6,dim=12,seq=2x5,dtype=f32,gates=mid,gate=neg_log_decay,norm=1,"
    "keys=unnormalised,scale=1",
    "gated_delta:heads=2/6,dim=12,seq=2x5,dtype=bf16,h0=normal,gate=logits,beta=logit,norm=1",
    "gated_delta:heads=2/6,dim=12,seq=9x1,dtype=bf16,h0=normal,gate=logits,beta=logit,scale=0.3",
    "gated_delta:heads=2/6,dim=12,seq=9x1,dtype=bf16,h0=normal,gate=logits,beta=logit,"
    "slots=permuted",
    "gated_delta:heads=2/6,dim=12,seq=9x1,dtype=f32,h0=normal,gates=mid,slots=permuted",
    "causal_conv1d:heads=1/2,dim=8,seq=2x5,dtype=f32,act=none",
    "causal_conv1d:heads=1/2,dim=8,seq=9x2,dtype=f32,act=none,slots=permuted",
    "causal_conv1d:heads=1/2,dim=8,seq=9x2,dtype=f32,slots=permuted",
    "causal_conv1d:channels=5,seq=2x4,dtype=f32,act=none",
    "causal_conv1d:channels=5,seq=2x4,dtype=bf16",
};

class EachField : public ::testing::TestWithParam<Example> {
 protected:
  std::vector<const char*> problems() const {
    std::vector<const char*> all = GetParam().problems();
    all.insert(all.end(), std::begin(kMoreProblems), std::end(kMoreProblems));
    return all;
  }
  const Convention& original() const { return find_convention(GetParam().convention); }

  // Whether the kernel's outputs are right of a case that goes there and back by `convention`; and
  // of the case that `convention` reads where the true one wrote it.
  bool agrees(const Convention& convention, const char* problem) const {
    const TemporaryFolder folder;
    const Case ours = example_case(GetParam(), problem);
    const std::string in = folder.file("in.h5");
    const std::string out = folder.file("out.h5");
    try {
      export_case(convention, ours, in);
      run_foreign_kernel(GetParam(), ours, in, out);
      if (!are_right(ours, import_outputs(convention, ours, out).outputs)) return false;
      const std::string truth = folder.file("true.h5");
      export_case(original(), ours, truth);
      const Case theirs = import_case(convention, truth);
      run_foreign_kernel(GetParam(), ours, truth, out);
      return are_right(theirs, import_outputs(original(), theirs, out).outputs);
    } catch (const std::exception&) {
      return false;
    }
  }
  static bool are_right(const Case& inputs, const Outputs& outputs) {
    VerifyOptions options;
    options.threads = 1;
    return verify_outputs(CheckedReference(inputs, options), outputs).passed();
  }
  // Refused: nothing is written.
  bool refuses(const Convention& convention, const char* problem) const {
    const TemporaryFolder folder;
    try {
      export_case(convention, example_case(GetParam(), problem), folder.file("in.h5"));
      return false;
    } catch (const Error&) {
      return true;
    }
  }
};

TEST_P(EachField, IsNoticedWhenChanged) {
  std::vector<const char*> expressed, refused;
  for (const char* problem : problems()) {
    (refuses(original(), problem) ? refused : expressed).push_back(problem);
  }
  for (const char* problem : expressed) ASSERT_TRUE(agrees(original(), problem)) << problem;
  for (const Change& change : Changes(original()).all()) {
    const bool noticed =
        std::any_of(expressed.begin(), expressed.end(),
                    [&](const char* problem) { return !agrees(change.convention, problem); }) ||
        std::any_of(refused.begin(), refused.end(),
                    [&](const char* problem) { return !refuses(change.convention, problem); });
    EXPECT_TRUE(noticed) << original().name << ": " << change.what;
  }
}

INSTANTIATE_TEST_SUITE_P(Conventions, EachField, ::testing::ValuesIn(examples()),
                         [](const auto& parameter) {
                           std::string name = parameter.param.convention;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace gdn::conventions
