// cuda/recurrent of gated_delta_backward: the gradients one token at a time, in registers.
//
// With R = alpha S, r = v - R^T k, S' = R + beta k r^T, o = scale S'^T q of a token, and D the gradient with
// respect to S', from the last token to the first (docs/contract.md, section 1.4):
//
//     D <- D + scale q d_o^T;   d_q = scale S' d_o;   w = D^T k;   d_beta = w . r;   d_v = beta w
//     d_k = beta (D r - R w);   D <- D - beta k w^T;  d_g = <R, D>;  d_alpha = <S, D>;  D <- alpha D
//
// Columns of S and of D depend on no other columns, so a block of 16 warps takes a tile of a head's columns
// (128, 64 or 32 of up to 64, 128 or 256 key channels) and walks its sequence. A thread has a patch of 8 key
// channels and 2 columns. Lanes add over key channels by shuffles (r and w), and over columns (d_q, d_k) by
// shuffles within a warp and through shared memory between warps: one barrier a token, which is also what the
// token's key and query wait for, loaded one token ahead.
//
// S is needed in reverse, and going back by dividing by alpha would amplify every rounding. So S is kept at
// every L-th token, and each segment of L tokens is run once more from there, with the S and r of each of its
// tokens kept. They lie in the workspace as threads have them: each reads what it wrote, coalesced and without
// waiting for others.
//
// Workspace. Blocks are at most kMostBlocks and take tile after tile, each with room for one segment. States
// kept between segments are fewer than T / L of each tile, however many sequences there are: a sequence's
// first one is the pool's, its last segment goes on from registers, and the others have the places of the
// sequence's own tokens, one for each L of the batch. L = sqrt(T tiles / blocks) makes the two equal,
// 2 sqrt(T tiles blocks) states of 32 KiB: of 4 x 8192 tokens, 32 heads and 128 x 128 1 GiB. Summands of d_q and
// d_k are 8 Dk bytes for each token, head and tile, there 2 GiB.
//
// Bound by: latency along a sequence of three walks, the last of which has two passes over the patch and some
// 25 shuffles, and by how few blocks there are; then by instructions. A thread has 128 registers, and they are
// full. Patches of 16 key channels in 8 warps spilled 250 to 380 bytes where two blocks were to share a
// multiprocessor, and took 232 to 255 registers where not.
//
// Reached, H200, 16/32 heads of 128, bfloat16 tokens, cold L2: 1x4096 19.4 ms, 4x8192 86.5 ms.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>

#include "cuda/allow_shared_memory.h"
#include "cuda/gated_delta_backward/arguments.cuh"
#include "cuda/gated_delta_backward/sums.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/launch_plan.h"
#include "cuda/shared_memory.cuh"
#include "cuda/target.h"
#include "interface/operations/gated_delta_backward.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

constexpr int kWarp = 32;
constexpr int kWarps = 16;
constexpr int kThreads = kWarps * kWarp;
constexpr int kQuads = 2;    ///< of a thread's key channels, four that lie side by side each
constexpr int kColumns = 2;  ///< of a thread
constexpr int kPatch = kQuads * 4 * kColumns;
constexpr int kPatchQuads = kPatch / 4;
constexpr std::int64_t kStateQuads = kPatchQuads * kThreads;  ///< of a tile's state, as float4
/// Of a token of a segment: the state before it, and r of a thread's columns.
constexpr std::int64_t kTokenQuads = kStateQuads + kThreads * kColumns / 4;
constexpr std::int64_t kMostBlocks = 132;  ///< the multiprocessors of an H100
constexpr unsigned int kAllLanes = 0xffffffffu;

/// Tiles of up to kKeys key channels.
template <int kKeys>
struct Shape {
  static constexpr int kKeyLanes = kKeys / (kQuads * 4);
  static constexpr int kValueLanes = kWarp / kKeyLanes;
  static constexpr int kWarpColumns = kValueLanes * kColumns;
  static constexpr int kTileColumns = kWarps * kWarpColumns;
  static_assert(2 * kKeys <= kThreads, "a thread loads one element of a token's query and key");
  static_assert(kValueLanes <= 4, "a lane keeps one of four sums at least");
};

