// A lower triangle [64 x 64] of one chunk in memory, without most of its zeros: four column slices
// of 16. Slice b holds rows 16b..63 of columns 16b..16b+15, 32 bytes a row of 16-bit elements,
// 32-byte swizzle, ready for wgmma.
#pragma once

#include <cstdint>

#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::chunk_sm90 {

inline constexpr int kTriangleBytes = 5120;
/// The same as products read it in shared memory: every slice has room for all 64 rows, of which
/// those that are packed away are zeros.
inline constexpr std::uint32_t kSliceBytes = 2048, kOpenTriangleBytes = 4 * kSliceBytes;

/// Byte offset of row 16b of slice b, less 32 * 16b: rows of a slice are addressed by token.
constexpr std::uint32_t triangle_slice(int b) { return 1536u * b - 256u * b * (b - 1); }

}  // namespace gdn::GDN_CUDA_TARGET::chunk_sm90
