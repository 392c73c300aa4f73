// cpu/naive: gradients of the gated delta rule as plain loops, one token at a time.
//
// With R = alpha S, r = v - R^T k, S' = R + beta k r^T, o = scale S'^T q of a token, and D the gradient
// with respect to S', from the last token to the first (docs/contract.md, section 1.4):
//
//     D <- D + scale q d_o^T;   d_q = scale S' d_o;   w = D^T k;   d_beta = w . r;   d_v = beta w
//     d_k = beta (D r - R w);   D <- D - beta k w^T;  d_g = <R, D>;  d_alpha = <S, D>;  D <- alpha D
//
// S is needed in reverse, and going back by dividing by alpha would amplify every rounding. So a first
// pass keeps S at every sqrt(T)-th token, and each segment is computed once more from there, with the
// state of every token of it kept. Everything is float32; d_q and d_k are summed over the value heads
// of their key head and rounded once. Threads over (sequence, key head); sums over the batch are made
// per sequence and then in the order of the sequences, so that no number of threads changes a bit.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "cpu/element.h"
#include "cpu/gated_delta/gates.h"
#include "cpu/gated_delta/operands.h"
#include "cpu/instruction_set.h"
#include "cpu/parallel.h"
#include "interface/error.h"
#include "interface/implementation.h"
#include "interface/operations/gated_delta_backward.h"

namespace gdn::cpu {
namespace {

constexpr float kNormEpsilon = 1e-6f;  // docs/contract.md, section 1.1

// Tokens from one kept state to the next, for sequences of any length up to all tokens.
std::int64_t segment_of(const Problem& p) {
  const double tokens = static_cast<double>(std::max<std::int64_t>(p.total_tokens(), 1));
  return static_cast<std::int64_t>(std::ceil(std::sqrt(tokens)));
}

std::int64_t worker_floats(const Problem& p) {
  const std::int64_t Dk = p.key_head_dim, Dv = p.value_head_dim;
  const std::int64_t floats =
      (2 * segment_of(p) + 3) * Dk * Dv + 2 * p.total_tokens() * Dk + 4 * Dk + 4 * Dv;
  return (floats + 15) / 16 * 16;  // each worker's part starts on its own cache line
}

int workers_for(const Problem& p) {
  return static_cast<int>(
      std::min<std::int64_t>(thread_count(), p.num_sequences() * p.num_key_heads));
}

// Of the same problem, one whose queries and keys come as they are.
Problem as_stored(Problem p) {
  p.normalize_qk = false;
  return p;
}
// One that reads its initial state, and one that writes its final one.
Problem with_state(Problem p) {
  p.initial_state = p.final_state ? InitialState::normal : InitialState::absent;
  p.final_state = true;
  return p;
}

// The forward call, with d_v where it has its output.
GatedDeltaArguments forward_of(const GatedDeltaBackwardArguments& a) {
  GatedDeltaArguments forward = a.forward;
  forward.output = a.d_value;
  return forward;
}
// The gradients as a call's values and states: d_output in the place of v.
GatedDeltaArguments gradients_of(const GatedDeltaBackwardArguments& a, const void* state) {
  GatedDeltaArguments gradients = a.forward;
  gradients.value = a.d_output;
  gradients.value_token_stride = a.d_output_token_stride;
  gradients.state_pool = const_cast<void*>(state);
  return gradients;
}

// d log_decay / d decay_logit = -exp(A_log) sigmoid(x); where one factor leaves float32 alone, as one
// exponential (log sigmoid(x) = -softplus(-x)).
float decay_per_logit(float A_log, float x) {
  const float rate = std::exp(A_log), slope = sigmoid(x);
  if (std::isfinite(rate) && slope > 1e-30f) return -rate * slope;
  return -std::exp(A_log - softplus(-x));
}

// d log_decay / d its logit, and / d A_log.
struct GateSlopes {
  float of_logit;
  float of_A_log;
};
// With gate=bounded, of y = exp(A_log) x.
GateSlopes bounded_slopes(float A_log, float x, float bound) {
  const float rate = finite_rate(A_log), y = rate * x;
  const float slope = -bound * sigmoid(y) * sigmoid(-y);  // 1 - sigmoid(y) would cancel
  // Where it has saturated nothing is left, however large the other factor is.
  return slope == 0 ? GateSlopes{0, 0} : GateSlopes{slope * rate, slope * y};
}

class NaivePlan final : public Plan {
 public:
  NaivePlan(const Problem& problem, const GatedDeltaBackwardArguments& arguments, Device& device)
      : p_(problem),
        a_(arguments),
        forward_(problem, forward_of(arguments)),
        stored_(as_stored(problem), arguments.forward),
        d_final_(with_state(problem), gradients_of(arguments, arguments.d_final_state)),
        d_initial_(with_state(problem), gradients_of(arguments, arguments.d_initial_state)),
        segment_(segment_of(problem)),
        workers_(workers_for(problem)) {
    const std::int64_t pairs = problem.num_sequences() * problem.num_value_heads;
    info_.workspace_bytes =
        worker_floats(problem) * workers_ * static_cast<std::int64_t>(sizeof(float)) +
        2 * pairs * static_cast<std::int64_t>(sizeof(double));
    info_.launches = 1;
    info_.choice = "isa=" + to_string(instruction_set()) + " threads=" + std::to_string(workers_);
    workspace_ = device.allocate(worker_floats(problem) * workers_ *
                                 static_cast<std::int64_t>(sizeof(float)));
    sums_ = device.allocate(2 * pairs * static_cast<std::int64_t>(sizeof(double)));
    body_ = [this](std::int64_t item, int worker) {
      run_group(item / p_.num_key_heads, item % p_.num_key_heads,
                workspace_.as<float>() + worker * worker_floats(p_));
    };
  }

