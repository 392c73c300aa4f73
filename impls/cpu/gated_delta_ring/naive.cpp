// cpu/naive of gated_delta_ring: the equations as plain loops, one record and then one token at a time.
//
//     S <- decay_i S + key_i update_i^T                 the records, oldest first
//     S <- exp(g) S;   u = beta (v - S^T k);   S <- S + k u^T;   o = scale * S^T q
//
// The records are done again to the state in every call, and the state goes back to its row where the sequence
// folds. This is the specification to read first. Bound by passes over the state, two a record and four a token.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "cpu/element.h"
#include "cpu/gated_delta/operands.h"
#include "cpu/gated_delta_verify/drafts.h"
#include "cpu/instruction_set.h"
#include "cpu/parallel.h"
#include "interface/dtype.h"
#include "interface/error.h"
#include "interface/implementation.h"
#include "interface/operations/gated_delta_ring.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::cpu {
namespace {

std::int64_t ring_worker_floats(const Problem& p) {
  constexpr std::int64_t kFloatsPerLine = 16;  // each worker's part starts on its own cache line
  const std::int64_t floats =
      p.key_head_dim * p.value_head_dim + 3 * p.key_head_dim + 2 * p.value_head_dim;
  return (floats + kFloatsPerLine - 1) / kFloatsPerLine * kFloatsPerLine;
}

int ring_workers(const Problem& p) {
  return static_cast<int>(
      std::min<std::int64_t>(thread_count(), p.num_sequences() * p.num_value_heads));
}

class RingPlan final : public Plan {
 public:
  RingPlan(const Problem& problem, const GatedDeltaRingArguments& arguments, Device& device)
      : operands_(problem, arguments.tokens), a_(arguments), workers_(ring_workers(problem)) {
    info_.workspace_bytes =
        ring_worker_floats(problem) * workers_ * static_cast<std::int64_t>(sizeof(float));
    info_.launches = 1;
    info_.choice = "isa=" + to_string(instruction_set()) + " threads=" + std::to_string(workers_);
    workspace_ = device.allocate(info_.workspace_bytes);
    run_item_ = [this](std::int64_t item, int worker) { run_head(item, worker); };
  }

  const PlanInfo& info() const override { return info_; }

  void run() override {
    const Problem& p = operands_.problem();
    parallel_for(p.num_sequences() * p.num_value_heads, workers_, run_item_);
  }

 private:
  // Where the records of a head lie in its row.
  struct Records {
    const Problem& p;
    const GatedDeltaRingArguments& a;
    std::int64_t row;
    std::int64_t head;
    std::int64_t first;

    std::int64_t place(std::int64_t i) const { return (first + i) % ring_places(p); }
    std::int64_t key_head() const { return head / p.value_heads_per_key_head(); }
    std::byte* key(std::int64_t i) const {
      const std::int64_t vector = place(i) * p.num_key_heads + key_head();
      return element(a.ring_key, row * a.key_row_stride + vector * p.key_head_dim, p.token_dtype);
    }
    std::byte* update(std::int64_t i) const {
      const std::int64_t vector = place(i) * p.num_value_heads + head;
      return element(a.ring_update, row * a.update_row_stride + vector * p.value_head_dim,
                     ring_update_dtype(p));
    }
    float& decay(std::int64_t i) const {
      return a.ring_decay[row * a.decay_row_stride + place(i) * p.num_value_heads + head];
    }
  };

