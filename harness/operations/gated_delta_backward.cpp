// gated_delta_backward in the harness: its inputs, its work, its problems, its identities.
#include "interface/operations/gated_delta_backward.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/inputs/draw.h"
#include "harness/inputs/draw_recurrence.h"
#include "harness/operations/active_work.h"
#include "harness/operations/operation_harness.h"
#include "harness/operations/problem_texts.h"
#include "interface/batch_part.h"
#include "interface/gate_arithmetic.h"
#include "interface/operations/gated_delta_training.h"
#include "interface/operations/recurrence_operands.h"
#include "reference/conditioning.h"

namespace gdn {
namespace {

// As gated_delta; d_output is N(0, 1), d_final_state N(0, 1) / sqrt(Dk), so that over a few tokens
// neither hides the other.
void draw(Case& c) {
  const Problem& p = c.problem;
  c["q"] = draw_query(p);
  c["k"] = draw_key(p);
  c["v"] = draw_value(p);
  draw_gates(c);
  draw_betas(c);
  c["initial_state"] = draw_state_pool(p);
  const std::int64_t Dv = p.value_head_dim;
  c["d_output"] = normal_rows(CounterStream(p.seed, "d_output"),
                              p.total_tokens() * p.num_value_heads, Dv, Dv, 1, p.token_dtype);
  const std::int64_t stride = p.state_row_stride();
  if (p.final_state) {
    c["d_final_state"] = normal_rows(
        CounterStream(p.seed, "d_final_state"), p.num_pool_rows(), stride - p.pool_row_padding,
        stride, 1 / std::sqrt(static_cast<double>(p.key_head_dim)), p.state_dtype);
  } else {
    c["d_final_state"].assign(static_cast<std::size_t>(p.num_pool_rows() * stride),
                              std::numeric_limits<float>::quiet_NaN());
  }
}

// recurrent: S once more (7 per element of the state and token), and of D q d_o^T, D^T k, D r, R w,
// k w^T, <R, D> two each and the decay one, S d_o two: 15. chunkwise: 6 products of C Dk Dv and 7 of
// C C D a chunk beside the states' 2 and 1, all as multiply-adds with full squares, D = (Dk + Dv) / 2.
FlopCount count_flops(const Case& inputs, std::int64_t plan_chunk) {
  const Problem& p = inputs.problem;
  const double pairs =
      static_cast<double>(active_work(inputs).tokens) * static_cast<double>(p.num_value_heads);
  const double state = static_cast<double>(p.key_head_dim * p.value_head_dim);
  const double dims = static_cast<double>(p.key_head_dim + p.value_head_dim);
  FlopCount count;
  count.chunk = plan_chunk > 0 ? plan_chunk : kNominalChunk;
  count.recurrent = pairs * 22 * state;
  count.chunkwise = pairs * 2 * (8 * state + 4 * static_cast<double>(count.chunk) * dims);
  return count;
}

std::string flops_text(std::int64_t chunk) {
  return "2 (8 Dk Dv + 4 C (Dk + Dv)) per token and value head, C = " +
         (chunk > 0 ? std::to_string(chunk) : "chunk (64 where not chunked)");
}

// With the norm the length of a row says nothing (but for eps), so that its gradient is at right angles
// to it: x . d_x = eps / n^2 of y . d_y, which is nothing for rows of length 1 and more. Holds per key
// head and token, of any right call, whatever the states are.
std::string along_the_norm(const Case& c, const Outputs& outputs) {
  const Problem& p = c.problem;
  if (!p.normalize_qk) return "";
  const auto Dk = static_cast<std::size_t>(p.key_head_dim);
  const double allowed = 1e-4 + 4 * unit_roundoff(p.token_dtype);
  for (const char* name : {"q", "k"}) {
    const std::vector<float>& x = c[name];
    const std::vector<float>& d_x = outputs[std::string("d_") + name];
    for (std::size_t row = 0; row < x.size(); row += Dk) {
      double along = 0, of_x = 0, of_d = 0;
      for (std::size_t i = row; i < row + Dk; ++i) {
        const double a = x[i], b = d_x[i];
        along += a * b, of_x += a * a, of_d += b * b;
      }
      // A gradient that underflows its type says nothing either.
      if (of_x < 0.9 || !(of_d > 1e-6) || std::isinf(of_d)) continue;
      // 1 / n^2 of the gradient of the unit row may be lost in d_x, eps of it is along x.
      const double bound = allowed * std::sqrt(of_x * of_d) * std::sqrt(static_cast<double>(Dk));
      if (!(std::abs(along) <= bound)) {
        return std::string("d_") + name + " of row " + std::to_string(row / Dk) +
               ": along its own row by " + std::to_string(along) + ", lengths " +
               std::to_string(std::sqrt(of_x)) + " and " + std::to_string(std::sqrt(of_d));
      }
    }
  }
  return "";
}

// A state times exp(x) before token 0 and a first decay less by x are the same call: d_log_decay of a
// sequence's first token is <initial_state, d_initial_state>.
std::string first_gate_disagrees(const Case& c, const Outputs& outputs) {
  const Problem& p = c.problem;
  if (p.gate_encoding != GateEncoding::log_decay || p.initial_state == InitialState::absent)
    return "";
  const Operand& state = p.operation->at("initial_state");
  const Operand& gradient = p.operation->at("d_initial_state");
  const double allowed = 3e-5 + 2 * unit_roundoff(p.state_dtype) +
                         (p.token_dtype == DType::float32 ? 0 : 16 * unit_roundoff(p.token_dtype));
  for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
    if (c.slot(n) < 0 || c.length(n) == 0) continue;
    for (std::int64_t h = 0; h < p.num_value_heads; ++h) {
      std::vector<double> S, D;
      strips_of(state, c, {n, h}).for_each([&](std::int64_t i) {
        S.push_back(static_cast<double>(c["initial_state"][static_cast<std::size_t>(i)]));
      });
      strips_of(gradient, c, {n, h}).for_each([&](std::int64_t i) {
        D.push_back(static_cast<double>(outputs["d_initial_state"][static_cast<std::size_t>(i)]));
      });
      double product = 0, of_S = 0, of_D = 0;
      for (std::size_t i = 0; i < S.size(); ++i) {
        product += S[i] * D[i], of_S += S[i] * S[i], of_D += D[i] * D[i];
      }
      const double d_g =
          outputs["d_log_decay"]
                 [static_cast<std::size_t>(c.first_token(n) * p.num_value_heads + h)];
      // Subnormals of the state's type are lost by as much as it has no digits for them.
      const double lost = p.state_dtype == DType::float16
                              ? 0x1p-25 * std::sqrt(of_S * static_cast<double>(S.size()))
                              : 0;
      if (!(std::abs(d_g - product) <= allowed * std::sqrt(of_S * of_D) + lost + 1e-30)) {
        return "d_log_decay of sequence " + std::to_string(n) + ", head " + std::to_string(h) +
               ": " + std::to_string(d_g) + " at its first token, but <initial_state, " +
               "d_initial_state> is " + std::to_string(product);
      }
    }
  }
  return "";
}

// A key times c, its values times c and its betas over c^2 are the same call: per token and key head
// k . d_k + sum v . d_v = 2 sum beta d_beta, the sums over the key head's value heads. How far a token is
// off that, and how far independent relative errors of 1 in every element would take it.
struct ScalingTerms {
  double off = 0;
  double squares = 0;  ///< of what the sum over elements is made of
  bool told = true;  ///< no gradient is infinite, no logit too large for its gradient to say beta's
  double underflow = 0;  ///< what elements below their type's least number have lost
};

ScalingTerms scaling_terms(const Case& c, const Outputs& outputs, std::int64_t token,
                           std::int64_t key_head) {
  const Problem& p = c.problem;
  ScalingTerms terms;
  const auto add = [&](double product) {
    terms.off += product;
    terms.squares += product * product;
    terms.told &= !std::isinf(product);
  };
  const double least = p.token_dtype == DType::float16 ? 0x1p-25 : 0;
  const auto add_row = [&](const char* name, std::int64_t row, std::int64_t dim) {
    const std::vector<float>& x = c[name];
    const std::vector<float>& d_x = outputs[std::string("d_") + name];
    for (auto i = static_cast<std::size_t>(row * dim);
         i < static_cast<std::size_t>((row + 1) * dim); ++i) {
      terms.told &= !std::isinf(d_x[i]);
      add(static_cast<double>(x[i]) * static_cast<double>(d_x[i]));
      terms.underflow += least * std::abs(static_cast<double>(x[i]));
    }
  };
  add_row("k", token * p.num_key_heads + key_head, p.key_head_dim);
  const std::int64_t group = p.value_heads_per_key_head();
  for (std::int64_t h = key_head * group; h < (key_head + 1) * group; ++h) {
    const std::int64_t row = token * p.num_value_heads + h;
    add_row("v", row, p.value_head_dim);
    const double x = c[beta_name(p)][static_cast<std::size_t>(row)];
    const double d_x = outputs[beta_gradient_name(p)][static_cast<std::size_t>(row)];
    // Of logits, beta d_beta is d_logit over 1 - sigmoid, whatever the largest beta is.
    const bool is_plain = p.beta_encoding == BetaEncoding::beta;
    const double rest = is_plain ? 1 : gate_arithmetic::sigmoid(-x);
    terms.told &= rest > 0x1p-9;
    add(-2 * (is_plain ? x : 1 / rest) * d_x);
  }
  return terms;
}

// Errors grow with the square of a chunk's inverse, which the inputs tell. Beside a token's own terms stands the
// mean over its sequence: a token whose gradients are small has its errors from larger ones.
std::string scaling_disagrees(const Case& c, const Outputs& outputs) {
  const Problem& p = c.problem;
  if (p.normalize_qk) return "";
  const double growth = reference::measure_conditioning(c, {}).inverse_growth;
  const double allowed = std::min(3e-5 + 6 * growth * growth * unit_roundoff(p.token_dtype), 0.5);
  for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
    if (c.slot(n) < 0) continue;
    for (std::int64_t h = 0; h < p.num_key_heads; ++h) {
      std::vector<ScalingTerms> tokens;
      double mean = 0;
      for (std::int64_t t = 0; t < c.length(n); ++t) {
        tokens.push_back(scaling_terms(c, outputs, c.first_token(n) + t, h));
        const double squares = tokens.back().squares;
        if (std::isfinite(squares)) mean += squares / static_cast<double>(c.length(n));
      }
      for (std::size_t t = 0; t < tokens.size(); ++t) {
        if (!tokens[t].told) continue;
        const double bound =
            allowed * std::sqrt(tokens[t].squares + mean) + tokens[t].underflow + 1e-30;
        if (!(std::abs(tokens[t].off) <= bound)) {
          return fmt::format(
              "sequence {}, token {}, key head {}: k . d_k + v . d_v - 2 beta d_beta is {:.3g}, "
              "which is not within {:.3g}",
              n, t, h, tokens[t].off, bound);
        }
      }
    }
  }
  return "";
}