/// What is kept in the workspace; a state is kStateQuads, as threads have it.
struct KeptStates {
  float4* checkpoints;   ///< [T / segment, Hv, tiles]
  float4* segments;      ///< [blocks, segment], kTokenQuads of each token
  std::int32_t segment;  ///< tokens
  std::int32_t tiles;    ///< of a head
  std::uint32_t items;   ///< tiles of all sequences
};

template <int kKeys>
struct Shared {
  float4 vectors[2][2][kKeys / 4];  ///< query and key of two tokens
  float decays[2];
  float betas[2];
  float sums[2][kWarps][2][kKeys];  ///< of a warp's columns: d_q, d_k
  float scalars[2][kWarps][2];      ///< d_g or d_alpha, d_beta
};

/// A full reset forgets whatever there was, infinities included.
__device__ __forceinline__ float decayed(float alpha, float x) {
  return alpha == 0 ? 0.0f : alpha * x;
}

template <int kKeys>
class Walk {
  using S = Shape<kKeys>;
  /// Elements (quad, key channel of it, column).
  using Patch = float[kQuads][4][kColumns];

 public:
  __device__ Walk(const BackwardParams& backward, const GradientParts& parts,
                  const KeptStates& kept, Shared<kKeys>& shared, int head, int tile)
      : b_(backward),
        p_(backward.forward),
        parts_(parts),
        kept_(kept),
        shared_(shared),
        head_(head),
        tile_(tile),
        thread_(static_cast<int>(threadIdx.x)),
        key_lane_(thread_ % S::kKeyLanes),
        first_column_(tile * S::kTileColumns + thread_ / S::kKeyLanes * kColumns),
        key_offset_(head / p_.value_heads_per_key_head * p_.key_head_dim) {}

  __device__ __forceinline__ void run(const SequenceSpan& span) {
    if (span.is_padding()) return store_zeros(span);
    Patch D;
    const int row = static_cast<int>(span.row);
    load_pool(b_.d_final, row, D);
    const int first = static_cast<int>(span.first), tokens = static_cast<int>(span.length);
    const int last = tokens > 0 ? (tokens - 1) / kept_.segment : -1;  // no segment
    Patch state;
    // Segments 0, 1, .. to the last, and from there back to 0.
#pragma unroll 1
    for (int visit = 0; visit <= 2 * last; ++visit) {
      const int s = visit <= last ? visit : 2 * last - visit;
      if (s == 0) {
        load_pool(p_.pool, row, state);
      } else if (visit > last) {
        load_kept(checkpoint(first, s), state);
      } else if (visit < last) {
        store_kept(checkpoint(first, s), state);
      }
      const int begin = s * kept_.segment;
      const int length = min(kept_.segment, tokens - begin);
      run_forward(first + begin, length, visit >= last, state);
      if (visit >= last) run_back(first + begin, length, D);
    }
    store_pool(b_.d_initial, row, D);
  }

 private:
  /// What a thread loads of a token ahead of its use, as it lies in memory.
  struct Ahead {
    std::uint32_t vector;             ///< of the query and the key
    std::uint32_t columns[kColumns];  ///< of v forwards, of d_output backwards
    float gate = 0;                   ///< of the last thread alone, which decodes for all
    float beta = 0;
  };

  __device__ __forceinline__ int column(int c) const { return first_column_ + c; }
  __device__ __forceinline__ bool owns(int c) const { return column(c) < p_.value_head_dim; }
  /// Of a quad's first key channel.
  __device__ __forceinline__ int quad_key(int quad) const {
    return (quad * S::kKeyLanes + key_lane_) * 4;
  }

  // ---- tokens

