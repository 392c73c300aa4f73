#include "harness/sequences.h"

#include <algorithm>
#include <limits>

namespace gdn {
namespace {

struct TokenRange {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

std::int64_t slot_of(const Case& c, std::int64_t n) {
  return c.slot_index.empty() ? n : c.slot_index[static_cast<std::size_t>(n)];
}
std::int64_t first_token(const Case& c, std::int64_t n) {
  return c.sequence_offsets[static_cast<std::size_t>(n)];
}
std::int64_t length_of(const Case& c, std::int64_t n) {
  return first_token(c, n + 1) - first_token(c, n);
}
std::int64_t window_row(const Problem& p) { return p.conv_channels() * (p.conv_width - 1); }

// Tokens of [T, width], or of [width, T] if tokens are the fastest dimension.
std::vector<float> take_tokens(const std::vector<float>& values, std::int64_t total_tokens,
                               bool by_time, const std::vector<TokenRange>& ranges) {
  std::vector<float> taken;
  if (values.empty() || total_tokens == 0) return taken;
  const std::int64_t width = static_cast<std::int64_t>(values.size()) / total_tokens;
  const auto append = [&](std::int64_t begin, std::int64_t count) {
    taken.insert(taken.end(), values.begin() + begin, values.begin() + begin + count);
  };
  std::int64_t tokens = 0;
  for (const TokenRange& range : ranges) tokens += range.count;
  taken.reserve(static_cast<std::size_t>(tokens * width));
  if (!by_time) {
    for (const TokenRange& range : ranges) append(range.begin * width, range.count * width);
  } else {
    for (std::int64_t row = 0; row < width; ++row) {
      for (const TokenRange& range : ranges) append(row * total_tokens + range.begin, range.count);
    }
  }
  return taken;
}

// The case of these ranges of tokens, one sequence each; slots and pools still those of `whole`.
Case take_ranges(const Case& whole, const std::vector<TokenRange>& ranges) {
  const Problem& p = whole.problem;
  const std::int64_t tokens = p.total_tokens();
  const bool by_time = p.conv_layout == ConvLayout::time;
  Case part;
  part.problem = p;
  part.problem.case_file.clear();
  part.problem.sequences.lengths.clear();
  for (const TokenRange& range : ranges) {
    part.problem.sequences.lengths.push_back(range.count);
  }
  part.sequence_offsets = part.problem.sequences.offsets();
  part.slot_index = whole.slot_index;
  part.query = take_tokens(whole.query, tokens, false, ranges);
  part.key = take_tokens(whole.key, tokens, false, ranges);
  part.value = take_tokens(whole.value, tokens, false, ranges);
  part.gate = whole.gate;
  part.gate.values = take_tokens(whole.gate.values, tokens, false, ranges);
  part.beta = whole.beta;
  part.beta.values = take_tokens(whole.beta.values, tokens, false, ranges);
  part.state_pool = whole.state_pool;
  part.qkv = take_tokens(whole.qkv, tokens, by_time, ranges);
  part.conv_weight = whole.conv_weight;
  part.conv_bias = whole.conv_bias;
  part.conv_state = whole.conv_state;
  return part;
}

std::vector<float> take_row(const std::vector<float>& pool, std::int64_t row, std::int64_t stride) {
  if (pool.empty()) return {};
  return {pool.begin() + row * stride, pool.begin() + (row + 1) * stride};
}

Strips view_row(const std::vector<float>& pool, std::int64_t row, std::int64_t stride) {
  if (pool.empty()) return {};
  return {pool.data() + row * stride, 1, stride, stride};
}

// As take_tokens, of one range, where it lies.
Strips view_tokens(const std::vector<float>& values, std::int64_t total_tokens, bool by_time,
                   const TokenRange& range) {
  if (values.empty() || total_tokens == 0 || range.count == 0) return {};
  const std::int64_t width = static_cast<std::int64_t>(values.size()) / total_tokens;
  if (by_time) return {values.data() + range.begin, width, range.count, total_tokens};
  return {values.data() + range.begin * width, 1, range.count * width, range.count * width};
}

void copy_row(const std::vector<float>& from, std::vector<float>& to, std::int64_t row,
              std::int64_t stride, std::int64_t count) {
  if (from.empty()) return;
  std::copy_n(from.begin() + row * stride, count, to.begin() + row * stride);
}

// Outputs of the first and the second part of every sequence, put together again.
std::vector<float> interleave(const Case& whole, const Cut& cut, const std::vector<float>& first,
                              const std::vector<float>& second, bool by_time) {
  const std::int64_t tokens = whole.problem.total_tokens();
  if (tokens == 0 || first.size() + second.size() == 0) return {};
  const std::int64_t width = static_cast<std::int64_t>(first.size() + second.size()) / tokens;
  std::int64_t first_tokens = 0;
  for (std::int64_t n = 0; n < whole.problem.num_sequences(); ++n) {
    first_tokens += cut(length_of(whole, n));
  }
  std::vector<float> result;
  result.reserve(first.size() + second.size());
  const std::int64_t rows = by_time ? width : 1;
  const std::int64_t scale = by_time ? 1 : width;  // elements per token within a row
  for (std::int64_t row = 0; row < rows; ++row) {
    auto a = first.begin() + row * first_tokens;
    auto b = second.begin() + row * (tokens - first_tokens);
    for (std::int64_t n = 0; n < whole.problem.num_sequences(); ++n) {
      const std::int64_t half = cut(length_of(whole, n));
      const std::int64_t rest = length_of(whole, n) - half;
      result.insert(result.end(), a, a + half * scale);
      result.insert(result.end(), b, b + rest * scale);
      a += half * scale;
      b += rest * scale;
    }
  }
  return result;
}

// An initial state of zeros where the case has none.
void start_from_zeros(Case& c) {
  c.problem.initial_state = InitialState::normal;
  std::fill(c.state_pool.begin(), c.state_pool.end(), 0.0f);
}

void fill_tokens(std::vector<float>& values, std::int64_t total_tokens, bool by_time,
                 const TokenRange& range, float value) {
  if (values.empty() || total_tokens == 0) return;
  const std::int64_t width = static_cast<std::int64_t>(values.size()) / total_tokens;
  if (!by_time) {
    std::fill_n(values.begin() + range.begin * width, range.count * width, value);
    return;
  }
  for (std::int64_t row = 0; row < width; ++row) {
    std::fill_n(values.begin() + row * total_tokens + range.begin, range.count, value);
  }
}

// What spare rows of a pool hold: valid, representable in every state dtype, and easily seen.
constexpr float kSpareRow = 8192.0f;

std::vector<float> rows_reversed(const std::vector<float>& pool, std::int64_t rows_before,
                                 std::int64_t rows_after, std::int64_t stride) {
  if (pool.empty()) return {};
  std::vector<float> reversed(static_cast<std::size_t>(rows_after * stride), kSpareRow);
  for (std::int64_t row = 0; row < rows_before; ++row) {
    std::copy_n(pool.begin() + row * stride, stride,
                reversed.begin() + (rows_after - 1 - row) * stride);
  }
  return reversed;
}

}  // namespace

Case take_sequences(const Case& batch, const std::vector<std::int64_t>& numbers) {
  std::vector<TokenRange> ranges;
  for (const std::int64_t n : numbers)
    ranges.push_back({first_token(batch, n), length_of(batch, n)});
  Case part = take_ranges(batch, ranges);
  part.problem.slots = SlotMap::identity;
  part.slot_index.clear();
  part.state_pool.clear();
  part.conv_state.clear();
  for (const std::int64_t n : numbers) {
    const auto append = [](std::vector<float>& pool, const std::vector<float>& row) {
      pool.insert(pool.end(), row.begin(), row.end());
    };
    const std::int64_t slot = slot_of(batch, n);
    append(part.state_pool, take_row(batch.state_pool, slot, batch.problem.state_row_stride()));
    append(part.conv_state, take_row(batch.conv_state, slot, window_row(batch.problem)));
  }
  return part;
}

OutputsView whole_outputs(const Outputs& outputs) {
  const auto whole = [](const std::vector<float>& values) {
    const auto size = static_cast<std::int64_t>(values.size());
    return Strips{values.data(), size > 0 ? 1 : 0, size, size};
  };
  return {whole(outputs.output), whole(outputs.state_pool), whole(outputs.conv_output),
          whole(outputs.conv_state)};
}

OutputsView sequence_outputs(const Case& batch, const Outputs& outputs, std::int64_t number) {
  const Problem& p = batch.problem;
  const TokenRange range = {first_token(batch, number), length_of(batch, number)};
  const std::int64_t slot = slot_of(batch, number);
  OutputsView part;
  part.output = view_tokens(outputs.output, p.total_tokens(), false, range);
  part.conv_output =
      view_tokens(outputs.conv_output, p.total_tokens(), p.conv_layout == ConvLayout::time, range);
  if (slot >= 0) {
    part.state_pool = view_row(outputs.state_pool, slot, p.state_row_stride());
    part.conv_state = view_row(outputs.conv_state, slot, window_row(p));
  }
  return part;
}

std::int64_t in_halves(std::int64_t length) { return length / 2; }

Cut after(std::int64_t tokens) {
  return [tokens](std::int64_t length) { return std::min(tokens, length); };
}

Case first_part(const Case& whole, const Cut& cut) {
  std::vector<TokenRange> ranges;
  for (std::int64_t n = 0; n < whole.problem.num_sequences(); ++n) {
    ranges.push_back({first_token(whole, n), cut(length_of(whole, n))});
  }
  Case part = take_ranges(whole, ranges);
  part.problem.final_state = true;
  return part;
}

Case second_part(const Case& whole, const Cut& cut, const Outputs& first) {
  const Problem& p = whole.problem;
  std::vector<TokenRange> ranges;
  for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
    const std::int64_t before = cut(length_of(whole, n));
    ranges.push_back({first_token(whole, n) + before, length_of(whole, n) - before});
  }
  Case part = take_ranges(whole, ranges);
  const std::int64_t stride = p.state_row_stride();
  if (p.operation != Operation::causal_conv1d && p.initial_state == InitialState::absent) {
    start_from_zeros(part);
  }
  for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
    const std::int64_t slot = slot_of(whole, n);
    if (slot < 0 || cut(length_of(whole, n)) == 0) continue;
    copy_row(first.state_pool, part.state_pool, slot, stride, stride - p.pool_row_padding);
    copy_row(first.conv_state, part.conv_state, slot, window_row(p), window_row(p));
  }
  return part;
}

