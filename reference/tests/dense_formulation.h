// The same operation as reference/, written as differently as it can be: plain loops over dense
// matrices,
//     S <- (I - beta k k^T) diag(alpha) S + beta k v^T,   o = scale S^T q,
// (without k k^T for the additive update; alpha = 1 from a token's second step on), no fused form
// of the residual, no Eigen, every option decoded here again.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "interface/case.h"
#include "interface/operations/recurrence_operands.h"
#include "reference/reference.h"

namespace gdn::reference::testing {

/// Of token t, value head h and key channel i.
inline double dense_alpha(const Case& c, std::int64_t t, std::int64_t h, std::int64_t i) {
  const bool per_channel = c.problem.decay == DecayPer::channel;
  const std::int64_t of_token = per_channel ? h * c.problem.key_head_dim + i : h;
  const std::int64_t per_token =
      c.problem.num_value_heads * (per_channel ? c.problem.key_head_dim : 1);
  const auto at = static_cast<std::size_t>(t * per_token + of_token);
  const double x = static_cast<double>(c[gate_name(c.problem)][at]);
  switch (c.problem.gate_encoding) {
    case GateEncoding::log_decay:
      return std::exp(x);
    case GateEncoding::decay:
      return x;
    case GateEncoding::neg_log_decay:
      return std::exp(-x);
    case GateEncoding::logits: {
      const auto head = static_cast<std::size_t>(h);
      const double a = x + static_cast<double>(c["dt_bias"][static_cast<std::size_t>(of_token)]);
      // (1 + e^a) ^ -exp(A_log): exp(-exp(A_log) softplus(a)) with the logarithm taken away.
      return std::pow(1 + std::exp(a), -std::exp(static_cast<double>(c["A_log"][head])));
    }
    case GateEncoding::bounded: {
      const auto head = static_cast<std::size_t>(h);
      const double f = x + static_cast<double>(c["dt_bias"][static_cast<std::size_t>(of_token)]);
      const double y = std::exp(static_cast<double>(c["A_log"][head])) * f;
      return std::exp(-c.problem.decay_bound / 2 * (1 + std::tanh(y / 2)));
    }
  }
  return std::numeric_limits<double>::quiet_NaN();
}

/// Of row = token * steps + step.
inline double dense_beta(const Case& c, std::int64_t row, std::int64_t h) {
  const double x = static_cast<double>(
      c[beta_name(c.problem)][static_cast<std::size_t>(row * c.problem.num_value_heads + h)]);
  switch (c.problem.beta_encoding) {
    case BetaEncoding::beta:
      return x;
    case BetaEncoding::logit:
      return 0.5 * (1 + std::tanh(x / 2));
    case BetaEncoding::logit2:
      return 1 + std::tanh(x / 2);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

/// gated_delta alone (values for every token, and the state pool after the call).
inline Arrays<double> dense_gated_delta(const Case& c) {
  const Problem& p = c.problem;
  const std::int64_t Dk = p.key_head_dim;
  const std::int64_t Dv = p.value_head_dim;
  const double scale = p.scale ? *p.scale : std::pow(static_cast<double>(Dk), -0.5);
  Arrays<double> result;
  result["final_state"].assign(c["initial_state"].begin(), c["initial_state"].end());
  for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
    const std::int64_t begin = c.sequence_offsets.at(n);
    const std::int64_t end = c.sequence_offsets.at(n + 1);
    result["output"].resize(static_cast<std::size_t>(end * p.num_value_heads * Dv), 0.0);
    const std::int64_t slot = c.slot_index.empty() ? n : c.slot_index.at(n);
    if (slot == -1 || begin == end) continue;
    for (std::int64_t h = 0; h < p.num_value_heads; ++h) {
      const std::int64_t key_head = h * p.num_key_heads / p.num_value_heads;
      const auto pool_at = [&](std::int64_t i, std::int64_t j) {
        const std::int64_t inside = p.state_layout == StateLayout::kv ? i * Dv + j : j * Dk + i;
        return static_cast<std::size_t>(slot * p.state_row_stride() + h * Dk * Dv + inside);
      };
      std::vector<std::vector<double>> S(Dk, std::vector<double>(Dv, 0.0));
      for (std::int64_t i = 0; i < Dk; ++i) {
        for (std::int64_t j = 0; j < Dv; ++j) {
          if (p.initial_state == InitialState::absent) continue;
          S[i][j] = c["initial_state"].at(pool_at(i, j));
        }
      }
      for (std::int64_t t = begin; t < end; ++t) {
        const auto normalised = [&](std::vector<double> x) {
          double squares = 1e-6;
          for (double element : x) squares += element * element;
          for (double& element : x) element /= p.normalize_qk ? std::sqrt(squares) : 1;
          return x;
        };
        const auto vector_at = [&](const std::vector<float>& values, std::int64_t row) {
          const auto first = values.begin() + (row * p.num_key_heads + key_head) * Dk;
          return normalised(std::vector<double>(first, first + Dk));
        };
        for (std::int64_t row = t * p.steps; row < (t + 1) * p.steps; ++row) {
          const std::vector<double> k = vector_at(c["k"], row);
          const double beta = dense_beta(c, row, h);
          const double coupling = p.update == UpdateRule::delta ? beta : 0;
          const auto old = S;
          for (std::int64_t i = 0; i < Dk; ++i) {
            for (std::int64_t j = 0; j < Dv; ++j) {
              double sum = beta * k[i] * c["v"].at((row * p.num_value_heads + h) * Dv + j);
              for (std::int64_t m = 0; m < Dk; ++m) {
                const double alpha = row == t * p.steps ? dense_alpha(c, t, h, m) : 1;
                sum += ((i == m ? 1.0 : 0.0) - coupling * k[i] * k[m]) * alpha * old[m][j];
              }
              S[i][j] = sum;
            }
          }
        }
        const std::vector<double> q = vector_at(c["q"], t);
        for (std::int64_t j = 0; j < Dv; ++j) {
          double sum = 0;
          for (std::int64_t i = 0; i < Dk; ++i) sum += scale * S[i][j] * q[i];
          result["output"].at((t * p.num_value_heads + h) * Dv + j) = sum;
        }
      }
      for (std::int64_t i = 0; i < Dk; ++i) {
        for (std::int64_t j = 0; j < Dv; ++j) {
          if (p.final_state) result["final_state"].at(pool_at(i, j)) = S[i][j];
        }
      }
    }
  }
  return result;
}

/// ||a - b||_2 / ||b||_2 over everything; NaN must meet NaN (and then counts nothing).
template <typename A, typename B>
double relative_difference(const std::vector<A>& a, const std::vector<B>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  long double difference = 0;
  long double norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    const long double d = static_cast<long double>(a[i]) - static_cast<long double>(b[i]);
    difference += d * d;
    norm += static_cast<long double>(b[i]) * static_cast<long double>(b[i]);
  }
  if (difference == 0) return 0;
  return static_cast<double>(std::sqrt(difference / norm));
}

}  // namespace gdn::reference::testing