  const PlanInfo& info() const override { return info_; }

  void run() override {
    parallel_for(p_.num_sequences() * p_.num_key_heads, workers_, body_);
    if (a_.d_A_log == nullptr) return;
    const std::int64_t heads = p_.num_value_heads;
    for (std::int64_t h = 0; h < heads; ++h) {
      double of_rate = 0, of_bias = 0;
      for (std::int64_t n = 0; n < p_.num_sequences(); ++n) {
        of_rate += sums_.as<double>()[2 * (n * heads + h)];
        of_bias += sums_.as<double>()[2 * (n * heads + h) + 1];
      }
      a_.d_A_log[h] = static_cast<float>(of_rate);
      a_.d_dt_bias[h] = static_cast<float>(of_bias);
    }
  }

 private:
  struct Memory {
    float* kept;    // [ceil(T / segment), Dk, Dv] S before every segment
    float* states;  // [segment + 1, Dk, Dv] S before every token of a segment, and after it
    float* D;       // [Dk, Dv]
    float* d_q;     // [tokens, Dk]
    float* d_k;     // [tokens, Dk]
    float *q, *k, *x;
    float *v, *d_o, *r, *w;
  };
  Memory divide(float* workspace) const {
    const std::int64_t Dk = p_.key_head_dim, Dv = p_.value_head_dim;
    const auto take = [&](std::int64_t floats) {
      float* const taken = workspace;
      workspace += floats;
      return taken;
    };
    Memory m{};
    m.kept = take((segment_ + 1) * Dk * Dv);
    m.states = take((segment_ + 1) * Dk * Dv);
    m.D = take(Dk * Dv);
    m.d_q = take(p_.total_tokens() * Dk);
    m.d_k = take(p_.total_tokens() * Dk);
    for (float** of_keys : {&m.q, &m.k, &m.x}) *of_keys = take(Dk);
    for (float** of_values : {&m.v, &m.d_o, &m.r, &m.w}) *of_values = take(Dv);
    return m;
  }

