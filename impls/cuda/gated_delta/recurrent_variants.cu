// cuda/recurrent beyond the gated delta rule: gated linear attention (update=additive), n
// Householder steps per token (DeltaProduct) and one decay per key channel (Kimi Delta Attention),
// in every combination.
//
// As recurrent.cu: one thread holds one column of one head's state in Dk registers, a warp is a
// block and passes keys, queries and decays to its threads through shared memory, a step ahead. A
// token is one sweep over the column for its decay, one (additive) or two for each of its steps,
// and one for its output: the multiply-adds of recurrent.cu, in the same order, so that a step
// gives the bits of a token without decay.
//
// Bound by: shared memory, as recurrent.cu; a channel's decay is one more value read per state
// element and token, and a step reads its key twice (additive: once). Not timed yet.
#include <cuda_runtime.h>

#include "cuda/gated_delta/params.cuh"
#include "cuda/gated_delta/recurrent_variants.cuh"
#include "cuda/gated_delta/sequence_walk.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

constexpr int kWarp = 32;

/// sum x^2 + 1e-6 of a vector shared out over the warp.
template <typename Token, int Count>
__device__ __forceinline__ float squared_norm(const Token (&x)[Count]) {
  float squares = 0;
#pragma unroll
  for (int i = 0; i < Count; ++i) squares = fmaf(to_float(x[i]), to_float(x[i]), squares);
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    squares += __shfl_xor_sync(~0u, squares, offset);
  }
  return squares + kNormEpsilon;
}

/// What a lane loads of a token once: elements lane, lane + 32, ... of q and of the decays.
template <typename Token, int Dk, bool kChannelDecay>
struct LaneToken {
  static constexpr int kGates = kChannelDecay ? Dk / kWarp : 1;
  Token query[Dk / kWarp];
  std::uint32_t
      gate[kGates];  // as they lie in memory: nothing waits for them here, whatever their type

  __device__ void load(const GatedDeltaParams& p, std::int64_t token, int head, int lane) {
    const Token* const from = query_at<Token>(p, token, head / p.value_heads_per_key_head);
    const int gates = head * p.gates.gates_per_head;
#pragma unroll
    for (int i = 0; i < Dk / kWarp; ++i) query[i] = from[lane + i * kWarp];
#pragma unroll
    for (int i = 0; i < kGates; ++i) {
      gate[i] =
          load_number_bits(p.gates.gate, token, gates + (kChannelDecay ? lane + i * kWarp : 0));
    }
  }
};

/// And of each of its steps: elements lane, lane + 32, ... of k, its own column of v.
template <typename Token, int Dk>
struct LaneStep {
  Token key[Dk / kWarp];
  Token value;
  std::uint32_t beta;

  __device__ void load(const GatedDeltaParams& p, std::int64_t token, int step, int head, int v,
                       int lane) {
    const Token* const from = key_at<Token>(p, token, step, head / p.value_heads_per_key_head);
#pragma unroll
    for (int i = 0; i < Dk / kWarp; ++i) key[i] = from[lane + i * kWarp];
    value =
        v < p.value_head_dim ? value_at<Token>(p, token, step, head)[v] : from_float<Token>(0.0f);
    beta = load_number_bits(p.gates.beta, token, step * p.num_value_heads + head);
  }
};

/// Calls use(k, x[k]) for all k in order, loading four values at a time.
template <int Dk, typename Use>
__device__ __forceinline__ void for_each_row(const float4 (&x)[Dk / 4], Use use) {
#pragma unroll
  for (int k = 0; k < Dk; k += 4) {
    const float4 four = x[k / 4];
    use(k, four.x);
    use(k + 1, four.y);
    use(k + 2, four.z);
    use(k + 3, four.w);
  }
}

