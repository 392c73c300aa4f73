#include "cuda/gated_delta/fused_sm90/tensor_maps.h"

#include "cuda/gated_delta/chunk_sm90/key_tile_map.h"
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
  constexpr int kValuePanels = kValueDim / kPanel;
  const auto key_map = [&](const void* base, std::int64_t token_stride, const char* name) {
    return key_tile_map(base, tokens, token_stride, p.num_key_heads, p.key_head_dim, token_dtype,
                        name);
  };
  const auto value_map = [&](int panels) {
    return token_map(p.value, tokens, p.value_token_stride, p.num_value_heads, p.value_head_dim,
                     panels, token_dtype, "v");
  };
  const std::int64_t output_token_stride = std::int64_t{p.num_value_heads} * p.value_head_dim;
  return {
      .query = key_map(p.query, p.query_token_stride, "q"),
      .key = key_map(p.key, p.key_token_stride, "k"),
      .value = value_map(kValuePanels),
      .value_panel = value_map(1),
      .output = token_map(p.output, tokens, output_token_stride, p.num_value_heads,
                          p.value_head_dim, 1, token_dtype, "output"),
  };
}

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
