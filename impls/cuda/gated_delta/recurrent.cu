// cuda/recurrent: the token recurrence with the state on chip.
//
// One thread holds one column v of one head's state in Dk registers; a warp holds 32 columns and is
// a block of its own. The warp loads a token's q and k one token ahead, normalises them if asked,
// and passes them to its threads through shared memory; every thread then sweeps its column twice,
// as cuda/naive does, out of registers. Dk is a template value: register arrays need constant
// indices. This file has the gated delta rule, recurrent_variants.cu its variants.
//
// Bound by: shared memory. It delivers 128 bytes a cycle to a multiprocessor, broadcast or not, so
// a warp's 3 Dk / 4 loads of 16 bytes per lane cost 4 cycles each, against 4 Dk multiply-adds
// spread over four schedulers; and with fewer than 4 warps per multiprocessor (few heads, few
// sequences) by their latency. Global memory is touched once per token.
//
// H200, heads 16/32, dim 128, bf16 tokens, cold L2: 4x8192 in 7.09 ms, 1x32768 in 27.3 ms, with four
// states inside each sequence in 7.15; gates of another encoding or type cost 1 % (decoded at every token
// they made it 12.1).
#include <cuda_runtime.h>

#include "cuda/gated_delta/arguments.cuh"
#include "cuda/gated_delta/recurrent_variants.cuh"
#include "cuda/gated_delta/sequence_walk.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/launch_plan.h"
#include "cuda/target.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

constexpr int kWarp = 32;
constexpr unsigned int kAllLanes = 0xffffffffu;

/// Two sums over the warp, which wait for each other's shuffles together.
__device__ __forceinline__ void sum_over_warp(float& x, float& y) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    const float other_x = __shfl_xor_sync(kAllLanes, x, offset);
    const float other_y = __shfl_xor_sync(kAllLanes, y, offset);
    x += other_x;
    y += other_y;
  }
}

/// Decays and betas of a head's tokens, 32 at a time: a lane decodes those of one token, and the warp
/// passes them round when their token comes. What to do for which encoding and type, a chain of
/// branches that nothing else of a warp can hide, so costs a 32nd of a token's time; and the next 32
/// are on their way meanwhile, as they lie in memory.
class TokenGates {
 public:
  /// The first of the sequence's tokens, of `span`, are asked for.
  __device__ TokenGates(const GateParams& gates, const SequenceSpan& span, int head, int lane)
      : gates_(gates), last_(span.first + span.length - 1), head_(head), lane_(lane) {
    load(span.first);
  }

  /// Before the sequence's token `index`: decodes 32 where they begin.
  __device__ void advance(const SequenceSpan& span, std::int64_t index) {
    if (index % kWarp != 0) return;
    decay_ = decode_decay(gates_, widen_bits(gate_bits_, gates_.gate.type), head_);
    beta_ = decode_beta(gates_, widen_bits(beta_bits_, gates_.beta.type));
    load(span.first + index + kWarp);
  }
  __device__ float decay(std::int64_t index) const { return of_lane(decay_, index); }
  __device__ float beta(std::int64_t index) const { return of_lane(beta_, index); }

 private:
  static __device__ float of_lane(float x, std::int64_t index) {
    return __shfl_sync(kAllLanes, x, static_cast<int>(index % kWarp));
  }
  /// Of tokens first + lane; past the end the last one again.
  __device__ void load(std::int64_t first) {
    const std::int64_t token = min(first + lane_, last_);
    gate_bits_ = load_number_bits(gates_.gate, token, head_);
    beta_bits_ = load_number_bits(gates_.beta, token, head_);
  }

  const GateParams& gates_;
  std::int64_t last_;
  int head_;
  int lane_;
  std::uint32_t gate_bits_;
  std::uint32_t beta_bits_;
  float decay_ = 0;
  float beta_ = 0;
};

/// What a lane loads of one token: elements lane, lane + 32, ... of q and k, its own column of v.
template <typename Token, int Dk>
struct LaneToken {
  Token query[Dk / kWarp];
  Token key[Dk / kWarp];
  Token value;

