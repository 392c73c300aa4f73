#include "harness/sequences.h"

#include <algorithm>

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

void copy_row(const std::vector<float>& from, std::vector<float>& to, std::int64_t row,
              std::int64_t stride, std::int64_t count) {
  if (from.empty()) return;
  std::copy_n(from.begin() + row * stride, count, to.begin() + row * stride);
}

// Outputs of the first and the second half of every sequence, put together again.
std::vector<float> interleave(const Case& whole, const std::vector<float>& first,
                              const std::vector<float>& second, bool by_time) {
  const std::int64_t tokens = whole.problem.total_tokens();
  if (tokens == 0 || first.size() + second.size() == 0) return {};
  const std::int64_t width = static_cast<std::int64_t>(first.size() + second.size()) / tokens;
  std::int64_t first_tokens = 0;
  for (std::int64_t n = 0; n < whole.problem.num_sequences(); ++n) {
    first_tokens += length_of(whole, n) / 2;
  }
  std::vector<float> result;
  result.reserve(first.size() + second.size());
  const std::int64_t rows = by_time ? width : 1;
  const std::int64_t scale = by_time ? 1 : width;  // elements per token within a row
  for (std::int64_t row = 0; row < rows; ++row) {
    auto a = first.begin() + row * first_tokens;
    auto b = second.begin() + row * (tokens - first_tokens);
    for (std::int64_t n = 0; n < whole.problem.num_sequences(); ++n) {
      const std::int64_t half = length_of(whole, n) / 2;
      const std::int64_t rest = length_of(whole, n) - half;
      result.insert(result.end(), a, a + half * scale);
      result.insert(result.end(), b, b + rest * scale);
      a += half * scale;
      b += rest * scale;
    }
  }
  return result;
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

Outputs sequence_outputs(const Case& batch, const Outputs& outputs, std::int64_t number) {
  const Problem& p = batch.problem;
  const std::vector<TokenRange> range = {{first_token(batch, number), length_of(batch, number)}};
  const std::int64_t slot = slot_of(batch, number);
  Outputs part;
  part.output = take_tokens(outputs.output, p.total_tokens(), false, range);
  part.conv_output =
      take_tokens(outputs.conv_output, p.total_tokens(), p.conv_layout == ConvLayout::time, range);
  if (slot >= 0) {
    part.state_pool = take_row(outputs.state_pool, slot, p.state_row_stride());
    part.conv_state = take_row(outputs.conv_state, slot, window_row(p));
  }
  return part;
}

Case first_halves(const Case& whole) {
  std::vector<TokenRange> ranges;
  for (std::int64_t n = 0; n < whole.problem.num_sequences(); ++n) {
    ranges.push_back({first_token(whole, n), length_of(whole, n) / 2});
  }
  Case part = take_ranges(whole, ranges);
  part.problem.final_state = true;
  return part;
}

Case second_halves(const Case& whole, const Outputs& first) {
  const Problem& p = whole.problem;
  std::vector<TokenRange> ranges;
  for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
    const std::int64_t half = length_of(whole, n) / 2;
    ranges.push_back({first_token(whole, n) + half, length_of(whole, n) - half});
  }
  Case part = take_ranges(whole, ranges);
  const std::int64_t stride = p.state_row_stride();
  if (p.operation != Operation::causal_conv1d && p.initial_state == InitialState::absent) {
    part.problem.initial_state = InitialState::normal;
    std::fill(part.state_pool.begin(), part.state_pool.end(), 0.0f);
  }
  for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
    const std::int64_t slot = slot_of(whole, n);
    if (slot < 0 || length_of(whole, n) < 2) continue;
    copy_row(first.state_pool, part.state_pool, slot, stride, stride - p.pool_row_padding);
    copy_row(first.conv_state, part.conv_state, slot, window_row(p), window_row(p));
  }
  return part;
}

Outputs joined(const Case& whole, const Outputs& first, const Outputs& second) {
  const Problem& p = whole.problem;
  Outputs result;
  result.output = interleave(whole, first.output, second.output, false);
  result.conv_output =
      interleave(whole, first.conv_output, second.conv_output, p.conv_layout == ConvLayout::time);
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

}  // namespace gdn
