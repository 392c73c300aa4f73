#include "interface/operations/gated_delta_verify.h"

#include <algorithm>

#include "interface/case.h"
#include "interface/operations/dimensions.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn {
namespace {

constexpr const char* kAccepted = "accepted";

Operand accepted_operand() {
  return {.name = kAccepted,
          .shape = [](const Problem&) { return std::vector<Dimension>{dimension::N}; },
          .index_rule = {[](const Case& c, std::int64_t n, std::int64_t value) {
                           return value >= 0 && value <= c.length(n);
                         },
                         "0 .. the tokens of the sequence"}};
}

std::int64_t accepted_tokens(const Case& c, std::int64_t sequence) {
  return c.other_indices[kAccepted][static_cast<std::size_t>(sequence)];
}

// Of the accepted tokens, those that are in the part.
void fit_accepted(const Case& whole, const std::vector<PartOfSequence>& parts, Case& part) {
  for (std::size_t n = 0; n < parts.size(); ++n) {
    const std::int64_t sequence = parts[n].sequence;
    const std::int64_t before = parts[n].first_token - whole.first_token(sequence);
    part.other_indices[kAccepted][n] =
        std::clamp<std::int64_t>(accepted_tokens(whole, sequence) - before, 0, parts[n].count);
  }
}

// Operands of gated_delta and one more. The pool is read by both phases: a commit that replays what it
// kept starts from the row, which is what it was.
OperationSchema make_schema() {
  OperationSchema schema;
  schema.name = "gated_delta_verify";
  schema.summary =
      "gated_delta of draft tokens, and the state after those of them that are accepted";
  schema.operands = gated_delta_operation().operands;
  schema.fields = recurrence_fields();
  schema.fields.push_back(kAccepted);  // how the operand of that name is drawn
  schema.validate = validate_recurrence;
  schema.fit_part = fit_accepted;
  schema.carried_tokens = accepted_tokens;
  Phase verify{.name = "verify", .reads = {}, .writes = {"output"}};
  for (const Operand& operand : schema.operands) {
    if (operand.role != Role::output) verify.reads.push_back(operand.name);
  }
  const Phase commit{.name = "commit",
                     .reads = {kAccepted, "sequence_offsets", "slot_index", "initial_state"},
                     .writes = {"initial_state"}};
  schema.phases = {verify, commit};
  const auto slots = std::find_if(schema.operands.begin(), schema.operands.end(),
                                  [](const Operand& o) { return o.name == "slot_index"; });
  schema.operands.insert(slots + 1, accepted_operand());
  return schema;
}

}  // namespace

const OperationSchema& gated_delta_verify_operation() {
  static const OperationSchema schema = make_schema();
  return schema;
}

GatedDeltaVerifyArguments gated_delta_verify_arguments(const Problem& problem,
                                                       const Arguments& arguments) {
  return {gated_delta_arguments(problem, arguments), arguments.indices(kAccepted)};
}

}  // namespace gdn
