// The operands of gated_delta as float32 rows of one value head: the single place where the CPU
// forms meet token dtypes, strides, gate encodings, slots, state layouts and normalisation. A form
// sees none of those; all its arithmetic is float32 on dense row-major blocks.
#pragma once

#include <cstdint>

#include "interface/operations/gated_delta.h"

namespace gdn::cpu {

/// Added to the sum of squares of a query or key before the root (docs/contract.md, section 1.1).
inline constexpr float kNormEpsilon = 1e-6f;

/// One unit of independent work: a value head of a non-empty sequence.
struct HeadTask {
  std::int64_t sequence = 0;
  std::int64_t first_token = 0;  ///< in the packed token dimension
  std::int64_t num_tokens = 0;
  std::int64_t value_head = 0;
  std::int64_t slot = 0;         ///< row of the state pool that is read; -1 = padding
  std::int64_t output_slot = 0;  ///< the row that is written; negative = none
  // Of a part of a sequence, [Dk, Dv]: the state that the part before left, and where this one's goes.
  const float* state_before = nullptr;  ///< null: the pool's
  float* state_after = nullptr;         ///< null: the pool
};

class GatedDeltaOperands {
 public:
  GatedDeltaOperands(const Problem& problem, const GatedDeltaArguments& arguments);

  const Problem& problem() const { return problem_; }
  float scale() const { return static_cast<float>(problem_.effective_scale()); }

  /// Reads sequence_offsets and slot_index as they are now.
  HeadTask locate(std::int64_t sequence, std::int64_t value_head) const;

  /// Tokens [first, first + count) of the task as dense float rows [count, Dk]. Queries and keys
  /// are divided by sqrt(sum x^2 + 1e-6) if the problem asks for it.
  void load_queries(const HeadTask& task, std::int64_t first, std::int64_t count,
                    float* rows) const;
  /// log_decay (<= 0, -inf for a reset) of those tokens, [count] or, with one decay per channel,
  /// [count, Dk], from any encoding.
  void load_log_decays(const HeadTask& task, std::int64_t first, std::int64_t count,
                       float* log_decay) const;

  /// Steps [first, first + count) of the task as dense float rows: [count, Dk], [count, Dv] and
  /// [count]. A token has n = problem().steps of them: step j of token t is number t n + j.
  void load_keys(const HeadTask& task, std::int64_t first, std::int64_t count, float* rows) const;
  void load_values(const HeadTask& task, std::int64_t first, std::int64_t count, float* rows) const;
  void load_betas(const HeadTask& task, std::int64_t first, std::int64_t count, float* beta) const;

  /// The initial state as [Dk, Dv] whatever the pool's layout; zeros where the problem has none.
  void load_state(const HeadTask& task, float* state) const;
  /// Rounds once to the pool's dtype; does nothing if the problem or the sequence wants no final state.
  /// Of a part of a sequence it is kept as it is.
  void store_state(const HeadTask& task, const float* state) const;

  /// After how many tokens the sequence's state is wanted as its checkpoint j; 0 = that one is zeros.
  std::int64_t checkpoint_tokens(std::int64_t sequence, std::int64_t checkpoint) const;
  /// A checkpoint of a head, rounded once to its dtype; null = zeros.
  void store_checkpoint(std::int64_t sequence, std::int64_t checkpoint, std::int64_t value_head,
                        const float* state) const;

  /// Rows [count, Dv], rounded once to the output dtype.
  void store_outputs(const HeadTask& task, std::int64_t first, std::int64_t count,
                     const float* rows) const;
  /// What a padding sequence's outputs are.
  void store_zero_outputs(const HeadTask& task) const;

 private:
  /// Where the rows of one head lie: a token's steps after each other, heads within a step.
  struct HeadRows {
    const void* array;
    std::int64_t token_stride;
    std::int64_t steps;
    std::int64_t heads;
    std::int64_t head;
    std::int64_t head_dim;
  };
  void load_rows(const HeadRows& from, std::int64_t first, std::int64_t count, float* rows) const;
  /// From [Dk, Dv] to the problem's layout and the dtype, from an element of the array on.
  void encode_state(const float* state, void* array, std::int64_t offset, DType dtype) const;
  /// The same to the pool, rounded by chance.
  void round_state(const float* state, const HeadTask& task) const;
  /// Of the head's state in a row of the pool, elements.
  std::int64_t state_offset(std::int64_t slot, std::int64_t value_head) const;

  Problem problem_;
  GatedDeltaArguments arguments_;
};

}  // namespace gdn::cpu
