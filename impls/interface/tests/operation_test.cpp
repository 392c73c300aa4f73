// What every operation's description promises to those that walk it: names that are unique, shapes
// that agree with how the array is cut, parts of a batch that are disjoint and together the whole.
#include "interface/operation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "interface/batch_part.h"
#include "interface/case.h"
#include "interface/error.h"

namespace gdn {
namespace {

// A ragged batch of an operation, with an empty sequence, one with no slot and two heads per key.
Case batch_of(Operation operation, const std::string& options = "") {
  Case batch;
  batch.problem = Problem::parse(to_string(operation) + ":heads=2/4,dim=4x3,seq=3+0+5+2" +
                                 (options.empty() ? "" : "," + options));
  batch.sequence_offsets = batch.problem.sequences.offsets();
  for (const Operand& operand : operation->operands) {
    if (operand.is_index() || !is_present(operand, batch.problem)) continue;
    batch[operand.name].resize(static_cast<std::size_t>(element_count(operand, batch.problem)));
  }
  return batch;
}

TEST(Operations, AreThereByTheirNames) {
  ASSERT_FALSE(operations().empty());
  EXPECT_EQ(Operation(), operations().front());
  for (const Operation operation : operations()) {
    EXPECT_EQ(parse_operation(to_string(operation)), operation);
    EXPECT_FALSE(operation->summary.empty()) << to_string(operation);
  }
  try {
    parse_operation(to_string(operations().back()) + "x");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_NE(std::string(error.what()).find(to_string(operations().back())), std::string::npos)
        << error.what();
  }
}

TEST(Operations, NameEachOperandAndEachOutputOnce) {
  for (const Operation operation : operations()) {
    std::set<std::string> names;
    std::set<std::string> outputs;
    for (const Operand& operand : operation->operands) {
      EXPECT_TRUE(names.insert(operand.name).second)
          << to_string(operation) << ": " << operand.name;
      EXPECT_EQ(operation->find(operand.name), &operand);
      if (!operand.is_output()) continue;
      EXPECT_TRUE(outputs.insert(operand.output_name()).second) << operand.output_name();
      EXPECT_EQ(operation->find_output(operand.output_name()), &operand);
      EXPECT_FALSE(operand.is_index()) << operand.name;
    }
    EXPECT_FALSE(outputs.empty()) << to_string(operation);
    for (const Operand& operand : operation->operands) {
      if (operand.hand_over.replaced_by.empty()) continue;
      EXPECT_NE(operation->find_output(operand.hand_over.replaced_by), nullptr)
          << operand.hand_over.replaced_by;
    }
  }
}

TEST(Operations, LookAtFieldsThatThereAre) {
  std::set<std::string> keys;
  for (const ProblemField& field : problem_fields()) keys.insert(field.key);
  for (const Operation operation : operations()) {
    for (const std::string& key : operation->fields) {
      EXPECT_EQ(keys.count(key), 1u) << to_string(operation) << ": " << key;
      EXPECT_TRUE(operation->has_field(key)) << key;
    }
    EXPECT_FALSE(operation->has_field("no such field"));
  }
}

TEST(Operands, HaveAsManyElementsAsTheirExtents) {
  for (const Operation operation : operations()) {
    const Case batch = batch_of(operation);
    for (const Operand& operand : operation->operands) {
      if (!is_present(operand, batch.problem)) continue;
      SCOPED_TRACE(to_string(operation) + ": " + operand.name + " " +
                   shape_names(operand, batch.problem));
      long double elements = 1;
      for (const std::int64_t extent : extents(operand, batch.problem)) {
        elements *= static_cast<long double>(extent);
      }
      if (cut_of(operand, batch.problem) == Cut::pool_rows) {
        EXPECT_LE(elements, element_count(operand, batch.problem));
        EXPECT_GE(row_stride(operand, batch.problem), row_elements(operand, batch.problem));
      } else {
        EXPECT_EQ(elements, element_count(operand, batch.problem));
      }
      int cuts = 0;
      for (const Dimension& dimension : operand.shape(batch.problem)) {
        cuts += dimension.cut != Cut::whole ? 1 : 0;
      }
      EXPECT_LE(cuts, 1) << "an array is cut along one dimension";
    }
  }
}

// One decay per channel needs one gate and one bias per channel; n steps per token n keys and values.
TEST(Operands, FollowTheVariant) {
  const Problem p = Problem::parse(
      "gated_delta:heads=2/6,dim=8x5,seq=7,steps=3,decay=channel,gate=logits,slots=permuted");
  const auto extents_of = [&](const char* operand) { return extents(p.operation->at(operand), p); };
  using Extents = std::vector<std::int64_t>;
  EXPECT_EQ(extents_of("q"), (Extents{7, 2, 8}));
  EXPECT_EQ(extents_of("k"), (Extents{7, 3, 2, 8}));
  EXPECT_EQ(extents_of("v"), (Extents{7, 3, 6, 5}));
  EXPECT_EQ(extents_of("decay_logit"), (Extents{7, 6, 8}));
  EXPECT_EQ(extents_of("A_log"), (Extents{6}));
  EXPECT_EQ(extents_of("dt_bias"), (Extents{6, 8}));
  EXPECT_EQ(extents_of("beta"), (Extents{7, 3, 6}));
  EXPECT_EQ(extents_of("output"), (Extents{7, 6, 5}));
}

// How often each element of the operand lies in one of the parts.
std::vector<int> times_covered(const Operand& operand, const Case& batch,
                               const std::vector<BatchPart>& parts) {
  std::vector<int> covered(batch[operand.name].size());
  for (const BatchPart& part : parts) {
    strips_of(operand, batch, part).for_each([&](std::int64_t i) {
      ASSERT_GE(i, 0);
      ASSERT_LT(i, static_cast<std::int64_t>(covered.size()));
      ++covered[static_cast<std::size_t>(i)];
    });
  }
  return covered;
}

// Sequences share no token and leave none out, in either order of a batch's memory; the rows of
// pools that somebody owns likewise, without the padding behind them.
TEST(BatchParts, OfAllSequencesAreTheWholeArrayOnce) {
  for (const Operation operation : operations()) {
    for (const char* options : {"", "conv_layout=time", "slots=padding,pool_pad=3"}) {
      Case batch;
      try {
        batch = batch_of(operation, options);
      } catch (const Error&) {
        continue;  // the operation has no such field
      }
      if (batch.problem.slots == SlotMap::padding) batch.slot_index = {2, -1, 0, 1};
      std::vector<BatchPart> sequences;
      for (std::int64_t n = 0; n < batch.problem.num_sequences(); ++n) sequences.push_back({n});
      for (const Operand& operand : operation->operands) {
        if (operand.is_index() || !is_present(operand, batch.problem)) continue;
        SCOPED_TRACE(batch.problem.to_string() + ": " + operand.name);
        const std::vector<int> covered = times_covered(operand, batch, sequences);
        const Cut cut = cut_of(operand, batch.problem);
        if (cut == Cut::tokens) {
          EXPECT_EQ(std::count(covered.begin(), covered.end(), 1),
                    static_cast<std::ptrdiff_t>(covered.size()));
        } else if (cut == Cut::pool_rows) {
          const std::int64_t owners = batch.slot_index.empty() ? batch.problem.num_sequences() : 3;
          EXPECT_EQ(std::count(covered.begin(), covered.end(), 1),
                    owners * row_elements(operand, batch.problem));
          EXPECT_EQ(std::count(covered.begin(), covered.end(), 0),
                    static_cast<std::ptrdiff_t>(covered.size()) -
                        owners * row_elements(operand, batch.problem));
        }
      }
    }
  }
}

// What is judged by head falls apart into its heads without rest.
TEST(BatchParts, OfAllHeadsAreTheSequence) {
  for (const Operation operation : operations()) {
    const Case batch = batch_of(operation);
    const std::int64_t heads = batch.problem.num_value_heads;
    for (const Operand& operand : operation->operands) {
      if (operand.judging.per != JudgedPer::head || !is_present(operand, batch.problem)) continue;
      for (std::int64_t n = 0; n < batch.problem.num_sequences(); ++n) {
        SCOPED_TRACE(to_string(operation) + ": " + operand.name + ", sequence " +
                     std::to_string(n));
        std::vector<BatchPart> parts;
        for (std::int64_t head = 0; head < heads; ++head) parts.push_back({n, head});
        EXPECT_EQ(times_covered(operand, batch, parts), times_covered(operand, batch, {{n}}));
        EXPECT_EQ(strips_of(operand, batch, {n, 0}).elements() * heads,
                  strips_of(operand, batch, {n}).elements());
      }
    }
  }
}

TEST(BatchParts, OfSomeTokensAreThoseTokens) {
  for (const Operation operation : operations()) {
    const Case batch = batch_of(operation);
    for (const Operand& operand : operation->operands) {
      if (operand.is_index() || !is_present(operand, batch.problem) ||
          cut_of(operand, batch.problem) != Cut::tokens) {
        continue;
      }
      SCOPED_TRACE(to_string(operation) + ": " + operand.name);
      const std::int64_t per_token = elements_per_token(operand, batch.problem);
      const Strips middle = strips_of(operand, batch, {2}, {1, 3});
      EXPECT_EQ(middle.elements(), 3 * per_token);
      if (!tokens_are_fastest(operand, batch.problem)) {
        EXPECT_EQ(middle.first, (batch.first_token(2) + 1) * per_token);
      }
      EXPECT_EQ(strips_of(operand, batch, {1}).elements(), 0) << "an empty sequence";
    }
  }
}

}  // namespace
}  // namespace gdn
