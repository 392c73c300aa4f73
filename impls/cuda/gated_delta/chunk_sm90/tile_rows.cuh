// Tiles of 64 tokens in shared memory, panels [64][64] of 16-bit elements with the 128-byte swizzle: their rows past a
// sequence's end, and rows that go to memory by ordinary stores.
#pragma once

#include "cuda/gated_delta/chunk_sm90/chunk.h"
#include "cuda/hopper/barrier.cuh"
#include "cuda/hopper/matrix.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::chunk_sm90 {

using namespace hopper;

/// The block's shared memory, tiles aligned to 1024 bytes; GDN_DYNAMIC_SHARED_MEMORY(raw, 1).
__device__ __forceinline__ uint32_t aligned_shared_address(uint8_t* raw) {
  return shared_address(
      reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(raw) + 1023) & ~uintptr_t{1023}));
}

/// One warpgroup: zeros to the rows from `valid` on of a tile panel [64][64].
__device__ __forceinline__ void zero_rows(uint32_t panel, int valid, int t) {
#pragma unroll 1
  for (int i = valid * 8 + t; i < kChunk * 8; i += 128)
    store_shared(panel + 16 * i, make_uint4(0, 0, 0, 0));
}

/// Where in its row piece i of 16 bytes lies of the 16 columns that are a warp's own, two a row:
/// those of V that it alone reads, and of O that it stores.
__device__ __forceinline__ int own_byte(int t, int i) { return (t & 96) + (i & 1) * 16; }
/// The same zeros as zero_rows, each warp's in its own columns.
__device__ __forceinline__ void zero_own_columns(uint32_t panel, int valid, int t) {
#pragma unroll 1
  for (int i = valid * 2 + t % 32; i < kChunk * 2; i += 32)
    store_shared(panel + swizzle_128(i >> 1, own_byte(t, i)), make_uint4(0, 0, 0, 0));
}

/// One warp: the rows of O of the item's last chunk, which is incomplete, in the warp's own
/// columns, go from the panel to memory by ordinary stores. A box of the copy engine would reach
/// into the next sequence. Of 2^rows_log2 rows each, a token's output is the last.
template <typename Token>
__device__ __forceinline__ void store_last_rows(uint32_t panel, Token* tokens, int64_t stride,
                                                int left, int t, int rows_log2 = 0) {
#pragma unroll 1
  for (int i = t % 32; i < (left >> rows_log2) * 2; i += 32) {
    const int token = i >> 1, row = ((token + 1) << rows_log2) - 1, byte = own_byte(t, i);
    *reinterpret_cast<uint4*>(tokens + token * stride + byte / 2) =
        load_shared<uint4>(panel + swizzle_128(row, byte));
  }
}

/// One warpgroup: zeros to 64 columns of the outputs of padding.
template <typename Token>
__device__ __forceinline__ void store_padding(Token* rows, int64_t stride, int tokens, int t) {
  for (int i = t; i < tokens * 8; i += 128)
    *reinterpret_cast<uint4*>(rows + (i >> 3) * stride + (i & 7) * 8) = make_uint4(0, 0, 0, 0);
  // Without this the compiler takes all that follows for divergent, and uses no uniform registers.
  __syncwarp();
}

}  // namespace gdn::GDN_CUDA_TARGET::chunk_sm90
