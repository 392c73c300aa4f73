// cuda/recurrent_staged: the token recurrence with 8 or 16 lanes per group of four state columns,
// and everything a token needs prepared ahead of time by a warp of its own.
//
// A block holds 32 columns of one head. The lanes of a group share its four columns, each with Dk /
// 8 or Dk / 16 rows of all four in registers, so that one load of k and q from shared memory serves
// four columns. One more warp copies tiles of 8 tokens into shared memory (cp.async, two tiles
// ahead), widens them to float32, normalises, and works out what depends on the token alone: q . k,
// beta, and the decay. The computing warps then spend 3 instead of 4 multiply-adds per state
// element:
//   - the state is kept as S / c with one scalar c per head, the product of the decays since it was
//     last folded in; it is folded in when it falls under 2^-24 (a reset, g = -inf, folds in a
//     zero);
//   - S^T k and S^T q are both taken of the old state, in one sweep, and the output is
//     decay * S^T q + (q . k) * correction: no second sweep after the update, and one reduction for
//     both. It halves the values with every shuffle (7 or 8 for eight sums), then each lane holds
//     one.
//
// Bound by: the computing warps, which take 600 cycles a token with 16 lanes and one block per
// multiprocessor (the preparing warp 400), most of it the dependence from one token to the next:
// sweep, three or four shuffles, one more to share the corrections, update. Where blocks fill the
// chip, also shared-memory delivery (128 bytes a cycle, for loads and shuffles).
//
// H200, heads 16/32, dim 128, bf16 tokens, cold L2: 4x8192 in 4.14 ms, 1x32768 in 9.98 ms.
// Versions: one column per group of four lanes, every load of k and q serving one column, 6.21 and
// 11.8; this form with the preparing warp's loads and divisions one after another, 4.66 and 11.2.
#include <cuda_runtime.h>

#include "cuda/allow_shared_memory.h"
#include "cuda/gated_delta/arguments.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/launch_plan.h"
#include "cuda/ptx.cuh"
#include "cuda/target.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

constexpr int kTile = 8;        // tokens
constexpr int kColumns = 32;    // of one head, per block
constexpr int kWidth = 4;       // columns per group of lanes
constexpr int kTokenLanes = 4;  // per token in the preparing warp
static_assert(kTile * kTokenLanes == 32 && kColumns == 32, "one warp prepares a tile");
constexpr int kStages = 3;  // tiles of raw tokens in shared memory
constexpr float kFoldBelow = 1.0f / (1 << 24);
constexpr unsigned int kAllLanes = 0xffffffffu;

/// Sum over the four lanes of a token.
__device__ __forceinline__ float token_sum(float x) {
  x += __shfl_xor_sync(kAllLanes, x, 1);
  return x + __shfl_xor_sync(kAllLanes, x, 2);
}

/// Of one token and head, for the computing warps.
struct TokenScalars {
  float decayed;  ///< c * decay: what the stored state is multiplied by to be the decayed one
  float beta;
  float query_key;  ///< q . k, of the scaled and normalised vectors
  float inverse;    ///< 1 / c after this token; 0: fold `decayed` into the state, c = 1 again
};

/// KeyDim: Dk rounded up to a compiled size; elements from Dk on are zero. Rows are padded by 64
/// bytes: the 8 tokens of a tile are then read by 8 groups of lanes without bank conflicts.
template <typename Token, int KeyDim>
struct SharedTiles {
  static constexpr int kRawStride = KeyDim + 64 / static_cast<int>(sizeof(Token));
  static constexpr int kStride = KeyDim + 16;
  alignas(16) Token raw_query[kStages][kTile][kRawStride];
  alignas(16) Token raw_key[kStages][kTile][kRawStride];
  alignas(16) Token raw_value[kStages][kTile][kColumns];
  alignas(16) float query[2][kTile][kStride];
  alignas(16) float key[2][kTile][kStride];
  float value[2][kTile][kColumns];
  alignas(16) TokenScalars scalars[2][kTile];
};

/// Where a block works.
struct BlockWork {
  int head;
  int key_head;
  int column;  ///< its first
  SequenceSpan span;
};

/// The fifth warp.
template <typename Token, int KeyDim>
class TilePreparation {
 public:
  using Shared = SharedTiles<Token, KeyDim>;
  static constexpr int kVector = Vector16<Token>::kCount;

