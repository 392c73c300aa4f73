// Head dims of the kernels for Hopper whose blocks have 128 columns of K and Q, the last of which may be
// zeros, and V in slices of 128 columns. Plain C++ that host and device share.
#pragma once

#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::chunk_sm90 {

/// Columns of K, Q, V or O that lie side by side in shared memory: 128 bytes, the widest swizzle.
inline constexpr int kPanel = 64;
inline constexpr int kKeyDim = 128;        ///< columns of K and Q in a block: Dk, then zeros
inline constexpr int kValueDim = 128;      ///< columns of V and O that a block has at most
inline constexpr int kMostValueDim = 512;  ///< Dv

}  // namespace gdn::GDN_CUDA_TARGET::chunk_sm90
