// cuda/recurrent_staged: the token recurrence with four lanes per state column and everything a
// token needs prepared ahead of time by a warp of its own.
//
// A block holds 32 columns of one head: four warps of 8 columns, each column shared by four lanes
// with Dk / 4 rows in registers. A fifth warp copies tiles of 8 tokens into shared memory
// (cp.async, two tiles ahead), widens them to float32, normalises, and works out what depends on
// the token alone: q . k, beta, and the decay. The four warps then spend 3 instead of 4
// multiply-adds per state element:
//   - the state is kept as c * S with one scalar c per head, the product of the decays since it was
//     last folded in; it is folded in when it falls under 2^-24 (a reset, g = -inf, folds in a
//     zero);
//   - S^T k and S^T q are both taken of the old state, in one sweep, and the output is
//     decay * S^T q + (q . k) * correction: no second sweep after the update, and one reduction
//     over two shuffles for both sums.
//
// Bound by: 3 Dk / 4 multiply-adds and Dk / 8 shared-memory loads per warp and token, and with one
// block per multiprocessor by their dependence from one token to the next: sweep, two shuffles,
// update.
#include <cuda_runtime.h>

#include "cuda/async_copy.cuh"
#include "cuda/gated_delta/arguments.cuh"
#include "cuda/launch_plan.h"

namespace gdn {
namespace cuda {
namespace {

constexpr int kTile = 8;      // tokens
constexpr int kColumns = 32;  // of one head, per block
constexpr int kLanes = 4;     // per column, and per token in the preparing warp
constexpr int kStages = 3;    // tiles of raw tokens in shared memory
constexpr int kComputeThreads = kColumns * kLanes;
constexpr int kThreads = kComputeThreads + 32;
constexpr float kFoldBelow = 1.0f / (1 << 24);
constexpr unsigned int kAllLanes = 0xffffffffu;

/// Sum over the four lanes of a group.
__device__ __forceinline__ float lanes_sum(float x) {
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
      copy_async_16(&shared_.raw_query[stage][t][k],
                    query_at<Token>(p_, token, work_.key_head) + k);
      copy_async_16(&shared_.raw_key[stage][t][k], key_at<Token>(p_, token, work_.key_head) + k);
    }
#pragma unroll
    for (int i = lane_; i < kTile * kValueVectors; i += 32) {
      const int t = i / kValueVectors;
      const int v = i % kValueVectors * kVector;
      if (t >= tokens || work_.column + v >= p_.value_head_dim) continue;
      const std::int64_t token = work_.span.first + first + t;
      copy_async_16(&shared_.raw_value[stage][t][v],
                    value_at<Token>(p_, token, work_.head) + work_.column + v);
    }
    commit_copies();
  }

  /// Loads the gates of a tile into registers, one token per group of four lanes.
  __device__ void load_gates(std::int64_t tile) {
    const std::int64_t t = tile * kTile + lane_ / kLanes;
    gate_ = 0;
    beta_ = 0;
    if (t >= work_.span.length) return;
    const std::int64_t at = (work_.span.first + t) * p_.num_value_heads + work_.head;
    gate_ = p_.gates.gate[at];
    beta_ = p_.gates.beta[at];
  }

  /// Raw tile -> float32 tile and scalars in `buffer`. The copies must have arrived.
  __device__ void prepare(std::int64_t tile, int buffer) {
    const int stage = static_cast<int>(tile % kStages);
    const int t = lane_ / kLanes;
    const int part = lane_ % kLanes;
    const float decay = decode_decay(p_.gates, gate_, work_.head);
    const float beta = decode_beta(p_.gates, beta_);

    float query_squares = 0;
    float key_squares = 0;
    float products = 0;
#pragma unroll 2
    for (int k = part * kVector; k < KeyDim; k += kLanes * kVector) {
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
      query_factor = p_.scale / sqrtf(lanes_sum(query_squares) + kNormEpsilon);
      key_factor = 1 / sqrtf(lanes_sum(key_squares) + kNormEpsilon);
    }
#pragma unroll 2
    for (int k = part * kVector; k < KeyDim; k += kLanes * kVector) {
      widen(&shared_.raw_query[stage][t][k], &shared_.query[buffer][t][k], query_factor);
      widen(&shared_.raw_key[stage][t][k], &shared_.key[buffer][t][k], key_factor);
    }
#pragma unroll
    for (int i = lane_; i < kTile * kColumns; i += 32) {
      shared_.value[buffer][i / kColumns][i % kColumns] =
          to_float(shared_.raw_value[stage][i / kColumns][i % kColumns]);
    }

    TokenScalars scalars;
    scalars.beta = beta;
    scalars.query_key = lanes_sum(products) * query_factor * key_factor;
    const int tokens =
        static_cast<int>(min(static_cast<std::int64_t>(kTile), work_.span.length - tile * kTile));
    for (int other = 0; other < tokens; ++other) {  // c runs through the tokens: every lane follows
      const float decayed = c_ * __shfl_sync(kAllLanes, decay, other * kLanes);
      const bool fold = decayed < kFoldBelow;
      c_ = fold ? 1.0f : decayed;
      if (other == t) {
        scalars.decayed = decayed;
        scalars.inverse = fold ? 0.0f : 1 / decayed;
      }
    }
    if (part == 0 && t < tokens) shared_.scalars[buffer][t] = scalars;
  }