// ---- problems

std::string problem(const std::string& rest) { return "gated_delta_backward:" + rest; }

Texts quick() {
  Texts texts = {
      "heads=2/4,dim=64,seq=1x200,dtype=f32,gates=mid,h0=normal",
      "heads=1/3,dim=64,seq=1x129+1x0+1x1+1x64,dtype=bf16,gates=mid,h0=normal",
      "heads=2/4,dim=32x96,seq=2x50,dtype=f16,gates=real,h0=normal,slots=padding",
      "heads=1/4,dim=32,seq=1x130,dtype=f32,gates=reset,layout=vk,h0=normal",
      "heads=2/2,dim=64,seq=1x150,dtype=bf16,gates=near_one,gate=logits,beta=logit",
      "heads=2/4,dim=32,seq=12x1,dtype=bf16,h0=normal,slots=permuted,state=bf16",
      "heads=2/4,dim=32,seq=1x100,dtype=f32,gates=reset,gate=decay,h0=normal,ht=0",
      "heads=1/2,dim=32,seq=1x100,dtype=f32,gates=weak,norm=1,keys=unnormalised",
      "heads=1/2,dim=32x16,seq=70+9,dtype=f32,gates=strong,gate=neg_log_decay,betas=wide,scale=0.5",
      "heads=3/3,dim=64x32,seq=40+9+1,dtype=bf16,gates=mid,norm=1,magnitudes=edges",
      "heads=3/3,dim=32x64,seq=40+9+1,dtype=f32,gates=mid,magnitudes=edges",
      "heads=1/2,dim=128,seq=130+0+5,dtype=bf16,gates=weak,h0=normal,slots=padding,norm=1,"
      "keys=unnormalised,gate=logits,beta=logit",
      // d_dt_bias and the slope of a logit, over two sequences; betas of 0; no gates; logits that saturate
      "heads=1/2,dim=64,seq=140+9,dtype=bf16,gate=logits,betas=mixture,h0=normal",
      "heads=2/2,dim=64,seq=1x140,dtype=bf16,gates=none,h0=normal",
      "heads=1/2,dim=32x16,seq=70+9,dtype=f32,gates=far,gate=logits,h0=normal",
  };
  for (std::string& text : texts) text = problem(text);
  return texts;
}