  void run_group(std::int64_t sequence, std::int64_t key_head, float* workspace) const {
    const Memory m = divide(workspace);
    const std::int64_t Dk = p_.key_head_dim, group = p_.value_heads_per_key_head();
    HeadTask task = forward_.locate(sequence, key_head * group);
    std::fill_n(m.d_q, task.num_tokens * Dk, 0.0f);
    std::fill_n(m.d_k, task.num_tokens * Dk, 0.0f);
    for (std::int64_t h = key_head * group; h < (key_head + 1) * group; ++h) {
      task.value_head = h;
      double* const sums = sums_.as<double>() + 2 * (sequence * p_.num_value_heads + h);
      sums[0] = sums[1] = 0;
      if (task.slot < 0) {
        store_zeros(task);
      } else {
        run_head(task, m, sums);
      }
    }
    for (std::int64_t t = 0; t < task.num_tokens; ++t) {
      stored_.load_queries(task, t, 1, m.x);
      store_key(task, t, m.x, m.d_q + t * Dk, a_.d_query);
      stored_.load_keys(task, t, 1, m.x);
      store_key(task, t, m.x, m.d_k + t * Dk, a_.d_key);
    }
  }

  void store_zeros(const HeadTask& task) const {
    forward_.store_zero_outputs(task);
    for (std::int64_t t = 0; t < task.num_tokens; ++t) {
      a_.d_gate[at_head(task, t)] = a_.d_beta[at_head(task, t)] = 0;
    }
  }
  std::int64_t at_head(const HeadTask& task, std::int64_t t) const {
    return (task.first_token + t) * p_.num_value_heads + task.value_head;
  }

  // From the gradient of y = x / n, n = sqrt(|x|^2 + eps), to that of x: (dy - y (y . dy)) / n.
  void store_key(const HeadTask& task, std::int64_t t, const float* x, float* gradient,
                 void* to) const {
    const std::int64_t Dk = p_.key_head_dim;
    if (p_.normalize_qk) {
      float squares = kNormEpsilon;
      for (std::int64_t i = 0; i < Dk; ++i) squares += x[i] * x[i];
      const float n = std::sqrt(squares);
      float along = 0;
      for (std::int64_t i = 0; i < Dk; ++i) along += x[i] / n * gradient[i];
      for (std::int64_t i = 0; i < Dk; ++i) gradient[i] = (gradient[i] - x[i] / n * along) / n;
    }
    const std::int64_t key_head = task.value_head / p_.value_heads_per_key_head();
    const std::int64_t at = ((task.first_token + t) * p_.num_key_heads + key_head) * Dk;
    encode(p_.token_dtype, gradient, element(to, at, p_.token_dtype), Dk);
  }

  float decay_of(const HeadTask& task, std::int64_t t) const {
    if (p_.gate_encoding == GateEncoding::decay) {
      return value_at(a_.forward.gate, task.first_token + t, task.value_head);
    }
    float g;
    forward_.load_log_decays(task, t, 1, &g);
    return std::exp(g);
  }

  // S after token t from S before it. `r` becomes v - R^T k.
  void step(const HeadTask& task, std::int64_t t, const Memory& m, const float* before,
            float* after) const {
    const std::int64_t Dk = p_.key_head_dim, Dv = p_.value_head_dim;
    float beta;
    forward_.load_keys(task, t, 1, m.k);
    forward_.load_values(task, t, 1, m.r);
    forward_.load_betas(task, t, 1, &beta);
    const float alpha = decay_of(task, t);
    for (std::int64_t i = 0; i < Dk * Dv; ++i) after[i] = decayed(alpha, before[i]);
    for (std::int64_t i = 0; i < Dk; ++i) {
      for (std::int64_t j = 0; j < Dv; ++j) m.r[j] -= after[i * Dv + j] * m.k[i];
    }
    for (std::int64_t i = 0; i < Dk; ++i) {
      for (std::int64_t j = 0; j < Dv; ++j) after[i * Dv + j] += beta * m.k[i] * m.r[j];
    }
  }
  // A full reset forgets whatever there was, infinities included.
  static float decayed(float alpha, float x) { return alpha == 0 ? 0 : alpha * x; }

