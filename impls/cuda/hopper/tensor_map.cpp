#include "cuda/hopper/tensor_map.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <string>

#include "cuda/check.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::hopper {
namespace {

/// Dimensions of a map: tensor_load and tensor_store take so many coordinates.
constexpr std::size_t kFewestDimensions = 4, kMostDimensions = 5;
constexpr std::int64_t kElementBytes = 2;

/// The driver's function that encodes a map: found at run time, so that nothing links the driver.
auto tensor_map_encoder() {
  static const auto encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    GDN_CUDA_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                    cudaEnableDefault, &found));
    if (found != cudaDriverEntryPointSuccess)
      throw Error(ErrorKind::device_unavailable, "the driver has no cuTensorMapEncodeTiled");
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  return encode;
}

}  // namespace

CUtensorMap make_tensor_map(const void* base, DType dtype,
                            std::initializer_list<TensorDimension> dimensions, const char* name) {
  if (dimensions.size() == 0 || dimensions.size() > kMostDimensions)
    throw Error(ErrorKind::bad_input, std::string(name) + ": a tensor map of " +
                                          std::to_string(dimensions.size()) +
                                          " dimensions, expected 1 to 5");
  if (dtype != DType::bfloat16 && dtype != DType::float16)
    throw Error(ErrorKind::bad_input,
                std::string(name) + ": a tensor map of elements of other than 16 bits");
  // A dimension of size 1 has no use for its stride, of which the driver asks a multiple of 16
  // bytes.
  constexpr std::int64_t kAnyStride = 128;
  TensorDimension all[kMostDimensions];
  std::fill(std::copy(dimensions.begin(), dimensions.end(), all), all + kMostDimensions,
            TensorDimension{1, kAnyStride, 1});
  const std::size_t rank = std::max(dimensions.size(), kFewestDimensions);
  cuuint64_t sizes[kMostDimensions], strides[kMostDimensions - 1];
  cuuint32_t box[kMostDimensions];
  const cuuint32_t element_strides[kMostDimensions] = {1, 1, 1, 1, 1};
  for (std::size_t i = 0; i < rank; ++i) {
    sizes[i] = static_cast<cuuint64_t>(all[i].size);
    box[i] = static_cast<cuuint32_t>(all[i].box);
    if (i > 0) strides[i - 1] = static_cast<cuuint64_t>(all[i].stride * kElementBytes);
  }
  CUtensorMap map;
  const CUresult status = tensor_map_encoder()(
      &map,
      dtype == DType::bfloat16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      static_cast<cuuint32_t>(rank), const_cast<void*>(base), sizes, strides, box, element_strides,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS)
    throw Error(ErrorKind::device_failure, std::string(name) +
                                               ": cuTensorMapEncodeTiled failed with CUresult " +
                                               std::to_string(static_cast<int>(status)));
  return map;
}

}  // namespace gdn::GDN_CUDA_TARGET::hopper
