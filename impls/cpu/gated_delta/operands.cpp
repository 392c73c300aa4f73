#include "cpu/gated_delta/operands.h"

#include <Eigen/Core>
#include <cmath>
#include <cstring>
#include <string>

#include "cpu/arguments.h"
#include "cpu/gated_delta/gates.h"
#include "interface/error.h"

namespace gdn::cpu {
namespace {

/// Added to the sum of squares before the root (contract section 1.1).
constexpr float kNormEpsilon = 1e-6f;

std::int64_t require_stride(const char* name, std::int64_t stride, std::int64_t dense) {
  if (stride == 0) return dense;
  if (stride < dense) {
    throw_bad_input(std::string(name) + ": token stride " + std::to_string(stride) +
                    " is less than the " + std::to_string(dense) + " elements of a token");
  }
  return stride;
}

GateEncoding encoding_of(const Gate& gate) {
  constexpr GateEncoding kEncodings[] = {GateEncoding::log_decay, GateEncoding::decay,
                                         GateEncoding::neg_log_decay, GateEncoding::logits};
  return kEncodings[gate.index()];
}

void require_gates(const Problem& problem, const GatedDeltaArguments& arguments) {
  if (encoding_of(arguments.gate) != problem.gate_encoding) {
    throw_bad_input("gate: the type of the argument is not the problem's gate encoding");
  }
  std::visit(
      [](const auto& gate) {
        require_pointer("gate", gate.values, sizeof(float));
        if constexpr (std::is_same_v<std::decay_t<decltype(gate)>, DecayLogits>) {
          require_pointer("A_log", gate.A_log, sizeof(float));
          require_pointer("dt_bias", gate.dt_bias, sizeof(float));
        }
      },
      arguments.gate);
  if (std::holds_alternative<BetaLogit>(arguments.beta) !=
      (problem.beta_encoding == BetaEncoding::logit)) {
    throw_bad_input("beta: the type of the argument is not the problem's beta encoding");
  }
  std::visit([](const auto& beta) { require_pointer("beta", beta.values, sizeof(float)); },
             arguments.beta);
}

void normalise_rows(float* rows, std::int64_t count, std::int64_t head_dim) {
  for (std::int64_t t = 0; t < count; ++t) {
    Eigen::Map<Eigen::VectorXf> row(rows + t * head_dim, head_dim);
    row /= std::sqrt(row.squaredNorm() + kNormEpsilon);
  }
}

}  // namespace

GatedDeltaOperands::GatedDeltaOperands(const Problem& problem, const GatedDeltaArguments& arguments)
    : problem_(problem), arguments_(arguments) {
  const std::size_t token_size = size_of(problem.token_dtype);
  require_pointer("q", arguments.query, token_size);
  require_pointer("k", arguments.key, token_size);
  require_pointer("v", arguments.value, token_size);
  require_gates(problem, arguments);
  require_pointer("sequence_offsets", arguments.sequence_offsets, sizeof(std::int64_t));
  if (problem.slots != SlotMap::identity) {
    require_pointer("slot_index", arguments.slot_index, sizeof(std::int64_t));
  }
  if (problem.initial_state != InitialState::absent || problem.final_state) {
    require_pointer("state_pool", arguments.state_pool, size_of(problem.state_dtype));
  }
  require_pointer("output", arguments.output, size_of(problem.effective_output_dtype()));
  arguments_.query_token_stride = require_stride("q", arguments.query_token_stride,
                                                 problem.num_key_heads * problem.key_head_dim);
  arguments_.key_token_stride =
      require_stride("k", arguments.key_token_stride, problem.keys_per_token());
  arguments_.value_token_stride =
      require_stride("v", arguments.value_token_stride, problem.values_per_token());
}

HeadTask GatedDeltaOperands::locate(std::int64_t sequence, std::int64_t value_head) const {
  HeadTask task;
  task.first_token = arguments_.sequence_offsets[sequence];
  task.num_tokens = arguments_.sequence_offsets[sequence + 1] - task.first_token;
  task.value_head = value_head;
  task.slot = arguments_.slot_index == nullptr ? sequence : arguments_.slot_index[sequence];
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
  const auto load = [&](const float* values, const auto& decoded) {
    for (std::int64_t t = 0; t < count; ++t) {
      const float* token =
          values + (task.first_token + first + t) * problem_.gates_per_token() + of_head;
      for (std::int64_t i = 0; i < width; ++i) log_decay[t * width + i] = decoded(token[i], i);
    }
  };
  if (const auto* direct = std::get_if<LogDecay>(&arguments_.gate)) {
    load(direct->values, [](float g, std::int64_t) { return g; });
  } else if (const auto* decay = std::get_if<Decay>(&arguments_.gate)) {
    load(decay->values, [](float alpha, std::int64_t) { return std::log(alpha); });
  } else if (const auto* negated = std::get_if<NegLogDecay>(&arguments_.gate)) {
    load(negated->values, [](float x, std::int64_t) { return -x; });
  } else {
    const auto& logits = std::get<DecayLogits>(arguments_.gate);
    load(logits.values, [&](float a, std::int64_t i) {
      return log_decay_of_logit(a, logits.A_log[task.value_head], logits.dt_bias[of_head + i]);
    });
  }
}

void GatedDeltaOperands::load_betas(const HeadTask& task, std::int64_t first, std::int64_t count,
                                    float* beta) const {
  const std::int64_t heads = problem_.num_value_heads;
  const std::int64_t start = (task.first_token * problem_.steps + first) * heads + task.value_head;
  if (const auto* direct = std::get_if<BetaDirect>(&arguments_.beta)) {
    for (std::int64_t i = 0; i < count; ++i) beta[i] = direct->values[start + i * heads];
  } else {
    const auto& logit = std::get<BetaLogit>(arguments_.beta);
    for (std::int64_t i = 0; i < count; ++i) beta[i] = sigmoid(logit.values[start + i * heads]);
  }
}

std::int64_t GatedDeltaOperands::state_offset(const HeadTask& task) const {
  return task.slot * problem_.state_row_stride() +
         task.value_head * problem_.key_head_dim * problem_.value_head_dim;
}

void GatedDeltaOperands::load_state(const HeadTask& task, float* state) const {
  const std::int64_t rows = problem_.key_head_dim, columns = problem_.value_head_dim;
  if (problem_.initial_state == InitialState::absent) {
    std::memset(state, 0, static_cast<std::size_t>(rows * columns) * sizeof(float));
    return;
  }
  const std::int64_t offset = state_offset(task);
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
  if (!problem_.final_state) return;
  const std::int64_t rows = problem_.key_head_dim, columns = problem_.value_head_dim;
  const std::int64_t offset = state_offset(task);
  if (problem_.state_layout == StateLayout::kv) {
    encode(problem_.state_dtype, state,
           element(arguments_.state_pool, offset, problem_.state_dtype), rows * columns);
    return;
  }
  for (std::int64_t v = 0; v < columns; ++v) {
    for (std::int64_t k = 0; k < rows; ++k) {
      encode(problem_.state_dtype, state + k * columns + v,
             element(arguments_.state_pool, offset + v * rows + k, problem_.state_dtype), 1);
    }
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