  void run_head(const HeadTask& task, const Memory& m, double* sums) const {
    const std::int64_t size = p_.key_head_dim * p_.value_head_dim;
    float* S = m.states;
    float* next = m.states + size;
    forward_.load_state(task, S);
    for (std::int64_t t = 0; t < task.num_tokens; ++t) {
      if (t % segment_ == 0) std::copy_n(S, size, m.kept + t / segment_ * size);
      step(task, t, m, S, next);
      std::swap(S, next);
    }
    d_final_.load_state(task, m.D);
    const std::int64_t segments = (task.num_tokens + segment_ - 1) / segment_;
    for (std::int64_t s = segments - 1; s >= 0; --s) {
      const std::int64_t begin = s * segment_;
      const std::int64_t end = std::min(begin + segment_, task.num_tokens);
      std::copy_n(m.kept + s * size, size, m.states);
      for (std::int64_t t = begin; t < end; ++t) {
        step(task, t, m, m.states + (t - begin) * size, m.states + (t - begin + 1) * size);
      }
      for (std::int64_t t = end - 1; t >= begin; --t) {
        step_back(task, t, m, m.states + (t - begin) * size, m.states + (t - begin + 1) * size,
                  sums);
      }
    }
    d_initial_.store_state(task, m.D);
  }

  void step_back(const HeadTask& task, std::int64_t t, const Memory& m, const float* before,
                 const float* after, double* sums) const {
    const std::int64_t Dk = p_.key_head_dim, Dv = p_.value_head_dim;
    const float alpha = decay_of(task, t);
    float beta;
    forward_.load_queries(task, t, 1, m.q);
    forward_.load_keys(task, t, 1, m.k);
    forward_.load_values(task, t, 1, m.r);
    forward_.load_betas(task, t, 1, &beta);
    d_final_.load_values(task, t, 1, m.d_o);
    for (std::int64_t j = 0; j < Dv; ++j) m.d_o[j] *= forward_.scale();
    for (std::int64_t i = 0; i < Dk; ++i) {
      for (std::int64_t j = 0; j < Dv; ++j) {
        m.r[j] -= decayed(alpha, before[i * Dv + j]) * m.k[i];
      }
    }

    std::fill_n(m.w, Dv, 0.0f);
    for (std::int64_t i = 0; i < Dk; ++i) {
      float d_q = 0;
      for (std::int64_t j = 0; j < Dv; ++j) {
        m.D[i * Dv + j] += m.q[i] * m.d_o[j];
        d_q += after[i * Dv + j] * m.d_o[j];
        m.w[j] += m.D[i * Dv + j] * m.k[i];
      }
      m.d_q[t * Dk + i] += d_q;
    }

    float d_beta = 0;
    for (std::int64_t j = 0; j < Dv; ++j) {
      d_beta += m.w[j] * m.r[j];
      m.v[j] = beta * m.w[j];
    }
    forward_.store_outputs(task, t, 1, m.v);

    float d_g = 0, d_alpha = 0;
    for (std::int64_t i = 0; i < Dk; ++i) {
      float d_k = 0, of_g = 0, of_alpha = 0;
      for (std::int64_t j = 0; j < Dv; ++j) {
        float& D = m.D[i * Dv + j];
        const float S = before[i * Dv + j], R = decayed(alpha, S);
        d_k += D * m.r[j] - R * m.w[j];
        D -= m.k[i] * m.v[j];
        of_g += R * D;
        of_alpha += S * D;
        D = decayed(alpha, D);
      }
      m.d_k[t * Dk + i] += beta * d_k;
      d_g += of_g;
      d_alpha += of_alpha;
    }
    store_beta(task, t, d_beta);
    store_gate(task, t, d_g, d_alpha, sums);
  }

  void store_beta(const HeadTask& task, std::int64_t t, float d_beta) const {
    if (p_.beta_encoding != BetaEncoding::beta) {
      const float x = value_at(a_.forward.beta, task.first_token + t, task.value_head);
      const float most = p_.beta_encoding == BetaEncoding::logit2 ? 2.0f : 1.0f;
      d_beta *= most * sigmoid(x) * sigmoid(-x);  // 1 - sigmoid(x) would cancel
    }
    a_.d_beta[at_head(task, t)] = d_beta;
  }

