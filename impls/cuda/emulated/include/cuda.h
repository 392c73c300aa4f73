// Stands in for the CUDA driver's header: tensor maps, as the tiled copies of hopper/bulk_copy.cuh
// read them.
#pragma once

#include "cuda_runtime_api.h"

using cuuint32_t = std::uint32_t;
using cuuint64_t = std::uint64_t;
enum CUresult { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1 };
enum CUtensorMapDataType { CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16 };
enum CUtensorMapInterleave { CU_TENSOR_MAP_INTERLEAVE_NONE };
enum CUtensorMapSwizzle { CU_TENSOR_MAP_SWIZZLE_128B };
enum CUtensorMapL2promotion { CU_TENSOR_MAP_L2_PROMOTION_L2_256B };
enum CUtensorMapFloatOOBfill { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE };

/// Four or five dimensions of 16-bit elements, innermost first, 128-byte swizzled boxes.
struct CUtensorMap {
  unsigned char* base;
  int rank;
  std::int64_t sizes[5];    ///< of a dimension that is not there: 1, as box
  std::int64_t strides[5];  ///< bytes
  std::int64_t box[5];
};

/// What the driver refuses of these maps is refused here: misaligned bases and strides.
inline CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t rank,
                                       void* base, const cuuint64_t* sizes,
                                       const cuuint64_t* strides, const cuuint32_t* box,
                                       const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                       CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  if ((rank != 4 && rank != 5) || reinterpret_cast<std::uintptr_t>(base) % 16 != 0)
    return CUDA_ERROR_INVALID_VALUE;
  map->base = static_cast<unsigned char*>(base);
  map->rank = static_cast<int>(rank);
  map->sizes[4] = map->box[4] = 1;
  map->strides[4] = 0;
  map->strides[0] = 2;
  for (int i = 0; i < map->rank; ++i) {
    if (i > 0 && strides[i - 1] % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
    if (box[i] == 0 || box[i] > 256 || sizes[i] == 0) return CUDA_ERROR_INVALID_VALUE;
    map->sizes[i] = static_cast<std::int64_t>(sizes[i]);
    map->box[i] = box[i];
    if (i > 0) map->strides[i] = static_cast<std::int64_t>(strides[i - 1]);
  }
  return CUDA_SUCCESS;
}

enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess };
constexpr int cudaEnableDefault = 0;
inline cudaError_t cudaGetDriverEntryPointByVersion(const char*, void** function, unsigned int, int,
                                                    cudaDriverEntryPointQueryResult* found) {
  *function = reinterpret_cast<void*>(&cuTensorMapEncodeTiled);
  *found = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
