// The verify phase of cuda/chunkwise: a draft as a chunk. A warp has some values of a head of a sequence, whose rows of
// the state, 16 or 32 at a time, it multiplies with all keys and queries of four tokens at a time by tensor cores
// (state_operand.cuh) while the state stays as it is. The next rows are asked for as soon as these are multiplied.
// With what couples the tokens (draft_couplings.cuh), made while the first rows are under way, each lane takes the
// outputs of one value, token after token, and what the tokens would write, which is kept for commit
// (tile/step_records.cuh).
//
// A chunk is 4, 8 or 16 tokens. A sequence may have more of them than the plan knew: what is kept of the
// chunks before then takes the place of a state behind them, which no one makes.
#pragma once

#include <algorithm>
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

/// The records of a head of a sequence as a plan keeps them for commit: by token of the sequence.
class KeptRecords {
 public:
  __device__ KeptRecords(const GatedDeltaParams& params, const StepRecords& records,
                         const TilePlace& place, std::int64_t first)
      : p_(params), records_(records), place_(place), first_(first) {}

  /// `output_at`: of the same token and value in the output.
  __device__ __forceinline__ void store_update(std::int64_t output_at, int /*token*/, int /*value*/,
                                               float update) const {
    records_.u[output_at] = update;
  }
  __device__ __forceinline__ float load_update(int token, int value) const {
    return records_.u[u_record(p_, first_ + token, 0, place_.head) + value];
  }
  __device__ __forceinline__ void store_decay(int token, float decay) const {
    records_.decay[decay_record(p_, first_ + token, place_.head)] = decay;
  }
  __device__ __forceinline__ __nv_bfloat16* key(int token) const {
    return static_cast<__nv_bfloat16*>(records_.key) +
           key_record(p_, first_ + token, 0, place_.key_head);
  }

  // No records of earlier calls stand between the state and the tokens.
  struct Updates {};
  struct WithColumns {};
  __device__ __forceinline__ Updates load_updates(int /*first_value*/, int /*lane*/) const {
    return {};
  }
  template <typename Vector>
  __device__ __forceinline__ WithColumns products_with(const Vector&, int /*lane*/) const {
    return {};
  }
  template <typename... Any>
  __device__ __forceinline__ void add_to_products(const Any&...) const {}
  static constexpr bool kMayFold = false;

 private:
  const GatedDeltaParams& p_;
  const StepRecords& records_;
  const TilePlace& place_;
  std::int64_t first_;  ///< token of the sequence, counted over all
};

/// A draft of a head, by one warp of a block, for some of the block's values: `Shape::kWarpValues` at a time, the warps
/// in turns. `Records`: KeptRecords, or what has its functions.
template <typename Shape, int kChunk, int kWarps, typename Records>
class ChunkwiseDraft {
 public:
  struct Shared {
    DraftCouplings<Shape, kChunk> couplings;
    EarlierCouplings<Shape> earlier;
    /// Of the first four tokens, by lane: their part of the columns, and what these have to do with the records of
    /// earlier calls. No registers hold them while rows of the state are under way.
    TokenVector<Shape> column[32];
    typename Records::WithColumns with_columns[32];
  };

  /// `end_value`: behind the last one of the block, at most Dv.
  __device__ ChunkwiseDraft(const GatedDeltaParams& params, const TilePlace& place, int end_value,
                            const SequenceSpan& span, const Records& records, Shared& shared)
      : p_(params),
        place_(place),
        end_value_(end_value),
        tokens_{params, place.head, place.key_head, span.first},
        length_(static_cast<int>(span.length)),
        row_(span.row),
        records_(records),
        shared_(shared),
        lane_(static_cast<int>(threadIdx.x % 32)) {}

