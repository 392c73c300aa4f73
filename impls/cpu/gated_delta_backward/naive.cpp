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
// state of every token of it kept. Everything is float32.
#include <algorithm>
#include <cmath>

#include "cpu/gated_delta_backward/groupwise.h"

namespace gdn::cpu {
namespace {

// Tokens from one kept state to the next, for sequences of any length up to all tokens.
std::int64_t segment_of(const Problem& p) {
  const double tokens = static_cast<double>(std::max<std::int64_t>(p.total_tokens(), 1));
  return static_cast<std::int64_t>(std::ceil(std::sqrt(tokens)));
}

std::int64_t workspace_floats(const Problem& p, std::int64_t) {
  const std::int64_t Dk = p.key_head_dim, Dv = p.value_head_dim;
  return (2 * segment_of(p) + 3) * Dk * Dv + 2 * Dk + 4 * Dv;  // as laid out in Memory
}

struct Memory {
  float* kept;    // [ceil(T / segment), Dk, Dv] S before every segment
  float* states;  // [segment + 1, Dk, Dv] S before every token of a segment, and after it
  float* D;       // [Dk, Dv]
  float *q, *k;
  float *v, *d_o, *r, *w;
  float* d_q;  // [tokens, Dk]
  float* d_k;  // [tokens, Dk]
};

class NaiveGradients {
 public:
  explicit NaiveGradients(const GatedDeltaBackwardOperands& operands)
      : operands_(operands),
        forward_(operands.forward()),
        p_(operands.problem()),
        segment_(segment_of(p_)) {}

  Memory divide(float* workspace, float* d_query, float* d_key) const {
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
    for (float** of_keys : {&m.q, &m.k}) *of_keys = take(Dk);
    for (float** of_values : {&m.v, &m.d_o, &m.r, &m.w}) *of_values = take(Dv);
    m.d_q = d_query;
    m.d_k = d_key;
    return m;
  }

  void run(const HeadTask& task, const Memory& m, GateSums& sums) const {
    const std::int64_t size = p_.key_head_dim * p_.value_head_dim;
    float* S = m.states;
    float* next = m.states + size;
    forward_.load_state(task, S);
    for (std::int64_t t = 0; t < task.num_tokens; ++t) {
      if (t % segment_ == 0) std::copy_n(S, size, m.kept + t / segment_ * size);
      step(task, t, m, S, next);
      std::swap(S, next);
    }
    operands_.load_d_final_state(task, m.D);
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
    operands_.store_d_initial_state(task, m.D);
  }

 private:
  // S after token t from S before it. `r` becomes v - R^T k.
  void step(const HeadTask& task, std::int64_t t, const Memory& m, const float* before,
            float* after) const {
    const std::int64_t Dk = p_.key_head_dim, Dv = p_.value_head_dim;
    float beta;
    forward_.load_keys(task, t, 1, m.k);
    forward_.load_values(task, t, 1, m.r);
    forward_.load_betas(task, t, 1, &beta);
    const float alpha = operands_.decay(task, t);
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

  void step_back(const HeadTask& task, std::int64_t t, const Memory& m, const float* before,
                 const float* after, GateSums& sums) const {
    const std::int64_t Dk = p_.key_head_dim, Dv = p_.value_head_dim;
    const float alpha = operands_.decay(task, t);
    float beta;
    forward_.load_queries(task, t, 1, m.q);
    forward_.load_keys(task, t, 1, m.k);
    forward_.load_values(task, t, 1, m.r);
    forward_.load_betas(task, t, 1, &beta);
    operands_.load_d_outputs(task, t, 1, m.d_o);
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
    operands_.store_d_values(task, t, 1, m.v);

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
    operands_.store_d_beta(task, t, d_beta);
    operands_.store_d_gate(task, t, d_g, d_alpha, sums);
  }

  const GatedDeltaBackwardOperands& operands_;
  const GatedDeltaOperands& forward_;
  const Problem& p_;
  std::int64_t segment_;
};

void naive_gradients(const GatedDeltaBackwardOperands& operands, const HeadTask& task, std::int64_t,
                     float* workspace, float* d_query, float* d_key, GateSums& sums) {
  const NaiveGradients gradients(operands);
  gradients.run(task, gradients.divide(workspace, d_query, d_key), sums);
}

}  // namespace

const Implementation& gated_delta_backward_naive() {
  static const GradientImplementation implementation({
      .description =
          {.name = "cpu/naive",
           .operation = gated_delta_backward_operation(),
           .honours = {"slots", "state", "layout", "h0", "ht", "pool_pad", "pool_rows", "norm",
                       "scale", "gate", "bound", "beta"},
           .gates_in_any_form = true,
           .backend = "cpu",
           .form = "naive",
           .summary = "the gradients as plain float32 loops, one token at a time; states are kept "
                      "at every sqrt(T)-th token and computed again in between",
           .resources = "any CPU",
           .rank = 10,
           .examples = {"gated_delta_backward:heads=1/2,dim=16x24,seq=20+3,dtype=f32,h0=normal",
                        "gated_delta_backward:heads=1/2,dim=16,seq=9,dtype=bf16,gate=logits,"
                        "beta=logit,norm=1"}},
      .supports = [](const Problem&) { return Support::yes(); },
      .chunk = [](const Problem&) -> std::int64_t { return 0; },
      .workspace_floats = workspace_floats,
      .function = [](InstructionSet) -> GradientFunction { return naive_gradients; },
  });
  return implementation;
}

}  // namespace gdn::cpu
