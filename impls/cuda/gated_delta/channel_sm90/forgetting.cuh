// How early a piece may begin, from zeros (work_item.cuh). A bound on the norm of a token's transition is the
// largest decay of its key channels, for keys mix the channels, times max(1, beta |k|^2 - 1), the norm of
// I - beta k k^T. Where a few chunks before a piece leave less than 2^-kForgetBits of any state, the piece
// may begin there; or where its sequence begins, if that is near.
//
// Every block of Work::transitions finds it for the pieces of its own work items, before their roles begin. Four
// tokens say first whether a head looks like forgetting in time: most that do not are done with it, for a
// load and a barrier. Of the others the bound itself is summed, eight chunks at once, of a piece and of the
// next one.
#pragma once

#include "cuda/gated_delta/channel_sm90/decoding.cuh"
#include "cuda/gated_delta/channel_sm90/work_item.cuh"
#include "cuda/gated_delta/chunk_sm90/forgetting.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::channel_sm90 {

/// Chunks that a piece may begin early. Each costs an estimated 3 us, two to look at it and one in the last launch, and
/// transitions 1.8 us a chunk of a piece: so of a short piece no more than strong gates need, and of a long one all of
/// it. Where heads forget at very different paces both may be paid; what was measured of that is in log.md.
__device__ __forceinline__ int most_early_chunks(const ChannelParams& a) {
  constexpr int kStrongGates = 16, kLongPiece = 128;
  return (a.chunks_per_piece < kLongPiece ? 0 : a.chunks_per_piece) + kStrongGates;
}

/// What log decays of 4 tokens, `step` apart, are made of, of channels 4 lane .. 4 lane + 3: x[channel][token].
template <typename Token>
__device__ __forceinline__ void load_gates(float (&x)[4][4], const ChannelParams& a, int64_t token0,
                                           int step, int head, int lane) {
  const GateParams& gates = a.p.gates;
  const NumberArray& gate = gates.gate;
  const int channel = head * kKeyDim + 4 * lane;
  if (a.gate_form == GateForm::read) {
    const bool decays = gates.gate_encoding == GateEncoding::decay;
#pragma unroll
    for (int i = 0; i < 16; i++) {
      const float held = load_number(gate, token0 + i / 4 * step, channel + i % 4);
      x[i % 4][i / 4] = decays ? logf(held) : held;
    }
  } else if (a.gate_form == GateForm::halves) {
#pragma unroll
    for (int t = 0; t < 4; t++) {
      const auto pairs = *reinterpret_cast<const uint2*>(static_cast<const Token*>(gate.data) +
                                                         gate.index(token0 + t * step, channel));
      const float2 low = unpack<Token>(pairs.x), high = unpack<Token>(pairs.y);
      x[0][t] = low.x, x[1][t] = low.y, x[2][t] = high.x, x[3][t] = high.y;
    }
  } else {
#pragma unroll
    for (int t = 0; t < 4; t++) {
      const auto four = *reinterpret_cast<const float4*>(static_cast<const float*>(gate.data) +
                                                         gate.index(token0 + t * step, channel));
      x[0][t] = four.x, x[1][t] = four.y, x[2][t] = four.z, x[3][t] = four.w;
    }
  }
}

/// |k|^2 of a token, to the two lanes that have a half of it each.
template <typename Token>
__device__ __forceinline__ float squared_length(const GatedDeltaParams& p, int64_t token,
                                                int key_head, int lane) {
  const auto* const half =
      reinterpret_cast<const uint4*>(static_cast<const Token*>(p.key) + token * p.key_token_stride +
                                     key_head * kKeyDim + (lane & 1) * (kKeyDim / 2));
  float sum = 0.f;
#pragma unroll
  for (int i = 0; i < kKeyDim / 16; i++) {
    const uint4 x = half[i];
    const uint32_t pairs[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const float2 f = unpack<Token>(pairs[j]);
      sum += f.x * f.x + f.y * f.y;
    }
  }
  return sum + __shfl_xor_sync(~0u, sum, 1);
}

