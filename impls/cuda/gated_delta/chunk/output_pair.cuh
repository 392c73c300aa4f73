// Two neighbouring elements of the output, in the token dtype or in float32.
#pragma once

#include "cuda/gated_delta/chunk/fragments.cuh"
#include "cuda/gated_delta/params.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

/// output[index], output[index + 1] (index even): in the token dtype or in float32.
template <typename Element>
__device__ __forceinline__ void store_output_pair(const GatedDeltaParams& p, std::int64_t index,
                                                  float first, float second) {
  if constexpr (!std::is_same_v<Element, float>) {
    if (p.output_dtype != DType::float32) {
      *reinterpret_cast<std::uint32_t*>(static_cast<Element*>(p.output) + index) =
          make_element_pair<Element>(first, second);
      return;
    }
  }
  *reinterpret_cast<float2*>(static_cast<float*>(p.output) + index) = make_float2(first, second);
}

}  // namespace gdn::GDN_CUDA_TARGET
