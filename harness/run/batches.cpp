#include "harness/run/batches.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <sstream>
#include <utility>

#include "harness/run/element_place.h"
#include "interface/batch_part.h"
#include "interface/operations/batch_operands.h"

namespace gdn {
namespace {

using Parts = std::vector<PartOfSequence>;

bool is_pool(const Operand& operand, const Problem& p) {
  return !operand.is_index() && cut_of(operand, p) == Cut::pool_rows;
}

bool is_cut_by_tokens(const Operand& operand, const Problem& p) {
  return !operand.is_index() && cut_of(operand, p) == Cut::tokens;
}

bool is_cut_by_sequences(const Operand& operand, const Problem& p) {
  return !operand.is_index() && cut_of(operand, p) == Cut::sequences;
}

// Whether outputs of the operand belong to sequences: not what is over the whole batch.
bool belongs_to_sequences(const Operand& operand, const Problem& p) {
  return cut_of(operand, p) != Cut::whole;
}

// body(operand) for those whose values a case of the problem holds.
template <typename Body>
void for_each_input(const Case& c, const Body& body) {
  for (const Operand& operand : c.problem.operation->operands) {
    if (operand.is_index() || operand.role == Role::output) continue;
    if (c.arrays.has(operand.name)) body(operand);
  }
}

// body(operand) for those whose values the outputs hold.
template <typename Body>
void for_each_output(const Problem& p, const Outputs& outputs, const Body& body) {
  for (const Operand& operand : p.operation->operands) {
    if (operand.is_output() && outputs.has(operand.output_name())) body(operand);
  }
}

// Tokens of [T, width], or of [width, T] if tokens are the fastest dimension.
std::vector<float> take_tokens(const std::vector<float>& values, std::int64_t total_tokens,
                               bool tokens_fastest, const Parts& parts) {
  std::vector<float> taken;
  if (values.empty() || total_tokens == 0) return taken;
  const std::int64_t width = static_cast<std::int64_t>(values.size()) / total_tokens;
  const auto append = [&](std::int64_t begin, std::int64_t count) {
    taken.insert(taken.end(), values.begin() + begin, values.begin() + begin + count);
  };
  std::int64_t tokens = 0;
  for (const PartOfSequence& part : parts) tokens += part.count;
  taken.reserve(static_cast<std::size_t>(tokens * width));
  if (!tokens_fastest) {
    for (const PartOfSequence& part : parts) append(part.first_token * width, part.count * width);
  } else {
    for (std::int64_t row = 0; row < width; ++row) {
      for (const PartOfSequence& part : parts) {
        append(row * total_tokens + part.first_token, part.count);
      }
    }
  }
  return taken;
}

// The parts' entries of an array with one for each sequence.
template <typename Value>
std::vector<Value> take_entries(const std::vector<Value>& values, std::int64_t sequences,
                                const Parts& parts) {
  const std::int64_t width = static_cast<std::int64_t>(values.size()) / sequences;
  std::vector<Value> taken;
  for (const PartOfSequence& part : parts) {
    const auto entry = values.begin() + part.sequence * width;
    taken.insert(taken.end(), entry, entry + width);
  }
  return taken;
}

// An extent that is not cut stays what it is of `whole`, also where lengths decide it: a ring has places for the longest
// sequence.
void keep_whole_extents(const Problem& whole, Problem& part) {
  for (const Operand& operand : whole.operation->operands) {
    for (const Dimension& dimension : operand.shape(whole)) {
      const std::int64_t extent = dimension.size(whole);
      if (dimension.cut != Cut::whole || dimension.size(part) == extent) continue;
      if (dimension.infer != nullptr) dimension.infer(part, extent);
    }
  }
}

// The case of these parts, one sequence each; slots and pools still those of `whole`.
Case take_parts(const Case& whole, const Parts& parts) {
  const Problem& p = whole.problem;
  Case part;
  part.problem = p;
  part.problem.case_file.clear();
  part.problem.sequences.lengths.clear();
  for (const PartOfSequence& taken : parts) part.problem.sequences.lengths.push_back(taken.count);
  keep_whole_extents(p, part.problem);
  part.sequence_offsets = part.problem.sequences.offsets();
  part.slot_index = whole.slot_index;
  for (const auto& [name, values] : whole.other_indices) {
    const bool of_sequences = cut_of(p.operation->at(name), p) == Cut::sequences;
    part.other_indices[name] =
        of_sequences ? take_entries(values, p.num_sequences(), parts) : values;
  }
  for_each_input(whole, [&](const Operand& operand) {
    const std::vector<float>& values = whole[operand.name];
    if (is_cut_by_tokens(operand, p)) {
      part[operand.name] =
          take_tokens(values, p.total_tokens(), tokens_are_fastest(operand, p), parts);
    } else if (is_cut_by_sequences(operand, p)) {
      part[operand.name] = take_entries(values, p.num_sequences(), parts);
    } else {
      part[operand.name] = values;
    }
  });
  return part;
}

// The last that is done to a part: what the operation alone knows of it.
Case fitted(const Case& whole, const Parts& parts, Case part) {
  const auto fit = whole.problem.operation->fit_part;
  if (fit != nullptr) fit(whole, parts, part);
  return part;
}

// How many of the sequence's tokens stand before the cut. Behind the tokens that are carried there is
// no cut: what a call on more of them leaves is not what the rest went on from.
std::int64_t tokens_before(const Case& whole, const CutAt& cut, std::int64_t sequence) {
  return std::min(cut(whole.length(sequence)), whole.carried_tokens(sequence));
}

// The first tokens of every sequence up to the cut, and the rest.
Parts beginnings_of(const Case& whole, const CutAt& cut) {
  Parts parts;
  for (std::int64_t n = 0; n < whole.problem.num_sequences(); ++n) {
    parts.push_back({n, whole.first_token(n), tokens_before(whole, cut, n)});
  }
  return parts;
}
Parts ends_of(const Case& whole, const CutAt& cut) {
  Parts parts;
  for (std::int64_t n = 0; n < whole.problem.num_sequences(); ++n) {
    const std::int64_t before = tokens_before(whole, cut, n);
    parts.push_back({n, whole.first_token(n) + before, whole.length(n) - before});
  }
  return parts;
}
// Of two calls, which parts come first.
Parts parts_of_call(const Case& whole, const CutAt& cut, int call) {
  const bool beginnings = (call == 0) != whole.problem.operation->carries_backward;
  return beginnings ? beginnings_of(whole, cut) : ends_of(whole, cut);
}

// The operand of the next call that takes what this output holds; null where nothing is carried.
const Operand* carried_to(const Operand& operand, const Problem& p) {
  if (!operand.carried_to.empty()) return &p.operation->at(operand.carried_to);
  return operand.role == Role::in_place ? &operand : nullptr;
}

void copy_row(const Operand& operand, const Problem& p, const std::vector<float>& from,
              std::vector<float>& to, std::int64_t row) {
  const std::int64_t stride = row_stride(operand, p);
  std::copy_n(from.begin() + row * stride, row_elements(operand, p), to.begin() + row * stride);
}

// Outputs of the first and the second part of every sequence, put together again.
std::vector<float> interleave(const Case& whole, const CutAt& cut, const std::vector<float>& first,
                              const std::vector<float>& second, bool tokens_fastest) {
  const std::int64_t tokens = whole.problem.total_tokens();
  if (tokens == 0 || first.size() + second.size() == 0) return {};
  const std::int64_t width = static_cast<std::int64_t>(first.size() + second.size()) / tokens;
  std::int64_t first_tokens = 0;
  for (std::int64_t n = 0; n < whole.problem.num_sequences(); ++n) {
    first_tokens += tokens_before(whole, cut, n);
  }
  std::vector<float> result;
  result.reserve(first.size() + second.size());
  const std::int64_t rows = tokens_fastest ? width : 1;
  const std::int64_t scale = tokens_fastest ? 1 : width;  // elements per token within a row
  for (std::int64_t row = 0; row < rows; ++row) {
    auto a = first.begin() + row * first_tokens;
    auto b = second.begin() + row * (tokens - first_tokens);
    for (std::int64_t n = 0; n < whole.problem.num_sequences(); ++n) {
      const std::int64_t half = tokens_before(whole, cut, n);
      const std::int64_t rest = whole.length(n) - half;
      result.insert(result.end(), a, a + half * scale);
      result.insert(result.end(), b, b + rest * scale);
      a += half * scale;
      b += rest * scale;
    }
  }
  return result;
}

// The problem writes all that a next call goes on from. An array that it did not have holds nothing yet.
void write_carried(Case& c) {
  for (const Operand& operand : c.problem.operation->operands) {
    if (operand.in_place.make_written == nullptr) continue;
    operand.in_place.make_written(c.problem);
    if (operand.role == Role::output || c.arrays.has(operand.name)) continue;
    c[operand.name].assign(static_cast<std::size_t>(element_count(operand, c.problem)),
                           std::numeric_limits<float>::quiet_NaN());
  }
}

// The problem reads all that an earlier call left: zeros where it did not.
void read_carried(Case& c) {
  for (const Operand& operand : c.problem.operation->operands) {
    if (!operand.is_output() || carried_to(operand, c.problem) == nullptr) continue;
    const Operand& into = *carried_to(operand, c.problem);
    if (is_read(into, c.problem)) continue;
    if (into.in_place.make_read != nullptr) {
      into.in_place.make_read(c.problem);
      c[into.name].resize(static_cast<std::size_t>(element_count(into, c.problem)));
    } else if (c.arrays.has(into.name)) {
      into.in_file.infer_presence(c.problem, true);
    } else {
      continue;
    }
    std::fill(c[into.name].begin(), c[into.name].end(), 0.0f);
  }
}

// What an earlier call on `parts` wrote for its sequences goes to where `next` reads it.
void carry(const Case& whole, const Parts& parts, const Outputs& from, Case& next) {
  const Problem& p = whole.problem;
  for_each_output(p, from, [&](const Operand& operand) {
    const Operand* into = carried_to(operand, p);
    if (into == nullptr) return;
    const std::vector<float>& source = from[operand.output_name()];
    std::vector<float>& target = next[into->name];
    for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
      const bool written = parts[static_cast<std::size_t>(n)].count > 0;
      if (whole.slot(n) < 0 || !written) continue;
      std::vector<float> values;
      written_strips_of(operand, whole, {n}).for_each([&](std::int64_t i) {
        values.push_back(source[static_cast<std::size_t>(i)]);
      });
      auto value = values.begin();
      strips_of(*into, next, {n}).for_each([&](std::int64_t i) {
        target[static_cast<std::size_t>(i)] = *value++;
      });
    }
  });
}

// What spare rows of a pool hold: valid, representable in every state dtype, and easily seen.
constexpr float kSpareRow = 8192.0f;

std::vector<float> rows_reversed(const std::vector<float>& pool, std::int64_t rows_before,
                                 std::int64_t rows_after, std::int64_t stride) {
  std::vector<float> reversed(static_cast<std::size_t>(rows_after * stride), kSpareRow);
  for (std::int64_t row = 0; row < rows_before; ++row) {
    std::copy_n(pool.begin() + row * stride, stride,
                reversed.begin() + (rows_after - 1 - row) * stride);
  }
  return reversed;
}

// The case whose pools have one more row for each sequence that writes none, which it then writes: a next
// call reads it. Made in `grown`, unless it is `whole` itself.
const Case& with_row_for_each(const Case& whole, Case& grown) {
  if (whole.problem.output_slots == OutputSlots::same) return whole;
  Case& c = grown = whole;
  Problem& p = c.problem;
  std::int64_t rows = p.num_pool_rows();
  std::vector<std::int64_t>& output_slots = c.other_indices[kOutputSlotIndex];
  for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
    if (c.slot(n) >= 0 && c.output_slot(n) < 0) output_slots[static_cast<std::size_t>(n)] = rows++;
  }
  p.set_pool_rows(rows);
  for_each_input(c, [&](const Operand& operand) {
    if (is_pool(operand, p))
      c[operand.name].resize(static_cast<std::size_t>(element_count(operand, p)), kSpareRow);
  });
  return grown;
}