/// Whole warps: the largest log decay of a token's channels, of the four tokens of load_gates(): of token i to the
/// lanes 8 i .. 8 i + 7.
__device__ __forceinline__ float largest_log_decay(float (&x)[4][4], const GateParams& gates,
                                                   float rate, const float4& biases, int lane) {
  const float bias[4] = {biases.x, biases.y, biases.z, biases.w};
  float most[4];  // of a token
#pragma unroll
  for (int c = 0; c < 4; c++) {
    decode_gates(x[c], gates, rate, bias[c]);
#pragma unroll
    for (int t = 0; t < 4; t++) most[t] = c == 0 ? x[c][t] : fmaxf(most[t], x[c][t]);
  }
#pragma unroll
  for (int half = 2; half > 0; half /= 2) {  // each exchange leaves a lane half of the tokens
    const bool upper = (lane & (8 * half)) != 0;
#pragma unroll
    for (int t = 0; t < half; t++) {
      const float sent = upper ? most[t] : most[t + half], kept = upper ? most[t + half] : most[t];
      most[t] = fmaxf(kept, __shfl_xor_sync(~0u, sent, 8 * half));
    }
  }
#pragma unroll
  for (int other = 1; other < 8; other *= 2)
    most[0] = fmaxf(most[0], __shfl_xor_sync(~0u, most[0], other));
  return most[0];
}

/// Whole warps: log2 of the bound of a whole chunk, to all lanes. A loop of few instructions, a load ahead: this is
/// done once or twice, and of longer code the time is that of fetching it.
template <typename Token>
__device__ __forceinline__ float chunk_bound(const ChannelParams& a, int64_t token0, int head,
                                             float rate, const float4& biases, int lane) {
  const GateParams& gates = a.p.gates;
  float x[4][4], next[4][4];
  load_gates<Token>(next, a, token0, 1, head, lane);
  // Of token lane / 2: how much an update can make a state grow.
  const int64_t token = token0 + lane / 2;
  const float beta = load_number(gates.beta, token, head);
  const int key_head = head / a.p.value_heads_per_key_head;
  const float square = a.p.normalize_qk ? 1.f : squared_length<Token>(a.p, token, key_head, lane);
  const float step = decode_beta(gates, beta) * square - 1.f;
  float bits = step > 1.f ? 0.5f * log2f(step) : 0.f;  // two lanes have it

#pragma unroll 1
  for (int first = 0; first < kChunk; first += 4) {
#pragma unroll
    for (int i = 0; i < 16; i++) x[i / 4][i % 4] = next[i / 4][i % 4];
    if (first + 4 < kChunk) load_gates<Token>(next, a, token0 + first + 4, 1, head, lane);
    bits += kLog2E / 8 * largest_log_decay(x, gates, rate, biases, lane);  // eight lanes have it
  }
#pragma unroll
  for (int other = 1; other < 32; other *= 2) bits += __shfl_xor_sync(~0u, bits, other);
  return bits;
}

/// The chunks before a piece, the nearest first, as far as they have been looked at.
struct WalkBack {
  int64_t token;  ///< the piece's first
  int before;     ///< chunks of the sequence before it
  int limit;      ///< most that it may begin early
  int early;      ///< what is found: chunks, or -1
  float bits = 0.f;
  bool is_done;

  __device__ __forceinline__ WalkBack(const ChannelParams& a, const WorkItem& item, int piece)
      : token(a.p.sequence_offsets[item.sequence] + int64_t{piece} * a.chunks_per_piece * kChunk),
        before(piece * a.chunks_per_piece),
        limit(most_early_chunks(a)),
        early(before <= limit ? before : -1),
        is_done(before == 0) {}
  __device__ __forceinline__ int most() const { return min(before, limit); }
  /// Whether a bound's logarithm over `count` samples, `per_chunk` of which a chunk has, is not half as far as
  /// it must be to end in time: it does not look so.
  __device__ __forceinline__ bool is_too_slow(float log2_bound, int count, int per_chunk) const {
    return -log2_bound * static_cast<float>(2 * limit * per_chunk) <
           chunk_sm90::kForgetBits * static_cast<float>(count);
  }
  /// Of `count` chunks from `done` on their bounds.
  __device__ __forceinline__ void add(uint32_t bounds, int done, int count) {
    for (int i = 0; i < count && !is_done; i++) {
      bits += load_shared<float>(bounds + 4 * i);
      if (bits <= -chunk_sm90::kForgetBits) {
        early = done + i + 1;
        is_done = true;
      }
    }
    if (is_done) return;
    const int looked_at = done + count;
    is_done = looked_at >= most();
    if (!is_done && is_too_slow(bits, looked_at, 1)) {
      early = -1;
      is_done = true;
    }
  }
};

