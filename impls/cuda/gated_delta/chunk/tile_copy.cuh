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

/// Tile [rows][stride] <- source rows of `columns` elements, source_stride elements apart; rows
/// from valid_rows on, and columns from `columns` up to `padded_columns`, become zeros.
template <typename Element>
__device__ __forceinline__ void copy_rows_async(Element* tile, int stride, const Element* source,
                                                std::int64_t source_stride, int rows,
                                                int valid_rows, int columns, int padded_columns,
                                                int thread, int num_threads) {
  constexpr int kVector = 16 / sizeof(Element);
  const int vectors = padded_columns / kVector;
  int row = thread / vectors;
  int vector = thread % vectors;
  const int row_step = num_threads / vectors;
  const int vector_step = num_threads % vectors;
  if (vector_step == 0) {  // a thread's copies lie below each other
    const bool column_valid = vector * kVector < columns;
    Element* to = tile + row * stride + vector * kVector;
    const Element* from = source + row * source_stride + vector * kVector;
#pragma unroll 4
    for (; row < rows; row += row_step) {
      const bool valid = row < valid_rows && column_valid;
      copy16_async_if(valid, to, valid ? from : source);
      to += row_step * stride;
      from += row_step * source_stride;
    }
    return;
  }
  while (row < rows) {
    const bool valid = row < valid_rows && vector * kVector < columns;
    copy16_async_if(valid, tile + row * stride + vector * kVector,
                    valid ? source + row * source_stride + vector * kVector : source);
    row += row_step;
    vector += vector_step;
    if (vector >= vectors) {
      vector -= vectors;
      ++row;
    }
  }
}

}  // namespace gdn::GDN_CUDA_TARGET