// The call on `parts` reads what one on `before` wrote.
void read_output_slots(const Case& before, const Parts& parts, Case& c) {
  if (c.problem.output_slots == OutputSlots::same) return;
  std::vector<std::int64_t> slots;
  for (std::int64_t n = 0; n < c.problem.num_sequences(); ++n) {
    const bool written = parts[static_cast<std::size_t>(n)].count > 0 && before.slot(n) >= 0;
    slots.push_back(written ? before.output_slot(n) : before.slot(n));
  }
  const std::int64_t rows = c.problem.num_pool_rows();
  if (c.problem.slots == SlotMap::identity) c.problem.slots = SlotMap::permuted;
  c.problem.set_pool_rows(rows);
  c.slot_index = std::move(slots);
}

// A number in full, NaN and infinity as such.
std::string exact_text(float value) {
  std::ostringstream text;
  text.precision(9);
  text << value;
  return text.str();
}

// `place` says where an element of `a` is.
std::string difference(const std::string& name, const std::vector<float>& a, const Strips& in_a,
                       const std::vector<float>& b, const Strips& in_b,
                       const std::function<std::string(std::int64_t)>& place) {
  if (in_a.count != in_b.count || in_a.length != in_b.length) return name + " differs in size";
  for (std::int64_t strip = 0; strip < in_a.count; ++strip) {
    const float* x = a.data() + in_a.first + strip * in_a.stride;
    const float* y = b.data() + in_b.first + strip * in_b.stride;
    const auto bytes = static_cast<std::size_t>(in_a.length) * sizeof(float);
    if (bytes == 0 || std::memcmp(x, y, bytes) == 0) continue;
    std::int64_t i = 0;
    while (std::bit_cast<std::uint32_t>(x[i]) == std::bit_cast<std::uint32_t>(y[i])) ++i;
    return name + " differs at " + place(in_a.first + strip * in_a.stride + i) + " (" +
           exact_text(x[i]) + " then " + exact_text(y[i]) + ")";
  }
  return "";
}

