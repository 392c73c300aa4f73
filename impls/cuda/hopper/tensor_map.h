// Tensor maps: how the copy engine sees an array in device memory. Made on the host, passed to a
// kernel as __grid_constant__, read by tensor_load and tensor_store (hopper/bulk_copy.cuh).
#pragma once

#include <cuda.h>

#include <cstdint>
#include <initializer_list>

#include "cuda/target.h"
#include "interface/dtype.h"

namespace gdn::GDN_CUDA_TARGET::hopper {

struct TensorDimension {
  std::int64_t size;    ///< elements of the array
  std::int64_t stride;  ///< from one to the next, in elements; innermost: 1
  std::int64_t box;     ///< elements that one copy takes
};

/// The map of an array of 16-bit elements, dimensions innermost first, in boxes of rows of 128
/// bytes at most with the 128-byte swizzle, as wgmma reads them. Up to five dimensions. Of fewer than
/// four those that are not given have size 1, and the copies' coordinate 0 there: copies take four
/// coordinates, or five where five are given. `name`: of the array, for errors.
/// Throws Error(bad_input) for other dimensions or elements, Error(device_failure) where the driver
/// refuses.
CUtensorMap make_tensor_map(const void* base, DType dtype,
                            std::initializer_list<TensorDimension> dimensions, const char* name);

}  // namespace gdn::GDN_CUDA_TARGET::hopper
