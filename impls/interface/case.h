// Case: one problem with its input values on the host, as contract section 1 names them; and the
// outputs any implementation made of it. All values are float32 and already rounded to the
// problem's token or state dtype, so the reference and a kernel see exactly the same numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "interface/problem.h"

namespace gdn {

/// The gate array and what it encodes; A_log and dt_bias only with GateEncoding::logits. With
/// decay=channel there is one gate per key channel of a value head.
struct GateValues {
  GateEncoding encoding = GateEncoding::log_decay;
  std::vector<float> values;   ///< [T, Hv], or [T, Hv, Dk] with decay=channel
  std::vector<float> A_log;    ///< [Hv]
  std::vector<float> dt_bias;  ///< [Hv], or [Hv, Dk] with decay=channel
};

struct BetaValues {
  BetaEncoding encoding = BetaEncoding::beta;
  std::vector<float> values;  ///< [T, Hv], or [T, n, Hv] with n Householder steps per token
};

struct Case {
  Problem problem;
  std::vector<std::int64_t> sequence_offsets;  ///< [N + 1], exclusive prefix sums
  std::vector<std::int64_t> slot_index;        ///< [N] or empty (identity); -1 = padding

  // gated_delta (empty for the other operations); n = Problem::steps
  std::vector<float> query;  ///< [T, Hk, Dk]
  std::vector<float> key;    ///< [T, Hk, Dk], or [T, n, Hk, Dk]
  std::vector<float> value;  ///< [T, Hv, Dv], or [T, n, Hv, Dv]

  // gated_delta and gated_delta_layer
  GateValues gate;
  BetaValues beta;
  /// [pool rows, state_row_stride()]: each row Hv heads in the problem's state layout, then
  /// pool_row_padding unused elements. Always present: where initial_state is absent the kernel
  /// must not read it (generated cases fill it with NaN then).
  std::vector<float> state_pool;

  // causal_conv1d and gated_delta_layer
  std::vector<float> qkv;          ///< [T, channels], or [channels, T] with ConvLayout::time
  std::vector<float> conv_weight;  ///< [channels, width]
  std::vector<float> conv_bias;    ///< [channels] or empty
  std::vector<float> conv_state;   ///< [pool rows, channels, width - 1], oldest first, raw inputs
};

/// Whatever the operation writes, widened to float32 (exact for every output dtype).
struct Outputs {
  std::vector<float> output;       ///< [T, Hv, Dv]
  std::vector<float> state_pool;   ///< as Case::state_pool, after the call
  std::vector<float> conv_output;  ///< [T, channels] or [channels, T]
  std::vector<float> conv_state;   ///< as Case::conv_state, after the call
};

/// Throws Error(bad_input), naming the array, the offending index and value, and what was expected:
/// array sizes, offsets monotone and ending at T, slots distinct and in range (or -1), log_decay
/// not positive (any encoding: decay in [0,1], neg_log_decay >= 0), no NaN anywhere except in a
/// state_pool that initial_state=absent declares unread, no infinity except log_decay = -inf.
void validate(const Case& value);

}  // namespace gdn