Strips all_of(const std::vector<float>& values) {
  const auto size = static_cast<std::int64_t>(values.size());
  return {0, 1, size, size};
}

}  // namespace

Case take_sequences(const Case& batch, const std::vector<std::int64_t>& numbers) {
  const Problem& p = batch.problem;
  Parts parts;
  for (const std::int64_t n : numbers) parts.push_back({n, batch.first_token(n), batch.length(n)});
  Case part = take_parts(batch, parts);
  part.problem.slots = SlotMap::identity;
  part.problem.output_slots = OutputSlots::same;
  part.problem.set_pool_rows(static_cast<std::int64_t>(numbers.size()));
  part.slot_index.clear();
  part.other_indices.erase(kOutputSlotIndex);
  for_each_input(batch, [&](const Operand& operand) {
    if (!is_pool(operand, p)) return;
    const std::vector<float>& pool = batch[operand.name];
    const std::int64_t stride = row_stride(operand, p);
    std::vector<float>& taken = part[operand.name];
    taken.clear();
    for (const std::int64_t n : numbers) {
      const auto row = pool.begin() + batch.slot(n) * stride;
      taken.insert(taken.end(), row, row + stride);
    }
  });
  return fitted(batch, parts, std::move(part));
}

namespace {

// `place` says where an element of an output stands, given its name.
std::string first_difference(
    const Outputs& a, const Outputs& b,
    const std::function<std::string(const std::string&, std::int64_t)>& place) {
  for (const auto& [name, values] : a) {
    const std::vector<float>* others = b.find(name);
    if (others == nullptr) return name + " is missing in one of them";
    const std::string found =
        difference(name, values, all_of(values), *others, all_of(*others),
                   [&, &of = name](std::int64_t flat) { return place(of, flat); });
    if (!found.empty()) return found;
  }
  return "";
}

std::string flat_place(const std::string& /*name*/, std::int64_t flat) {
  return "flat index " + std::to_string(flat);
}

}  // namespace