  __device__ __forceinline__ void load_ahead(std::int64_t token, bool back, Ahead& ahead) const {
    const std::int64_t first = key_offset_;
    const int k = thread_ % kKeys;
    const bool of_key = thread_ >= kKeys;
    ahead.vector = 0;
    if (thread_ < 2 * kKeys && k < p_.key_head_dim && (of_key || back)) {
      const std::int64_t stride = of_key ? p_.key_token_stride : p_.query_token_stride;
      ahead.vector =
          load_bits(of_key ? p_.key : p_.query, token * stride + first + k, b_.token_dtype);
    }
    const void* const array = back ? b_.d_output : p_.value;
    const std::int64_t at = token * (back ? b_.d_output_token_stride : p_.value_token_stride) +
                            static_cast<std::int64_t>(head_) * p_.value_head_dim;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      ahead.columns[c] = owns(c) ? load_bits(array, at + column(c), b_.token_dtype) : 0;
    }
    if (thread_ == kThreads - 1) {
      ahead.gate = load_number(p_.gates.gate, token, head_);
      ahead.beta = load_number(p_.gates.beta, token, head_);
    }
  }

  /// The token's query and key to the other buffer. Threads may still read the one of the token before:
  /// behind the barrier nobody does.
  __device__ __forceinline__ void stage(const Ahead& ahead) {
    buffer_ ^= 1;
    float* const vectors = reinterpret_cast<float*>(shared_.vectors[buffer_]);
    if (thread_ < 2 * kKeys) vectors[thread_] = widen_bits(ahead.vector, b_.token_dtype);
    if (thread_ == kThreads - 1) {
      shared_.decays[buffer_] = decode_decay(p_.gates, ahead.gate, head_);
      shared_.betas[buffer_] = decode_beta(p_.gates, ahead.beta);
    }
    __syncthreads();
  }
  __device__ __forceinline__ float4 quad_of(int of_key, int quad) const {
    return shared_.vectors[buffer_][of_key][quad * S::kKeyLanes + key_lane_];
  }
  /// What the staged query (0) or key (1) is multiplied by.
  __device__ __forceinline__ float factor_of(int of_key) const {
    if (!p_.normalize_qk) return 1;
    float squares = 0;
#pragma unroll
    for (int quad = 0; quad < kQuads; ++quad) {
      const float4 x = quad_of(of_key, quad);
      squares = fmaf(x.x, x.x, fmaf(x.y, x.y, fmaf(x.z, x.z, fmaf(x.w, x.w, squares))));
    }
    return 1 / sqrtf(sum_over_keys(squares) + kNormEpsilon);
  }

  __device__ __forceinline__ static float sum_over_keys(float x) {
#pragma unroll
    for (int offset = 1; offset < S::kKeyLanes; offset *= 2) {
      x += __shfl_xor_sync(kAllLanes, x, offset);
    }
    return x;
  }
  __device__ __forceinline__ static float sum_over_columns(float x) {
#pragma unroll
    for (int offset = S::kKeyLanes; offset < kWarp; offset *= 2) {
      x += __shfl_xor_sync(kAllLanes, x, offset);
    }
    return x;
  }

  // ---- forwards

  /// From the state before `length` tokens to the one behind them. The states before each of them are kept
  /// where the walk back follows.
  __device__ __forceinline__ void run_forward(int first, int length, bool keep, Patch& state) {
    Ahead ahead;
    load_ahead(first, false, ahead);
#pragma unroll 1
    for (int t = 0; t < length; ++t) {
      if (keep) store_kept(kept_state(t), state);
      stage(ahead);
      const float alpha = shared_.decays[buffer_];
      const float beta = shared_.betas[buffer_];
      float r[kColumns];
      values_of(ahead.columns, r);
      if (t + 1 < length) load_ahead(first + t + 1, false, ahead);

      const float key_factor = factor_of(1);
      float predicted[kColumns] = {};
#pragma unroll
      for (int quad = 0; quad < kQuads; ++quad) {
        const float4 key = quad_of(1, quad);
        const float keys[4] = {key.x, key.y, key.z, key.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float k = keys[i] * key_factor;
#pragma unroll
          for (int c = 0; c < kColumns; ++c) {
            state[quad][i][c] = decayed(alpha, state[quad][i][c]);
            predicted[c] = fmaf(state[quad][i][c], k, predicted[c]);
          }
        }
      }
#pragma unroll
      for (int c = 0; c < kColumns; ++c) r[c] -= sum_over_keys(predicted[c]);
      if (keep) kept_r(t) = make_float2(r[0], r[1]);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) r[c] *= beta;
      __syncwarp();  // makes the compiler load k again: keeping it would spill
#pragma unroll
      for (int quad = 0; quad < kQuads; ++quad) {
        const float4 key = quad_of(1, quad);
        const float keys[4] = {key.x, key.y, key.z, key.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float k = keys[i] * key_factor;
#pragma unroll
          for (int c = 0; c < kColumns; ++c) {
            state[quad][i][c] = fmaf(k, r[c], state[quad][i][c]);
          }
        }
      }
    }
  }

  // ---- backwards

  __device__ __forceinline__ void run_back(int first, int length, Patch& D) {
    Ahead ahead;
    load_ahead(first + length - 1, true, ahead);
#pragma unroll 1
    for (int t = length - 1; t >= 0; --t) {
      stage(ahead);
      if (t + 1 < length) store_sums(first + t + 1, buffer_ ^ 1);
      const float alpha = shared_.decays[buffer_];
      const float beta = shared_.betas[buffer_];
      float d_o[kColumns];
      values_of(ahead.columns, d_o);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) d_o[c] *= p_.scale;
      if (t > 0) load_ahead(first + t - 1, true, ahead);
      step_back(first + t, t, alpha, beta, d_o, D);
    }
    __syncthreads();
    store_sums(first, buffer_);
  }

  /// A token, which is number t of its segment.
  __device__ __forceinline__ void step_back(int token, int t, float alpha, float beta,
                                            const float (&d_o)[kColumns], Patch& D) {
    const float query_factor = factor_of(0);
    const float key_factor = factor_of(1);
    float w[kColumns] = {};
#pragma unroll
    for (int quad = 0; quad < kQuads; ++quad) {
      const float4 query = quad_of(0, quad), key = quad_of(1, quad);
      const float queries[4] = {query.x, query.y, query.z, query.w};
      const float keys[4] = {key.x, key.y, key.z, key.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float q = queries[i] * query_factor, k = keys[i] * key_factor;
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          D[quad][i][c] = fmaf(q, d_o[c], D[quad][i][c]);
          w[c] = fmaf(D[quad][i][c], k, w[c]);
        }
      }
    }

    const float2 kept = kept_r(t);
    const float r[kColumns] = {kept.x, kept.y};
    float d_v[kColumns], written[kColumns];  // beta w, beta r
    float d_beta = 0;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      w[c] = sum_over_keys(w[c]);
      d_beta = fmaf(w[c], r[c], d_beta);
      d_v[c] = beta * w[c];
      written[c] = beta * r[c];
      if (key_lane_ == 0 && owns(c)) {
        store_element(p_.output, output_index(p_, token, head_, column(c)), p_.output_dtype,
                      d_v[c]);
      }
    }

    float d_gate = 0;
    const bool of_decay = p_.gates.gate_encoding == GateEncoding::decay;
