// K or Q of a chunk in shared memory, whatever Dk is.
#pragma once

#include "cuda/gated_delta/chunk_sm90/chunk.h"
#include "cuda/hopper/bulk_copy.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::chunk_sm90 {

using namespace hopper;

inline constexpr int kKeyPanel = 64;  ///< columns of a row of 128 bytes

/// K or Q of a chunk and key head, both panels. Of keys of other than whole panels the second is
/// asked for by itself: its columns past Dk are not there, and are filled with zeros.
__device__ __forceinline__ void load_key_tile(uint32_t to, const CUtensorMap* map, uint32_t full,
                                              int token, int key_head, int key_head_dim) {
  tensor_load(to, map, full, 0, token, 0, key_head);
  if (key_head_dim % kKeyPanel != 0)
    tensor_load(to + 2 * kChunk * kKeyPanel, map, full, kKeyPanel, token, 0, key_head);
}

}  // namespace gdn::GDN_CUDA_TARGET::chunk_sm90