  __device__ TilePreparation(const GatedDeltaParams& params, const BlockWork& work, Shared& shared,
                             int lane)
      : p_(params), work_(work), shared_(shared), lane_(lane) {}

  /// Starts the copies of a tile: q and k of the key head, v of this block's columns. None past the
  /// sequence's end: the group is then empty.
  __device__ void start_copy(std::int64_t tile) {
    const std::int64_t first = tile * kTile;
    const int stage = static_cast<int>(tile % kStages);
    const int tokens = static_cast<int>(
        max(std::int64_t{0}, min(static_cast<std::int64_t>(kTile), work_.span.length - first)));
    constexpr int kKeyVectors = KeyDim / kVector;
    constexpr int kValueVectors = kColumns / kVector;
#pragma unroll 4
    for (int i = lane_; i < kTile * kKeyVectors; i += 32) {
      const int t = i / kKeyVectors;
      const int k = i % kKeyVectors * kVector;
      if (t >= tokens || k >= p_.key_head_dim) continue;
      const std::int64_t token = work_.span.first + first + t;
      copy16_async(&shared_.raw_query[stage][t][k], query_at<Token>(p_, token, work_.key_head) + k);
      copy16_async(&shared_.raw_key[stage][t][k], key_at<Token>(p_, token, work_.key_head) + k);
    }
#pragma unroll
    for (int i = lane_; i < kTile * kValueVectors; i += 32) {
      const int t = i / kValueVectors;
      const int v = i % kValueVectors * kVector;
      if (t >= tokens || work_.column + v >= p_.value_head_dim) continue;
      const std::int64_t token = work_.span.first + first + t;
      copy16_async(&shared_.raw_value[stage][t][v],
                   value_at<Token>(p_, token, work_.head) + work_.column + v);
    }
    commit_copies();
  }

  /// Starts to load the gates of a tile, one token per group of four lanes: for the next prepare()
  /// but one, or the next if none has been.
  __device__ void load_gates(std::int64_t tile) {
    const std::int64_t t = tile * kTile + lane_ / kTokenLanes;
    gate_ = next_gate_;
    beta_ = next_beta_;
    if (t >= work_.span.length) return;
    const std::int64_t token = work_.span.first + t;
    next_gate_ = load_number(p_.gates.gate, token, work_.head);
    next_beta_ = load_number(p_.gates.beta, token, work_.head);
  }

  /// Raw tile -> float32 tile and scalars in `buffer`. The copies must have arrived.
  __device__ void prepare(std::int64_t tile, int buffer) {
    const int stage = static_cast<int>(tile % kStages);
    const int t = lane_ / kTokenLanes;
    const int part = lane_ % kTokenLanes;
    const float decay = decode_decay(p_.gates, gate_, work_.head);
    const float beta = decode_beta(p_.gates, beta_);

    float query_squares = 0;
    float key_squares = 0;
    float products = 0;
#pragma unroll 2
    for (int k = part * kVector; k < KeyDim; k += kTokenLanes * kVector) {
      const auto query = load(&shared_.raw_query[stage][t][k]);
      const auto key = load(&shared_.raw_key[stage][t][k]);
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        const float q = to_float(query.values[i]);
        const float x = to_float(key.values[i]);
        query_squares = fmaf(q, q, query_squares);
        key_squares = fmaf(x, x, key_squares);
        products = fmaf(q, x, products);
      }
    }
    float query_factor = p_.scale;
    float key_factor = 1;
    if (p_.normalize_qk) {
      query_factor = p_.scale / sqrtf(token_sum(query_squares) + kNormEpsilon);
      key_factor = 1 / sqrtf(token_sum(key_squares) + kNormEpsilon);
    }
    widen_row(shared_.raw_query[stage][t], shared_.query[buffer][t], part, query_factor);
    widen_row(shared_.raw_key[stage][t], shared_.key[buffer][t], part, key_factor);
    float values[kTile];
#pragma unroll
    for (int i = 0; i < kTile; ++i) values[i] = to_float(shared_.raw_value[stage][i][lane_]);
#pragma unroll
    for (int i = 0; i < kTile; ++i) shared_.value[buffer][i][lane_] = values[i];

