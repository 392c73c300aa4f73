#include "interface/case.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>

#include "interface/error.h"
#include "interface/operations/batch_operands.h"

namespace gdn {
namespace {

void require_size(const std::string& name, std::size_t actual, std::int64_t expected,
                  const std::string& what = "") {
  if (actual != static_cast<std::size_t>(expected)) {
    throw_bad_input(name + ": holds " + std::to_string(actual) + " values, expected " +
                    std::to_string(expected) + what);
  }
}

// Index of the first of `count` values that is not finite; -1 if all are. Whole blocks by their
// largest magnitude as an integer, which compilers make vector code of: cases are large, and
// validated before every run.
std::int64_t first_not_finite(const float* values, std::int64_t count) {
  constexpr std::int64_t kBlock = 4096;
  constexpr std::int32_t kInfinity = 0x7F800000;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t end = std::min(count, begin + kBlock);
    std::int32_t largest = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      largest = std::max(largest, std::bit_cast<std::int32_t>(values[i]) & 0x7FFFFFFF);
    }
    if (largest < kInfinity) continue;
    for (std::int64_t i = begin; i < end; ++i) {
      if (!std::isfinite(values[i])) return i;
    }
  }
  return -1;
}

// "[3, 0, 17]" of a flat index into an array of these extents.
std::string place_of(std::int64_t flat, const std::vector<std::int64_t>& extents) {
  std::string text;
  for (auto extent = extents.rbegin(); extent != extents.rend(); ++extent) {
    text = std::to_string(flat % *extent) + (text.empty() ? "" : ", ") + text;
    flat /= *extent;
  }
  return "[" + text + "]";
}

void validate_offsets(const Case& c) {
  const auto& offsets = c.sequence_offsets;
  require_size("sequence_offsets", offsets.size(), c.problem.num_sequences() + 1);
  // from_offsets names a first value other than 0 and any step back.
  const SequenceLengths lengths = SequenceLengths::from_offsets(offsets);
  if (offsets.back() != c.problem.total_tokens()) {
    throw_bad_input("sequence_offsets: ends at " + std::to_string(offsets.back()) +
                    ", expected the number of tokens, " + std::to_string(c.problem.total_tokens()));
  }
  if (lengths != c.problem.sequences) {
    throw_bad_input("sequence_offsets: lengths " + lengths.to_string() +
                    " are not the problem's, " + c.problem.sequences.to_string());
  }
}

void validate_slots(const Case& c) {
  if (c.slot_index.empty()) return;  // the problem has a row for each sequence
  const std::int64_t rows = c.problem.num_pool_rows();
  require_size("slot_index", c.slot_index.size(), c.problem.num_sequences());
  std::set<std::int64_t> used;
  for (std::size_t n = 0; n < c.slot_index.size(); ++n) {
    const std::int64_t slot = c.slot_index[n];
    if (slot == -1) continue;
    if (slot < 0 || slot >= rows) {
      throw_bad_input("slot_index: value " + std::to_string(slot) + " at index " +
                      std::to_string(n) + ", expected -1 or 0.." + std::to_string(rows - 1));
    }
    const bool may_be_shared = c.problem.output_slots == OutputSlots::other;
    if (!used.insert(slot).second && !may_be_shared) {
      throw_bad_input("slot_index: slot " + std::to_string(slot) +
                      " is used twice (again at index " + std::to_string(n) + ")");
    }
  }
}

// Indices of the operation's own: as many as its shape says, each as its rule has it.
void validate_other_indices(const Case& c) {
  const Problem& p = c.problem;
  for (const auto& [name, values] : c.other_indices) {
    const Operand* operand = p.operation->find(name);
    if (operand == nullptr || !operand->is_index() || !is_present(*operand, p)) {
      throw_bad_input(name + ": is no array of indices of " + p.to_string());
    }
  }
  for (const Operand& operand : p.operation->operands) {
    const bool of_batch = operand.name == "sequence_offsets" || operand.name == "slot_index";
    if (!operand.is_index() || of_batch || !is_present(operand, p)) continue;
    if (!c.other_indices.has(operand.name)) throw_bad_input(operand.name + ": is missing");
    const std::vector<std::int64_t>& values = c.other_indices[operand.name];
    require_size(operand.name, values.size(), static_cast<std::int64_t>(element_count(operand, p)));
    const auto require = [&](bool holds, std::size_t i, const std::string& expected) {
      if (holds) return;
      throw_bad_input(operand.name + ": value " + std::to_string(values[i]) + " at index " +
                      std::to_string(i) + ", expected " + expected);
    };
    for (std::size_t i = 0; i < values.size(); ++i) {
      require(values[i] == static_cast<std::int32_t>(values[i]), i, "an integer of 32 bits");
      if (operand.index_rule.holds == nullptr) continue;
      require(operand.index_rule.holds(c, static_cast<std::int64_t>(i), values[i]), i,
              operand.index_rule.expected);
    }
  }
}