/// Whole warps: whether, by four tokens of those before the piece, a walk may end in time. Which tokens
/// depends on the piece alone, so that all blocks that ask find the same.
template <typename Token>
__device__ __forceinline__ bool looks_forgetful(const ChannelParams& a, const WalkBack& walk,
                                                int head, int lane) {
  const int step = walk.most() * kChunk / 4;
  float x[4][4];
  load_gates<Token>(x, a, walk.token - 4 * step, step, head, lane);
  float sum = largest_log_decay(x, a.p.gates, decoding_rate(a.p.gates, head),
                                decoding_biases(a.p.gates, head, lane), lane);
  sum += __shfl_xor_sync(~0u, sum, 8);
  sum += __shfl_xor_sync(~0u, sum, 16);
  return !walk.is_too_slow(kLog2E * sum, 4, kChunk);
}

/// Every thread of a block of Work::transitions. Ends with a barrier.
template <typename Token>
__device__ __forceinline__ void find_early_chunks(uint32_t sm, const ChannelParams& a, int warp,
                                                  int lane) {
  constexpr int kLook = Layout::kThreads / 64;  // half of the warps: an item or a chunk each
  const uint32_t bounds = sm + Layout::kDecay;  // not yet in use otherwise; of a piece, of the next
  const uint32_t asked = bounds + 8 * kLook;    // of an item, whether its walks are to be summed
  const unsigned items = items_of<Work::transitions>(sm, a);
  const bool of_next = warp >= kLook;
  const auto found = [&](const WorkItem& item, bool next) -> int32_t& {
    return a.early_chunks[int64_t{item.slot + next} * a.p.num_value_heads + item.head];
  };
#pragma unroll 1
  for (unsigned first = blockIdx.x; first < items; first += kLook * gridDim.x) {
    const unsigned own_number = first + static_cast<unsigned>(warp % kLook) * gridDim.x;
    bool is_asked = false;
    if (own_number < items) {
      const WorkItem item = piece_of<Work::transitions>(sm, a, own_number);
      const WalkBack walk(a, item, item.slot - item.first_slot + of_next);
      is_asked = !walk.is_done && looks_forgetful<Token>(a, walk, item.head, lane);
      // other blocks that have work of this piece find and store the same, here and below
      if (!is_asked && lane == 0) found(item, of_next) = walk.is_done ? walk.early : -1;
    }
    if (lane == 0) store_shared(asked + 4 * warp, static_cast<uint32_t>(is_asked));
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < kLook; i++) {
      const bool asks_own = load_shared<uint32_t>(asked + 4 * i) != 0,
                 asks_next = load_shared<uint32_t>(asked + 4 * (kLook + i)) != 0;
      if (!asks_own && !asks_next) continue;
      const WorkItem item =
          piece_of<Work::transitions>(sm, a, first + static_cast<unsigned>(i) * gridDim.x);
      const int piece = item.slot - item.first_slot;
      WalkBack own(a, item, piece), next(a, item, piece + 1);
      own.is_done = !asks_own;
      next.is_done = !asks_next;
      const float rate = decoding_rate(a.p.gates, item.head);
      const float4 biases = decoding_biases(a.p.gates, item.head, lane);
#pragma unroll 1
      for (int done = 0; !(own.is_done && next.is_done); done += kLook) {
        const WalkBack& walk = of_next ? next : own;
        const int chunk = done + warp % kLook;  // before the piece, the nearest is 0
        float bound = 0.f;
        if (!walk.is_done && chunk < walk.most())
          bound = chunk_bound<Token>(a, walk.token - (chunk + 1) * kChunk, item.head, rate, biases,
                                     lane);
        if (lane == 0) store_shared(bounds + 4 * warp, bound);
        __syncthreads();
        own.add(bounds, done, kLook);
        next.add(bounds + 4 * kLook, done, kLook);
        __syncthreads();
      }
      if (threadIdx.x == 0) {
        if (asks_own) found(item, false) = own.early;
        if (asks_next) found(item, true) = next.early;
      }
    }
    __syncthreads();
  }
}

}  // namespace gdn::GDN_CUDA_TARGET::channel_sm90
