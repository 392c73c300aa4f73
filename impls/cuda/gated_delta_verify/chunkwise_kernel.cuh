// The verify phase of cuda/chunkwise: a draft as a chunk. A block has some values of a head of a sequence, a
// warp 16 or 32 of them, whose rows of the state it multiplies with all keys and queries of four tokens at a
// time by tensor cores (state_operand.cuh) while the state stays as it is. With what couples the tokens
// (draft_couplings.cuh), made while the state is under way, each lane takes the outputs of one value, token
// after token, and what the tokens would write, which is kept for commit (tile/step_records.cuh).
//
// A chunk is 4, 8 or 16 tokens. A sequence may have more of them than the plan knew: what is kept of the
// chunks before then takes the place of a state behind them, which no one makes.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "cuda/gated_delta/params.cuh"
#include "cuda/gated_delta/tile/launch.cuh"
#include "cuda/gated_delta/tile/step_records.cuh"
#include "cuda/gated_delta_verify/chunkwise_launch.h"
#include "cuda/gated_delta_verify/draft_couplings.cuh"
#include "cuda/gated_delta_verify/state_operand.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

#ifdef __CUDACC__

/// A draft of a head, by one warp, which has some of its values.
template <typename Shape, int kChunk>
class ChunkwiseDraft {
 public:
  /// Of one warp.
  struct Shared {
    DraftCouplings<Shape, kChunk> couplings;
    EarlierCouplings<Shape> earlier;
  };

  __device__ ChunkwiseDraft(const GatedDeltaParams& params, const TilePlace& place,
                            const SequenceSpan& span, const StepRecords& records, Shared& shared)
      : p_(params),
        place_(place),
        tokens_{params, place.head, place.key_head, span.first},
        length_(static_cast<int>(span.length)),
        row_(span.row),
        records_(records),
        shared_(shared),
        lane_(static_cast<int>(threadIdx.x % 32)) {
    first_value_ = place.first_value + static_cast<int>(threadIdx.x / 32) * Shape::kWarpValues;
    value_ = first_value_ + StateOperand<Shape>::own_value(lane_);
    stores_ = StateOperand<Shape>::owns_value(lane_) && value_ < params.value_head_dim;
  }

  __device__ __forceinline__ void run() {
    float from_start = 1;
#pragma unroll 1
    for (int chunk = 0; chunk < length_; chunk += kChunk) {
      const int end = min(length_, chunk + kChunk);
      // Asked for before the state: the tokens' part is made while that is under way.
      Four four = load(chunk, end);
      const RawGates raw = load_gates(chunk, end);
      // Of every chunk anew, though one has them all as a rule: so its registers are free behind its products.
      StateOperand<Shape> state;
      state.load(p_.pool, row_, place_.head, first_value_, lane_);
      const TokenGates gates = decode(raw);
      shared_.couplings.make(tokens_, chunk, end, four.column, gates, from_start);
      keep_tokens(chunk, end, gates.decay);
      float written[kChunk];  // w of the tokens, for this lane's value
      solve_fours(state, four, chunk, end, written, std::make_integer_sequence<int, kChunk / 4>{});
      __syncwarp();  // the couplings have been read
    }
  }