  void store_gate(const HeadTask& task, std::int64_t t, float d_g, float d_alpha,
                  double* sums) const {
    float& d_gate = a_.d_gate[at_head(task, t)];
    switch (p_.gate_encoding) {
      case GateEncoding::log_decay:
        d_gate = d_g;
        return;
      case GateEncoding::decay:
        d_gate = d_alpha;
        return;
      case GateEncoding::neg_log_decay:
        d_gate = -d_g;
        return;
      case GateEncoding::logits:
      case GateEncoding::bounded: {
        const std::int64_t h = task.value_head;
        const float x =
            value_at(a_.forward.gate, task.first_token + t, h) + value_at(a_.forward.dt_bias, 0, h);
        const float A_log = value_at(a_.forward.A_log, 0, h);
        float g;
        forward_.load_log_decays(task, t, 1, &g);
        const GateSlopes slopes = p_.gate_encoding == GateEncoding::bounded
                                      ? bounded_slopes(A_log, x, static_cast<float>(p_.decay_bound))
                                      : GateSlopes{decay_per_logit(A_log, x), g};
        // After a full reset nothing depends on the gate, whatever its own derivative is.
        d_gate = d_g == 0 ? 0 : d_g * slopes.of_logit;
        sums[0] += d_g == 0 ? 0 : static_cast<double>(d_g) * slopes.of_A_log;
        sums[1] += d_gate;
        return;
      }
    }
  }

  Problem p_;
  GatedDeltaBackwardArguments a_;
  GatedDeltaOperands forward_;    // the forward call's inputs; its output is d_v
  GatedDeltaOperands stored_;     // q and k before their norm
  GatedDeltaOperands d_final_;    // d_output as values, d_final_state as the initial state
  GatedDeltaOperands d_initial_;  // d_initial_state as the final state
  std::int64_t segment_;
  int workers_;
  PlanInfo info_;
  DeviceBuffer workspace_;
  DeviceBuffer sums_;                            // [N, Hv, 2] of A_log and dt_bias
  std::function<void(std::int64_t, int)> body_;  // made once: run() allocates nothing
};

class Naive final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "cpu/naive",
        .operation = gated_delta_backward_operation(),
        .honours = {"slots", "state", "layout", "h0", "ht", "pool_pad", "pool_rows", "norm",
                    "scale", "gate", "bound", "beta"},
        .gates_in_any_form = true,
        .backend = "cpu",
        .form = "naive",
        .summary =
            "the gradients as plain float32 loops, one token at a time; states are kept at "
            "every sqrt(T)-th token and computed again in between",
        .resources = "any CPU",
        .rank = 10,
        .examples = {"gated_delta_backward:heads=1/2,dim=16x24,seq=20+3,dtype=f32,h0=normal",
                     "gated_delta_backward:heads=1/2,dim=16,seq=9,dtype=bf16,gate=logits,"
                     "beta=logit,norm=1"}};
    return description;
  }
  Support supports(const Problem&) const override { return Support::yes(); }
  std::int64_t workspace_bytes(const Problem& problem) const override {
    return worker_floats(problem) * workers_for(problem) *
               static_cast<std::int64_t>(sizeof(float)) +
           2 * problem.num_sequences() * problem.num_value_heads *
               static_cast<std::int64_t>(sizeof(double));
  }
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_supported(*this, problem);
    if (const Support support = runs_on(*this, device.info()); !support) {
      throw Error(ErrorKind::device_unavailable, support.reason);
    }
    return std::make_unique<NaivePlan>(problem, gated_delta_backward_arguments(problem, arguments),
                                       device);
  }
};

}  // namespace

const Implementation& gated_delta_backward_naive() {
  static const Naive implementation;
  return implementation;
}

}  // namespace gdn::cpu
