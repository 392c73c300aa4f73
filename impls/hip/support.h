// Argument blocks of the support kernels (support.hip), shared by host and device code.
#pragma once

#include <cstdint>

#include "interface/index_array.h"

namespace gdn::hip {

/// hold_stream: waits until *flag is not 0, at most max_polls reads of it.
struct HoldParams {
  const std::int32_t* flag;  ///< host memory, coherent
  std::int64_t max_polls;
};

/// copy_words: destination[i] = source[i], 16 bytes per element, grid-strided by the given step.
struct CopyParams {
  const void* source;
  void* destination;
  std::int64_t elements;
  std::int64_t step;  ///< threads in the grid
};

/// copy_rows: to[row(n)][i] = from[row(n)][i] for each of `entries` n and `elements` i, a work-item each and an
/// element of 2 or 4 bytes. row(n) is rows[n], and nothing is copied where that is negative; n where there are none.
struct RowCopyParams {
  const void* from;
  void* to;
  IndexArray rows;
  std::int64_t entries;
  std::int64_t elements;
  std::int64_t from_row_stride, from_stride;  ///< elements
  std::int64_t to_row_stride, to_stride;
  std::int32_t entry_step;  ///< workgroups along y
  std::int32_t element_bytes;
};

/// quantize_rows, quantize_columns: float32 values to int8 with a scale for each channel
/// (interface/channel_quantization.h), a wave or a work-item to a channel. Values lie [outer, extent, inner],
/// scales [outer, inner]; inner is 1 of rows.
struct QuantizeParams {
  const float* values;
  std::int8_t* elements;
  float* scales;
  std::int64_t outer;
  std::int64_t extent;
  std::int64_t inner;
  std::int64_t step;  ///< workgroups along x of rows, along y of columns
};

/// fma_chain: `rounds` times kFmaPerRound float32 multiply-adds per lane, in independent chains.
struct FmaParams {
  float* sink;  ///< one float per lane: the results are used
  std::int32_t rounds;
};
constexpr int kFmaPerRound = 128;

}  // namespace gdn::hip