 private:
  /// What a lane has of four tokens: its part of a column, and its value as it lies in memory.
  struct Four {
    TokenVector<Shape> column;
    std::uint32_t value[4];
  };
  __device__ __forceinline__ Four load(int first, int end) const {
    Four four;
    four.column.load(tokens_.column(first, lane_ / 4, end), lane_ % 4);
    const __nv_bfloat16* const values =
        value_at<__nv_bfloat16>(p_, tokens_.first + first, place_.head) +
        min(value_, p_.value_head_dim - 1);
    // Where there is no such token, the last one's, which no one looks at.
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      four.value[t] =
          load_bits(values, min(t, end - 1 - first) * p_.value_token_stride, DType::bfloat16);
    }
    return four;
  }

  /// Of token `lane` of a chunk.
  struct RawGates {
    std::uint32_t gate = 0;
    std::uint32_t beta = 0;
    HeadGates of_head;
  };
  __device__ __forceinline__ RawGates load_gates(int chunk, int end) const {
    RawGates raw;
    if (lane_ >= end - chunk) return raw;
    const std::int64_t token = tokens_.first + chunk + lane_;
    raw.gate = load_number_bits(p_.gates.gate, token, place_.head);
    raw.beta = load_number_bits(p_.gates.beta, token, place_.head);
    raw.of_head = head_gates(p_.gates, place_.head, place_.head);
    return raw;
  }
  __device__ __forceinline__ TokenGates decode(const RawGates& raw) const {
    return {decode_decay(p_.gates, widen_bits(raw.gate, p_.gates.gate.type), raw.of_head),
            decode_beta(p_.gates, widen_bits(raw.beta, p_.gates.beta.type))};
  }

  /// Four after four; their numbers are constants, for what was written lies in registers.
  template <int... kFours>
  __device__ __forceinline__ void solve_fours(const StateOperand<Shape>& state, Four& four,
                                              int chunk, int end, float (&written)[kChunk],
                                              std::integer_sequence<int, kFours...>) {
    const auto solve_if_there = [&]<int i>(std::integral_constant<int, i>) {
      if (chunk + i >= end) return;
      if (i > 0) four = load(chunk + i, end);
      solve<i>(state, four, chunk, end, written);
    };
    (solve_if_there(std::integral_constant<int, 4 * kFours>{}), ...);
  }

  /// Tokens chunk + i to chunk + i + 3.
  template <int i>
  __device__ __forceinline__ void solve(const StateOperand<Shape>& state, const Four& four,
                                        int chunk, int end, float (&written)[kChunk]) {
    typename StateOperand<Shape>::Products products = {};
    state.multiply_add(four.column, products);
    float with_key[4];
    float with_query[4];
    StateOperand<Shape>::gather_row(products, lane_ % 4, with_key, with_query);
    const auto& couplings = shared_.couplings;
    float missing[4];
    float output[4];
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      const TokenFactors& factors = couplings.token[i + t];
      missing[t] = fmaf(-factors.with_key, with_key[t], widen_bits(four.value[t], DType::bfloat16));
      output[t] = factors.with_query * with_query[t];
    }
    if (chunk > 0) add_earlier(four.column, chunk, i, end, missing, output);
    const std::int64_t token = tokens_.first + chunk + i;
    const std::int64_t at = u_record(p_, token, 0, place_.head) + value_;  // of the output too
    const int token_values = p_.num_value_heads * p_.value_head_dim;
#pragma unroll
    for (int t = 0; t < 4; ++t) {
#pragma unroll
      for (int e = 0; e < i + t + 1; e += 4) {
        const float4 of_key = couplings.of_key(i + t, e);
        const float4 of_query = couplings.of_query(i + t, e);
        add(of_key.x, of_query.x, e, i + t, written, missing[t], output[t]);
        add(of_key.y, of_query.y, e + 1, i + t, written, missing[t], output[t]);
        add(of_key.z, of_query.z, e + 2, i + t, written, missing[t], output[t]);
        add(of_key.w, of_query.w, e + 3, i + t, written, missing[t], output[t]);
        if (e + 4 <= i + t) continue;
        const TokenFactors& factors = couplings.token[i + t];
        written[i + t] = factors.key * (factors.beta * missing[t]);
        const int last = (i + t) % 4;
        output[t] = fmaf(last == 0   ? of_query.x
                         : last == 1 ? of_query.y
                         : last == 2 ? of_query.z
                                     : of_query.w,
                         written[i + t], output[t]);
      }
      // What is behind the end is taken, and kept nowhere.
      if (chunk + i + t >= end || !stores_) continue;
      store_element(p_.output, at + std::int64_t{t} * token_values, p_.output_dtype, output[t]);
      records_.u[at + std::int64_t{t} * token_values] = written[i + t];
    }
  }
  /// What token e, if it is before token i, has written.
  __device__ __forceinline__ static void add(float of_key, float of_query, int e, int i,
                                             const float (&written)[kChunk], float& missing,
                                             float& output) {
    if (e >= i) return;
    missing = fmaf(-of_key, written[e], missing);
    output = fmaf(of_query, written[e], output);
  }

  /// What the chunks before have written, which is kept: each lane reads what it wrote, or what the lane did
  /// that has the same value.
  __device__ __forceinline__ void add_earlier(const TokenVector<Shape>& column, int chunk, int i,
                                              int end, float (&missing)[4],
                                              float (&output)[4]) const {
    using Earlier = EarlierCouplings<Shape>;
    VectorFactors factors = {};  // of token i + lane
    if (lane_ < 4 && chunk + i + lane_ < end) factors = shared_.couplings.normalising[i + lane_];
#pragma unroll 1
    for (int earlier = 0; earlier < chunk; earlier += Earlier::kEarlier) {
      shared_.earlier.make(tokens_, column, chunk + i, end, earlier, chunk, factors);
#pragma unroll 1
      for (int e = 0; e < Earlier::kEarlier && earlier + e < chunk; ++e) {
        const std::int64_t at = u_record(p_, tokens_.first + earlier + e, 0, place_.head) + value_;
        const float written = value_ < p_.value_head_dim ? records_.u[at] : 0.0f;
#pragma unroll
        for (int t = 0; t < 4; ++t) {
          missing[t] = fmaf(-shared_.earlier.of_key(t, e), written, missing[t]);
          output[t] = fmaf(shared_.earlier.of_query(t, e), written, output[t]);
        }
      }
    }
  }

  /// The keys as they came, once a key head, and the decays, once a value head; both by one block.
  __device__ __forceinline__ void keep_tokens(int chunk, int end, float decay) const {
    if (place_.first_value != 0) return;
    const int thread = static_cast<int>(threadIdx.x);
    const int count = end - chunk;
    if (thread < count) {  // the lane's token
      records_.decay[decay_record(p_, tokens_.first + chunk + thread, place_.head)] = decay;
    }
    if (place_.head != place_.key_head * p_.value_heads_per_key_head) return;
    constexpr int kWords = Shape::kKeyDim / 8;
    auto* const kept = static_cast<__nv_bfloat16*>(records_.key);
    for (int at = thread; at < count * kWords; at += Shape::kThreads) {
      const int token = chunk + at / kWords;
      const int element = at % kWords * 8;
      const std::int64_t record = key_record(p_, tokens_.first + token, 0, place_.key_head);
      *reinterpret_cast<uint4*>(kept + record + element) =
          *reinterpret_cast<const uint4*>(tokens_.key(token) + element);
    }
  }

  const GatedDeltaParams& p_;
  const TilePlace& place_;
  DraftTokens tokens_;
  int length_;        ///< of a sequence: fewer than 2^31
  std::int64_t row_;  ///< of the pool
  const StepRecords& records_;
  Shared& shared_;
  int lane_;
  int first_value_;  ///< of the warp
  int value_;        ///< head dim index of the value whose row the lane takes
  bool stores_;      ///< is the first that does, and it is in the head
};