#pragma unroll
    for (int quad = 0; quad < kQuads; ++quad) {
      const float4 key = quad_of(1, quad);
      const float keys[4] = {key.x, key.y, key.z, key.w};
      float before[4][kColumns];
      load_quad(kept_state(t), quad, before);
      float d_q[4] = {}, d_k[4] = {};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float k = keys[i] * key_factor;
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          float& d = D[quad][i][c];
          const float R = decayed(alpha, before[i][c]);
          d_q[i] = fmaf(fmaf(k, written[c], R), d_o[c], d_q[i]);
          d_k[i] = fmaf(d, r[c], fmaf(-R, w[c], d_k[i]));
          d = fmaf(-k, d_v[c], d);
          d_gate = fmaf(of_decay ? before[i][c] : R, d, d_gate);
          d = decayed(alpha, d);
        }
        d_k[i] *= beta;
      }
      share_column_sums(0, quad, d_q);
      share_column_sums(1, quad, d_k);
      __syncwarp();  // loads of the other quad come behind: both would spill
    }

    d_gate = sum_over_columns(sum_over_keys(d_gate));
    d_beta = sum_over_columns(d_beta);
    if (thread_ % kWarp == 0) {
      float* const scalars = shared_.scalars[buffer_][thread_ / kWarp];
      scalars[0] = d_gate;
      scalars[1] = d_beta;
    }
  }

  /// The sums over the warp's columns of four key channels, to shared memory. Half of them go to the lanes
  /// on the other side at each step.
  __device__ __forceinline__ void share_column_sums(int of_key, int quad, float (&x)[4]) {
    const int lane = thread_ % kWarp;
    float* sums = shared_.sums[buffer_][thread_ / kWarp][of_key] + quad_key(quad);
    int count = 4;
#pragma unroll
    for (int side = kWarp / 2; side >= S::kKeyLanes; side /= 2) {
      count /= 2;
      const bool upper = lane & side;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (i >= count) continue;
        const float given = upper ? x[i] : x[i + count];
        x[i] = (upper ? x[i + count] : x[i]) + __shfl_xor_sync(kAllLanes, given, side);
      }
      sums += upper ? count : 0;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i < count) sums[i] = x[i];
    }
  }

  /// Of a token whose sums all warps have written: the tile's, in the order of the warps.
  __device__ __forceinline__ void store_sums(int token, int buffer) {
    for (int e = thread_; e < 2 * kKeys; e += kThreads) {
      const int of_key = e / kKeys, k = e % kKeys;
      if (k >= p_.key_head_dim) continue;
      float sum = 0;
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) sum += shared_.sums[buffer][warp][of_key][k];
      parts_.keys[parts_.index(p_, tile_, token, head_, p_.key_head_dim) +
                  of_key * p_.key_head_dim + k] = sum;
    }
    if (thread_ < 2) {
      float sum = 0;
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) sum += shared_.scalars[buffer][warp][thread_];
      parts_.gates[parts_.index(p_, tile_, token, head_, 1) + thread_] = sum;
    }
  }

  __device__ void store_zeros(const SequenceSpan& span) {
    const int first = tile_ * S::kTileColumns;
    store_zero_outputs(p_, span, head_, first, min(first + S::kTileColumns, p_.value_head_dim),
                       thread_, kThreads);
    for (std::int64_t t = span.first; t < span.first + span.length; ++t) {
      for (int k = thread_; k < 2 * p_.key_head_dim; k += kThreads) {
        parts_.keys[parts_.index(p_, tile_, t, head_, p_.key_head_dim) + k] = 0;
      }
      if (thread_ < 2) parts_.gates[parts_.index(p_, tile_, t, head_, 1) + thread_] = 0;
    }
  }

  __device__ __forceinline__ void values_of(const std::uint32_t (&bits)[kColumns],
                                            float (&values)[kColumns]) const {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) values[c] = widen_bits(bits[c], b_.token_dtype);
  }

  // ---- states

  /// The state before segment `s` > 0, of a sequence that begins with token `first`. A sequence of n tokens
  /// keeps at most (n - 1) / segment of them, so that those of the tokens before it end at first / segment.
  __device__ __forceinline__ float4* checkpoint(int first, int s) const {
    const std::int64_t at = first / kept_.segment + s - 1;
    return kept_.checkpoints +
           ((at * p_.num_value_heads + head_) * kept_.tiles + tile_) * kStateQuads;
  }
  /// The state before token t of the segment.
  __device__ __forceinline__ float4* kept_state(int t) const {
    return kept_.segments +
           (static_cast<std::int64_t>(blockIdx.x) * kept_.segment + t) * kTokenQuads;
  }
  /// r of the thread's columns at token t of the segment; lanes that share columns have the same bits.
  __device__ __forceinline__ float2& kept_r(int t) const {
    return reinterpret_cast<float2*>(kept_state(t) + kStateQuads)[thread_];
  }
  __device__ __forceinline__ void store_kept(float4* at, const Patch& x) const {
#pragma unroll
    for (int i = 0; i < kPatchQuads; ++i) {
      const float(&a)[kColumns] = x[i / 2][i % 2 * 2];
      const float(&b)[kColumns] = x[i / 2][i % 2 * 2 + 1];
      at[i * kThreads + thread_] = make_float4(a[0], a[1], b[0], b[1]);
    }
  }
  __device__ __forceinline__ void load_quad(const float4* at, int quad,
                                            float (&x)[4][kColumns]) const {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const float4 given = at[(quad * 2 + i / 2) * kThreads + thread_];
      x[i][0] = given.x;
      x[i][1] = given.y;
      x[i + 1][0] = given.z;
      x[i + 1][1] = given.w;
    }
  }
  __device__ __forceinline__ void load_kept(const float4* at, Patch& x) const {
#pragma unroll
    for (int quad = 0; quad < kQuads; ++quad) load_quad(at, quad, x[quad]);
  }

  __device__ __forceinline__ void load_pool(const StatePool& pool, int row, Patch& x) const {
#pragma unroll
    for (int quad = 0; quad < kQuads; ++quad) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int k = quad_key(quad) + i;
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          const bool there = owns(c) && k < p_.key_head_dim;
          x[quad][i][c] = there ? load_state(pool, row, head_, k, column(c)) : 0.0f;
        }
      }
    }
  }
  __device__ __forceinline__ void store_pool(const StatePool& pool, int row, const Patch& x) const {
#pragma unroll
    for (int quad = 0; quad < kQuads; ++quad) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int k = quad_key(quad) + i;
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          if (!owns(c) || k >= p_.key_head_dim) continue;
          store_state(pool, row, head_, k, column(c), x[quad][i][c]);
        }
      }
    }
  }

  const BackwardParams& b_;
  const GatedDeltaParams& p_;
  const GradientParts& parts_;
  const KeptStates& kept_;
  Shared<kKeys>& shared_;
  int head_;
  int tile_;
  int thread_;
  int key_lane_;
  int first_column_;
  int key_offset_;  ///< of the key head in a token
  int buffer_ = 0;  ///< of the token at hand
};