Texts grid() {
  Texts texts;
  for (const char* seq : {"1x1", "1x2", "1x17", "1x63+1x65", "1x65+1x0+1x1", "1x129+1x5", "40x1"}) {
    for (const char* dim : {"32", "64x96", "128"}) {
      for (const char* dtype : {"f32", "bf16", "f16"}) {
        const std::size_t i = texts.size();
        texts.push_back(problem(
            "heads=" + turn({"1/1", "2/4", "1/3", "2/6"}, i, 1) + ",dim=" + dim + ",seq=" + seq +
            ",dtype=" + dtype +
            ",gates=" + turn({"mid", "real", "weak", "strong", "near_one", "none", "reset"}, i, 3) +
            turn({"", ",h0=normal", ",h0=normal,slots=permuted",
                  ",h0=normal,slots=padding,pool_pad=24", ",h0=normal,state=bf16",
                  ",h0=normal,layout=vk", ",ht=0", ",norm=1,keys=unnormalised", ",scale=0.25"},
                 i, 1) +
            turn({"", ",gate=decay", ",gate=neg_log_decay", ",gate=logits",
                  ",gate=logits,beta=logit"},
                 i, 2) +
            ",seed=" + std::to_string(i + 1)));
      }
    }
  }
  return texts;
}

Texts suite(std::string_view name) {
  if (name == "quick") return quick();
  if (name == "grid") return grid();
  if (name == "gpu") {
    return {problem("heads=16/32,dim=128,seq=4x8192,dtype=bf16"),
            problem("heads=2/4,dim=128,seq=1x32768,dtype=bf16,gates=near_one"),
            problem("heads=16/64,dim=128,seq=1000+77+0+2001,dtype=bf16,gates=weak,h0=normal,norm=1,"
                    "slots=padding,gate=logits,beta=logit"),
            problem("heads=3/6,dim=128,seq=40x130,dtype=bf16,gates=strong,h0=normal,layout=vk,"
                    "state=bf16,betas=mixture")};
  }
  if (name == "sanitizer") {
    return {
        problem("heads=1/2,dim=32,seq=1x40+1x0+1x17,dtype=f32,gates=mid,h0=normal,slots=padding"),
        problem("heads=1/2,dim=32x16,seq=1x33,dtype=bf16,gate=logits,beta=logit,norm=1"),
        problem("heads=1/3,dim=128,seq=70+0+129,dtype=bf16,gates=mid,h0=normal,slots=padding")};
  }
  return {};
}