template <typename Shape, int kChunk>
__global__ void __launch_bounds__(Shape::kThreads, Shape::blocks(kChunk))
    chunkwise_draft_kernel(const GatedDeltaParams p, const ChunkwiseOptions options) {
  using Draft = ChunkwiseDraft<Shape, kChunk>;
  __shared__ typename Draft::Shared shared[Shape::kWarps];
  const TilePlace place = options.grid.place(Shape::kBlockValues);
  const SequenceSpan span = sequence_span(p, place.sequence);
  if (span.length == 0) return;
  if (span.is_padding()) {
    store_zero_outputs(p, span, place.head, place.first_value,
                       min(place.first_value + Shape::kBlockValues, p.value_head_dim),
                       static_cast<int>(threadIdx.x), Shape::kThreads);
    return;
  }
  Draft(p, place, span, options.kept, shared[threadIdx.x / 32]).run();
}

/// The kernel of a state of this type, by layout, Dk and the longest draft that is planned.
template <typename State>
ChunkwiseKernel chunkwise_kernel_of(const Problem& problem) {
  const auto with_chunk = [&](auto shape) -> ChunkwiseKernel {
    using Shape = decltype(shape);
    const std::int64_t longest = problem.sequences.longest();
    const auto kernel = longest <= 4   ? chunkwise_draft_kernel<Shape, 4>
                        : longest <= 8 ? chunkwise_draft_kernel<Shape, 8>
                                       : chunkwise_draft_kernel<Shape, 16>;
    return {kernel, longest <= 4 ? 4 : longest <= 8 ? 8 : 16, Shape::kBlockValues, Shape::kThreads};
  };
  const auto with_dim = [&]<int... kDims>(auto layout, std::integer_sequence<int, kDims...>) {
    ChunkwiseKernel kernel;
    ((problem.key_head_dim == kDims
          ? void(kernel = with_chunk(OperandShape<State, decltype(layout)::value, kDims>{}))
          : void()),
     ...);
    return kernel;
  };
  return problem.state_layout == StateLayout::kv
             ? with_dim(std::integral_constant<StateLayout, StateLayout::kv>{}, TileKeyDims{})
             : with_dim(std::integral_constant<StateLayout, StateLayout::vk>{}, TileKeyDims{});
}

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
