// The token arrays as the copy engine sees them.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "cuda/gated_delta/params.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {

/// [tokens, heads, 128] of 16-bit elements as {64, tokens, 2 panels, heads}, 128-byte swizzled, in
/// boxes of 64 tokens: of both panels, 16 KB, or of one.
struct TensorMaps {
  CUtensorMap query, key;
  CUtensorMap value;        ///< both panels: a block does all of V
  CUtensorMap value_panel;  ///< one panel
  CUtensorMap output;       ///< one panel
};
/// Throws Error(device_failure).
TensorMaps make_tensor_maps(const GatedDeltaParams& params, std::int64_t tokens, DType token_dtype);

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
