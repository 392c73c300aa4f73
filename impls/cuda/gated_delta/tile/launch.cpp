#include "cuda/gated_delta/tile/launch.cuh"

#include <string>

#include "cuda/gated_delta/arguments.cuh"
#include "cuda/require.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

template <int... kDims>
bool is_among(std::int64_t dim, std::integer_sequence<int, kDims...>) {
  return ((dim == kDims) || ...);
}
template <int... kDims>
std::string in_words(std::integer_sequence<int, kDims...>) {
  std::string words;
  ((words += (words.empty() ? "" : ", ") + std::to_string(kDims)), ...);
  return words;
}

}  // namespace

Support supports_tiles(const Problem& problem) {
  if (!is_among(problem.key_head_dim, TileKeyDims{})) {
    return Support::no("Dk=" + std::to_string(problem.key_head_dim) + ": compiled for " +
                       in_words(TileKeyDims{}));
  }
  if (problem.value_head_dim % 8 != 0) {
    return Support::no("Dv=" + std::to_string(problem.value_head_dim) + ": a multiple of 8");
  }
  const auto words = static_cast<std::int64_t>(16 / size_of(problem.state_dtype));
  if (problem.state_row_stride() % words != 0) {
    return Support::no("pool rows are not whole 16-byte words");
  }
  return Support::yes();
}

bool outgrows_l2(const Problem& problem) {
  constexpr std::int64_t kL2Bytes = std::int64_t{100} << 20;
  const std::int64_t state_bytes = problem.num_value_heads * problem.key_head_dim *
                                   problem.value_head_dim *
                                   static_cast<std::int64_t>(size_of(problem.state_dtype));
  return problem.num_sequences() * state_bytes > kL2Bytes;
}

Alignment tile_alignment() {
  Alignment alignment = token_alignment();
  alignment.operands.emplace_back("initial_state");
  return alignment;
}

void require_tile_alignment(const GatedDeltaParams& params, const Problem& problem) {
  require_token_alignment(params, problem.token_dtype, 16);
  if (params.pool.read || params.pool.write)
    require_pointer(params.pool.data, 16, "the state pool");
}

}  // namespace gdn::GDN_CUDA_TARGET