  __device__ void load(const GatedDeltaParams& p, std::int64_t token, int head, int v, int lane) {
    const int key_head = head / p.value_heads_per_key_head;
#pragma unroll
    for (int i = 0; i < Dk / kWarp; ++i) {
      query[i] = query_at<Token>(p, token, key_head)[lane + i * kWarp];
      key[i] = key_at<Token>(p, token, key_head)[lane + i * kWarp];
    }
    value = v < p.value_head_dim ? value_at<Token>(p, token, head)[v] : from_float<Token>(0.0f);
  }
};

/// Block b: columns [32 * (b % tiles), ...) of value head (b / tiles) % Hv of sequence b / tiles /
/// Hv.
template <typename Token, int Dk, bool kCheckpoints>
__global__ void __launch_bounds__(kWarp) recurrent_kernel(const GatedDeltaParams p) {
  const int tiles = (p.value_head_dim + kWarp - 1) / kWarp;
  const int head = static_cast<int>(blockIdx.x / tiles % p.num_value_heads);
  const int sequence = static_cast<int>(blockIdx.x / tiles / p.num_value_heads);
  const int lane = static_cast<int>(threadIdx.x);
  const int v = static_cast<int>(blockIdx.x % tiles) * kWarp + lane;
  const bool owns_column = v < p.value_head_dim;  // the others only help to load
  const SequenceSpan span = sequence_span(p, sequence);
  if (kCheckpoints && owns_column)
    store_absent_checkpoints(p, sequence, span, head, v, v + 1, 0, 1);
  if (span.length == 0) return;
  if (span.is_padding()) {
    if (owns_column) store_zero_outputs(p, span, head, v, v + 1, 0, 1);
    return;
  }

  // Two buffers: a token is written while lanes may still read the one before.
  __shared__ float4 shared_query[2][Dk / 4];
  __shared__ float4 shared_key[2][Dk / 4];

  float state[Dk] = {};
  if (owns_column) load_state_column(p.pool, span.row, head, v, state);

  TokenGates gates(p.gates, span, head, lane);
  LaneToken<Token, Dk> next;
  next.load(p, span.first, head, v, lane);
  const std::int64_t end = span.first + span.length;
  int buffer = 0;
  SequenceWalk<kCheckpoints> walk(p, sequence, span.length);
  std::int64_t token = span.first;
  do {
    for (; token < span.first + walk.end; ++token, buffer ^= 1) {
      gates.advance(span, token - span.first);
      const float decay = gates.decay(token - span.first);
      const float beta = gates.beta(token - span.first);
      float query_factor = p.scale;
      float key_factor = 1;
      if (p.normalize_qk) {
        float query_squares = 0;
        float key_squares = 0;
#pragma unroll
        for (int i = 0; i < Dk / kWarp; ++i) {
          query_squares = fmaf(to_float(next.query[i]), to_float(next.query[i]), query_squares);
          key_squares = fmaf(to_float(next.key[i]), to_float(next.key[i]), key_squares);
        }
        sum_over_warp(query_squares, key_squares);
        query_factor = p.scale / sqrtf(query_squares + kNormEpsilon);
        key_factor = 1 / sqrtf(key_squares + kNormEpsilon);
      }
#pragma unroll
      for (int i = 0; i < Dk / kWarp; ++i) {
        reinterpret_cast<float*>(shared_query[buffer])[lane + i * kWarp] =
            to_float(next.query[i]) * query_factor;
        reinterpret_cast<float*>(shared_key[buffer])[lane + i * kWarp] =
            to_float(next.key[i]) * key_factor;
      }
      const float value = to_float(next.value);
      __syncwarp();
      if (token + 1 < end) next.load(p, token + 1, head, v, lane);

      float predicted[4] = {};  // S^T k of the decayed state, in four independent sums
#pragma unroll
      for (int k = 0; k < Dk; k += 4) {
        const float4 key = shared_key[buffer][k / 4];
        const float keys[4] = {key.x, key.y, key.z, key.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          state[k + i] *= decay;
          predicted[i] = fmaf(state[k + i], keys[i], predicted[i]);
        }
      }
      const float correction =
          beta * (value - ((predicted[0] + predicted[1]) + (predicted[2] + predicted[3])));
      __syncwarp();  // makes the compiler load k again: keeping Dk more registers would spill
      float output[4] = {};
#pragma unroll
      for (int k = 0; k < Dk; k += 4) {
        const float4 key = shared_key[buffer][k / 4];
        const float4 query = shared_query[buffer][k / 4];
        const float keys[4] = {key.x, key.y, key.z, key.w};
        const float queries[4] = {query.x, query.y, query.z, query.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          state[k + i] = fmaf(keys[i], correction, state[k + i]);
          output[i] = fmaf(state[k + i], queries[i], output[i]);
        }
      }
      if (owns_column) {
        store_element(p.output, output_index(p, token, head, v), p.output_dtype,
                      (output[0] + output[1]) + (output[2] + output[3]));
      }
    }

    if (owns_column) {
      walk.store(p, [&](const StatePool& states, std::int64_t row) {
        store_state_column(states, row, head, v, state);
      });
    }
  } while (walk.next(p));

  if (!owns_column) return;
  const std::int64_t row = output_row(p, sequence, span.row);
  store_state_column(p.pool, row, head, v, state);
}

