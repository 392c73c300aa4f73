#include <cuda_runtime.h>

#include <string>

#include "cuda/check.h"
#include "cuda/gated_delta/fused_sm90/geometry.h"
#include "cuda/gated_delta/fused_sm90/tensor_maps.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {
namespace {

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

/// Boxes of 64 tokens and `panels` panels.
CUtensorMap token_map(const void* base, std::int64_t tokens, std::int64_t token_stride, int heads,
                      int panels, DType dtype, const char* name) {
  constexpr int kElementBytes = 2, kPanels = kDim / kPanel;
  CUtensorMap map;
  const cuuint64_t sizes[4] = {kPanel, static_cast<cuuint64_t>(tokens), kPanels,
                               static_cast<cuuint64_t>(heads)};
  const cuuint64_t strides[3] = {static_cast<cuuint64_t>(token_stride) * kElementBytes,
                                 kPanel * kElementBytes, kDim * kElementBytes};
  const cuuint32_t box[4] = {kPanel, kChunk, static_cast<cuuint32_t>(panels), 1};
  const cuuint32_t element_strides[4] = {1, 1, 1, 1};
  const CUresult status = tensor_map_encoder()(
      &map,
      dtype == DType::bfloat16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      4, const_cast<void*>(base), sizes, strides, box, element_strides,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS)
    throw Error(ErrorKind::device_failure, std::string(name) +
                                               ": cuTensorMapEncodeTiled failed with CUresult " +
                                               std::to_string(static_cast<int>(status)));
  return map;
}

}  // namespace

TensorMaps make_tensor_maps(const GatedDeltaParams& p, std::int64_t tokens, DType token_dtype) {
  const auto value_map = [&](int panels) {
    return token_map(p.value, tokens, p.value_token_stride, p.num_value_heads, panels, token_dtype,
                     "v");
  };
  const std::int64_t output_token_stride = std::int64_t{p.num_value_heads} * kDim;
  return {
      .query =
          token_map(p.query, tokens, p.query_token_stride, p.num_key_heads, 2, token_dtype, "q"),
      .key = token_map(p.key, tokens, p.key_token_stride, p.num_key_heads, 2, token_dtype, "k"),
      .value = value_map(2),
      .value_panel = value_map(1),
      .output = token_map(p.output, tokens, output_token_stride, p.num_value_heads, 1, token_dtype,
                          "output"),
  };
}

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