  __device__ __forceinline__ void run() {
    float from_start = 1;
#pragma unroll 1
    for (int chunk = 0; chunk < length_; chunk += kChunk) {
      const int end = min(length_, chunk + kChunk);
      // Asked for before the state: the tokens' part is made while that is under way.
      const TokenVector<Shape> first_four = load_column(chunk, end);
      const RawGates raw = load_gates(chunk, end);
      // Of every chunk anew, though one has them all as a rule: so its registers are free behind its products.
      Segment segment;
      load(first_value(), chunk, end, segment);
      const TokenGates gates = decode(raw);
      shared_.couplings.make(tokens_, chunk, end, first_four, gates, from_start);
      keep_tokens(chunk, end, gates.decay);
      shared_.column[lane_] = first_four;
      shared_.with_columns[lane_] = records_.products_with(first_four, lane_);
#pragma unroll 1
      while (true) {
        float written[kChunk];  // w of the tokens, for this lane's value
        const int next = segment.first_value + kStride;
        solve_fours(segment, chunk, end, written, std::make_integer_sequence<int, kChunk / 4>{});
        if (next >= end_value_) break;
      }
      __syncwarp();  // the couplings have been read
    }
    if constexpr (Records::kMayFold) {
      // Last of all: no registers are left for it while the tokens are taken.
      if (!records_.folds()) return;
#pragma unroll 1
      for (int value = first_value(); value < end_value_; value += kStride) {
        records_.fold(p_.pool, row_, place_.head, value, lane_);
      }
    }
  }

 private:
  static constexpr int kStride =
      kWarps * Shape::kWarpValues;  ///< from a warp's values to its next ones
  __device__ __forceinline__ int first_value() const {
    return place_.first_value + static_cast<int>(threadIdx.x / 32) * Shape::kWarpValues;
  }