template <typename Token, int Dk>
void launch_for(const GatedDeltaParams& params, unsigned int blocks, cudaStream_t stream) {
  launch_kernel(params.checkpoints.count > 0 ? recurrent_kernel<Token, Dk, true>
                                             : recurrent_kernel<Token, Dk, false>,
                blocks, kWarp, 0, stream, params);
}

template <typename Token>
void launch(const GatedDeltaParams& params, unsigned int blocks, cudaStream_t stream) {
  switch (params.key_head_dim) {
    case 64:
      return launch_for<Token, 64>(params, blocks, stream);
    case 96:
      return launch_for<Token, 96>(params, blocks, stream);
    case 128:
      return launch_for<Token, 128>(params, blocks, stream);
  }
}

class Recurrent final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "cuda/recurrent",
        .operation = gated_delta_operation(),
        .honours = recurrence_options() + recurrence_variants() +
                   HonouredFields{"output_slots", "checkpoints", "checkpoint_dtype"},
        .gates_in_any_form = true,
        .backend = "cuda",
        .form = "recurrent",
        .summary = "one state column per thread in registers; bound by arithmetic of few warps",
        .resources = "",
        .min_compute_capability = 80,
        .rank = 20,
        .examples = {"gated_delta:heads=1/2,dim=64,seq=20+3,h0=normal,dtype=f32",
                     "gated_delta:heads=1/2,dim=128,seq=5x1,h0=normal,dtype=bf16"}};
    return description;
  }

  Support supports(const Problem& problem) const override {
    const std::int64_t Dk = problem.key_head_dim;
    if (Dk != 64 && Dk != 96 && Dk != 128) {
      return Support::no("Dk=" + std::to_string(Dk) +
                         ": a state column in registers is compiled for Dk 64, 96 and 128");
    }
    return Support::yes();
  }

  std::int64_t workspace_bytes(const Problem&) const override { return 0; }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    const GatedDeltaParams params = make_params(problem, arguments);
    const std::int64_t tiles = (problem.value_head_dim + kWarp - 1) / kWarp;
    const unsigned int blocks =
        grid_blocks(problem.num_sequences() * problem.num_value_heads * tiles, description().name);
    PlanInfo info;
    info.launches = 1;
    info.choice = "columns=32 lanes_per_column=1";
    return std::make_unique<LaunchPlan>(
        device, info, std::vector<DeviceBuffer>{},
        [params, blocks, dtype = problem.token_dtype,
         variant = !is_gated_delta_rule(problem)](cudaStream_t stream) {
          if (variant) return enqueue_recurrent_variant(dtype, params, blocks, stream);
          with_element_type(dtype,
                            [&](auto token) { launch<decltype(token)>(params, blocks, stream); });
        });
  }
};

}  // namespace

const Implementation& gated_delta_recurrent() {
  static const Recurrent implementation;
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
