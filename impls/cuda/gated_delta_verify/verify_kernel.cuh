// The verify phase of the forms that keep what they need in TileRecurrence::run_keeping(): drafts run as in
// cuda/decode of gated_delta, of whose tiles and arithmetic it is made, and the pool stays as it is.
#pragma once

#include "cuda/gated_delta/params.cuh"
#include "cuda/gated_delta/tile/launch.cuh"
#include "cuda/gated_delta/tile/recurrence.cuh"
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

template <typename Case, typename Kept>
__global__ void __launch_bounds__(Case::Shape::kThreads, Case::Shape::blocks(16))
    verify_kernel(const GatedDeltaParams p, const VerifyOptions<Kept> options) {
  using Recurrence = TileRecurrence<typename Case::State, Case::kLayout, Case::kKeyDim>;
  __shared__ typename Recurrence::Shared shared;
  __shared__ typename Recurrence::Staged staged;
  const int thread = static_cast<int>(threadIdx.x);
  const TilePlace place = options.grid.place(Case::Shape::kBlockValues);

  const SequenceSpan span = sequence_span(p, place.sequence);
  if (span.length == 0) return;
  if (span.is_padding()) {
    store_zero_outputs(p, span, place.head, place.first_value,
                       min(place.first_value + Case::Shape::kBlockValues, p.value_head_dim), thread,
                       Case::Shape::kThreads);
    return;
  }
  typename Recurrence::Tile tile(thread, place.first_value, p.value_head_dim);
  tile.load(p.pool, span.row, place.head, false);
  Recurrence(p, options.token_dtype, place, shared, tile)
      .run_keeping(span.first, span.length, options.kept, staged);
}

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