Outputs joined(const Case& whole, const Cut& cut, const Outputs& first, const Outputs& second) {
  const Problem& p = whole.problem;
  Outputs result;
  result.output = interleave(whole, cut, first.output, second.output, false);
  result.conv_output = interleave(whole, cut, first.conv_output, second.conv_output,
                                  p.conv_layout == ConvLayout::time);
  result.state_pool = whole.state_pool;
  result.conv_state = whole.conv_state;
  const std::int64_t stride = p.state_row_stride();
  for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
    const std::int64_t slot = slot_of(whole, n);
    if (slot < 0) continue;
    copy_row(second.conv_state, result.conv_state, slot, window_row(p), window_row(p));
    if (!p.final_state || length_of(whole, n) == 0) continue;
    copy_row(second.state_pool, result.state_pool, slot, stride, stride - p.pool_row_padding);
  }
  return result;
}

Case with_other_lengths(const Case& batch) {
  std::vector<std::int64_t> lengths = batch.problem.sequences.lengths;
  std::reverse(lengths.begin(), lengths.end());
  std::int64_t& longest = *std::max_element(lengths.begin(), lengths.end());
  longest -= longest / 3;
  std::vector<TokenRange> ranges;
  std::int64_t begin = 0;
  for (const std::int64_t length : lengths) {
    ranges.push_back({begin, length});
    begin += length;
  }
  return take_ranges(batch, ranges);
}