  /// What a lane has of a warp's values: their rows of the state, of each of four tokens one value as it lies in
  /// memory, and what records of earlier calls there are.
  struct Segment {
    int first_value;
    StateOperand<Shape> state;
    std::uint32_t value[4];
    typename Records::Updates updates;
  };
  __device__ __forceinline__ void load(int first_value, int chunk, int end,
                                       Segment& segment) const {
    segment.first_value = first_value;
    segment.state.load(p_.pool, row_, place_.head, first_value, lane_);
    load_values(first_value, chunk, end, segment.value);
    segment.updates = records_.load_updates(first_value, lane_);
  }
  /// The lane's value, whose row it takes.
  __device__ __forceinline__ int own_value(int first_value) const {
    return first_value + StateOperand<Shape>::own_value(lane_);
  }
  /// Of the four tokens from `first` on; where there is no such token, the last one's, which no one looks at.
  __device__ __forceinline__ void load_values(int first_value, int first, int end,
                                              std::uint32_t (&value)[4]) const {
    const __nv_bfloat16* const values =
        value_at<__nv_bfloat16>(p_, tokens_.first + first, place_.head) +
        min(own_value(first_value), p_.value_head_dim - 1);
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      value[t] =
          load_bits(values, min(t, end - 1 - first) * p_.value_token_stride, DType::bfloat16);
    }
  }
  /// The lane's part of a column of the four tokens from `first` on.
  __device__ __forceinline__ TokenVector<Shape> load_column(int first, int end) const {
    TokenVector<Shape> column;
    column.load(tokens_.column(first, lane_ / 4, end), lane_ % 4);
    return column;
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

  /// Four after four; their numbers are constants, for what was written lies in registers. `segment` becomes the next
  /// one, which is asked for as soon as its registers are free.
  template <int... kFours>
  __device__ __forceinline__ void solve_fours(Segment& segment, int chunk, int end,
                                              float (&written)[kChunk],
                                              std::integer_sequence<int, kFours...>) {
    const auto solve_if_there = [&]<int i>(std::integral_constant<int, i>) {
      if (chunk + i >= end) return;
      if constexpr (i == 0) {
        solve<i>(segment, shared_.column[lane_], shared_.with_columns[lane_], chunk, end, written);
      } else {
        const TokenVector<Shape> column = load_column(chunk + i, end);
        load_values(segment.first_value, chunk + i, end, segment.value);
        solve<i>(segment, column, records_.products_with(column, lane_), chunk, end, written);
      }
    };
    (solve_if_there(std::integral_constant<int, 4 * kFours>{}), ...);
  }

  /// Tokens chunk + i to chunk + i + 3.
  template <int i>
  __device__ __forceinline__ void solve(Segment& segment, const TokenVector<Shape>& column,
                                        const typename Records::WithColumns& with_columns,
                                        int chunk, int end, float (&written)[kChunk]) {
    const int first_value = segment.first_value;
    const int value = own_value(first_value);
    typename StateOperand<Shape>::Products products = {};
    segment.state.multiply_add(column, products);
    records_.add_to_products(with_columns, segment.updates, column, first_value, lane_, products);
    std::uint32_t value_bits[4];
#pragma unroll
    for (int t = 0; t < 4; ++t) value_bits[t] = segment.value[t];
    if (chunk + i + 4 >= end) {
      const int next = first_value + kStride;
      if (next < end_value_) load(next, chunk, end, segment);
    }
    float with_key[4];
    float with_query[4];
    StateOperand<Shape>::gather_row(products, lane_ % 4, with_key, with_query);
    const auto& couplings = shared_.couplings;
    float missing[4];
    float output[4];
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      const TokenFactors& factors = couplings.token[i + t];
      missing[t] = fmaf(-factors.with_key, with_key[t], widen_bits(value_bits[t], DType::bfloat16));
      output[t] = factors.with_query * with_query[t];
    }
    if (chunk > 0) add_earlier(column, value, chunk, i, end, missing, output);
    const std::int64_t token = tokens_.first + chunk + i;
    const std::int64_t at = u_record(p_, token, 0, place_.head) + value;  // of the output too
    const int token_values = p_.num_value_heads * p_.value_head_dim;
    const bool stores = StateOperand<Shape>::owns_value(lane_) && value < p_.value_head_dim;
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
      if (chunk + i + t >= end || !stores) continue;
      store_element(p_.output, at + std::int64_t{t} * token_values, p_.output_dtype, output[t]);
      records_.store_update(at + std::int64_t{t} * token_values, chunk + i + t, value,
                            written[i + t]);
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
  __device__ __forceinline__ void add_earlier(const TokenVector<Shape>& column, int value,
                                              int chunk, int i, int end, float (&missing)[4],
                                              float (&output)[4]) const {
    using Earlier = EarlierCouplings<Shape>;
    VectorFactors factors = {};  // of token i + lane
    if (lane_ < 4 && chunk + i + lane_ < end) factors = shared_.couplings.normalising[i + lane_];
#pragma unroll 1
    for (int earlier = 0; earlier < chunk; earlier += Earlier::kEarlier) {
      shared_.earlier.make(tokens_, column, chunk + i, end, earlier, chunk, factors);
#pragma unroll 1
      for (int e = 0; e < Earlier::kEarlier && earlier + e < chunk; ++e) {
        const float written =
            value < p_.value_head_dim ? records_.load_update(earlier + e, value) : 0.0f;
#pragma unroll
        for (int t = 0; t < 4; ++t) {
          missing[t] = fmaf(-shared_.earlier.of_key(t, e), written, missing[t]);
          output[t] = fmaf(shared_.earlier.of_query(t, e), written, output[t]);
        }
      }
    }
  }

  /// The keys as they came, once a key head, and the decays, once a value head; both by one warp.
  __device__ __forceinline__ void keep_tokens(int chunk, int end, float decay) const {
    if (place_.first_value != 0 || threadIdx.x >= 32) return;
    const int count = end - chunk;
    if (lane_ < count) records_.store_decay(chunk + lane_, decay);  // the lane's token
    if (place_.head != place_.key_head * p_.value_heads_per_key_head) return;
    constexpr int kWords = Shape::kKeyDim / 8;
    for (int at = lane_; at < count * kWords; at += 32) {
      const int token = chunk + at / kWords;
      const int element = at % kWords * 8;
      *reinterpret_cast<uint4*>(records_.key(token) + element) =
          *reinterpret_cast<const uint4*>(tokens_.key(token) + element);
    }
  }

  const GatedDeltaParams& p_;
  const TilePlace& place_;
  int end_value_;
  DraftTokens tokens_;
  int length_;        ///< of a sequence: fewer than 2^31
  std::int64_t row_;  ///< of the pool
  const Records& records_;
  Shared& shared_;
  int lane_;
};