    TokenScalars scalars;
    scalars.beta = beta;
    scalars.query_key = token_sum(products) * query_factor * key_factor;
    // c runs through the tokens: every lane follows. What it makes of places past the end is not
    // used.
    float decays[kTile];
#pragma unroll
    for (int other = 0; other < kTile; ++other) {
      decays[other] = __shfl_sync(kAllLanes, decay, other * kTokenLanes);
    }
    bool folds = false;
    scalars.decayed = 0;
#pragma unroll
    for (int other = 0; other < kTile; ++other) {
      const float decayed = c_ * decays[other];
      const bool fold = decayed < kFoldBelow;
      c_ = fold ? 1.0f : decayed;
      scalars.decayed = other == t ? decayed : scalars.decayed;
      folds = other == t ? fold : folds;
    }
    scalars.inverse = folds ? 0.0f : 1 / scalars.decayed;
    if (part == 0) shared_.scalars[buffer][t] = scalars;
  }

 private:
  __device__ static Vector16<Token> load(const Token* at) {
    return *reinterpret_cast<const Vector16<Token>*>(at);
  }
  /// The part of a row that this lane prepares, kBatch vectors at a time: all are loaded before the
  /// first is stored, since the compiler cannot know that the two do not overlap.
  __device__ static void widen_row(const Token* from, float* to, int part, float factor) {
    constexpr int kVectors = KeyDim / (kTokenLanes * kVector);
    constexpr int kBatch = kVectors % 4 == 0 ? 4 : kVectors % 3 == 0 ? 3 : kVectors;
#pragma unroll
    for (int first = 0; first < kVectors; first += kBatch) {
      Vector16<Token> vectors[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        vectors[i] = load(from + (part + (first + i) * kTokenLanes) * kVector);
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        float* const at = to + (part + (first + i) * kTokenLanes) * kVector;
#pragma unroll
        for (int j = 0; j < kVector; j += 4) {
          *reinterpret_cast<float4*>(at + j) = make_float4(
              to_float(vectors[i].values[j]) * factor, to_float(vectors[i].values[j + 1]) * factor,
              to_float(vectors[i].values[j + 2]) * factor,
              to_float(vectors[i].values[j + 3]) * factor);
        }
      }
    }
  }

  const GatedDeltaParams& p_;
  const BlockWork& work_;
  Shared& shared_;
  int lane_;
  float gate_ = 0;  ///< of the tile to prepare
  float beta_ = 0;
  float next_gate_ = 0;  ///< of the one after it
  float next_beta_ = 0;
  float c_ = 1;  ///< after the last token prepared
};

/// k and q of one token, the rows of one lane: row 4 * (lane + Lanes * j) + i at [j], component i.
template <int KeyDim, int Lanes>
struct LaneVectors {
  static constexpr int kVectors = KeyDim / Lanes / 4;
  float4 key[kVectors];
  float4 query[kVectors];

  __device__ __forceinline__ void load(const float* shared_query, const float* shared_key,
                                       int lane) {
#pragma unroll
    for (int j = 0; j < kVectors; ++j) {
      key[j] = reinterpret_cast<const float4*>(shared_key)[lane + Lanes * j];
      query[j] = reinterpret_cast<const float4*>(shared_query)[lane + Lanes * j];
    }
  }
};

/// The rows of one lane of its group's four columns.
template <int KeyDim, int Lanes>
class ColumnGroup {
 public:
  using Vectors = LaneVectors<KeyDim, Lanes>;
  static constexpr int kRows = 4 * Vectors::kVectors;

  __device__ ColumnGroup(int lane) : lane_(lane) {}
  __device__ int row(int i) const { return 4 * (lane_ + Lanes * (i / 4)) + i % 4; }

  /// Which sum a lane holds after the reduction: bit 0 of the lane says S^T k (0) or S^T q (1),
  /// bits 1 and 2 which of the four columns. Lanes with bit 0 set store that column's output.
  __device__ bool holds_output() const { return lane_ % 2 == 1 && lane_ < 8; }
  __device__ int own_column() const { return (lane_ & 2) + (lane_ >> 2 & 1); }