std::string first_difference(const Problem& problem, const Outputs& a, const Outputs& b) {
  return first_difference(a, b, [&](const std::string& name, std::int64_t flat) {
    const Operand* operand = problem.operation->find_output(name);
    return operand == nullptr ? flat_place(name, flat) : element_place(*operand, problem, flat);
  });
}

std::string first_difference(const Outputs& a, const Outputs& b) {
  return first_difference(a, b, flat_place);
}

std::string first_difference_of_sequence(const Case& a, const Outputs& of_a, std::int64_t in_a,
                                         const Case& b, const Outputs& of_b, std::int64_t in_b) {
  std::string found;
  for_each_output(a.problem, of_a, [&](const Operand& operand) {
    if (!found.empty() || !belongs_to_sequences(operand, a.problem)) return;
    const std::string& name = operand.output_name();
    // where one of them keeps nothing there is nothing to compare
    if (is_pool(operand, a.problem) && (a.output_slot(in_a) < 0 || b.output_slot(in_b) < 0)) return;
    found = difference(name, of_a[name], written_strips_of(operand, a, {in_a}), of_b[name],
                       written_strips_of(operand, b, {in_b}),
                       [&](std::int64_t flat) { return element_place(operand, a.problem, flat); });
  });
  return found;
}

std::int64_t in_halves(std::int64_t length) { return length / 2; }