// No row is written twice, and none that another sequence reads: in which order kernels go through the
// sequences is theirs.
void validate_output_slots(const Case& c) {
  if (c.problem.output_slots == OutputSlots::same) return;
  std::map<std::int64_t, std::int64_t> writer;
  const auto fail = [&](std::int64_t n, const std::string& what) {
    throw_bad_input(std::string(kOutputSlotIndex) + ": slot " + std::to_string(c.output_slot(n)) +
                    " at index " + std::to_string(n) + " is " + what);
  };
  for (std::int64_t n = 0; n < c.problem.num_sequences(); ++n) {
    if (c.output_slot(n) < 0) continue;
    const auto [at, is_first] = writer.emplace(c.output_slot(n), n);
    if (!is_first) fail(n, "written by sequence " + std::to_string(at->second) + " too");
  }
  for (std::int64_t n = 0; n < c.problem.num_sequences(); ++n) {
    const auto at = writer.find(c.slot(n));
    if (at != writer.end() && at->second != n)
      fail(at->second, "read by sequence " + std::to_string(n));
  }
}

void validate_values(const Operand& operand, const Problem& p, const std::vector<float>& values) {
  const auto found = [&](std::int64_t at) {
    const float x = values[static_cast<std::size_t>(at)];
    return std::isnan(x)   ? std::string("NaN")
           : std::isinf(x) ? std::string(x > 0 ? "infinity" : "-infinity")
                           : std::to_string(x);
  };
  if (operand.rule.holds != nullptr) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (operand.rule.holds(values[i])) continue;
      const auto at = static_cast<std::int64_t>(i);
      throw_bad_input(operand.name + ": " + found(at) + " at " + place_of(at, extents(operand, p)) +
                      " of " + shape_names(operand, p) + ", expected " + operand.rule.expected);
    }
    return;
  }
  const std::int64_t at = first_not_finite(values.data(), static_cast<std::int64_t>(values.size()));
  if (at < 0) return;
  throw_bad_input(operand.name + ": " + found(at) + " at " + place_of(at, extents(operand, p)) +
                  " of " + shape_names(operand, p) + ", expected finite values");
}

// Finite where the call may read it: the rows, not what stands behind them.
void validate_pool(const Operand& operand, const Case& c) {
  const Problem& p = c.problem;
  if (!is_read(operand, p)) return;
  const std::vector<float>& pool = c[operand.name];
  const std::int64_t stride = row_stride(operand, p);
  const std::int64_t used = row_elements(operand, p);
  for (std::int64_t row = 0; row < p.num_pool_rows(); ++row) {
    const std::int64_t element = first_not_finite(pool.data() + row * stride, used);
    if (element < 0) continue;
    throw_bad_input(operand.name + ": not finite at row " + std::to_string(row) + ", element " +
                    std::to_string(element));
  }
}

}  // namespace

std::int64_t Case::carried_tokens(std::int64_t sequence) const {
  const auto carried = problem.operation->carried_tokens;
  return carried == nullptr ? length(sequence) : carried(*this, sequence);
}

std::int64_t Case::output_slot(std::int64_t sequence) const {
  if (problem.output_slots == OutputSlots::same || slot(sequence) < 0) return slot(sequence);
  return other_indices[kOutputSlotIndex][static_cast<std::size_t>(sequence)];
}

std::vector<std::int64_t>& Case::indices(const Operand& operand) {
  if (operand.name == "sequence_offsets") return sequence_offsets;
  return operand.name == "slot_index" ? slot_index : other_indices[operand.name];
}

const std::vector<std::int64_t>& Case::indices(const Operand& operand) const {
  if (operand.name == "sequence_offsets") return sequence_offsets;
  return operand.name == "slot_index" ? slot_index : other_indices[operand.name];
}

void validate(const Case& c) {
  const Problem& p = c.problem;
  p.validate();
  validate_offsets(c);
  validate_slots(c);
  validate_other_indices(c);
  validate_output_slots(c);
  for (const auto& [name, values] : c.arrays) {
    const Operand* operand = p.operation->find(name);
    if (operand == nullptr || operand->is_index() || operand->role == Role::output) {
      throw_bad_input(name + ": is no input of " + p.operation->name);
    }
    if (!is_present(*operand, p) && !values.empty()) {
      throw_bad_input(name + ": is not an operand of " + p.to_string());
    }
  }
  for (const Operand& operand : p.operation->operands) {
    if (operand.is_index() || operand.role == Role::output || !is_present(operand, p)) continue;
    if (!c.arrays.has(operand.name)) throw_bad_input(operand.name + ": is missing");
    const std::vector<float>& values = c[operand.name];
    const auto expected = static_cast<std::int64_t>(element_count(operand, p));
    if (cut_of(operand, p) == Cut::pool_rows) {
      require_size(operand.name, values.size(), expected,
                   " (" + std::to_string(p.num_pool_rows()) + " rows at the row stride " +
                       std::to_string(row_stride(operand, p)) + ")");
      validate_pool(operand, c);
      continue;
    }
    require_size(operand.name, values.size(), expected);
    validate_values(operand, p, values);
  }
}

}  // namespace gdn
