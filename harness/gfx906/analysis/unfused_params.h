// Argument blocks of the kernels of unfused.hip, shared by host and device code. Every tensor is
// seen as one matrix per (value head, chunk).
#pragma once

#include <cstdint>

namespace gdn::hip {

constexpr int kUnfusedChunk = 64;

/// Element (row, column) of the matrix of a head and chunk; strides in elements, 0 = broadcast.
struct MatrixView {
  float* data;
  std::int64_t head_stride;
  std::int64_t chunk_stride;
  std::int32_t row_stride;
  std::int32_t column_stride;
  std::int32_t head_shift;  ///< value heads that share one matrix: 2^head_shift
  std::int32_t reserved;
};

enum class ElementOp : std::int32_t {
  copy,               ///< factor * a
  add,                ///< a + b
  subtract,           ///< a - b
  multiply,           ///< a * b
  exponential,        ///< exp(a)
  mask_lower,         ///< factor * a on and below the diagonal, else 0
  mask_strict_lower,  ///< factor * a below the diagonal, else 0
  identity_minus,     ///< I - a
  add_identity,       ///< a + I
};

/// Grid: x = elements / 256, y = value head, z = chunk.
struct ElementwiseParams {
  MatrixView out;
  MatrixView a;
  MatrixView b;
  ElementOp op;
  float factor;
  std::int32_t log2_columns;
  std::int32_t elements;  ///< of one matrix
  /// Rows of all chunks that exist in a and out's source; others read as 0.
  std::int32_t rows_left;
  std::int32_t store_rows_left;  ///< the same for stores: others are not written
};

/// out = a b. Grid: x = tiles of out (columns fastest), y = value head, z = chunk.
struct ProductParams {
  MatrixView out;
  MatrixView a;
  MatrixView b;
  std::int32_t depth;  ///< columns of a, a multiple of 16
  std::int32_t log2_column_tiles;
};

/// out = running sum of a over the 64 rows of a chunk. Grid: y = value head, z = chunk.
/// Also solve: out = a^-1 b for a unit lower triangular 64 x 64 a and 64 columns of b.
struct ChunkParams {
  MatrixView out;
  MatrixView a;
  MatrixView b;
};

}  // namespace gdn::hip
