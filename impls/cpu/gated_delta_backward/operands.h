// The operands of gated_delta_backward as float32 rows of one value head, and its results from such rows: the
// single place where the CPU forms of the gradients meet dtypes, encodings, layouts and normalisation.
#pragma once

#include <cstdint>

#include "cpu/gated_delta/operands.h"
#include "interface/operations/gated_delta_backward.h"

namespace gdn::cpu {

/// A head's sums over its tokens of the gradients by A_log and dt_bias.
struct GateSums {
  double of_A_log = 0;
  double of_dt_bias = 0;
};

class GatedDeltaBackwardOperands {
 public:
  GatedDeltaBackwardOperands(const Problem& problem, const GatedDeltaBackwardArguments& arguments);

  const Problem& problem() const { return problem_; }
  float scale() const { return forward_.scale(); }
  /// The inputs of the forward call. Its outputs are d_v.
  const GatedDeltaOperands& forward() const { return forward_; }

  /// Rows [count, Dv] of scale times d_output.
  void load_d_outputs(const HeadTask& task, std::int64_t first, std::int64_t count,
                      float* rows) const;
  /// Gradients of the states as [Dk, Dv]; that of the final state is zeros where there is none, and that of the
  /// initial one goes nowhere where there is none.
  void load_d_final_state(const HeadTask& task, float* state) const;
  void store_d_initial_state(const HeadTask& task, const float* state) const;
  /// Rows [count, Dv], rounded once.
  void store_d_values(const HeadTask& task, std::int64_t first, std::int64_t count,
                      const float* rows) const;

  /// The decay of a token, exactly what the array holds where it holds decays.
  float decay(const HeadTask& task, std::int64_t token) const;
  /// From the gradient by a token's beta to that by what the array holds.
  void store_d_beta(const HeadTask& task, std::int64_t token, float d_beta) const;
  /// From the gradient by a token's log decay, or with gate=decay by its decay, which is read only then.
  void store_d_gate(const HeadTask& task, std::int64_t token, float d_log_decay, float d_decay,
                    GateSums& sums) const;

  /// Of all value heads of a key head, [tokens, Dk] by q and k as the recurrence takes them, which they are no
  /// longer afterwards. x [Dk]: scratch.
  void store_d_queries_and_keys(const HeadTask& task, float* d_query, float* d_key, float* x) const;
  /// What d_v, d_beta and the gradient of the gates are of a padding sequence.
  void store_zeros(const HeadTask& task) const;
  /// d_A_log and d_dt_bias, where there are any, from the sums of every sequence and value head.
  void store_sums(const GateSums* sums) const;

 private:
  void store_key_row(const HeadTask& task, std::int64_t token, const float* x, float* gradient,
                     void* to) const;
  std::int64_t at_head(const HeadTask& task, std::int64_t token) const;

  Problem problem_;
  GatedDeltaBackwardArguments arguments_;
  GatedDeltaOperands forward_;    // the forward call's inputs; its output is d_v
  GatedDeltaOperands stored_;     // q and k before their norm
  GatedDeltaOperands d_final_;    // d_output as values, d_final_state as the initial state
  GatedDeltaOperands d_initial_;  // d_initial_state as the final state
};

}  // namespace gdn::cpu