 private:
  __device__ static Vector16<Token> load(const Token* at) {
    return *reinterpret_cast<const Vector16<Token>*>(at);
  }
  __device__ static void widen(const Token* from, float* to, float factor) {
    const Vector16<Token> vector = load(from);
#pragma unroll
    for (int i = 0; i < kVector; i += 4) {
      *reinterpret_cast<float4*>(to + i) = make_float4(
          to_float(vector.values[i]) * factor, to_float(vector.values[i + 1]) * factor,
          to_float(vector.values[i + 2]) * factor, to_float(vector.values[i + 3]) * factor);
    }
  }

  const GatedDeltaParams& p_;
  const BlockWork& work_;
  Shared& shared_;
  int lane_;
  float gate_ = 0;
  float beta_ = 0;
  float c_ = 1;  ///< after the last token prepared
};

/// A quarter of one state column: rows 4 * (part + 4 * j) + i at state[4 * j + i].
template <int KeyDim>
struct ColumnPart {
  static constexpr int kVectors = KeyDim / kLanes / 4;
  float state[4 * kVectors];
  float c = 1;  ///< the state proper is c * state

  __device__ static int row(int part, int i) { return 4 * (part + kLanes * (i / 4)) + i % 4; }

  /// One token; returns its output, the same in the four lanes.
  __device__ float advance(const float4* query, const float4* key, const TokenScalars& scalars,
                           float value, int part) {
    float4 keys[kVectors];
    float predicted[4] = {};
    float read[4] = {};
#pragma unroll
    for (int j = 0; j < kVectors; ++j) {
      keys[j] = key[part + kLanes * j];
      const float4 q = query[part + kLanes * j];
      predicted[0] = fmaf(state[4 * j], keys[j].x, predicted[0]);
      predicted[1] = fmaf(state[4 * j + 1], keys[j].y, predicted[1]);
      predicted[2] = fmaf(state[4 * j + 2], keys[j].z, predicted[2]);
      predicted[3] = fmaf(state[4 * j + 3], keys[j].w, predicted[3]);
      read[0] = fmaf(state[4 * j], q.x, read[0]);
      read[1] = fmaf(state[4 * j + 1], q.y, read[1]);
      read[2] = fmaf(state[4 * j + 2], q.z, read[2]);
      read[3] = fmaf(state[4 * j + 3], q.w, read[3]);
    }
    const float state_key =
        lanes_sum((predicted[0] + predicted[1]) + (predicted[2] + predicted[3]));
    const float state_query = lanes_sum((read[0] + read[1]) + (read[2] + read[3]));
    const float correction = scalars.beta * fmaf(-scalars.decayed, state_key, value);
    float inverse = scalars.inverse;
    c = scalars.decayed;
    if (inverse == 0.0f) {
#pragma unroll
      for (int i = 0; i < 4 * kVectors; ++i) state[i] *= scalars.decayed;
      inverse = 1;
      c = 1;
    }
    const float step = correction * inverse;
#pragma unroll
    for (int j = 0; j < kVectors; ++j) {
      state[4 * j] = fmaf(keys[j].x, step, state[4 * j]);
      state[4 * j + 1] = fmaf(keys[j].y, step, state[4 * j + 1]);
      state[4 * j + 2] = fmaf(keys[j].z, step, state[4 * j + 2]);
      state[4 * j + 3] = fmaf(keys[j].w, step, state[4 * j + 3]);
    }
    return fmaf(scalars.decayed, state_query, scalars.query_key * correction);
  }
};

/// Block b: columns [32 * (b % tiles), ...) of value head (b / tiles) % Hv of sequence b / tiles /
/// Hv.
template <typename Token, int KeyDim>
__global__ void __launch_bounds__(kThreads) recurrent_staged_kernel(const GatedDeltaParams p) {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
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
  // In step i the fifth warp prepares tile i while the others compute tile i - 1.
  if (thread >= kComputeThreads) {
    TilePreparation<Token, KeyDim> preparation(p, work, shared, thread - kComputeThreads);
    preparation.start_copy(0);
    preparation.start_copy(1);
    preparation.load_gates(0);
    for (std::int64_t i = 0; i <= num_tiles; ++i) {
      if (i < num_tiles) {
        preparation.start_copy(i + 2);
        wait_for_copies<2>();
        __syncwarp();
        preparation.prepare(i, static_cast<int>(i % 2));
        preparation.load_gates(i + 1);
        __syncwarp();
      }
      __syncthreads();
    }
    return;
  }

  const int part = thread % kLanes;
  const int column = thread / kLanes;  // within the block
  const int v = work.column + column;
  const bool owns_column = v < p.value_head_dim;
  ColumnPart<KeyDim> mine;
#pragma unroll
  for (int i = 0; i < 4 * ColumnPart<KeyDim>::kVectors; ++i) {
    const int k = ColumnPart<KeyDim>::row(part, i);
    mine.state[i] = owns_column && k < p.key_head_dim
                        ? load_state(p.pool, work.span.row, work.head, k, v)
                        : 0.0f;
  }
  __syncthreads();  // tile 0 is prepared
  for (std::int64_t tile = 0; tile < num_tiles; ++tile) {
    const int buffer = static_cast<int>(tile % 2);
    const std::int64_t first = tile * kTile;
    const int tokens =
        static_cast<int>(min(static_cast<std::int64_t>(kTile), work.span.length - first));
    for (int t = 0; t < tokens; ++t) {
      const float output =
          mine.advance(reinterpret_cast<const float4*>(shared.query[buffer][t]),
                       reinterpret_cast<const float4*>(shared.key[buffer][t]),
                       shared.scalars[buffer][t], shared.value[buffer][t][column], part);
      if (part == 0 && owns_column) {
        store_element(p.output, output_index(p, work.span.first + first + t, work.head, v),
                      p.output_dtype, output);
      }
    }
    __syncthreads();
  }
  if (!owns_column) return;
#pragma unroll
  for (int i = 0; i < 4 * ColumnPart<KeyDim>::kVectors; ++i) {
    const int k = ColumnPart<KeyDim>::row(part, i);
    if (k < p.key_head_dim) {
      store_state(p.pool, work.span.row, work.head, k, v, mine.c * mine.state[i]);
    }
  }
}

using Kernel = void (*)(GatedDeltaParams);
struct Choice {
  Kernel kernel = nullptr;
  int key_dim = 0;  ///< compiled
  int shared_bytes = 0;
};

template <typename Token, int KeyDim>
Choice make_choice() {
  return {recurrent_staged_kernel<Token, KeyDim>, KeyDim,
          static_cast<int>(sizeof(SharedTiles<Token, KeyDim>))};
}

template <typename Token>
Choice choose(std::int64_t key_head_dim) {
  if (key_head_dim <= 64) return make_choice<Token, 64>();
  if (key_head_dim <= 96) return make_choice<Token, 96>();
  if (key_head_dim <= 128) return make_choice<Token, 128>();
  if (key_head_dim <= 192) return make_choice<Token, 192>();
  return make_choice<Token, 256>();
}

class RecurrentStaged final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "cuda/recurrent_staged",
        .operation = Operation::gated_delta,
        .backend = "cuda",
        .form = "recurrent",
        .summary =
            "four lanes per state column, tokens prepared ahead by a warp of its own; bound "
            "by float32 arithmetic",
        .resources = "up to 93 KB shared memory",
        .min_compute_capability = 80};
    return description;
  }

  Support supports(const Problem& problem) const override {
    if (problem.operation != Operation::gated_delta) return Support::no("only gated_delta");
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
    const Choice choice = with_element_type(problem.token_dtype, [&](auto token) {
      return choose<decltype(token)>(problem.key_head_dim);
    });
    GDN_CUDA_CHECK(cudaSetDevice(device_index(device)));
    GDN_CUDA_CHECK(cudaFuncSetAttribute(choice.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        choice.shared_bytes));
    PlanInfo info;
    info.launches = 1;
    info.choice = "key_dim=" + std::to_string(choice.key_dim) + " columns=32 lanes_per_column=4";
    return std::make_unique<LaunchPlan>(
        device, info, std::vector<DeviceBuffer>{}, [params, blocks, choice](cudaStream_t stream) {
          choice
              .kernel<<<blocks, kThreads, static_cast<std::size_t>(choice.shared_bytes), stream>>>(
                  params);
        });
  }
};

}  // namespace
}  // namespace cuda

const Implementation& cuda_gated_delta_recurrent_staged() {
  static const cuda::RecurrentStaged implementation;
  return implementation;
}

}  // namespace gdn
