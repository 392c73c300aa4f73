// What the kernels of chunkwise_sm90 hand to each other through device memory, for each chunk slot and value head
// (chunk_sm90/chunk.h). Plain C++ that host and device share.
#pragma once

#include <cstdint>

#include "cuda/gated_delta/chunk_sm90/chunk.h"
#include "cuda/gated_delta/chunk_sm90/head_dims.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::backward_sm90 {

using namespace chunk_sm90;

/// A head's V in slices of kValueDim columns, of which the last may end in zeros. Nothing that a slice gives depends on
/// another's, and the gradients are sums over them.
constexpr int value_slices(int value_head_dim) {
  return (value_head_dim + kValueDim - 1) / kValueDim;
}
inline constexpr std::uint32_t kPanelBytes = 2 * kChunk * kPanel;  ///< [64 tokens][64]
inline constexpr std::uint32_t kTileBytes = 2 * kPanelBytes;       ///< [2 panels][64 tokens][64]
/// Of S or D, as [2 panels of Dk][Dv][64]: rows are columns of V.
inline constexpr std::uint32_t kStatePanelBytes = 2 * kValueDim * kPanel;
inline constexpr std::uint32_t kStateBytes = 2 * kStatePanelBytes;
inline constexpr std::uint32_t kTriangleTileBytes = 2 * kChunk * kChunk;  ///< T or P, [64][64]

/// Chunks of a piece where sequences are not cut: more than any has.
inline constexpr int kWhole = 1 << 30;

/// A record: T - I, P, and factors of the 64 tokens, 64 floats each. Tiles lie as wgmma reads them, in
/// rows of 128 bytes with the 128-byte swizzle. Byte offsets.
///
/// Tokens past the end of a sequence have beta 0 and decay 1. |k| and |q| are 1 where nothing is
/// normalised.
inline constexpr std::uint32_t kBelowT = 0, kP = kTriangleTileBytes,
                               kFactors = 2 * kTriangleTileBytes;
enum Factor : std::uint32_t {
  cumulative = 0,  ///< c: log2 of the decay since the chunk's start, the token's own included
  gamma = 256,     ///< 2^c
  beta = 512,
  key_length = 768,         ///< 1 / |k|
  key_decayed = 1024,       ///< gamma / |k|
  key_update = 1280,        ///< gamma_C / gamma / |k|
  query_length = 1536,      ///< 1 / |q|
  query_scale = 1792,       ///< scale / |q|
  query_decayed = 2048,     ///< scale gamma / |q|
  any_small_beta = 2304,    ///< one float: not 0 where a token's beta is below kLeastBeta
  largest_key_step = 2308,  ///< one float: the largest beta |k|^2
};
inline constexpr std::uint32_t kFactorBytes = 2320;
inline constexpr std::uint32_t kLastToken = 4 * (kChunk - 1);  ///< of a factor, bytes
inline constexpr std::uint32_t kRecordBytes = kFactors + kFactorBytes;
/// Of a smaller beta d_beta is not made as a quotient by it: entries of L, which have its size, are
/// float16 on their way to T, and V' and dV vanish with it.
inline constexpr float kLeastBeta = 0x1p-12f;

}  // namespace gdn::GDN_CUDA_TARGET::backward_sm90
