#include "interface/operations/gated_delta_ring.h"

#include <algorithm>

#include "interface/case.h"
#include "interface/error.h"
#include "interface/operations/dimensions.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn {
namespace {

using Dimensions = std::vector<Dimension>;

constexpr const char* kRingFirst = "ring_first";
constexpr const char* kRingLength = "ring_length";
constexpr const char* kRingFold = "ring_fold";
constexpr const char* kRingKey = "ring_key";
constexpr const char* kRingUpdate = "ring_update";
constexpr const char* kRingDecay = "ring_decay";
constexpr std::int64_t kMostPlaces = 1024;

constexpr Dimension kRing = {"ring", ring_places, Cut::whole, Heads::none,
                             [](Problem& p, std::int64_t places) { p.ring = places; }};

std::int64_t of_sequence(const Case& c, const char* operand, std::int64_t sequence) {
  return c.other_indices[operand][static_cast<std::size_t>(sequence)];
}

// ---- what a call reads and writes of a row

std::int64_t record_elements(const Operand& operand, const Problem& p) {
  return row_elements(operand, p) / ring_places(p);
}
template <const char* const& kName>
std::int64_t elements_of_records(const Case& c, std::int64_t sequence) {
  const Problem& p = c.problem;
  return of_sequence(c, kRingLength, sequence) * record_elements(p.operation->at(kName), p);
}
template <const char* const& kName>
std::int64_t elements_of_tokens(const Case& c, std::int64_t sequence) {
  const Problem& p = c.problem;
  return c.length(sequence) * record_elements(p.operation->at(kName), p);
}
std::int64_t elements_folded(const Case& c, std::int64_t sequence) {
  const Problem& p = c.problem;
  return ring_folds(p, of_sequence(c, kRingFold, sequence))
             ? row_elements(p.operation->at("initial_state"), p)
             : 0;
}

// ---- operands

Operand index_operand(const char* name, IndexRule rule) {
  return {.name = name,
          .shape = [](const Problem&) { return Dimensions{dimension::N}; },
          .index_rule = rule};
}

template <const char* const& kName>
Operand ring_operand(Dimensions (*shape)(const Problem&), DType (*dtype)(const Problem&),
                     Judging judging) {
  return {.name = kName,
          .role = Role::in_place,
          .shape = shape,
          .dtype = dtype,
          .pool = {.row_padding = [](const Problem& p) { return p.pool_row_padding; },
                   .elements_read = elements_of_records<kName>,
                   .elements_written = elements_of_tokens<kName>},
          .judging = judging};
}

Operand folded_state_operand() {
  Operand state = state_operand();
  state.pool.elements_written = elements_folded;
  return state;
}

// ---- parts of sequences

// Of the rest of a sequence that was cut: the records are those that the tokens before it left.
void fit_ring(const Case& whole, const std::vector<PartOfSequence>& parts, Case& part) {
  const std::int64_t ring = ring_places(whole.problem);
  part.problem.ring = ring;  // whatever lengths the part has
  Problem before_the_cut = whole.problem;
  before_the_cut.final_state = true;  // what is gone on from has been written
  for (std::size_t n = 0; n < parts.size(); ++n) {
    const std::int64_t sequence = parts[n].sequence;
    const std::int64_t before = parts[n].first_token - whole.first_token(sequence);
    std::int64_t& first = part.other_indices[kRingFirst][n];
    std::int64_t& length = part.other_indices[kRingLength][n];
    std::int64_t& fold = part.other_indices[kRingFold][n];
    if (before > 0) {
      if (ring_folds(before_the_cut, fold)) {
        first = (first + length) % ring;
        length = 0;
      }
      length += before;
      fold = 0;
    } else if (ring_folds(whole.problem, fold)) {
      fold = std::max<std::int64_t>(fold, 1);  // also where the part is given a state to read
    }
    // Other lengths over the same tokens may leave less room than there was.
    length = std::min(length, ring - parts[n].count);
  }
}

void validate_ring(const Problem& p) {
  validate_recurrence(p);
  if (p.ring > kMostPlaces) {
    throw_bad_input("problem: ring=" + std::to_string(p.ring) + ": expected 1.." +
                    std::to_string(kMostPlaces));
  }
}

OperationSchema make_schema() {
  OperationSchema schema;
  schema.name = "gated_delta_ring";
  schema.summary =
      "gated_delta from a state and a ring of what later tokens did to it, which joins it when "
      "told to";
  for (const Operand& operand : gated_delta_operation().operands) {
    const bool of_option = operand.name == "output_slot_index" || operand.name == "rounding_seed" ||
                           operand.name.starts_with("checkpoint");
    if (operand.name == "output") {
      schema.operands.push_back(
          index_operand(kRingFirst, {[](const Case& c, std::int64_t, std::int64_t value) {
                                       return value >= 0 && value < ring_places(c.problem);
                                     },
                                     "0 .. ring - 1"}));
      schema.operands.push_back(index_operand(
          kRingLength, {[](const Case& c, std::int64_t n, std::int64_t value) {
                          return value >= 0 && value <= ring_places(c.problem) - c.length(n);
                        },
                        "0 .. ring less the tokens of the sequence"}));
      schema.operands.push_back(index_operand(
          kRingFold, {[](const Case&, std::int64_t, std::int64_t value) { return value >= 0; },
                      "0, or more to fold"}));
    }
    if (of_option) continue;
    schema.operands.push_back(operand.name == "initial_state" ? folded_state_operand() : operand);
  }
  schema.operands.push_back(ring_operand<kRingKey>(
      [](const Problem&) {
        return Dimensions{dimension::slots, kRing, dimension::Hk, dimension::Dk};
      },
      element_type::token, {.per = JudgedPer::sequence, .is_copy = true}));
  schema.operands.push_back(ring_operand<kRingUpdate>(
      [](const Problem&) {
        return Dimensions{dimension::slots, kRing, dimension::Hv, dimension::Dv};
      },
      ring_update_dtype, {.per = JudgedPer::head, .by_terms = true}));
  Operand decay = ring_operand<kRingDecay>(
      [](const Problem&) {
        return Dimensions{dimension::slots, kRing, dimension::Hv};
      },
      element_type::float32, {.per = JudgedPer::head, .by_terms = true});
  decay.rule = {[](float value) { return value >= 0 && value <= 1; }, "a decay from 0 to 1"};
  schema.operands.push_back(std::move(decay));
  schema.fields = {"ring"};
  for (std::string& field : recurrence_fields()) {
    const bool of_variant = field == "update" || field == "steps" || field == "decay";
    if (!of_variant) schema.fields.push_back(std::move(field));
  }
  schema.fields.emplace_back("ring_fill");
  schema.validate = validate_ring;
  schema.fit_part = fit_ring;
  return schema;
}

}  // namespace

