// Tiles of a chunk that the copy engine brings and takes, by maps whose tokens may have several rows (geometry.h).
#pragma once

#include "cuda/gated_delta/chunk_sm90/key_tile.cuh"
#include "cuda/gated_delta/fused_sm90/geometry.h"
#include "cuda/hopper/bulk_copy.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {

using namespace hopper;

/// The chunk that begins with `row`, one panel or two of K, in 64 rows of 128 bytes each.
__device__ __forceinline__ void load_key_columns(uint32_t to, const CUtensorMap* map, uint32_t full,
                                                 const TokenRows& rows, int step, int row,
                                                 int column, int key_head) {
  tensor_load(to, map, full, column, step, row >> rows.log2, 0, key_head);
}
/// K of a chunk and key head, both panels. Of keys of other than whole panels the second is asked for by itself: its
/// columns past Dk are not there, and are filled with zeros.
__device__ __forceinline__ void load_tile_of_step(uint32_t to, const CUtensorMap* map,
                                                  uint32_t full, const TokenRows& rows, int step,
                                                  int row, int key_head, int key_head_dim) {
  load_key_columns(to, map, full, rows, step, row, 0, key_head);
  if (key_head_dim % kKeyPanel != 0)
    load_key_columns(to + 2 * kChunk * kKeyPanel, map, full, rows, step, row, kKeyPanel, key_head);
}
__device__ __forceinline__ void load_key_tile(uint32_t to, const CUtensorMap* map, uint32_t full,
                                              const TokenRows& rows, int row, int key_head,
                                              int key_head_dim) {
  load_tile_of_step(to, map, full, rows, rows.first_step, row, key_head, key_head_dim);
}
/// The same of Q.
__device__ __forceinline__ void load_query_tile(uint32_t to, const CUtensorMap* map, uint32_t full,
                                                const TokenRows& rows, int row, int key_head,
                                                int key_head_dim) {
  load_tile_of_step(to, map, full, rows, rows.query_step, row, key_head, key_head_dim);
}
/// The panels of V that the map takes at once.
__device__ __forceinline__ void load_value_tile(uint32_t to, const CUtensorMap* map, uint32_t full,
                                                const TokenRows& rows, int row, int panel,
                                                int head) {
  tensor_load(to, map, full, 0, rows.first_step, row >> rows.log2, panel, head);
}
/// A panel of O, of which a token's last row is stored. The engine takes no box that begins outside an array when it
/// stores, as it does when it loads: so the box begins with the first token's last row, which is its step 0, and the rows
/// up to the next token's last one are outside. The swizzle goes by addresses. What is read behind the panel is stored
/// nowhere.
__device__ __forceinline__ void store_output_tile(const CUtensorMap* map, uint32_t from,
                                                  const TokenRows& rows, int row, int panel,
                                                  int head) {
  constexpr int kRowBytes = kPanel * kTokenBytes;
  tensor_store(map, from - rows.query_step * kRowBytes, 0, 0, row >> rows.log2, panel, head);
}

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
