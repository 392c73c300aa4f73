// What key_tile.cuh copies by.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "cuda/gated_delta/chunk_sm90/chunk.h"
#include "cuda/hopper/tensor_map.h"
#include "cuda/target.h"
#include "interface/dtype.h"

namespace gdn::GDN_CUDA_TARGET::chunk_sm90 {

/// [tokens, heads, Dk] in boxes of 64 tokens and two panels of 64 columns, 128-byte swizzled; where Dk is no whole
/// number of panels of one, and a panel is a column to begin with. Throws Error(device_failure).
inline CUtensorMap key_tile_map(const void* base, std::int64_t tokens, std::int64_t token_stride,
                                int heads, int key_head_dim, DType dtype, const char* name) {
  constexpr int kPanel = 64;
  const bool whole = key_head_dim % kPanel == 0;
  return hopper::make_tensor_map(base, dtype,
                                 {{whole ? kPanel : key_head_dim, 1, kPanel},
                                  {tokens, token_stride, kChunk},
                                  {whole ? key_head_dim / kPanel : 1, kPanel, whole ? 2 : 1},
                                  {heads, key_head_dim, 1}},
                                 name);
}

}  // namespace gdn::GDN_CUDA_TARGET::chunk_sm90
