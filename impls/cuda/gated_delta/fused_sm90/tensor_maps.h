// The token arrays as the copy engine sees them.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "cuda/gated_delta/fused_sm90/geometry.h"
#include "cuda/gated_delta/params.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {

/// [tokens, steps, heads, dim] of 16-bit elements as {64, steps, tokens, panels, heads}, 128-byte swizzled, in boxes
/// of 64 rows, which are all of their tokens': of two panels, 16 KB, or of one. Panels that are not there read as zeros.
/// So do rows before a token's first step: a box begins at TokenRows::first_step, or at query_step, with which of the
/// query, of which a token has one, the last row is what is read (token_tiles.cuh).
struct TensorMaps {
  CUtensorMap query, key;   ///< two panels, or one by one (chunk_sm90/key_tile.cuh)
  CUtensorMap value;        ///< two panels: a block does 128 columns of V
  CUtensorMap value_panel;  ///< one panel
  CUtensorMap output;       ///< one panel
};
/// Throws Error(device_failure).
TensorMaps make_tensor_maps(const GatedDeltaParams& params, const TokenRows& rows,
                            std::int64_t tokens, DType token_dtype);

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
