// The argument block of the gated norm's kernels, shared by host and device code.
#pragma once

#include <cstdint>

#include "hip/element.h"
#include "interface/index_array.h"

namespace gdn::hip {

constexpr int kNormLanes = 32;  ///< of a row: half a wave
constexpr int kNormThreads = 256;
constexpr int kNormPacket = 4;  ///< elements that a lane moves at a time

enum class NormGateKind : std::int32_t { silu, sigmoid, sigmoid2 };

struct NormParams {
  const void* x;       ///< [T, Hv, Dv]
  const void* z;       ///< [T, Hv, Dv]
  const void* weight;  ///< [Dv]
  IndexArray sequence_offsets;
  void* y;  ///< [T, Hv, Dv]
  std::int64_t num_sequences;
  std::int64_t x_token_stride;  ///< elements
  std::int64_t z_token_stride;
  std::int32_t num_value_heads;
  std::int32_t width;   ///< Dv
  std::int32_t blocks;  ///< of the grid: rows beyond are strided over
  float eps;
  NormGateKind gate;
  Element output_element;
};

}  // namespace gdn::hip
