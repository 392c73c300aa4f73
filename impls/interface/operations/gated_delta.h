// gated_delta (docs/contract.md, section 1.1): its operands as typed pointers, which is what kernels
// read.
#pragma once

#include <cstdint>

#include "interface/arguments.h"
#include "interface/operation.h"

namespace gdn {

const OperationSchema& gated_delta_operation();

struct GatedDeltaArguments {
  const void* query = nullptr;  ///< [T, Hk, Dk] token dtype
  const void* key = nullptr;    ///< [T, Hk, Dk]; with n steps per token [T, n, Hk, Dk]
  const void* value = nullptr;  ///< [T, Hv, Dv]; with n steps per token [T, n, Hv, Dv]
  /// Elements from one token to the next (steps and heads of a token are contiguous), never 0.
  std::int64_t query_token_stride = 0;
  std::int64_t key_token_stride = 0;
  std::int64_t value_token_stride = 0;
  /// Encoded as Problem::gate_encoding says: [T, Hv], or [T, Hv, Dk] with decay=channel.
  NumberArray gate;
  NumberArray A_log;    ///< [Hv], gate=logits and gate=bounded only
  NumberArray dt_bias;  ///< [Hv] or [Hv, Dk], likewise
  /// Encoded as Problem::beta_encoding says: [T, Hv]; with n steps per token [T, n, Hv].
  NumberArray beta;
  IndexArray sequence_offsets;   ///< [N + 1]
  IndexArray slot_index;         ///< [N] or none = identity; -1 = padding
  IndexArray output_slot_index;  ///< [N] or none = slot_index; negative = nothing is written
  IndexArray rounding_seed;      ///< [N], or none: final states are rounded to nearest
  /// Rows at Problem::state_row_stride(); read if initial_state != absent, written if final_state.
  /// May be nullptr if neither.
  void* state_pool = nullptr;
  void* output = nullptr;  ///< [T, Hv, Dv] output dtype
  /// [N, checkpoints] counts of tokens, 0 or rising within a sequence; none without checkpoints.
  IndexArray checkpoint_tokens;
  /// [N, checkpoints, Hv, Dk, Dv] or [.., Dv, Dk], in the problem's checkpoint dtype.
  void* checkpoint_states = nullptr;
};

/// Checked by require_operands(), so that a gate of another encoding than the problem's cannot pass;
/// a token stride of 0 has become the dense one.
GatedDeltaArguments gated_delta_arguments(const Problem& problem, const Arguments& arguments);

}  // namespace gdn
