// cuda/naive: the token recurrence of docs/contract.md, section 1.1, as it is written, and its
// variants, for reading.
//
// One thread owns one column v of one head's state: Dk floats in a global-memory workspace, rows Dv
// apart, so that a warp's accesses are contiguous. For every token it sweeps the column twice:
// decay and dot with k, then update and dot with q; with several steps per token once for each. Any
// Dk and Dv.
//
// Bound by: 16 bytes of state traffic per state element and token (read and write, twice), from L1
// and L2 where the state fits, and by one memory round trip after another along a sequence; the
// number of columns is all the parallelism there is.
//
// H200, heads 16/32, dim 128, bf16 tokens, cold L2: 4x8192 in 102 ms, 1x32768 in 402 ms.
#include <cuda_runtime.h>

#include "cuda/gated_delta/arguments.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/launch_plan.h"
#include "cuda/target.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

constexpr int kThreads = 128;

/// diag(exp(g)) S of a token, for one column of S.
__device__ void decay_channels(const GatedDeltaParams& p, std::int64_t token, int head,
                               float* state) {
#pragma unroll 1
  for (int k = 0; k < p.key_head_dim; ++k) {
    state[static_cast<std::int64_t>(k) * p.value_head_dim] *=
        channel_decay_of(p.gates, token, head, k);
  }
}

/// Block b: columns [128 * (b % tiles), ...) of value head (b / tiles) % Hv of sequence b / tiles /
/// Hv.
///
/// kVariants: every recurrence that p names; otherwise the gated delta rule alone. Four blocks: with the
/// registers that the compiler takes for more it spills.
template <typename Token, bool kVariants>
__global__ void __launch_bounds__(kThreads, 4)
    naive_kernel(const GatedDeltaParams p, float* __restrict__ states) {
  const int tiles = (p.value_head_dim + kThreads - 1) / kThreads;
  const int head = static_cast<int>(blockIdx.x / tiles % p.num_value_heads);
  const int sequence = static_cast<int>(blockIdx.x / tiles / p.num_value_heads);
  const int key_head = head / p.value_heads_per_key_head;
  const int v = static_cast<int>(blockIdx.x % tiles) * kThreads + static_cast<int>(threadIdx.x);
  const SequenceSpan span = sequence_span(p, sequence);
  if (v >= p.value_head_dim) return;
  store_absent_checkpoints(p, sequence, span, head, v, v + 1, 0, 1);
  if (span.length == 0) return;
  if (span.is_padding()) {
    store_zero_outputs(p, span, head, v, v + 1, 0, 1);
    return;
  }

  const int Dk = p.key_head_dim;
  const int Dv = p.value_head_dim;
  float* const state =  // [Dk], elements Dv apart
      states +
      (static_cast<std::int64_t>(sequence) * p.num_value_heads + head) * Dk * std::int64_t{Dv} + v;
  for (int k = 0; k < Dk; ++k) {
    state[static_cast<std::int64_t>(k) * Dv] = load_state(p.pool, span.row, head, k, v);
  }

  const int steps = kVariants ? p.steps : 1;
  const bool channel_decay = kVariants && p.channel_decay;
  const bool additive_update = kVariants && p.additive_update;
  CheckpointWalk walk(p, sequence, span.length);
  std::int64_t token = span.first;
  do {
    for (; token < span.first + walk.end; ++token) {
      const Token* const query = query_at<Token>(p, token, key_head);
      float query_factor = p.scale;
      float output = 0;  // S^T q after the step, so in the end after the last
      for (int step = 0; step < steps; ++step) {
        const Token* const key = key_at<Token>(p, token, step, key_head);
        float decay = 1;  // the token's decay comes before its first step
        if (step == 0 && !channel_decay) decay = decay_of(p.gates, token, head);
        if (step == 0 && channel_decay) decay_channels(p, token, head, state);
        const float beta = beta_of(p.gates, token, step, head);
        float key_factor = 1;
        if (p.normalize_qk) {
          float query_squares = 0;
          float key_squares = 0;
          for (int k = 0; k < Dk; ++k) {
            query_squares = fmaf(to_float(query[k]), to_float(query[k]), query_squares);
            key_squares = fmaf(to_float(key[k]), to_float(key[k]), key_squares);
          }
          query_factor = p.scale / sqrtf(query_squares + kNormEpsilon);
          key_factor = 1 / sqrtf(key_squares + kNormEpsilon);
        }

        float predicted = 0;  // S^T k, of the decayed state
        for (int k = 0; k < Dk; ++k) {
          float& s = state[static_cast<std::int64_t>(k) * Dv];
          s *= decay;
          predicted = fmaf(s, to_float(key[k]) * key_factor, predicted);
        }
        if (additive_update) predicted = 0;
        const float correction =
            beta * (to_float(value_at<Token>(p, token, step, head)[v]) - predicted);
        output = 0;
        for (int k = 0; k < Dk; ++k) {
          float& s = state[static_cast<std::int64_t>(k) * Dv];
          s = fmaf(to_float(key[k]) * key_factor, correction, s);
          output = fmaf(s, to_float(query[k]), output);
        }
      }
      store_element(p.output, output_index(p, token, head, v), p.output_dtype,
                    output * query_factor);
    }

    walk.store(p, [&](const StatePool& states, std::int64_t row) {
#pragma unroll 1
      for (int k = 0; k < Dk; ++k) {
        store_state(states, row, head, k, v, state[static_cast<std::int64_t>(k) * Dv]);
      }
    });
  } while (walk.next(p));

  const std::int64_t row = output_row(p, sequence, span.row);
  for (int k = 0; k < Dk; ++k) {
    store_state(p.pool, row, head, k, v, state[static_cast<std::int64_t>(k) * Dv]);
  }
}