Case with_other_slots(const Case& batch) {
  Case other = batch;
  const std::int64_t rows_before = batch.problem.num_pool_rows();
  if (other.problem.slots == SlotMap::identity) other.problem.slots = SlotMap::permuted;
  other.problem.case_file.clear();
  const std::int64_t rows = other.problem.num_pool_rows();
  other.slot_index.clear();
  for (std::int64_t n = 0; n < batch.problem.num_sequences(); ++n) {
    const std::int64_t slot = slot_of(batch, n);
    other.slot_index.push_back(slot < 0 ? slot : rows - 1 - slot);
  }
  other.state_pool =
      rows_reversed(batch.state_pool, rows_before, rows, batch.problem.state_row_stride());
  other.conv_state = rows_reversed(batch.conv_state, rows_before, rows, window_row(batch.problem));
  return other;
}

Case with_poisoned_odd_sequences(const Case& batch) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  Case poisoned = batch;
  const Problem& p = batch.problem;
  const std::int64_t stride = p.state_row_stride();
  for (std::int64_t n = 1; n < p.num_sequences(); n += 2) {
    const TokenRange range = {first_token(batch, n), length_of(batch, n)};
    const auto fill = [&](std::vector<float>& values, bool by_time = false) {
      fill_tokens(values, p.total_tokens(), by_time, range, kNan);
    };
    fill(poisoned.query);
    fill(poisoned.key);
    fill(poisoned.value);
    fill(poisoned.gate.values);
    fill(poisoned.beta.values);
    fill(poisoned.qkv, p.conv_layout == ConvLayout::time);
    const std::int64_t slot = slot_of(batch, n);
    if (slot < 0 || range.count == 0) continue;
    const auto fill_row = [&](std::vector<float>& pool, std::int64_t row_stride) {
      if (!pool.empty()) std::fill_n(pool.begin() + slot * row_stride, row_stride, kNan);
    };
    fill_row(poisoned.state_pool, stride);
    fill_row(poisoned.conv_state, window_row(p));
  }
  return poisoned;
}

