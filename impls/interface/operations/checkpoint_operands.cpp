#include "interface/operations/checkpoint_operands.h"

#include "interface/case.h"
#include "interface/error.h"
#include "interface/operations/convolution_operands.h"
#include "interface/operations/dimensions.h"

namespace gdn {
namespace {

using Dimensions = std::vector<Dimension>;

constexpr std::int64_t kMostCheckpoints = 65536;  // of a sequence

constexpr Dimension kCheckpoints = {"checkpoints", [](const Problem& p) { return p.checkpoints; }};

bool has_checkpoints(const Problem& p) { return p.checkpoints > 0; }

Dimensions states_shape(const Problem& p) {
  if (p.state_layout == StateLayout::kv) {
    return {dimension::N, kCheckpoints, dimension::Hv, dimension::Dk, dimension::Dv};
  }
  return {dimension::N, kCheckpoints, dimension::Hv, dimension::Dv, dimension::Dk};
}

Dimensions scales_shape(const Problem&) {
  return {dimension::N, kCheckpoints, dimension::Hv, dimension::Dk};
}

bool has_scales(const Problem& p) {
  return has_checkpoints(p) && p.effective_checkpoint_dtype() == DType::int8;
}

// As the pool's rows are.
Dimensions windows_shape(const Problem& p) {
  Dimensions shape = {dimension::N, kCheckpoints};
  const Dimensions row = convolution_window_operand().shape(p);
  shape.insert(shape.end(), row.begin() + 1, row.end());
  return shape;
}

// Whether the count at a place is 0, or larger than those of its sequence before it.
bool is_next_count(const Case& c, std::int64_t place, std::int64_t count) {
  const std::int64_t sequence = place / c.problem.checkpoints;
  if (count < 0 || count > c.length(sequence)) return false;
  const std::vector<std::int64_t>& counts = c.other_indices[kCheckpointTokens];
  for (std::int64_t i = sequence * c.problem.checkpoints; i < place && count != 0; ++i) {
    if (counts[static_cast<std::size_t>(i)] >= count) return false;
  }
  return true;
}

}  // namespace

Operand checkpoint_tokens_operand() {
  return {
      .name = kCheckpointTokens,
      .shape =
          [](const Problem&) {
            return Dimensions{dimension::N, kCheckpoints};
          },
      .present = has_checkpoints,
      .index_rule = {is_next_count,
                     "0, or a count of tokens up to the sequence's, larger than those before it"}};
}

// Of a call in two, each wrote zeros for the counts that are the other's.
Operand checkpoint_states_operand() {
  return {.name = kCheckpointStates,
          .role = Role::output,
          .shape = states_shape,
          .dtype = [](const Problem& p) { return p.effective_checkpoint_dtype(); },
          .present = has_checkpoints,
          .judging = {.per = JudgedPer::head, .over_calls = OverCalls::sum},
          .scaled = {.by = kCheckpointScales,
                     .make_float32 = [](Problem& p) { p.checkpoint_dtype = DType::float32; }}};
}

// A scale errs by as much as the largest value of its channel: beside the size of all its values.
Operand checkpoint_scales_operand() {
  return {.name = kCheckpointScales,
          .role = Role::output,
          .shape = scales_shape,
          .dtype = element_type::float32,
          .present = has_scales,
          .judging = {.per = JudgedPer::head, .by_terms = true, .over_calls = OverCalls::sum}};
}

Operand checkpoint_windows_operand() {
  return {.name = kCheckpointWindows,
          .role = Role::output,
          .shape = windows_shape,
          .dtype = element_type::state,
          .present = [](const Problem& p) { return has_checkpoints(p) && has_windows(p); },
          .judging = {.per = JudgedPer::sequence, .is_copy = true, .over_calls = OverCalls::sum}};
}

void fit_checkpoints(const Case& whole, const std::vector<PartOfSequence>& parts, Case& part) {
  const std::int64_t checkpoints = whole.problem.checkpoints;
  if (checkpoints == 0) return;
  std::vector<std::int64_t>& counts = part.other_indices[kCheckpointTokens];
  for (std::size_t n = 0; n < parts.size(); ++n) {
    const std::int64_t before = parts[n].first_token - whole.first_token(parts[n].sequence);
    for (std::int64_t j = 0; j < checkpoints; ++j) {
      const auto at = static_cast<std::size_t>(parts[n].sequence * checkpoints + j);
      const std::int64_t of_whole = whole.other_indices[kCheckpointTokens][at];
      const std::int64_t count = of_whole - before;  // a part may begin before its sequence
      const bool is_here = of_whole != 0 && count > 0 && count <= parts[n].count;
      counts[n * static_cast<std::size_t>(checkpoints) + static_cast<std::size_t>(j)] =
          is_here ? count : 0;
    }
  }
}

std::int64_t checkpoint_state_bytes(const Problem& p) {
  return p.num_sequences() * p.checkpoints * p.num_value_heads * p.key_head_dim * p.value_head_dim *
         static_cast<std::int64_t>(size_of(p.effective_checkpoint_dtype()));
}

void validate_checkpoints(const Problem& p) {
  if (p.checkpoints > kMostCheckpoints) {
    throw_bad_input("problem: checkpoints=" + std::to_string(p.checkpoints) + ": expected 0.." +
                    std::to_string(kMostCheckpoints));
  }
  if (p.checkpoints == 0 && p.checkpoint_dtype) {
    throw_bad_input("problem: checkpoint_dtype needs checkpoints above 0");
  }
}

}  // namespace gdn
