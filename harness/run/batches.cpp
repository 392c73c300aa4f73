#include "harness/run/batches.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "interface/batch_part.h"

namespace gdn {
namespace {

// The tokens begin .. begin + count - 1 of the batch, counted over all its sequences.
using BatchTokens = TokenRange;

bool is_pool(const Operand& operand, const Problem& p) {
  return !operand.is_index() && cut_of(operand, p) == Cut::pool_rows;
}

bool is_cut_by_tokens(const Operand& operand, const Problem& p) {
  return !operand.is_index() && cut_of(operand, p) == Cut::tokens;
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
                               bool tokens_fastest, const std::vector<BatchTokens>& ranges) {
  std::vector<float> taken;
  if (values.empty() || total_tokens == 0) return taken;
  const std::int64_t width = static_cast<std::int64_t>(values.size()) / total_tokens;
  const auto append = [&](std::int64_t begin, std::int64_t count) {
    taken.insert(taken.end(), values.begin() + begin, values.begin() + begin + count);
  };
  std::int64_t tokens = 0;
  for (const BatchTokens& range : ranges) tokens += range.count;
  taken.reserve(static_cast<std::size_t>(tokens * width));
  if (!tokens_fastest) {
    for (const BatchTokens& range : ranges) append(range.begin * width, range.count * width);
  } else {
    for (std::int64_t row = 0; row < width; ++row) {
      for (const BatchTokens& range : ranges) append(row * total_tokens + range.begin, range.count);
    }
  }
  return taken;
}

// The case of these ranges of tokens, one sequence each; slots and pools still those of `whole`.
Case take_ranges(const Case& whole, const std::vector<BatchTokens>& ranges) {
  const Problem& p = whole.problem;
  Case part;
  part.problem = p;
  part.problem.case_file.clear();
  part.problem.sequences.lengths.clear();
  for (const BatchTokens& range : ranges) part.problem.sequences.lengths.push_back(range.count);
  part.sequence_offsets = part.problem.sequences.offsets();
  part.slot_index = whole.slot_index;
  for_each_input(whole, [&](const Operand& operand) {
    const std::vector<float>& values = whole[operand.name];
    part[operand.name] =
        is_cut_by_tokens(operand, p)
            ? take_tokens(values, p.total_tokens(), tokens_are_fastest(operand, p), ranges)
            : values;
  });
  return part;
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
    first_tokens += cut(whole.length(n));
  }
  std::vector<float> result;
  result.reserve(first.size() + second.size());
  const std::int64_t rows = tokens_fastest ? width : 1;
  const std::int64_t scale = tokens_fastest ? 1 : width;  // elements per token within a row
  for (std::int64_t row = 0; row < rows; ++row) {
    auto a = first.begin() + row * first_tokens;
    auto b = second.begin() + row * (tokens - first_tokens);
    for (std::int64_t n = 0; n < whole.problem.num_sequences(); ++n) {
      const std::int64_t half = cut(whole.length(n));
      const std::int64_t rest = whole.length(n) - half;
      result.insert(result.end(), a, a + half * scale);
      result.insert(result.end(), b, b + rest * scale);
      a += half * scale;
      b += rest * scale;
    }
  }
  return result;
}

// The problem writes every pool.
void write_pools(Case& c) {
  for_each_input(c, [&](const Operand& operand) {
    if (operand.make_written != nullptr) operand.make_written(c.problem);
  });
}

// The problem reads every pool: zeros where it did not.
void read_pools(Case& c) {
  for_each_input(c, [&](const Operand& operand) {
    if (!is_pool(operand, c.problem) || is_read(operand, c.problem)) return;
    operand.infer_presence(c.problem, true);
    std::fill(c[operand.name].begin(), c[operand.name].end(), 0.0f);
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

// Whether the operand's row of this sequence is written by the call.
bool writes_row(const Case& c, const Operand& operand, std::int64_t sequence) {
  return is_written(operand, c.problem) && c.slot(sequence) >= 0 &&
         (c.length(sequence) > 0 || operand.written_by_empty_sequences);
}

std::string difference(const std::string& name, const std::vector<float>& a, const Strips& in_a,
                       const std::vector<float>& b, const Strips& in_b) {
  if (in_a.count != in_b.count || in_a.length != in_b.length) return name + " differs in size";
  for (std::int64_t strip = 0; strip < in_a.count; ++strip) {
    const float* x = a.data() + in_a.first + strip * in_a.stride;
    const float* y = b.data() + in_b.first + strip * in_b.stride;
    const auto bytes = static_cast<std::size_t>(in_a.length) * sizeof(float);
    if (bytes == 0 || std::memcmp(x, y, bytes) == 0) continue;
    std::int64_t i = 0;
    while (std::bit_cast<std::uint32_t>(x[i]) == std::bit_cast<std::uint32_t>(y[i])) ++i;
    return name + " differs at flat index " + std::to_string(strip * in_a.length + i) + " (" +
           std::to_string(x[i]) + " then " + std::to_string(y[i]) + ")";
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
  std::vector<BatchTokens> ranges;
  for (const std::int64_t n : numbers) ranges.push_back({batch.first_token(n), batch.length(n)});
  Case part = take_ranges(batch, ranges);
  part.problem.slots = SlotMap::identity;
  part.problem.set_pool_rows(static_cast<std::int64_t>(numbers.size()));
  part.slot_index.clear();
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
  return part;
}

std::string first_difference(const Outputs& a, const Outputs& b) {
  for (const auto& [name, values] : a) {
    const std::vector<float>* others = b.find(name);
    if (others == nullptr) return name + " is missing in one of them";
    const std::string found = difference(name, values, all_of(values), *others, all_of(*others));
    if (!found.empty()) return found;
  }
  return "";
}

std::string first_difference_of_sequence(const Case& a, const Outputs& of_a, std::int64_t in_a,
                                         const Case& b, const Outputs& of_b, std::int64_t in_b) {
  std::string found;
  for_each_output(a.problem, of_a, [&](const Operand& operand) {
    if (!found.empty()) return;
    const std::string& name = operand.output_name();
    found = difference(name, of_a[name], strips_of(operand, a, {in_a}), of_b[name],
                       strips_of(operand, b, {in_b}));
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
    return operand.role == Role::in_place && is_pool(operand, problem);
  });
}

Case first_part(const Case& whole, const CutAt& cut) {
  std::vector<BatchTokens> ranges;
  for (std::int64_t n = 0; n < whole.problem.num_sequences(); ++n) {
    ranges.push_back({whole.first_token(n), cut(whole.length(n))});
  }
  Case part = take_ranges(whole, ranges);
  write_pools(part);
  return part;
}

Case second_part(const Case& whole, const CutAt& cut, const Outputs& first) {
  const Problem& p = whole.problem;
  std::vector<BatchTokens> ranges;
  for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
    const std::int64_t before = cut(whole.length(n));
    ranges.push_back({whole.first_token(n) + before, whole.length(n) - before});
  }
  Case part = take_ranges(whole, ranges);
  read_pools(part);
  for_each_output(p, first, [&](const Operand& operand) {
    if (!is_pool(operand, p)) return;
    for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
      if (whole.slot(n) < 0 || cut(whole.length(n)) == 0) continue;
      copy_row(operand, p, first[operand.output_name()], part[operand.name], whole.slot(n));
    }
  });
  return part;
}

Outputs joined(const Case& whole, const CutAt& cut, const Outputs& first, const Outputs& second) {
  const Problem& p = whole.problem;
  Outputs result;
  for_each_output(p, second, [&](const Operand& operand) {
    const std::string& name = operand.output_name();
    if (!is_pool(operand, p)) {
      result[name] =
          interleave(whole, cut, first[name], second[name], tokens_are_fastest(operand, p));
      return;
    }
    result[name] = whole[operand.name];
    for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
      if (writes_row(whole, operand, n)) {
        copy_row(operand, p, second[name], result[name], whole.slot(n));
      }
    }
  });
  return result;
}

Case with_other_lengths(const Case& batch) {
  std::vector<std::int64_t> lengths = batch.problem.sequences.lengths;
  std::reverse(lengths.begin(), lengths.end());
  std::int64_t& longest = *std::max_element(lengths.begin(), lengths.end());
  longest -= longest / 3;
  std::vector<BatchTokens> ranges;
  std::int64_t begin = 0;
  for (const std::int64_t length : lengths) {
    ranges.push_back({begin, length});
    begin += length;
  }
  return take_ranges(batch, ranges);
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
  for_each_input(batch, [&](const Operand& operand) {
    if (!is_pool(operand, p)) return;
    other[operand.name] =
        rows_reversed(batch[operand.name], rows_before, rows_after, row_stride(operand, p));
  });
  return other;
}

Case with_poisoned_odd_sequences(const Case& batch) {
  Case poisoned = batch;
  const Problem& p = batch.problem;
  for_each_input(batch, [&](const Operand& operand) {
    if (!is_pool(operand, p) && !is_cut_by_tokens(operand, p)) return;
    std::vector<float>& values = poisoned[operand.name];
    for (std::int64_t n = 1; n < p.num_sequences(); n += 2) {
      strips_of(operand, batch, {n}).for_each([&](std::int64_t i) {
        values[static_cast<std::size_t>(i)] = std::numeric_limits<float>::quiet_NaN();
      });
    }
  });
  return poisoned;
}

Case single_token(const Case& batch, std::int64_t t, const Outputs* states) {
  std::vector<BatchTokens> ranges;
  for (std::int64_t n = 0; n < batch.problem.num_sequences(); ++n) {
    const bool over = t >= batch.length(n);
    ranges.push_back({batch.first_token(n) + (over ? 0 : t), over ? 0 : 1});
  }
  Case step = take_ranges(batch, ranges);
  write_pools(step);
  read_pools(step);
  if (states == nullptr) return step;
  for_each_output(batch.problem, *states, [&](const Operand& operand) {
    if (is_pool(operand, batch.problem)) step[operand.name] = (*states)[operand.output_name()];
  });
  return step;
}

void place_token(const Case& whole, std::int64_t t, const Outputs& step, Outputs* outputs) {
  const Problem& p = whole.problem;
  for_each_output(p, step, [&](const Operand& operand) {
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
      } else if (t + 1 == whole.length(n) && writes_row(whole, operand, n)) {
        copy_row(operand, p, from, to, whole.slot(n));
      }
      ++row;
    }
  });
}

}  // namespace gdn