const OperationSchema& gated_delta_ring_operation() {
  static const OperationSchema schema = make_schema();
  return schema;
}

std::int64_t ring_places(const Problem& p) { return std::max(p.ring, p.sequences.longest()); }

bool ring_folds(const Problem& p, std::int64_t ring_fold) {
  return p.final_state && (ring_fold != 0 || p.initial_state == InitialState::absent);
}

DType ring_update_dtype(const Problem& p) {
  return p.state_dtype == DType::bfloat16 ? DType::bfloat16 : DType::float32;
}

GatedDeltaRingArguments gated_delta_ring_arguments(const Problem& problem,
                                                   const Arguments& arguments) {
  GatedDeltaRingArguments a;
  a.tokens = gated_delta_arguments(problem, arguments);
  a.ring_first = arguments.indices(kRingFirst);
  a.ring_length = arguments.indices(kRingLength);
  a.ring_fold = arguments.indices(kRingFold);
  a.ring_key = arguments.output(kRingKey);
  a.ring_update = arguments.output(kRingUpdate);
  a.ring_decay = static_cast<float*>(arguments.output(kRingDecay));
  const auto stride = [&](const char* operand) {
    return row_stride(problem.operation->at(operand), problem);
  };
  a.key_row_stride = stride(kRingKey);
  a.update_row_stride = stride(kRingUpdate);
  a.decay_row_stride = stride(kRingDecay);
  return a;
}

}  // namespace gdn