/// Block b: columns [32 * (b % tiles), ...) of value head (b / tiles) % Hv of sequence b / tiles /
/// Hv.
template <typename Token, int Dk, bool kChannelDecay, bool kCheckpoints>
__global__ void __launch_bounds__(kWarp) recurrent_variant_kernel(const GatedDeltaParams p) {
  const int tiles = (p.value_head_dim + kWarp - 1) / kWarp;
  const int head = static_cast<int>(blockIdx.x / tiles % p.num_value_heads);
  const int sequence = static_cast<int>(blockIdx.x / tiles / p.num_value_heads);
  const int lane = static_cast<int>(threadIdx.x);
  const int v_begin = static_cast<int>(blockIdx.x % tiles) * kWarp;
  const int v_end = min(v_begin + kWarp, p.value_head_dim);
  const int v = v_begin + lane;
  const bool owns_column = v < v_end;  // the others only help to load
  const SequenceSpan span = sequence_span(p, sequence);
  if (kCheckpoints && owns_column)
    store_absent_checkpoints(p, sequence, span, head, v, v + 1, 0, 1);
  if (span.length == 0) return;
  if (span.is_padding()) {
    if (owns_column) store_zero_outputs(p, span, head, v, v + 1, 0, 1);
    return;
  }

  // Two buffers each: a token's or step's is written while lanes may still read the one before.
  __shared__ float4 shared_query[2][Dk / 4];
  __shared__ float4 shared_key[2][Dk / 4];
  __shared__ float4 shared_decay[2][kChannelDecay ? Dk / 4 : 1];
  // The state on its way between the pool, in either layout, and the lanes' columns.
  __shared__ float exchange[Dk][kWarp + 1];
  const auto exchanged = [&](int k, int column) { return exchange[k][column - v_begin]; };

  load_state_tile(p.pool, span.row, head, v_begin, v_end, lane, kWarp,
                  [&](int k, int column, float value) { exchange[k][column - v_begin] = value; });
  __syncwarp();
  float state[Dk];
#pragma unroll
  for (int k = 0; k < Dk; ++k) state[k] = owns_column ? exchange[k][lane] : 0.0f;

  LaneToken<Token, Dk, kChannelDecay> next_token;
  LaneStep<Token, Dk> next_step;
  next_token.load(p, span.first, head, lane);
  next_step.load(p, span.first, 0, head, v, lane);
  const std::int64_t end = span.first + span.length;
  int token_buffer = 0;
  int step_buffer = 0;
  SequenceWalk<kCheckpoints> walk(p, sequence, span.length);
  std::int64_t token = span.first;
  do {
    for (; token < span.first + walk.end; ++token, token_buffer ^= 1) {
      float4(&queries)[Dk / 4] = shared_query[token_buffer];
      const float query_factor =
          p.normalize_qk ? p.scale / sqrtf(squared_norm(next_token.query)) : p.scale;
#pragma unroll
      for (int i = 0; i < Dk / kWarp; ++i) {
        reinterpret_cast<float*>(queries)[lane + i * kWarp] =
            to_float(next_token.query[i]) * query_factor;
        if constexpr (kChannelDecay) {
          const int channel = lane + i * kWarp;
          reinterpret_cast<float*>(shared_decay[token_buffer])[channel] =
              decode_decay(p.gates, widen_bits(next_token.gate[i], p.gates.gate.type), head,
                           head * Dk + channel);
        }
      }
      float decay = 1;
      if constexpr (!kChannelDecay)
        decay = decode_decay(p.gates, widen_bits(next_token.gate[0], p.gates.gate.type), head);

      for (int step = 0; step < p.steps; ++step, step_buffer ^= 1) {
        float4(&keys)[Dk / 4] = shared_key[step_buffer];
        const float key_factor = p.normalize_qk ? 1 / sqrtf(squared_norm(next_step.key)) : 1.0f;
#pragma unroll
        for (int i = 0; i < Dk / kWarp; ++i) {
          reinterpret_cast<float*>(keys)[lane + i * kWarp] =
              to_float(next_step.key[i]) * key_factor;
        }
        const float value = to_float(next_step.value);
        const float beta = decode_beta(p.gates, widen_bits(next_step.beta, p.gates.beta.type));
        __syncwarp();
        if (step + 1 < p.steps) {
          next_step.load(p, token, step + 1, head, v, lane);
        } else if (token + 1 < end) {
          next_token.load(p, token + 1, head, lane);
          next_step.load(p, token + 1, 0, head, v, lane);
        }

        if (step == 0) {
          if constexpr (kChannelDecay) {
            for_each_row<Dk>(shared_decay[token_buffer],
                             [&](int k, float channel_decay) { state[k] *= channel_decay; });
          } else {
#pragma unroll
            for (int k = 0; k < Dk; ++k) state[k] *= decay;
          }
        }
        float correction = value;
        if (!p.additive_update) {
          float predicted[4] = {};  // S^T k, in four independent sums
          for_each_row<Dk>(keys, [&](int k, float key) {
            predicted[k % 4] = fmaf(state[k], key, predicted[k % 4]);
          });
          correction -= (predicted[0] + predicted[1]) + (predicted[2] + predicted[3]);
          __syncwarp();  // makes the compiler load k again: keeping Dk more registers would spill
        }
        correction *= beta;
        for_each_row<Dk>(keys,
                         [&](int k, float key) { state[k] = fmaf(key, correction, state[k]); });
      }

      float output[4] = {};
      for_each_row<Dk>(queries, [&](int k, float query) {
        output[k % 4] = fmaf(state[k], query, output[k % 4]);
      });
      if (owns_column) {
        store_element(p.output, output_index(p, token, head, v), p.output_dtype,
                      (output[0] + output[1]) + (output[2] + output[3]));
      }
    }

    __syncwarp();
#pragma unroll
    for (int k = 0; k < Dk; ++k) exchange[k][lane] = state[k];
    __syncwarp();
    walk.store(p, [&](const StatePool& states, std::int64_t row) {
      store_state_tile(states, row, head, v_begin, v_end, lane, kWarp, exchanged);
    });
  } while (walk.next(p));
  store_state_tile(p.pool, output_row(p, sequence, span.row), head, v_begin, v_end, lane, kWarp,
                   exchanged);
}

template <int Dk, bool kCheckpoints>
void enqueue_walking(DType token_dtype, const GatedDeltaParams& params, unsigned int blocks,
                     cudaStream_t stream) {
  with_element_type(token_dtype, [&](auto token) {
    using Token = decltype(token);
    launch_kernel(params.channel_decay ? recurrent_variant_kernel<Token, Dk, true, kCheckpoints>
                                       : recurrent_variant_kernel<Token, Dk, false, kCheckpoints>,
                  blocks, kWarp, 0, stream, params);
  });
}

template <int Dk>
void enqueue(DType token_dtype, const GatedDeltaParams& params, unsigned int blocks,
             cudaStream_t stream) {
  params.checkpoints.count > 0 ? enqueue_walking<Dk, true>(token_dtype, params, blocks, stream)
                               : enqueue_walking<Dk, false>(token_dtype, params, blocks, stream);
}

}  // namespace

void enqueue_recurrent_variant(DType token_dtype, const GatedDeltaParams& params,
                               unsigned int blocks, cudaStream_t stream) {
  switch (params.key_head_dim) {
    case 64:
      return enqueue<64>(token_dtype, params, blocks, stream);
    case 96:
      return enqueue<96>(token_dtype, params, blocks, stream);
    case 128:
      return enqueue<128>(token_dtype, params, blocks, stream);
  }
}

}  // namespace gdn::GDN_CUDA_TARGET
