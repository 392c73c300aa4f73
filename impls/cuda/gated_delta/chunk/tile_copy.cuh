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

/// A thread's part of a tile's 16-byte vectors: where it begins and the steps it goes on in. A kernel that
/// copies a tile a chunk makes it once: its two divisions would be made for each tile.
struct RowShare {
  int vectors;  ///< of a row
  int row;
  int vector;
  int row_step;
  int vector_step;

  __device__ RowShare(int row_vectors, int thread, int num_threads)
      : vectors(row_vectors),
        row(thread / row_vectors),
        vector(thread % row_vectors),
        row_step(num_threads / row_vectors),
        vector_step(num_threads % row_vectors) {}
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
  constexpr int kVector = 16 / sizeof(Element);
  int row = share.row;
  int vector = share.vector;
  if (share.vector_step == 0) {  // a thread's copies lie below each other
    const bool column_valid = vector * kVector < columns;
    Element* to = tile + row * stride + vector * kVector;
    const Element* from = source + row * source_stride + vector * kVector;
#pragma unroll 4
    for (; row < rows; row += share.row_step) {
      const bool valid = row < valid_rows && column_valid;
      copy16_async_if(valid, to, valid ? from : source);
      to += share.row_step * stride;
      from += share.row_step * source_stride;
    }
    return;
  }
  while (row < rows) {
    const bool valid = row < valid_rows && vector * kVector < columns;
    copy16_async_if(valid, tile + row * stride + vector * kVector,
                    valid ? source + row * source_stride + vector * kVector : source);
    row += share.row_step;
    vector += share.vector_step;
    if (vector >= share.vectors) {
      vector -= share.vectors;
      ++row;
    }
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