  void run_head(std::int64_t item, int worker) const {
    const Problem& p = operands_.problem();
    const std::int64_t sequence = item / p.num_value_heads;
    const HeadTask task = operands_.locate(sequence, item % p.num_value_heads);
    if (task.num_tokens == 0) return;
    if (task.slot < 0) return operands_.store_zero_outputs(task);
    const std::int64_t Dk = p.key_head_dim, Dv = p.value_head_dim;
    float* const S = workspace_.as<float>() + worker * ring_worker_floats(p);  // [Dk, Dv]
    float* const q = S + Dk * Dv;                                              // [Dk]
    float* const k = q + Dk;                                                   // [Dk]
    float* const raw_key = k + Dk;                                             // [Dk]
    float* const u = raw_key + Dk;                                             // [Dv]
    float* const o = u + Dv;                                                   // [Dv]

    const Records records{p, a_, task.slot, task.value_head, a_.ring_first[sequence]};
    const std::int64_t length = a_.ring_length[sequence];
    operands_.load_state(task, S);
    for (std::int64_t i = 0; i < length; ++i) {
      decode(p.token_dtype, records.key(i), k, Dk);
      decode(ring_update_dtype(p), records.update(i), u, Dv);
      decay_state(p, &records.decay(i), S);
      add_product(p, k, u, S);
    }
    if (ring_folds(p, a_.ring_fold[sequence])) operands_.store_state(task, S);

    for (std::int64_t t = 0; t < task.num_tokens; ++t) {
      float g, beta;
      operands_.load_log_decays(task, t, 1, &g);
      operands_.load_keys(task, t, 1, k);
      operands_.load_values(task, t, 1, u);
      operands_.load_betas(task, t, 1, &beta);
      const float alpha = std::exp(g);
      decay_state(p, &alpha, S);
      for (std::int64_t i = 0; i < Dk; ++i) {
        for (std::int64_t j = 0; j < Dv; ++j) u[j] -= S[i * Dv + j] * k[i];
      }
      for (std::int64_t j = 0; j < Dv; ++j) u[j] *= beta;
      add_product(p, k, u, S);

      operands_.load_queries(task, t, 1, q);
      for (std::int64_t j = 0; j < Dv; ++j) o[j] = 0;
      for (std::int64_t i = 0; i < Dk; ++i) {
        for (std::int64_t j = 0; j < Dv; ++j) o[j] += S[i * Dv + j] * q[i];
      }
      for (std::int64_t j = 0; j < Dv; ++j) o[j] *= operands_.scale();
      operands_.store_outputs(task, t, 1, o);
      keep(task, t, records, length + t, alpha, u, raw_key);
    }
  }

  // The token's key as it came, once a key head, and its update with what normalises the key.
  void keep(const HeadTask& task, std::int64_t t, const Records& records, std::int64_t i,
            float alpha, float* u, float* raw_key) const {
    const Problem& p = operands_.problem();
    const std::int64_t Dk = p.key_head_dim, Dv = p.value_head_dim;
    const std::int64_t token = task.first_token + t;
    const std::byte* const key = element(
        a_.tokens.key, token * a_.tokens.key_token_stride + records.key_head() * Dk, p.token_dtype);
    if (task.value_head % p.value_heads_per_key_head() == 0) {
      std::copy_n(key, Dk * static_cast<std::int64_t>(size_of(p.token_dtype)), records.key(i));
    }
    if (p.normalize_qk) {
      decode(p.token_dtype, key, raw_key, Dk);
      float squares = 1e-6f;
      for (std::int64_t d = 0; d < Dk; ++d) squares += raw_key[d] * raw_key[d];
      for (std::int64_t j = 0; j < Dv; ++j) u[j] /= std::sqrt(squares);
    }
    encode(ring_update_dtype(p), u, records.update(i), Dv);
    records.decay(i) = alpha;
  }

  GatedDeltaOperands operands_;
  GatedDeltaRingArguments a_;
  int workers_;
  PlanInfo info_;
  DeviceBuffer workspace_;
  std::function<void(std::int64_t, int)> run_item_;  // made once: a run allocates nothing
};

class RingNaive final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "cpu/naive",
        .operation = gated_delta_ring_operation(),
        .honours = recurrence_options() + HonouredFields{"ring"},
        .gates_in_any_form = true,
        .backend = "cpu",
        .form = "naive",
        .summary =
            "the equations as plain float32 loops, records first; bound by passes over the "
            "state",
        .resources = "any CPU",
        .rank = 10,
        .examples = {"gated_delta_ring:heads=1/2,dim=64,seq=4+3,h0=normal,dtype=f32",
                     "gated_delta_ring:heads=1/2,dim=16x24,seq=9+2+5+6,h0=normal,dtype=bf16,"
                     "state=bf16,ring=9,norm=1"}};
    return description;
  }
  Support supports(const Problem&) const override { return Support::yes(); }
  std::int64_t workspace_bytes(const Problem& problem) const override {
    return ring_worker_floats(problem) * ring_workers(problem) *
           static_cast<std::int64_t>(sizeof(float));
  }
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_supported(*this, problem);
    if (const Support support = runs_on(*this, device.info()); !support) {
      throw Error(ErrorKind::device_unavailable, support.reason);
    }
    return std::make_unique<RingPlan>(problem, gated_delta_ring_arguments(problem, arguments),
                                      device);
  }
};

}  // namespace

const Implementation& gated_delta_ring_naive() {
  static const RingNaive implementation;
  return implementation;
}

}  // namespace gdn::cpu