CutAt after(std::int64_t tokens) {
  return [tokens](std::int64_t length) { return std::min(tokens, length); };
}

bool carries_state(const Problem& problem) {
  const auto& operands = problem.operation->operands;
  return std::any_of(operands.begin(), operands.end(), [&](const Operand& operand) {
    return operand.is_output() && carried_to(operand, problem) != nullptr;
  });
}

bool cuts_a_sequence(const Case& whole, const CutAt& cut) {
  for (std::int64_t n = 0; n < whole.problem.num_sequences(); ++n) {
    const std::int64_t before = tokens_before(whole, cut, n);
    if (before > 0 && before < whole.length(n)) return true;
  }
  return false;
}

bool is_carried_token_by_token(const Problem& problem) {
  if (problem.operation->carries_backward || problem.operation->carried_tokens != nullptr)
    return false;
  const auto& operands = problem.operation->operands;
  return std::all_of(operands.begin(), operands.end(), [&](const Operand& operand) {
    if (operand.is_index() || !is_present(operand, problem)) return true;
    const Cut cut = cut_of(operand, problem);
    if (cut == Cut::tokens) return !tokens_are_fastest(operand, problem);
    return !operand.is_output() || (cut == Cut::pool_rows && operand.role == Role::in_place);
  });
}

Case first_part(const Case& whole, const CutAt& cut) {
  const Parts parts = parts_of_call(whole, cut, 0);
  Case grown;
  Case part = take_parts(with_row_for_each(whole, grown), parts);
  write_carried(part);
  return fitted(whole, parts, std::move(part));
}

Case second_part(const Case& whole, const CutAt& cut, const Outputs& first) {
  const Parts parts = parts_of_call(whole, cut, 1), before = parts_of_call(whole, cut, 0);
  Case grown;
  const Case& called_before = with_row_for_each(whole, grown);
  Case part = take_parts(called_before, parts);
  read_carried(part);
  read_output_slots(called_before, before, part);
  carry(called_before, before, first, part);
  return fitted(whole, parts, std::move(part));
}