Case single_token(const Case& batch, std::int64_t t, const Outputs* states) {
  std::vector<TokenRange> ranges;
  for (std::int64_t n = 0; n < batch.problem.num_sequences(); ++n) {
    const bool over = t >= length_of(batch, n);
    ranges.push_back({first_token(batch, n) + (over ? 0 : t), over ? 0 : 1});
  }
  Case step = take_ranges(batch, ranges);
  step.problem.final_state = true;
  if (step.problem.initial_state == InitialState::absent) start_from_zeros(step);
  if (states != nullptr) {
    step.state_pool = states->state_pool;
    step.conv_state = states->conv_state;
  }
  return step;
}

void place_token(const Case& whole, std::int64_t t, const Outputs& step, Outputs* outputs) {
  const Problem& p = whole.problem;
  const std::int64_t stride = p.state_row_stride();
  std::int64_t row = 0;
  for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
    if (t >= length_of(whole, n)) continue;
    const std::int64_t token = first_token(whole, n) + t;
    const auto place = [&](const std::vector<float>& from, std::vector<float>& to,
                           std::int64_t width) {
      if (!from.empty()) std::copy_n(from.begin() + row * width, width, to.begin() + token * width);
    };
    place(step.output, outputs->output, p.num_value_heads * p.value_head_dim);
    place(step.conv_output, outputs->conv_output, p.conv_channels());
    ++row;
    const std::int64_t slot = slot_of(whole, n);
    if (slot < 0 || t + 1 < length_of(whole, n)) continue;
    copy_row(step.conv_state, outputs->conv_state, slot, window_row(p), window_row(p));
    if (!p.final_state) continue;
    copy_row(step.state_pool, outputs->state_pool, slot, stride, stride - p.pool_row_padding);
  }
}

}  // namespace gdn
