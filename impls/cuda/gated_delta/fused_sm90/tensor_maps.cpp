#include "cuda/gated_delta/fused_sm90/tensor_maps.h"

#include "cuda/hopper/tensor_map.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {
namespace {

/// An array [tokens, steps, heads, dim].
struct TokenArray {
  const void* base;
  std::int64_t tokens, token_stride;
  int steps, heads, dim;
  DType dtype;
  const char* name;
};

/// Its map, in boxes of `panels` panels. Where rows are no whole number of panels a panel is 64 columns from any one on
/// (chunk_sm90/key_tile.cuh).
CUtensorMap token_map(const TokenArray& a, const TokenRows& rows, int panels) {
  const bool whole = a.dim % kPanel == 0;
  return hopper::make_tensor_map(a.base, a.dtype,
                                 {{whole ? kPanel : a.dim, 1, kPanel},
                                  {a.steps, std::int64_t{a.heads} * a.dim, 1 << rows.log2},
                                  {a.tokens, a.token_stride, kChunk >> rows.log2},
                                  {whole ? a.dim / kPanel : 1, kPanel, whole ? panels : 1},
                                  {a.heads, a.dim, 1}},
                                 a.name);
}

}  // namespace

TensorMaps make_tensor_maps(const GatedDeltaParams& p, const TokenRows& rows, std::int64_t tokens,
                            DType token_dtype) {
  constexpr int kKeyPanels = kKeyDim / kPanel, kValuePanels = kValueDim / kPanel;
  const auto array = [&](const void* base, std::int64_t token_stride, int steps, int heads, int dim,
                         const char* name) {
    return TokenArray{base, tokens, token_stride, steps, heads, dim, token_dtype, name};
  };
  const auto of_keys = [&](const void* base, std::int64_t token_stride, int steps,
                           const char* name) {
    return array(base, token_stride, steps, p.num_key_heads, p.key_head_dim, name);
  };
  const auto of_values = [&](const void* base, std::int64_t token_stride, int steps,
                             const char* name) {
    return array(base, token_stride, steps, p.num_value_heads, p.value_head_dim, name);
  };
  const TokenArray query = of_keys(p.query, p.query_token_stride, 1, "q"),
                   key = of_keys(p.key, p.key_token_stride, p.steps, "k"),
                   value = of_values(p.value, p.value_token_stride, p.steps, "v"),
                   output = of_values(p.output, std::int64_t{p.num_value_heads} * p.value_head_dim,
                                      1, "output");
  return {
      .query = token_map(query, rows, kKeyPanels),
      .key = token_map(key, rows, kKeyPanels),
      .value = token_map(value, rows, kValuePanels),
      .value_panel = token_map(value, rows, 1),
      .output = token_map(output, rows, 1),
  };
}

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