namespace {

// What is over the whole batch, or has an entry for each sequence.
std::vector<float> over_calls(const Operand& operand, const std::vector<float>& first,
                              const std::vector<float>& second) {
  if (operand.judging.over_calls == OverCalls::later) return second;
  std::vector<float> sum = second;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += first[i];
  return sum;
}

// Whether a pool holds what the sequence's end left, and the call on that end was the first of the two.
bool is_of_first_call(const Operand& operand, const Problem& p) {
  return p.operation->carries_backward && carried_to(operand, p) == nullptr;
}

// Rows of the call that wrote them last, or has the sequence's end; those that neither wrote as they were
// before.
std::vector<float> joined_pool(const Case& whole, const CutAt& cut, const Operand& operand,
                               const std::vector<float>& first, const std::vector<float>& second) {
  const Problem& p = whole.problem;
  std::vector<float> pool =
      operand.role == Role::in_place
          ? whole[operand.name]
          : std::vector<float>(second.size(), std::numeric_limits<float>::quiet_NaN());
  const Parts ends = parts_of_call(whole, cut, 0), later = parts_of_call(whole, cut, 1);
  for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
    if (!writes_row(operand, whole, n)) continue;
    const auto at = static_cast<std::size_t>(n);
    const bool in_second = is_of_first_call(operand, p)
                               ? ends[at].count == 0
                               : operand.role == Role::in_place ||
                                     operand.pool.written_by_empty_sequences || later[at].count > 0;
    copy_row(operand, p, in_second ? second : first, pool, whole.output_slot(n));
  }
  return pool;
}

}  // namespace

Outputs joined(const Case& whole, const CutAt& cut, const Outputs& first, const Outputs& second) {
  const Problem& p = whole.problem;
  const bool backward = p.operation->carries_backward;
  Outputs result;
  for_each_output(p, second, [&](const Operand& operand) {
    const std::string& name = operand.output_name();
    if (!is_present(operand, p)) return;  // written for the sake of the second call alone
    if (is_pool(operand, p)) {
      result[name] = joined_pool(whole, cut, operand, first[name], second[name]);
    } else if (is_cut_by_tokens(operand, p)) {
      result[name] =
          interleave(whole, cut, backward ? second[name] : first[name],
                     backward ? first[name] : second[name], tokens_are_fastest(operand, p));
    } else {
      result[name] = over_calls(operand, first[name], second[name]);
    }
  });
  return result;
}

namespace {

template <typename Entries>
void move_first_to_the_end(Entries& entries) {
  if (!entries.empty()) std::rotate(entries.begin(), entries.begin() + 1, entries.end());
}

}  // namespace

Case with_other_lengths(const Case& batch) {
  Parts parts;
  for (std::int64_t n = 0; n < batch.problem.num_sequences(); ++n) {
    parts.push_back({n, batch.first_token(n), batch.length(n)});
  }
  const auto shorter = [](const PartOfSequence& a, const PartOfSequence& b) {
    return a.count < b.count;
  };
  std::int64_t& longest = std::max_element(parts.begin(), parts.end(), shorter)->count;
  longest -= longest / 3;
  move_first_to_the_end(parts);
  Case other = take_parts(batch, parts);
  move_first_to_the_end(other.slot_index);
  // Without slots a sequence reads the row of its place, and writes the one that belongs to that.
  if (batch.slot_index.empty() && batch.problem.output_slots == OutputSlots::other) {
    other.other_indices[kOutputSlotIndex] = batch.other_indices[kOutputSlotIndex];
  }
  return fitted(batch, parts, std::move(other));
}

