// Which head dims those kernels take (head_dims.h).
#pragma once

#include <string>

#include "cuda/gated_delta/chunk_sm90/head_dims.h"
#include "cuda/target.h"
#include "interface/implementation.h"

namespace gdn::GDN_CUDA_TARGET::chunk_sm90 {

/// Rows of K are a multiple of 16 bytes, as tensor copies take them, and those of V whole panels.
inline Support supports_head_dims(const Problem& problem) {
  const std::int64_t keys = problem.key_head_dim, values = problem.value_head_dim;
  if (keys >= kPanel && keys <= kKeyDim && keys % 8 == 0 && values >= kPanel &&
      values <= kMostValueDim && values % kPanel == 0)
    return Support::yes();
  return Support::no("head dims " + std::to_string(keys) + "x" + std::to_string(values) +
                     ": only Dk of 64 to 128, a multiple of 8, and Dv of 64 to " +
                     std::to_string(kMostValueDim) + ", a multiple of 64");
}

}  // namespace gdn::GDN_CUDA_TARGET::chunk_sm90
