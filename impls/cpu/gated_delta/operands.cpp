#include "cpu/gated_delta/operands.h"

#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "cpu/element.h"
#include "cpu/gated_delta/gates.h"
#include "interface/stochastic_rounding.h"

namespace gdn::cpu {
namespace {

void normalise_rows(float* rows, std::int64_t count, std::int64_t head_dim) {
  for (std::int64_t t = 0; t < count; ++t) {
    Eigen::Map<Eigen::VectorXf> row(rows + t * head_dim, head_dim);
    row /= std::sqrt(row.squaredNorm() + kNormEpsilon);
  }
}

}  // namespace

GatedDeltaOperands::GatedDeltaOperands(const Problem& problem, const GatedDeltaArguments& arguments)
    : problem_(problem), arguments_(arguments) {}

HeadTask GatedDeltaOperands::locate(std::int64_t sequence, std::int64_t value_head) const {
  HeadTask task;
  task.sequence = sequence;
  task.first_token = arguments_.sequence_offsets[sequence];
  task.num_tokens = arguments_.sequence_offsets[sequence + 1] - task.first_token;
  task.value_head = value_head;
  task.slot = arguments_.slot_index ? arguments_.slot_index[sequence] : sequence;
  task.output_slot =
      arguments_.output_slot_index ? arguments_.output_slot_index[sequence] : task.slot;
  return task;
}

void GatedDeltaOperands::load_rows(const HeadRows& from, std::int64_t first, std::int64_t count,
                                   float* rows) const {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t token = (first + i) / from.steps, step = (first + i) % from.steps;
    const std::int64_t index =
        token * from.token_stride + (step * from.heads + from.head) * from.head_dim;
    decode(problem_.token_dtype, element(from.array, index, problem_.token_dtype),
           rows + i * from.head_dim, from.head_dim);
  }
}

void GatedDeltaOperands::load_queries(const HeadTask& task, std::int64_t first, std::int64_t count,
                                      float* rows) const {
  const std::int64_t key_head = task.value_head / problem_.value_heads_per_key_head();
  load_rows({arguments_.query, arguments_.query_token_stride, 1, problem_.num_key_heads, key_head,
             problem_.key_head_dim},
            task.first_token + first, count, rows);
  if (problem_.normalize_qk) normalise_rows(rows, count, problem_.key_head_dim);
}

void GatedDeltaOperands::load_keys(const HeadTask& task, std::int64_t first, std::int64_t count,
                                   float* rows) const {
  const std::int64_t key_head = task.value_head / problem_.value_heads_per_key_head();
  load_rows({arguments_.key, arguments_.key_token_stride, problem_.steps, problem_.num_key_heads,
             key_head, problem_.key_head_dim},
            task.first_token * problem_.steps + first, count, rows);
  if (problem_.normalize_qk) normalise_rows(rows, count, problem_.key_head_dim);
}

void GatedDeltaOperands::load_values(const HeadTask& task, std::int64_t first, std::int64_t count,
                                     float* rows) const {
  load_rows({arguments_.value, arguments_.value_token_stride, problem_.steps,
             problem_.num_value_heads, task.value_head, problem_.value_head_dim},
            task.first_token * problem_.steps + first, count, rows);
}

void GatedDeltaOperands::load_log_decays(const HeadTask& task, std::int64_t first,
                                         std::int64_t count, float* log_decay) const {
  const std::int64_t width = problem_.gates_per_head();
  const std::int64_t of_head = task.value_head * width;
  const auto load = [&](const NumberArray& values, const auto& decoded) {
    for (std::int64_t t = 0; t < count; ++t) {
      const std::int64_t token = task.first_token + first + t;
      for (std::int64_t i = 0; i < width; ++i) {
        log_decay[t * width + i] = decoded(value_at(values, token, of_head + i), i);
      }
    }
  };
  const auto A_log = [&] { return value_at(arguments_.A_log, 0, task.value_head); };
  const auto dt_bias = [&](std::int64_t i) { return value_at(arguments_.dt_bias, 0, of_head + i); };
  switch (problem_.gate_encoding) {
    case GateEncoding::log_decay:
      return load(arguments_.gate, [](float g, std::int64_t) { return g; });
    case GateEncoding::decay:
      return load(arguments_.gate, [](float alpha, std::int64_t) { return std::log(alpha); });
    case GateEncoding::neg_log_decay:
      return load(arguments_.gate, [](float x, std::int64_t) { return -x; });
    case GateEncoding::logits:
      return load(arguments_.gate, [&](float a, std::int64_t i) {
        return log_decay_of_logit(a, A_log(), dt_bias(i));
      });
    case GateEncoding::bounded:
      return load(arguments_.gate, [&](float f, std::int64_t i) {
        return log_decay_of_bounded_logit(f, A_log(), dt_bias(i),
                                          static_cast<float>(problem_.decay_bound));
      });
  }
}

void GatedDeltaOperands::load_betas(const HeadTask& task, std::int64_t first, std::int64_t count,
                                    float* beta) const {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t token = task.first_token + (first + i) / problem_.steps;
    const std::int64_t step = (first + i) % problem_.steps;
    const float x =
        value_at(arguments_.beta, token, step * problem_.num_value_heads + task.value_head);
    beta[i] = decode_beta(problem_.beta_encoding, x);
  }
}

std::int64_t GatedDeltaOperands::state_offset(std::int64_t slot, std::int64_t value_head) const {
  return slot * problem_.state_row_stride() +
         value_head * problem_.key_head_dim * problem_.value_head_dim;
}

