// cuda/recurrent of gated_delta_ring: the records of the ring are done to a tile of the state in registers, one after
// the other, as a commit does them (tile/replay.cuh), and then the tokens, as in cuda/records of gated_delta_verify,
// of whose tiles and arithmetic it is made. It takes what cuda/chunkwise does not: tokens of float32 and float16,
// states of float16, and calls of more than 16 tokens.
//
// Bound by: instructions, as the tokens of cuda/records are, and more so the more records there are. It was not timed.
#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/element.cuh"
#include "cuda/gated_delta/params.cuh"
#include "cuda/gated_delta/tile/launch.cuh"
#include "cuda/gated_delta/tile/recurrence.cuh"
#include "cuda/gated_delta/tile/replay.cuh"
#include "cuda/gated_delta_ring/launch_step.cuh"
#include "cuda/gated_delta_ring/steps.h"
#include "cuda/target.h"
#include "interface/operations/gated_delta_ring.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

/// The records of a sequence in its ring, as replay_steps() and run_keeping() take them: token `origin` is the oldest
/// record. There is one step a token.
template <typename Update>
struct RowOfRing {
  char* key;
  Update* update;
  float* decay;
  DType key_dtype;
  std::int64_t origin;
  int first;
  int places;

  __device__ __forceinline__ int place(std::int64_t token) const {
    const int at = first + static_cast<int>(token - origin);
    return at < places ? at : at - places;
  }
  __device__ __forceinline__ std::int64_t key_at(const GatedDeltaParams& p, std::int64_t token,
                                                 int /*step*/, int key_head) const {
    return (std::int64_t{place(token)} * p.num_key_heads + key_head) * p.key_head_dim;
  }
  __device__ __forceinline__ std::int64_t u_at(const GatedDeltaParams& p, std::int64_t token,
                                               int /*step*/, int value_head) const {
    return (std::int64_t{place(token)} * p.num_value_heads + value_head) * p.value_head_dim;
  }
  __device__ __forceinline__ std::int64_t decay_at(const GatedDeltaParams& p, std::int64_t token,
                                                   int value_head) const {
    return std::int64_t{place(token)} * p.num_value_heads + value_head;
  }
  __device__ __forceinline__ float load_u(std::int64_t at) const { return to_float(update[at]); }
  __device__ __forceinline__ void store_u(const GatedDeltaParams& p, std::int64_t token,
                                          int value_head, int value, std::int64_t /*step_at*/,
                                          float x) const {
    update[u_at(p, token, 0, value_head) + value] = from_float<Update>(x);
  }
};

struct RecurrentOptions {
  RingOptions of_call;
  DType token_dtype;
};

constexpr int kOtherRegisters = 32;  ///< of a thread, beside those that TileShape::blocks() counts

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::blocks(kOtherRegisters))
    recurrent_ring_kernel(const GatedDeltaParams p, const RecurrentOptions options) {
  using Update = std::conditional_t<std::is_same_v<typename Shape::State, __nv_bfloat16>,
                                    __nv_bfloat16, float>;
  using Recurrence = TileRecurrence<Shape>;
  const TilePlace place = options.of_call.grid.place(Shape::kBlockValues);
  const RingParams& ring = options.of_call.ring;
  const SequenceSpan span = sequence_span(p, place.sequence);
  if (span.length == 0) return;
  if (span.is_padding()) {
    store_zero_outputs(p, span, place.head, place.first_value,
                       min(place.first_value + Shape::kBlockValues, p.value_head_dim),
                       static_cast<int>(threadIdx.x), Shape::kThreads);
    return;
  }
  __shared__ typename Recurrence::Shared shared;
  union Staged {
    StagedRecords<Shape> records;
    typename Recurrence::Staged tokens;
    __device__ Staged() {}
  };
  __shared__ Staged staged;
  StateTile<Shape> tile(static_cast<int>(threadIdx.x), place.first_value, p.value_head_dim);
  tile.load(p.pool, span.row, place.head, false);
  const std::int64_t length = ring.length[place.sequence];
  const RowOfRing<Update> records = {
      static_cast<char*>(ring.key) +
          span.row * ring.key_row_stride * static_cast<std::int64_t>(size_of(options.token_dtype)),
      static_cast<Update*>(ring.update) + span.row * ring.update_row_stride,
      ring.decay + span.row * ring.decay_row_stride,
      options.token_dtype,
      span.first - length,
      static_cast<int>(ring.first[place.sequence]),
      ring.places};
  if (length > 0) {
    replay_steps(p, records, place, span.first - length, length, staged.records, tile);
    __syncthreads();  // the records have been read
  } else {
    tile.unpack();
  }
  if (ring_folds(p.pool, ring, place.sequence)) tile.store(p.pool, span.row, place.head);
  Recurrence(p, options.token_dtype, place, shared, tile)
      .template run_keeping<true>(span.first, span.length, records, staged.tokens);
}

// ---- host

const char* const kRecurrentName = "cuda/recurrent";

struct RecurrentRingKernel {
  void (*kernel)(GatedDeltaParams, RecurrentOptions) = nullptr;
  int block_values = 0;
  int threads = 0;
};

RingLaunch launch_steps(const Problem& problem, const GatedDeltaParams& params,
                        const RingParams& ring) {
  const auto kernel =
      with_tile_case<RecurrentRingKernel>(problem, [](auto tile_case) -> RecurrentRingKernel {
        using Drafts = typename decltype(tile_case)::DraftShape;
        return {recurrent_ring_kernel<Drafts>, Drafts::kBlockValues, Drafts::kThreads};
      });
  const RecurrentOptions options = {
      {tile_grid(problem, kernel.block_values), kernel.block_values, ring}, problem.token_dtype};
  const unsigned int blocks =
      grid_blocks(tile_blocks(problem, kernel.block_values), kRecurrentName);
  const auto step = [=](cudaStream_t stream) {
    launch_kernel(kernel.kernel, blocks, static_cast<unsigned int>(kernel.threads), 0, stream,
                  params, options);
  };
  return {step, kernel.block_values, kernel.threads};
}

}  // namespace

const Implementation& gated_delta_ring_recurrent() {
  static const RingImplementation implementation(
      {.name = kRecurrentName,
       .form = "recurrent",
       .summary = "the ring's records, then the tokens, done to a tile of the state in registers; "
                  "bound by instructions",
       .rank = 20,
       .supports = supports_rings,
       .examples =
           {"gated_delta_ring:heads=2/4,dim=128,seq=4+3+1,h0=normal,dtype=f32",
            "gated_delta_ring:heads=2/4,dim=128,seq=4+3,h0=normal,dtype=bf16,state=bf16,layout=vk",
            "gated_delta_ring:heads=1/3,dim=96x80,seq=7+1+0+4+5,h0=normal,dtype=f16,state=f16,"
            "layout=vk,slots=permuted,gate=logits,norm=1",
            "gated_delta_ring:heads=1/2,dim=192x136,seq=2+1+19,h0=normal,dtype=bf16,ring=32,"
            "slots=padding,pool_pad=16,norm=1,gate=logits,beta=logit",
            "gated_delta_ring:heads=1/2,dim=256x72,seq=2+5,h0=normal,dtype=f32,state=f16,norm=1"},
       .launch = launch_steps});
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
