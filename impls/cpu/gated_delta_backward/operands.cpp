#include "cpu/gated_delta_backward/operands.h"

#include <algorithm>
#include <cmath>

#include "cpu/element.h"
#include "cpu/gated_delta/gates.h"

namespace gdn::cpu {
namespace {

// Of the same problem, one whose queries and keys come as they are.
Problem as_stored(Problem p) {
  p.normalize_qk = false;
  return p;
}
// One that reads its initial state, and one that writes its final one.
Problem with_state(Problem p) {
  p.initial_state = p.final_state ? InitialState::normal : InitialState::absent;
  p.final_state = true;
  return p;
}

// The forward call, with d_v where it has its output.
GatedDeltaArguments forward_of(const GatedDeltaBackwardArguments& a) {
  GatedDeltaArguments forward = a.forward;
  forward.output = a.d_value;
  return forward;
}
// The gradients as a call's values and states: d_output in the place of v.
GatedDeltaArguments gradients_of(const GatedDeltaBackwardArguments& a, const void* state) {
  GatedDeltaArguments gradients = a.forward;
  gradients.value = a.d_output;
  gradients.value_token_stride = a.d_output_token_stride;
  gradients.state_pool = const_cast<void*>(state);
  return gradients;
}

// d log_decay / d decay_logit = -exp(A_log) sigmoid(x); where one factor leaves float32 alone, as one
// exponential (log sigmoid(x) = -softplus(-x)).
float decay_per_logit(float A_log, float x) {
  const float rate = std::exp(A_log), slope = sigmoid(x);
  if (std::isfinite(rate) && slope > 1e-30f) return -rate * slope;
  return -std::exp(A_log - softplus(-x));
}

// d log_decay / d its logit, and / d A_log.
struct GateSlopes {
  float of_logit;
  float of_A_log;
};
// With gate=bounded, of y = exp(A_log) x.
GateSlopes bounded_slopes(float A_log, float x, float bound) {
  const float rate = finite_rate(A_log), y = rate * x;
  const float slope = -bound * sigmoid(y) * sigmoid(-y);  // 1 - sigmoid(y) would cancel
  // Where it has saturated nothing is left, however large the other factor is.
  return slope == 0 ? GateSlopes{0, 0} : GateSlopes{slope * rate, slope * y};
}

}  // namespace

GatedDeltaBackwardOperands::GatedDeltaBackwardOperands(const Problem& problem,
                                                       const GatedDeltaBackwardArguments& arguments)
    : problem_(problem),
      arguments_(arguments),
      forward_(problem, forward_of(arguments)),
      stored_(as_stored(problem), arguments.forward),
      d_final_(with_state(problem), gradients_of(arguments, arguments.d_final_state)),
      d_initial_(with_state(problem), gradients_of(arguments, arguments.d_initial_state)) {}

void GatedDeltaBackwardOperands::load_d_outputs(const HeadTask& task, std::int64_t first,
                                                std::int64_t count, float* rows) const {
  d_final_.load_values(task, first, count, rows);
  for (std::int64_t i = 0; i < count * problem_.value_head_dim; ++i) rows[i] *= scale();
}

void GatedDeltaBackwardOperands::load_d_final_state(const HeadTask& task, float* state) const {
  d_final_.load_state(task, state);
}

void GatedDeltaBackwardOperands::store_d_initial_state(const HeadTask& task,
                                                       const float* state) const {
  d_initial_.store_state(task, state);
}

void GatedDeltaBackwardOperands::store_d_values(const HeadTask& task, std::int64_t first,
                                                std::int64_t count, const float* rows) const {
  forward_.store_outputs(task, first, count, rows);
}

void GatedDeltaBackwardOperands::store_d_queries_and_keys(const HeadTask& task, float* d_query,
                                                          float* d_key, float* x) const {
  const std::int64_t Dk = problem_.key_head_dim;
  for (std::int64_t t = 0; t < task.num_tokens; ++t) {
    stored_.load_queries(task, t, 1, x);
    store_key_row(task, t, x, d_query + t * Dk, arguments_.d_query);
    stored_.load_keys(task, t, 1, x);
    store_key_row(task, t, x, d_key + t * Dk, arguments_.d_key);
  }
}

void GatedDeltaBackwardOperands::store_zeros(const HeadTask& task) const {
  forward_.store_zero_outputs(task);
  for (std::int64_t t = 0; t < task.num_tokens; ++t) {
    arguments_.d_gate[at_head(task, t)] = arguments_.d_beta[at_head(task, t)] = 0;
  }
}

void GatedDeltaBackwardOperands::store_sums(const GateSums* sums) const {
  if (arguments_.d_A_log == nullptr) return;
  const std::int64_t heads = problem_.num_value_heads;
  for (std::int64_t h = 0; h < heads; ++h) {
    GateSums sum;
    for (std::int64_t n = 0; n < problem_.num_sequences(); ++n) {
      sum.of_A_log += sums[n * heads + h].of_A_log;
      sum.of_dt_bias += sums[n * heads + h].of_dt_bias;
    }
    arguments_.d_A_log[h] = static_cast<float>(sum.of_A_log);
    arguments_.d_dt_bias[h] = static_cast<float>(sum.of_dt_bias);
  }
}

std::int64_t GatedDeltaBackwardOperands::at_head(const HeadTask& task, std::int64_t token) const {
  return (task.first_token + token) * problem_.num_value_heads + task.value_head;
}

float GatedDeltaBackwardOperands::decay(const HeadTask& task, std::int64_t token) const {
  if (problem_.gate_encoding == GateEncoding::decay) {
    return value_at(arguments_.forward.gate, task.first_token + token, task.value_head);
  }
  float log_decay;
  forward_.load_log_decays(task, token, 1, &log_decay);
  return std::exp(log_decay);
}

// From the gradient of y = x / n, n = sqrt(|x|^2 + eps), to that of x: (dy - y (y . dy)) / n.
void GatedDeltaBackwardOperands::store_key_row(const HeadTask& task, std::int64_t token,
                                               const float* x, float* gradient, void* to) const {
  const std::int64_t Dk = problem_.key_head_dim;
  if (problem_.normalize_qk) {
    float squares = kNormEpsilon;
    for (std::int64_t i = 0; i < Dk; ++i) squares += x[i] * x[i];
    const float n = std::sqrt(squares);
    float along = 0;
    for (std::int64_t i = 0; i < Dk; ++i) along += x[i] / n * gradient[i];
    for (std::int64_t i = 0; i < Dk; ++i) gradient[i] = (gradient[i] - x[i] / n * along) / n;
  }
  const std::int64_t key_head = task.value_head / problem_.value_heads_per_key_head();
  const std::int64_t at = ((task.first_token + token) * problem_.num_key_heads + key_head) * Dk;
  encode(problem_.token_dtype, gradient, element(to, at, problem_.token_dtype), Dk);
}

void GatedDeltaBackwardOperands::store_d_beta(const HeadTask& task, std::int64_t token,
                                              float d_beta) const {
  if (problem_.beta_encoding != BetaEncoding::beta) {
    const float x = value_at(arguments_.forward.beta, task.first_token + token, task.value_head);
    const float most = problem_.beta_encoding == BetaEncoding::logit2 ? 2.0f : 1.0f;
    d_beta *= most * sigmoid(x) * sigmoid(-x);  // 1 - sigmoid(x) would cancel
  }
  arguments_.d_beta[at_head(task, token)] = d_beta;
}

void GatedDeltaBackwardOperands::store_d_gate(const HeadTask& task, std::int64_t token,
                                              float d_log_decay, float d_decay,
                                              GateSums& sums) const {
  float& d_gate = arguments_.d_gate[at_head(task, token)];
  switch (problem_.gate_encoding) {
    case GateEncoding::log_decay:
      d_gate = d_log_decay;
      return;
    case GateEncoding::decay:
      d_gate = d_decay;
      return;
    case GateEncoding::neg_log_decay:
      d_gate = -d_log_decay;
      return;
    case GateEncoding::logits:
    case GateEncoding::bounded: {
      const std::int64_t h = task.value_head;
      const float x = value_at(arguments_.forward.gate, task.first_token + token, h) +
                      value_at(arguments_.forward.dt_bias, 0, h);
      const float A_log = value_at(arguments_.forward.A_log, 0, h);
      float g;
      forward_.load_log_decays(task, token, 1, &g);
      const GateSlopes slopes =
          problem_.gate_encoding == GateEncoding::bounded
              ? bounded_slopes(A_log, x, static_cast<float>(problem_.decay_bound))
              : GateSlopes{decay_per_logit(A_log, x), g};
      // After a full reset nothing depends on the gate, whatever its own derivative is.
      d_gate = d_log_decay == 0 ? 0 : d_log_decay * slopes.of_logit;
      sums.of_A_log += d_log_decay == 0 ? 0 : static_cast<double>(d_log_decay) * slopes.of_A_log;
      sums.of_dt_bias += d_gate;
      return;
    }
  }
}

}  // namespace gdn::cpu
