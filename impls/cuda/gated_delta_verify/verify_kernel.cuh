// The verify phase of the forms that keep what they need in TileRecurrence::run_keeping(): drafts run as in
// cuda/decode of gated_delta, of whose tiles and arithmetic it is made, and the pool stays as it is.
#pragma once

#include <type_traits>

#include "cuda/gated_delta/params.cuh"
#include "cuda/gated_delta/tile/launch.cuh"
#include "cuda/gated_delta/tile/recurrence.cuh"
#include "cuda/gated_delta/tile/step_records.cuh"
#include "cuda/target.h"
#include "interface/dtype.h"

namespace gdn::GDN_CUDA_TARGET {

/// What the kernel takes beside the problem.
template <typename Kept>
struct VerifyOptions {
  DType token_dtype;
  TileGrid grid;
  Kept kept;  ///< StepRecords or TokenStates
};

#ifdef __CUDACC__

/// Registers that a thread is given beside those that TileShape::blocks() counts. Where records are kept it
/// is so few that a tile of 64 elements leaves room for one block more, at the price of a few spills:
/// records.cu has what that gains.
template <typename Shape, typename Kept>
constexpr int other_registers() {
  if (!std::is_same_v<Kept, StepRecords>) return 16;
  return Shape::kByKeys ? 4 : 10;
}

template <typename Shape, typename Kept>
__global__ void __launch_bounds__(Shape::kThreads, Shape::blocks(other_registers<Shape, Kept>()))
    verify_kernel(const GatedDeltaParams p, const VerifyOptions<Kept> options) {
  using Recurrence = TileRecurrence<Shape>;
  __shared__ typename Recurrence::Shared shared;
  __shared__ typename Recurrence::Staged staged;
  const int thread = static_cast<int>(threadIdx.x);
  const TilePlace place = options.grid.place(Shape::kBlockValues);

  const SequenceSpan span = sequence_span(p, place.sequence);
  if (span.length == 0) return;
  if (span.is_padding()) {
    store_zero_outputs(p, span, place.head, place.first_value,
                       min(place.first_value + Shape::kBlockValues, p.value_head_dim), thread,
                       Shape::kThreads);
    return;
  }
  typename Recurrence::Tile tile(thread, place.first_value, p.value_head_dim);
  tile.load(p.pool, span.row, place.head, false);
  Recurrence(p, options.token_dtype, place, shared, tile)
      .run_keeping(span.first, span.length, options.kept, staged);
}

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