  /// S^T k and S^T q of the state as stored, each over all lanes; returns this lane's own sum.
  __device__ __forceinline__ float sweep(const Vectors& x) const {
    float sums[2 * kWidth];
#pragma unroll
    for (int w = 0; w < kWidth; ++w) {
      float key[2] = {};
      float query[2] = {};
#pragma unroll
      for (int j = 0; j < Vectors::kVectors; ++j) {
        const float* s = &state[w][4 * j];
        key[0] = fmaf(s[0], x.key[j].x, key[0]);
        query[0] = fmaf(s[0], x.query[j].x, query[0]);
        key[1] = fmaf(s[1], x.key[j].y, key[1]);
        query[1] = fmaf(s[1], x.query[j].y, query[1]);
        key[0] = fmaf(s[2], x.key[j].z, key[0]);
        query[0] = fmaf(s[2], x.query[j].z, query[0]);
        key[1] = fmaf(s[3], x.key[j].w, key[1]);
        query[1] = fmaf(s[3], x.query[j].w, query[1]);
      }
      sums[w] = key[0] + key[1];
      sums[kWidth + w] = query[0] + query[1];
    }
    exchange<4>(sums, 1);
    exchange<2>(sums, 2);
    exchange<1>(sums, 4);
    if (Lanes == 16) sums[0] += __shfl_xor_sync(kAllLanes, sums[0], 8);
    return sums[0];
  }

  /// S / c += k (correction / c)^T; `correction` is the lane's own column's, valid where bit 0 of
  /// the lane is 0. Folds c into the state first where the token says so.
  __device__ __forceinline__ void update(const Vectors& x, const TokenScalars& scalars,
                                         float correction) {
    float inverse = scalars.inverse;
    c = scalars.decayed;
    if (inverse == 0.0f) {
#pragma unroll
      for (int w = 0; w < kWidth; ++w) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) state[w][i] *= scalars.decayed;
      }
      inverse = 1;
      c = 1;
    }
    const float step = correction * inverse;
#pragma unroll
    for (int w = 0; w < kWidth; ++w) {
      const float k_step = __shfl_sync(kAllLanes, step, (w & 2) + 4 * (w & 1), Lanes);
#pragma unroll
      for (int j = 0; j < Vectors::kVectors; ++j) {
        float* s = &state[w][4 * j];
        s[0] = fmaf(x.key[j].x, k_step, s[0]);
        s[1] = fmaf(x.key[j].y, k_step, s[1]);
        s[2] = fmaf(x.key[j].z, k_step, s[2]);
        s[3] = fmaf(x.key[j].w, k_step, s[3]);
      }
    }
  }

  float state[kWidth][kRows];
  float c = 1;  ///< the state proper is c * state

 private:
  /// Of 2 * Count sums, lanes with `bit` clear keep the first half and lanes with it set the
  /// second, each adding what the other had.
  template <int Count>
  __device__ __forceinline__ void exchange(float (&sums)[2 * kWidth], int bit) const {
    const bool upper = (lane_ & bit) != 0;
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      const float give = upper ? sums[i] : sums[Count + i];
      const float keep = upper ? sums[Count + i] : sums[i];
      sums[i] = keep + __shfl_xor_sync(kAllLanes, give, bit);
    }
  }

  int lane_;
};