Texts baseline() {
  return {problem("heads=2/4,dim=64x32,seq=1x200,dtype=f32,gates=mid,h0=normal"),
          problem("heads=1/2,dim=64x64,seq=1x200,dtype=bf16,gates=real,gate=logits,beta=logit"),
          problem("heads=1/2,dim=64x64,seq=1x70+1x0+1x1+1x65,dtype=f32,gates=mid,h0=normal,"
                  "slots=padding,pool_pad=8,norm=1"),
          problem("heads=1/2,dim=128,seq=200+3,dtype=bf16,gates=weak,h0=normal")};
}

Texts default_sweep(const DeviceInfo& device) {
  return {problem(device.has_own_memory ? "heads=16/32,dim=128,seq=4x8192,dtype=bf16"
                                        : "heads=2/4,dim=64,seq=2x256,dtype=f32")};
}

}  // namespace

const OperationHarness& gated_delta_backward_harness() {
  static const OperationHarness harness = {
      .operation = gated_delta_backward_operation(),
      .draw = draw,
      .count_flops = count_flops,
      .flops_text = flops_text,
      .suite = suite,
      .baseline = baseline,
      .default_sweep = default_sweep,
      .takes_any_magnitude = recurrence_takes_any_magnitude,
      .inner_steps = {{gated_delta_training_operation(), backward_of, backward_of}},
      .checks = {{"norm", along_the_norm},
                 {"first_gate", first_gate_disagrees},
                 {"scaling", scaling_disagrees}}};
  return harness;
}

}  // namespace gdn