/// Tile after tile: of sequence 0 head 0, then of its other heads, then of the next sequence.
template <int kKeys>
__global__ void __launch_bounds__(kThreads)
    recurrent_kernel(const BackwardParams backward, const GradientParts parts,
                     const KeptStates kept) {
  GDN_DYNAMIC_SHARED_MEMORY(bytes, 16);
  Shared<kKeys>& shared = *reinterpret_cast<Shared<kKeys>*>(bytes);
  const int heads = backward.forward.num_value_heads;
  for (unsigned int item = blockIdx.x; item < kept.items; item += gridDim.x) {
    const int tile = static_cast<int>(item % kept.tiles);
    const int head = static_cast<int>(item / kept.tiles % heads);
    const int sequence = static_cast<int>(item / kept.tiles / heads);
    Walk<kKeys>(backward, parts, kept, shared, head, tile)
        .run(sequence_span(backward.forward, sequence));
    __syncthreads();  // the next one begins with the first buffer again
  }
}

// ---- host

/// Calls function() with the key channels that the problem's tiles are compiled for.
template <typename Function>
auto with_keys(std::int64_t Dk, Function&& function) {
  if (Dk <= 64) return function(std::integral_constant<int, 64>{});
  if (Dk <= 128) return function(std::integral_constant<int, 128>{});
  return function(std::integral_constant<int, kMostKeyChannels>{});
}