/// Block b: columns [32 * (b % tiles), ...) of value head (b / tiles) % Hv of sequence b / tiles /
/// Hv.
template <typename Token, int KeyDim, int Lanes>
__global__ void __launch_bounds__(kColumns / kWidth * Lanes + 32)
    recurrent_staged_kernel(const GatedDeltaParams p) {
  constexpr int kComputeThreads = kColumns / kWidth * Lanes;
  constexpr int kThreads = kComputeThreads + 32;
  GDN_DYNAMIC_SHARED_MEMORY(shared_bytes, 16);
  using Shared = SharedTiles<Token, KeyDim>;
  Shared& shared = *reinterpret_cast<Shared*>(shared_bytes);

  const int column_tiles = (p.value_head_dim + kColumns - 1) / kColumns;
  const int thread = static_cast<int>(threadIdx.x);
  BlockWork work;
  work.head = static_cast<int>(blockIdx.x / column_tiles % p.num_value_heads);
  work.key_head = work.head / p.value_heads_per_key_head;
  work.column = static_cast<int>(blockIdx.x % column_tiles) * kColumns;
  work.span = sequence_span(p, static_cast<int>(blockIdx.x / column_tiles / p.num_value_heads));
  if (work.span.length == 0) return;
  if (work.span.is_padding()) {
    store_zero_outputs(p, work.span, work.head, work.column,
                       min(work.column + kColumns, p.value_head_dim), thread, kThreads);
    return;
  }

  // Elements from Dk (and columns from Dv) on are never copied: zero once.
  for (int i = thread; i < static_cast<int>(sizeof(Shared) / 16); i += kThreads) {
    reinterpret_cast<uint4*>(shared_bytes)[i] = make_uint4(0, 0, 0, 0);
  }
  __syncthreads();

  const std::int64_t num_tiles = (work.span.length + kTile - 1) / kTile;
  // In step i the last warp prepares tile i while the others compute tile i - 1.
  if (thread >= kComputeThreads) {
    TilePreparation<Token, KeyDim> preparation(p, work, shared, thread - kComputeThreads);
    preparation.start_copy(0);
    preparation.start_copy(1);
    preparation.load_gates(0);
    for (std::int64_t i = 0; i <= num_tiles; ++i) {
      if (i < num_tiles) {
        preparation.start_copy(i + 2);
        preparation.load_gates(i + 1);
        wait_copies<2>();
        __syncwarp();
        preparation.prepare(i, static_cast<int>(i % 2));
        __syncwarp();
      }
      block_barrier();
    }
    return;
  }

  ColumnGroup<KeyDim, Lanes> group(thread % Lanes);
  const int first_column = thread / Lanes * kWidth;  // of the group, within the block
#pragma unroll
  for (int w = 0; w < kWidth; ++w) {
    const int v = work.column + first_column + w;
#pragma unroll
    for (int i = 0; i < group.kRows; ++i) {
      const int k = group.row(i);
      group.state[w][i] = v < p.value_head_dim && k < p.key_head_dim
                              ? load_state(p.pool, work.span.row, work.head, k, v)
                              : 0.0f;
    }
  }
  const int own_column = first_column + group.own_column();
  const bool stores = group.holds_output() && work.column + own_column < p.value_head_dim;

  block_barrier();  // tile 0 is prepared
  for (std::int64_t tile = 0; tile < num_tiles; ++tile) {
    const int buffer = static_cast<int>(tile % 2);
    const std::int64_t first = tile * kTile;
    const int tokens =
        static_cast<int>(min(static_cast<std::int64_t>(kTile), work.span.length - first));
    LaneVectors<KeyDim, Lanes> next;
    next.load(shared.query[buffer][0], shared.key[buffer][0], thread % Lanes);
    TokenScalars next_scalars = shared.scalars[buffer][0];
    float next_value = shared.value[buffer][0][own_column];
#pragma unroll 2
    for (int t = 0; t < tokens; ++t) {
      const LaneVectors<KeyDim, Lanes> vectors = next;
      const TokenScalars scalars = next_scalars;
      const float value = next_value;
      const int ahead = min(t + 1, kTile - 1);
      next.load(shared.query[buffer][ahead], shared.key[buffer][ahead], thread % Lanes);
      next_scalars = shared.scalars[buffer][ahead];
      next_value = shared.value[buffer][ahead][own_column];

      const float sum = group.sweep(vectors);
      const float correction = scalars.beta * fmaf(-scalars.decayed, sum, value);
      group.update(vectors, scalars, correction);
      // The neighbour with bit 0 clear holds the same column's correction.
      const float column_correction = __shfl_xor_sync(kAllLanes, correction, 1);
      if (stores) {
        store_element(
            p.output,
            output_index(p, work.span.first + first + t, work.head, work.column + own_column),
            p.output_dtype, fmaf(scalars.decayed, sum, scalars.query_key * column_correction));
      }
    }
    block_barrier();
  }
  const std::int64_t row =
      output_row(p, static_cast<int>(blockIdx.x / column_tiles / p.num_value_heads), work.span.row);
#pragma unroll
  for (int w = 0; w < kWidth; ++w) {
    const int v = work.column + first_column + w;
#pragma unroll
    for (int i = 0; i < group.kRows; ++i) {
      const int k = group.row(i);
      if (v < p.value_head_dim && k < p.key_head_dim) {
        store_state(p.pool, row, work.head, k, v, group.c * group.state[w][i]);
      }
    }
  }
}