void GatedDeltaOperands::load_state(const HeadTask& task, float* state) const {
  const std::int64_t rows = problem_.key_head_dim, columns = problem_.value_head_dim;
  if (task.state_before != nullptr) {
    std::copy_n(task.state_before, rows * columns, state);
    return;
  }
  if (problem_.initial_state == InitialState::absent) {
    std::memset(state, 0, static_cast<std::size_t>(rows * columns) * sizeof(float));
    return;
  }
  const std::int64_t offset = state_offset(task.slot, task.value_head);
  if (problem_.state_layout == StateLayout::kv) {
    decode(problem_.state_dtype, element(arguments_.state_pool, offset, problem_.state_dtype),
           state, rows * columns);
    return;
  }
  for (std::int64_t v = 0; v < columns; ++v) {
    for (std::int64_t k = 0; k < rows; ++k) {
      decode(problem_.state_dtype,
             element(arguments_.state_pool, offset + v * rows + k, problem_.state_dtype),
             state + k * columns + v, 1);
    }
  }
}

void GatedDeltaOperands::store_state(const HeadTask& task, const float* state) const {
  if (task.state_after != nullptr) {
    std::copy_n(state, problem_.key_head_dim * problem_.value_head_dim, task.state_after);
    return;
  }
  if (!problem_.final_state || task.output_slot < 0) return;
  if (problem_.state_rounding == StateRounding::stochastic) return round_state(state, task);
  encode_state(state, arguments_.state_pool, state_offset(task.output_slot, task.value_head),
               problem_.state_dtype);
}

void GatedDeltaOperands::round_state(const float* state, const HeadTask& task) const {
  const std::int64_t rows = problem_.key_head_dim, columns = problem_.value_head_dim;
  const bool by_keys = problem_.state_layout == StateLayout::kv;
  const auto seed = static_cast<std::uint32_t>(arguments_.rounding_seed[task.sequence]);
  const std::int64_t head = task.value_head * rows * columns;  // element of the row
  auto* const to =
      static_cast<std::uint16_t*>(arguments_.state_pool) + state_offset(task.output_slot, 0);
  RoundingBits random = {};
  std::int64_t group = -1;
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    const std::int64_t at = head + i;
    if (at / kRoundingGroup != group) {
      group = at / kRoundingGroup;
      random = rounding_bits(seed, static_cast<std::uint32_t>(group));
    }
    const float value = state[by_keys ? i : i % rows * columns + i / rows];
    const std::uint32_t chance = random.of(static_cast<int>(at % kRoundingGroup));
    const auto bits = std::bit_cast<std::uint32_t>(value);
    to[at] = problem_.state_dtype == DType::bfloat16 ? round_to_bfloat16(bits, chance)
                                                     : round_to_float16(bits, chance);
  }
}

void GatedDeltaOperands::encode_state(const float* state, void* array, std::int64_t offset,
                                      DType dtype) const {
  const std::int64_t rows = problem_.key_head_dim, columns = problem_.value_head_dim;
  if (problem_.state_layout == StateLayout::kv) {
    encode(dtype, state, element(array, offset, dtype), rows * columns);
    return;
  }
  for (std::int64_t v = 0; v < columns; ++v) {
    for (std::int64_t k = 0; k < rows; ++k) {
      encode(dtype, state + k * columns + v, element(array, offset + v * rows + k, dtype), 1);
    }
  }
}

std::int64_t GatedDeltaOperands::checkpoint_tokens(std::int64_t sequence,
                                                   std::int64_t checkpoint) const {
  return arguments_.checkpoint_tokens[sequence * problem_.checkpoints + checkpoint];
}

void GatedDeltaOperands::store_checkpoint(std::int64_t sequence, std::int64_t checkpoint,
                                          std::int64_t value_head, const float* state) const {
  const DType dtype = problem_.effective_checkpoint_dtype();
  const std::int64_t elements = problem_.key_head_dim * problem_.value_head_dim;
  const std::int64_t row = sequence * problem_.checkpoints + checkpoint;
  const std::int64_t offset = (row * problem_.num_value_heads + value_head) * elements;
  if (state != nullptr) {
    encode_state(state, arguments_.checkpoint_states, offset, dtype);
  } else {
    std::memset(element(arguments_.checkpoint_states, offset, dtype), 0,
                static_cast<std::size_t>(elements) * size_of(dtype));
  }
}

void GatedDeltaOperands::store_outputs(const HeadTask& task, std::int64_t first, std::int64_t count,
                                       const float* rows) const {
  const DType dtype = problem_.effective_output_dtype();
  const std::int64_t head_dim = problem_.value_head_dim;
  for (std::int64_t t = 0; t < count; ++t) {
    const std::int64_t token = task.first_token + first + t;
    const std::int64_t index = (token * problem_.num_value_heads + task.value_head) * head_dim;
    encode(dtype, rows + t * head_dim, element(arguments_.output, index, dtype), head_dim);
  }
}

void GatedDeltaOperands::store_zero_outputs(const HeadTask& task) const {
  const DType dtype = problem_.effective_output_dtype();
  const std::int64_t head_dim = problem_.value_head_dim;
  for (std::int64_t t = 0; t < task.num_tokens; ++t) {
    const std::int64_t token = task.first_token + t;
    const std::int64_t index = (token * problem_.num_value_heads + task.value_head) * head_dim;
    std::memset(element(arguments_.output, index, dtype), 0,
                static_cast<std::size_t>(head_dim) * size_of(dtype));
  }
}

}  // namespace gdn::cpu