struct Launch {
  void (*kernel)(BackwardParams, GradientParts, KeptStates);
  std::size_t shared_bytes;
};
Launch launch_of(const Problem& p) {
  return with_keys(p.key_head_dim, [](auto keys) {
    return Launch{recurrent_kernel<keys.value>, sizeof(Shared<keys.value>)};
  });
}

struct Sizes {
  std::int64_t tiles;   ///< of a head
  std::int64_t items;   ///< tiles of all sequences
  std::int64_t blocks;  ///< 0 without sequences
  std::int64_t segment;
  std::int64_t checkpoint_bytes;
  std::int64_t segment_bytes;
  std::int64_t key_bytes;
  std::int64_t gate_bytes;
  std::int64_t bytes() const { return checkpoint_bytes + segment_bytes + key_bytes + gate_bytes; }
};

Sizes sizes_of(const Problem& p) {
  constexpr auto kFloat = static_cast<std::int64_t>(sizeof(float));
  constexpr auto kStateBytes = kStateQuads * static_cast<std::int64_t>(sizeof(float4));
  const std::int64_t columns = with_keys(
      p.key_head_dim, [](auto keys) { return std::int64_t{Shape<keys.value>::kTileColumns}; });
  const std::int64_t tokens = std::max<std::int64_t>(p.total_tokens(), 1);
  Sizes s;
  s.tiles = (p.value_head_dim + columns - 1) / columns;
  s.items = p.num_sequences() * p.num_value_heads * s.tiles;
  s.blocks = std::min(s.items, kMostBlocks);
  const double per_block = static_cast<double>(tokens * p.num_value_heads * s.tiles) /
                           static_cast<double>(std::max<std::int64_t>(s.blocks, 1));
  s.segment = std::min(static_cast<std::int64_t>(std::ceil(std::sqrt(per_block))), tokens);
  s.checkpoint_bytes = tokens / s.segment * p.num_value_heads * s.tiles * kStateBytes;
  s.segment_bytes = s.blocks * s.segment * kTokenQuads * static_cast<std::int64_t>(sizeof(float4));
  s.key_bytes = GradientParts::key_floats(p, s.tiles) * kFloat;
  s.gate_bytes = GradientParts::gate_floats(p, s.tiles) * kFloat;
  return s;
}