using Kernel = void (*)(GatedDeltaParams);
struct Choice {
  Kernel kernel = nullptr;
  int key_dim = 0;  ///< compiled
  int lanes = 0;    ///< per group of columns
  int threads = 0;
  int shared_bytes = 0;
};

template <typename Token, int KeyDim, int Lanes>
Choice make_choice() {
  return {recurrent_staged_kernel<Token, KeyDim, Lanes>, KeyDim, Lanes,
          kColumns / kWidth * Lanes + 32, static_cast<int>(sizeof(SharedTiles<Token, KeyDim>))};
}

/// 16 lanes have the shorter chain from token to token, 8 the less work: the one counts where
/// blocks are few. Beyond Dk = 128 the rows of 8 lanes would not fit their registers.
template <typename Token>
Choice choose(std::int64_t key_head_dim, bool few_blocks) {
  if (key_head_dim <= 64) return make_choice<Token, 64, 8>();
  if (key_head_dim <= 96) return make_choice<Token, 96, 8>();
  if (key_head_dim <= 128) {
    return few_blocks ? make_choice<Token, 128, 16>() : make_choice<Token, 128, 8>();
  }
  if (key_head_dim <= 192) return make_choice<Token, 192, 16>();
  return make_choice<Token, 256, 16>();
}

class RecurrentStaged final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "cuda/recurrent_staged",
        .operation = gated_delta_operation(),
        .honours = recurrence_options() + HonouredFields{"output_slots"},
        .gates_in_any_form = true,
        .backend = "cuda",
        .form = "recurrent",
        .summary =
            "four lanes per state column, tokens prepared ahead by a warp of its own; bound "
            "by float32 arithmetic",
        .resources = "up to 93 KB shared memory",
        .min_compute_capability = 80,
        // 8 or 16 lanes by the size of the batch where 96 < Dk <= 128
        .batch_invariant = false,
        .rank = 25,
        .aligned = token_alignment(),
        .examples = {"gated_delta:heads=1/2,dim=64,seq=20+3,h0=normal,dtype=f32",
                     "gated_delta:heads=1/2,dim=128,seq=5x1,h0=normal,dtype=bf16"}};
    return description;
  }

  Support supports(const Problem& problem) const override {
    const std::int64_t Dk = problem.key_head_dim;
    const std::int64_t Dv = problem.value_head_dim;
    if (Dk > 256) return Support::no("Dk=" + std::to_string(Dk) + " is over 256");
    if (Dk % 8 != 0) return Support::no("Dk=" + std::to_string(Dk) + " is not a multiple of 8");
    if (Dv % 8 != 0) return Support::no("Dv=" + std::to_string(Dv) + " is not a multiple of 8");
    return Support::yes();
  }

  std::int64_t workspace_bytes(const Problem&) const override { return 0; }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    const GatedDeltaParams params = make_params(problem, arguments);
    require_token_alignment(params, problem.token_dtype, 16);
    const std::int64_t column_tiles = (problem.value_head_dim + kColumns - 1) / kColumns;
    const unsigned int blocks = grid_blocks(
        problem.num_sequences() * problem.num_value_heads * column_tiles, description().name);
    const bool few_blocks = blocks <= 2u * static_cast<unsigned int>(device.info().multiprocessors);
    const Choice choice = with_element_type(problem.token_dtype, [&](auto token) {
      return choose<decltype(token)>(problem.key_head_dim, few_blocks);
    });
    GDN_CUDA_CHECK(cudaSetDevice(device_index(device)));
    allow_shared_memory(choice.kernel, static_cast<std::size_t>(choice.shared_bytes));
    PlanInfo info;
    info.launches = 1;
    info.choice = "key_dim=" + std::to_string(choice.key_dim) +
                  " columns=32 lanes=" + std::to_string(choice.lanes);
    return std::make_unique<LaunchPlan>(
        device, info, std::vector<DeviceBuffer>{}, [params, blocks, choice](cudaStream_t stream) {
          launch_kernel(choice.kernel, blocks, static_cast<unsigned int>(choice.threads),
                        static_cast<std::size_t>(choice.shared_bytes), stream, params);
        });
  }
};

}  // namespace

const Implementation& gated_delta_recurrent_staged() {
  static const RecurrentStaged implementation;
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