class Naive final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "cuda/naive",
        .operation = gated_delta_operation(),
        .honours = recurrence_options() + recurrence_variants() +
                   HonouredFields{"output_slots", "checkpoints", "checkpoint_dtype"},
        .gates_in_any_form = true,
        .backend = "cuda",
        .form = "naive",
        .summary = "one thread per state column, state in global memory; bound by state traffic",
        .resources = "",
        .min_compute_capability = 80,
        .rank = 10,
        .examples = {"gated_delta:heads=1/2,dim=64,seq=20+3,h0=normal,dtype=f32",
                     "gated_delta:heads=1/2,dim=16x24,seq=9,dtype=bf16,steps=2,decay=channel"}};
    return description;
  }

  Support supports(const Problem& problem) const override { return Support::yes(); }

  std::int64_t workspace_bytes(const Problem& problem) const override {
    return problem.num_sequences() * problem.num_value_heads * problem.key_head_dim *
           problem.value_head_dim * static_cast<std::int64_t>(sizeof(float));
  }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    const GatedDeltaParams params = make_params(problem, arguments);
    const std::int64_t tiles = (problem.value_head_dim + kThreads - 1) / kThreads;
    const unsigned int blocks =
        grid_blocks(problem.num_sequences() * problem.num_value_heads * tiles, description().name);
    std::vector<DeviceBuffer> workspaces;
    workspaces.push_back(device.allocate(workspace_bytes(problem)));
    float* const states = workspaces.front().as<float>();
    PlanInfo info;
    info.launches = 1;
    info.choice = "threads=" + std::to_string(kThreads);
    return std::make_unique<LaunchPlan>(
        device, info, std::move(workspaces),
        [params, states, blocks, dtype = problem.token_dtype,
         variants = !is_gated_delta_rule(problem)](cudaStream_t stream) {
          with_element_type(dtype, [&](auto token) {
            using Token = decltype(token);
            launch_kernel(variants ? naive_kernel<Token, true> : naive_kernel<Token, false>, blocks,
                          kThreads, 0, stream, params, states);
          });
        });
  }
};

}  // namespace

const Implementation& gated_delta_naive() {
  static const Naive implementation;
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