class Recurrent final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "cuda/recurrent",
        .operation = gated_delta_backward_operation(),
        .honours = {"slots", "state", "layout", "h0", "ht", "pool_pad", "pool_rows", "norm",
                    "scale", "gate", "bound", "beta"},
        .gates_in_any_form = true,
        .backend = "cuda",
        .form = "recurrent",
        .summary =
            "the gradients one token at a time in registers, from states that are kept and "
            "run again; bound by latency along a sequence",
        .resources = "",
        .min_compute_capability = 80,
        .rank = 20,
        .examples = {"gated_delta_backward:heads=1/2,dim=16x24,seq=20+3,dtype=f32,h0=normal",
                     "gated_delta_backward:heads=1/2,dim=128x72,seq=9+2,dtype=bf16,gate=logits,"
                     "beta=logit,norm=1",
                     "gated_delta_backward:heads=1/2,dim=192x40,seq=3+0+6,dtype=f16,state=bf16,"
                     "layout=vk,h0=normal,slots=padding,pool_pad=8,gate=bounded,beta=logit2"}};
    return description;
  }

  Support supports(const Problem& problem) const override {
    if (problem.key_head_dim > kMostKeyChannels) {
      return Support::no("Dk=" + std::to_string(problem.key_head_dim) +
                         ": patches in registers are compiled for Dk up to " +
                         std::to_string(kMostKeyChannels));
    }
    return Support::yes();
  }

  std::int64_t workspace_bytes(const Problem& problem) const override {
    return sizes_of(problem).bytes();
  }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    const BackwardParams params = make_backward_params(problem, arguments);
    const Sizes sizes = sizes_of(problem);
    std::vector<DeviceBuffer> workspaces;
    for (const std::int64_t bytes :
         {sizes.checkpoint_bytes, sizes.segment_bytes, sizes.key_bytes, sizes.gate_bytes}) {
      workspaces.push_back(device.allocate(bytes));
    }
    const KeptStates kept = {workspaces[0].as<float4>(), workspaces[1].as<float4>(),
                             static_cast<std::int32_t>(sizes.segment),
                             static_cast<std::int32_t>(sizes.tiles),
                             grid_blocks(sizes.items, description().name)};
    const GradientParts parts = {workspaces[2].as<float>(), workspaces[3].as<float>(),
                                 problem.total_tokens(), static_cast<std::int32_t>(sizes.tiles)};
    PlanInfo info;
    info.launches = gradient_sum_launches(params, parts) + (sizes.blocks > 0 ? 1 : 0);
    info.choice = "tiles=" + std::to_string(sizes.tiles) +
                  " blocks=" + std::to_string(sizes.blocks) +
                  " segment=" + std::to_string(sizes.segment);
    const auto blocks = static_cast<unsigned int>(sizes.blocks);
    const Launch launch = launch_of(problem);
    allow_shared_memory(launch.kernel, launch.shared_bytes);
    return std::make_unique<LaunchPlan>(
        device, info, std::move(workspaces), [=](cudaStream_t stream) {
          if (blocks > 0) {
            launch_kernel(launch.kernel, blocks, kThreads, launch.shared_bytes, stream, params,
                          parts, kept);
          }
          enqueue_gradient_sums(params, parts, stream);
        });
  }
};

}  // namespace

const Implementation& gated_delta_backward_recurrent() {
  static const Recurrent implementation;
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