Case with_other_slots(const Case& batch) {
  Case other = batch;
  const Problem& p = batch.problem;
  const std::int64_t rows_before = p.num_pool_rows();
  if (p.slots == SlotMap::identity) other.problem.slots = SlotMap::permuted;
  const std::int64_t rows_after = other.problem.num_pool_rows();
  other.problem.case_file.clear();
  other.slot_index.clear();
  for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
    const std::int64_t slot = batch.slot(n);
    other.slot_index.push_back(slot < 0 ? -1 : rows_after - 1 - slot);
  }
  if (p.output_slots == OutputSlots::other) {
    std::vector<std::int64_t>& slots = other.other_indices[kOutputSlotIndex];
    for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
      std::int64_t& slot = slots[static_cast<std::size_t>(n)];
      if (batch.output_slot(n) >= 0) slot = rows_after - 1 - slot;
    }
  }
  for_each_input(batch, [&](const Operand& operand) {
    if (!is_pool(operand, p)) return;
    other[operand.name] =
        rows_reversed(batch[operand.name], rows_before, rows_after, row_stride(operand, p));
  });
  return other;
}

namespace {

bool reads_row_of_even_sequence(const Case& batch, std::int64_t sequence) {
  for (std::int64_t n = 0; n < batch.problem.num_sequences(); n += 2) {
    if (batch.slot(n) == batch.slot(sequence)) return true;
  }
  return false;
}

}  // namespace

Case with_poisoned_odd_sequences(const Case& batch) {
  Case poisoned = batch;
  const Problem& p = batch.problem;
  for_each_input(batch, [&](const Operand& operand) {
    if (!belongs_to_sequences(operand, p)) return;
    std::vector<float>& values = poisoned[operand.name];
    for (std::int64_t n = 1; n < p.num_sequences(); n += 2) {
      if (is_pool(operand, p) && reads_row_of_even_sequence(batch, n)) continue;
      strips_of(operand, batch, {n}).for_each([&](std::int64_t i) {
        values[static_cast<std::size_t>(i)] = std::numeric_limits<float>::quiet_NaN();
      });
    }
  });
  return poisoned;
}

Case single_token(const Case& whole, std::int64_t t, const Outputs* states) {
  Case grown;
  const Case& batch = with_row_for_each(whole, grown);
  Parts parts, before;
  for (std::int64_t n = 0; n < batch.problem.num_sequences(); ++n) {
    const bool over = t >= batch.length(n);
    parts.push_back({n, batch.first_token(n) + (over ? 0 : t), over ? 0 : 1});
    before.push_back({n, batch.first_token(n), std::min(t, batch.length(n))});
  }
  Case step = take_parts(batch, parts);
  write_carried(step);
  read_carried(step);
  read_output_slots(batch, before, step);
  if (states != nullptr) {
    for_each_output(batch.problem, *states, [&](const Operand& operand) {
      if (is_pool(operand, batch.problem)) step[operand.name] = (*states)[operand.output_name()];
    });
  }
  return fitted(batch, parts, std::move(step));
}

void place_token(const Case& whole, std::int64_t t, const Outputs& step, Outputs* outputs) {
  const Problem& p = whole.problem;
  for_each_output(p, step, [&](const Operand& operand) {
    if (!is_present(operand, p)) return;  // written for the sake of the next call alone
    const std::vector<float>& from = step[operand.output_name()];
    std::vector<float>& to = (*outputs)[operand.output_name()];
    const bool pool = is_pool(operand, p);
    const std::int64_t width = pool ? 0 : elements_per_token(operand, p);
    std::int64_t row = 0;
    for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
      if (t >= whole.length(n)) continue;
      if (!pool) {
        std::copy_n(from.begin() + row * width, width,
                    to.begin() + (whole.first_token(n) + t) * width);
      } else if (t + 1 == whole.length(n) && writes_row(operand, whole, n)) {
        copy_row(operand, p, from, to, whole.output_slot(n));
      }
      ++row;
    }
  });
}

}  // namespace gdn
