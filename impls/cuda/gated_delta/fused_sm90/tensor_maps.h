// The token arrays as the copy engine sees them.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "cuda/gated_delta/params.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {

/// [tokens, heads, dim] of 16-bit elements as {64, tokens, panels, heads}, 128-byte swizzled, in
/// boxes of 64 tokens: of two panels, 16 KB, or of one. Panels that are not there read as zeros.
struct TensorMaps {
  CUtensorMap query, key;   ///< two panels, or one by one (chunk_sm90/key_tile.cuh)
  CUtensorMap value;        ///< two panels: a block does 128 columns of V
  CUtensorMap value_panel;  ///< one panel
  CUtensorMap output;       ///< one panel
};
/// Throws Error(device_failure).
TensorMaps make_tensor_maps(const GatedDeltaParams& params, std::int64_t tokens, DType token_dtype);

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
