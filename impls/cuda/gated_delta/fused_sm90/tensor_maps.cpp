#include "cuda/gated_delta/fused_sm90/tensor_maps.h"

#include "cuda/gated_delta/fused_sm90/geometry.h"
#include "cuda/hopper/tensor_map.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {
namespace {

/// Of an array [tokens, heads, dim], in boxes of 64 tokens and `panels` panels.
CUtensorMap token_map(const void* base, std::int64_t tokens, std::int64_t token_stride, int heads,
                      int dim, int panels, DType dtype, const char* name) {
  return hopper::make_tensor_map(base, dtype,
                                 {{kPanel, 1, kPanel},
                                  {tokens, token_stride, kChunk},
                                  {dim / kPanel, kPanel, panels},
                                  {heads, dim, 1}},
                                 name);
}

}  // namespace

TensorMaps make_tensor_maps(const GatedDeltaParams& p, std::int64_t tokens, DType token_dtype) {
  constexpr int kKeyPanels = kKeyDim / kPanel, kValuePanels = kValueDim / kPanel;
  const auto value_map = [&](int panels) {
    return token_map(p.value, tokens, p.value_token_stride, p.num_value_heads, kValueDim, panels,
                     token_dtype, "v");
  };
  const std::int64_t output_token_stride = std::int64_t{p.num_value_heads} * kValueDim;
  return {
      .query = token_map(p.query, tokens, p.query_token_stride, p.num_key_heads, kKeyDim,
                         kKeyPanels, token_dtype, "q"),
      .key = token_map(p.key, tokens, p.key_token_stride, p.num_key_heads, kKeyDim, kKeyPanels,
                       token_dtype, "k"),
      .value = value_map(kValuePanels),
      .value_panel = value_map(1),
      .output = token_map(p.output, tokens, output_token_stride, p.num_value_heads, kValueDim, 1,
                          token_dtype, "output"),
  };
}

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
