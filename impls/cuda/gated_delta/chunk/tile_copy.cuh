// Tiles copied from global to shared memory asynchronously, 16 bytes at a time. Addresses and row
// lengths are multiples of 16 bytes.
#pragma once

#include <cstdint>

#include "cuda/ptx.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

/// Contiguous bytes, by num_threads threads.
__device__ __forceinline__ void copy_async(void* shared, const void* source, int bytes, int thread,
                                           int num_threads) {
  for (int i = 16 * thread; i < bytes; i += 16 * num_threads) {
    copy16_async(static_cast<char*>(shared) + i, static_cast<const char*>(source) + i);
  }
}

/// A thread's part of a tile's 16-byte vectors: those of one column, in every row_step-th row. Threads
/// behind the last whole row of threads have none. A kernel that copies a tile a chunk makes it once: its
/// divisions would be made for each tile.
struct RowShare {
  int row_step;
  int row;
  int vector;

  /// row_vectors: at most num_threads.
  __device__ RowShare(int row_vectors, int thread, int num_threads)
      : row_step(num_threads / row_vectors),
        row(thread / row_vectors),
        vector(thread % row_vectors) {
    if (row >= row_step) row = 1 << 30;
  }
};

/// For rows of `padded_columns` elements.
template <typename Element>
__device__ __forceinline__ RowShare row_share(int padded_columns, int thread, int num_threads) {
  return {padded_columns / static_cast<int>(16 / sizeof(Element)), thread, num_threads};
}

/// Tile [rows][stride] <- source rows of `columns` elements, source_stride elements apart; rows
/// from valid_rows on, and columns from `columns` up to the share's padded ones, become zeros.
template <typename Element>
__device__ __forceinline__ void copy_rows_async(Element* tile, int stride, const Element* source,
                                                std::int64_t source_stride, int rows,
                                                int valid_rows, int columns,
                                                const RowShare& share) {
  int row = share.row;
  if (row >= rows) return;
  const int column = share.vector * static_cast<int>(16 / sizeof(Element));
  if (column >= columns) valid_rows = 0;
  Element* to = tile + row * stride + column;
  const Element* from = source + row * source_stride + column;
  const std::int64_t from_step = share.row_step * source_stride;
  const int to_step = share.row_step * stride;
#pragma unroll 2
  for (; row < rows; row += share.row_step) {
    const bool valid = row < valid_rows;
    copy16_async_if(valid, to, valid ? from : source);
    to += to_step;
    from += from_step;
  }
}

/// The same for a tile that is copied once.
template <typename Element>
__device__ __forceinline__ void copy_rows_async(Element* tile, int stride, const Element* source,
                                                std::int64_t source_stride, int rows,
                                                int valid_rows, int columns, int padded_columns,
                                                int thread, int num_threads) {
  copy_rows_async(tile, stride, source, source_stride, rows, valid_rows, columns,
                  row_share<Element>(padded_columns, thread, num_threads));
}

}  // namespace gdn::GDN_CUDA_TARGET
