#include "interface/case.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "interface/error.h"

namespace gdn {
namespace {

void require_size(const char* name, std::size_t actual, std::int64_t expected) {
  if (actual != static_cast<std::size_t>(expected)) {
    throw_bad_input(std::string(name) + ": holds " + std::to_string(actual) + " values, expected " +
                    std::to_string(expected));
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

void require_finite(const char* name, const std::vector<float>& values) {
  const std::int64_t i = first_not_finite(values.data(), static_cast<std::int64_t>(values.size()));
  if (i < 0) return;
  throw_bad_input(std::string(name) + ": " +
                  (std::isnan(values[static_cast<std::size_t>(i)]) ? "NaN" : "infinity") +
                  " at flat index " + std::to_string(i) + ", expected finite values");
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

void validate_slots(const Case& c, std::int64_t pool_rows) {
  if (c.slot_index.empty()) {
    if (pool_rows < c.problem.num_sequences()) {
      throw_bad_input("state_pool: " + std::to_string(pool_rows) + " rows for " +
                      std::to_string(c.problem.num_sequences()) + " sequences without slot_index");
    }
    return;
  }
  require_size("slot_index", c.slot_index.size(), c.problem.num_sequences());
  std::set<std::int64_t> used;
  for (std::size_t n = 0; n < c.slot_index.size(); ++n) {
    const std::int64_t slot = c.slot_index[n];
    if (slot == -1) continue;
    if (slot < 0 || slot >= pool_rows) {
      throw_bad_input("slot_index: value " + std::to_string(slot) + " at index " +
                      std::to_string(n) + ", expected -1 or 0.." + std::to_string(pool_rows - 1));
    }
    if (!used.insert(slot).second) {
      throw_bad_input("slot_index: slot " + std::to_string(slot) +
                      " is used twice (again at index " + std::to_string(n) + ")");
    }
  }
}

void validate_gates(const Case& c) {
  const Problem& p = c.problem;
  if (c.gate.encoding != p.gate_encoding || c.beta.encoding != p.beta_encoding) {
    throw_bad_input("gate or beta: the encoding of the arrays is not the problem's");
  }
  const char* name = p.gate_encoding == GateEncoding::log_decay       ? "log_decay"
                     : p.gate_encoding == GateEncoding::decay         ? "decay"
                     : p.gate_encoding == GateEncoding::neg_log_decay ? "neg_log_decay"
                                                                      : "decay_logit";
  require_size(name, c.gate.values.size(), p.total_tokens() * p.gates_per_token());
  for (std::size_t i = 0; i < c.gate.values.size(); ++i) {
    const float x = c.gate.values[i];
    bool good = false;
    const char* expected = "";
    switch (p.gate_encoding) {
      case GateEncoding::log_decay:
        good = x <= 0.0f;
        expected = "a log decay of at most 0 (-inf allowed)";
        break;
      case GateEncoding::decay:
        good = x >= 0.0f && x <= 1.0f;
        expected = "a decay in 0..1";
        break;
      case GateEncoding::neg_log_decay:
        good = x >= 0.0f;
        expected = "a negated log decay of at least 0 (inf allowed)";
        break;
      case GateEncoding::logits:
        good = std::isfinite(x);
        expected = "a finite logit";
        break;
    }
    if (!good) {
      throw_bad_input(std::string(name) + ": " + std::to_string(x) + " at flat index " +
                      std::to_string(i) + ", expected " + expected);
    }
  }
  if (p.gate_encoding == GateEncoding::logits) {
    require_size("A_log", c.gate.A_log.size(), p.num_value_heads);
    require_size("dt_bias", c.gate.dt_bias.size(), p.gates_per_token());
    require_finite("A_log", c.gate.A_log);
    require_finite("dt_bias", c.gate.dt_bias);
  }
  const char* beta = p.beta_encoding == BetaEncoding::beta ? "beta" : "beta_logit";
  require_size(beta, c.beta.values.size(), p.total_tokens() * p.betas_per_token());
  require_finite(beta, c.beta.values);
  if (p.beta_encoding == BetaEncoding::beta) {
    for (std::size_t i = 0; i < c.beta.values.size(); ++i) {
      if (!(c.beta.values[i] >= 0.0f && c.beta.values[i] <= 2.0f)) {
        throw_bad_input("beta: " + std::to_string(c.beta.values[i]) + " at flat index " +
                        std::to_string(i) + ", expected 0..2");
      }
    }
  }
}

std::int64_t validate_state_pool(const Case& c) {
  const Problem& p = c.problem;
  const std::int64_t stride = p.state_row_stride();
  const std::int64_t size = static_cast<std::int64_t>(c.state_pool.size());
  if (size == 0 || size % stride != 0) {
    throw_bad_input("state_pool: holds " + std::to_string(size) +
                    " values, expected a positive multiple of the row stride " +
                    std::to_string(stride));
  }
  if (p.initial_state != InitialState::absent) {
    const std::int64_t used = stride - p.pool_row_padding;
    for (std::int64_t row = 0; row < size / stride; ++row) {
      const std::int64_t element = first_not_finite(c.state_pool.data() + row * stride, used);
      if (element < 0) continue;
      throw_bad_input("initial_state: not finite at row " + std::to_string(row) + ", element " +
                      std::to_string(element));
    }
  }
  return size / stride;
}

void validate_conv(const Case& c) {
  const Problem& p = c.problem;
  const std::int64_t channels = p.conv_channels();
  require_size("qkv", c.qkv.size(), p.total_tokens() * channels);
  require_size("conv_weight", c.conv_weight.size(), channels * p.conv_width);
  require_size("conv_bias", c.conv_bias.size(), p.conv_bias ? channels : 0);
  require_finite("qkv", c.qkv);
  require_finite("conv_weight", c.conv_weight);
  require_finite("conv_bias", c.conv_bias);
  const std::int64_t row = channels * (p.conv_width - 1);
  const std::int64_t size = static_cast<std::int64_t>(c.conv_state.size());
  if (size == 0 || size % row != 0) {
    throw_bad_input(
        "conv_state: holds " + std::to_string(size) +
        " values, expected a positive multiple of channels * (width - 1) = " + std::to_string(row));
  }
  require_finite("conv_state", c.conv_state);
  validate_slots(c, size / row);
}

}  // namespace

void validate(const Case& c) {
  const Problem& p = c.problem;
  p.validate();
  validate_offsets(c);
  if (p.operation != Operation::causal_conv1d) {
    validate_gates(c);
    validate_slots(c, validate_state_pool(c));
  }
  if (p.operation != Operation::gated_delta) validate_conv(c);
  if (p.operation == Operation::gated_delta) {
    const std::int64_t tokens = p.total_tokens();
    require_size("q", c.query.size(), tokens * p.num_key_heads * p.key_head_dim);
    require_size("k", c.key.size(), tokens * p.keys_per_token());
    require_size("v", c.value.size(), tokens * p.values_per_token());
    require_finite("q", c.query);
    require_finite("k", c.key);
    require_finite("v", c.value);
  }
}

}  // namespace gdn