/// A block's part of a batch: some of the values of a head of a sequence. `records_of(span)` makes the records of that
/// head.
template <typename Shape, int kChunk, int kWarps, typename Records, typename RecordsOf>
__device__ __forceinline__ void run_chunkwise_drafts(const GatedDeltaParams& p,
                                                     const TilePlace& place, int block_values,
                                                     const RecordsOf& records_of) {
  using Draft = ChunkwiseDraft<Shape, kChunk, kWarps, Records>;
  __shared__ typename Draft::Shared shared[kWarps];
  const SequenceSpan span = sequence_span(p, place.sequence);
  if (span.length == 0) return;
  const int end_value = min(place.first_value + block_values, p.value_head_dim);
  if (span.is_padding()) {
    store_zero_outputs(p, span, place.head, place.first_value, end_value,
                       static_cast<int>(threadIdx.x), 32 * kWarps);
    return;
  }
  const Records records = records_of(span);
  Draft(p, place, end_value, span, records, shared[threadIdx.x / 32]).run();
}

/// Of a block. By keys a warp's values of a key are half a line of the cache, and four warps side by side were faster
/// than two of which each takes the head's values in two turns, but where that spares the couplings of more tokens.
template <typename Shape, int kChunk>
constexpr int kDraftWarps = !Shape::kByKeys ? 1
                            : kChunk <= 4   ? 4
                                            : 2;

template <typename Shape, int kChunk>
__global__ void __launch_bounds__(32 * kDraftWarps<Shape, kChunk>,
                                  Shape::warps(kChunk) / kDraftWarps<Shape, kChunk>)
    chunkwise_draft_kernel(const GatedDeltaParams p, const ChunkwiseOptions options) {
  const TilePlace place = options.grid.place(options.block_values);
  run_chunkwise_drafts<Shape, kChunk, kDraftWarps<Shape, kChunk>, KeptRecords>(
      p, place, options.block_values,
      [&](const SequenceSpan& span) { return KeptRecords(p, options.kept, place, span.first); });
}

/// How often a warp of a block takes values of its head in turn: what it makes of the tokens serves them all. Once
/// where there are too few heads for so few warps.
inline int turns_of_warps(const Problem& problem, int chunk) {
  const std::int64_t heads = problem.num_sequences() * problem.num_value_heads;
  return heads < 256 ? 1 : heads < 2048 || chunk <= 4 ? 2 : 4;
}
/// Values of a block of so many warps, none of which is for values behind the head.
template <typename Shape>
int values_of_block(const Problem& problem, int warps, int chunk) {
  const int at_once = warps * Shape::kWarpValues;
  const auto in_head = static_cast<int>((problem.value_head_dim + at_once - 1) / at_once);
  return at_once * std::min(turns_of_warps(problem, chunk), in_head);
}

/// The kernel of a state of this type, by layout, Dk and the longest draft that is planned.
template <typename State>
ChunkwiseKernel chunkwise_kernel_of(const Problem& problem) {
  const auto with_chunk = [&]<int kChunk>(auto shape, std::integral_constant<int, kChunk>) {
    using Shape = decltype(shape);
    constexpr int kWarps = kDraftWarps<Shape, kChunk>;
    return ChunkwiseKernel{chunkwise_draft_kernel<Shape, kChunk>, kChunk,
                           values_of_block<Shape>(problem, kWarps, kChunk), 32 * kWarps};
  };
  const auto with_shape = [&](auto shape) {
    const std::int64_t longest = problem.sequences.longest();
    return longest <= 4   ? with_chunk(shape, std::integral_constant<int, 4>{})
           : longest <= 8 ? with_chunk(shape, std::integral_constant<int, 8>{})
                          : with_chunk(shape, std::integral_constant<int, 16>{});
  };
  const auto with_dim = [&]<int... kDims>(auto layout, std::integer_sequence<int, kDims...>) {
    ChunkwiseKernel kernel;
    ((problem.key_head_dim == kDims
          ? void(kernel = with_shape(OperandShape<State, decltype(layout)::value, kDims>{}))
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
