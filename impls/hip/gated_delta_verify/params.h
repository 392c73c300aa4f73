// The argument block of the gated_delta_verify kernels, shared by host and device code. Plain C++: fixed
// widths, the same layout for both compilers.
#pragma once

#include <cstdint>

#include "hip/gated_delta/params.h"

namespace gdn::hip {

/// Of each planned token there is one place for what it did to the state,
///     S <- decay S, then for each of its steps S <- S + key update^T.
struct DraftParams {
  GatedDeltaParams delta;
  IndexArray accepted;  ///< [N]; read by commit alone
  float* keys;          ///< [T, steps, Hk, Dk]
  /// [T, steps, Hv, Dv]: beta (v - S^T k). Where keys are normalised, either the key or this has the
  /// factor, as the form's arithmetic has it.
  float* updates;
  float* decays;  ///< [T, Hv], or [T, Hv, Dk] with one for each channel
  std::int32_t num_key_heads;
  std::int32_t value_heads_per_key_head;
  std::int32_t steps;
  std::int32_t decay_per_channel;
  std::int32_t additive;
  std::int32_t unused;
};
static_assert(sizeof(DraftParams) == sizeof(GatedDeltaParams) + 5 * 8 + 6 * 4);

}  // namespace gdn::hip
