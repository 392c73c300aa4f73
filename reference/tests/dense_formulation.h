// The same operation as reference/, written as differently as it can be: plain loops over dense
// matrices,
//     S <- alpha (I - beta k k^T) S + beta k v^T,   o = scale S^T q,
// no fused form of the residual, no Eigen, every option decoded here again.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "interface/case.h"
#include "reference/reference.h"

namespace gdn::reference::testing {

inline double dense_alpha(const Case& c, std::int64_t t, std::int64_t h) {
  const auto at = static_cast<std::size_t>(t * c.problem.num_value_heads + h);
  const double x = static_cast<double>(c.gate.values[at]);
  switch (c.gate.encoding) {
    case GateEncoding::log_decay:
      return std::exp(x);
    case GateEncoding::decay:
      return x;
    case GateEncoding::neg_log_decay:
      return std::exp(-x);
    case GateEncoding::logits: {
      const auto head = static_cast<std::size_t>(h);
      const double a = x + static_cast<double>(c.gate.dt_bias[head]);
      // (1 + e^a) ^ -exp(A_log): exp(-exp(A_log) softplus(a)) with the logarithm taken away.
      return std::pow(1 + std::exp(a), -std::exp(static_cast<double>(c.gate.A_log[head])));
    }
  }
  return std::numeric_limits<double>::quiet_NaN();
}

inline double dense_beta(const Case& c, std::int64_t t, std::int64_t h) {
  const double x = static_cast<double>(
      c.beta.values[static_cast<std::size_t>(t * c.problem.num_value_heads + h)]);
  return c.beta.encoding == BetaEncoding::beta ? x : 0.5 * (1 + std::tanh(x / 2));
}

/// gated_delta alone (values for every token, and the state pool after the call).
inline WideOutputs<double> dense_gated_delta(const Case& c) {
  const Problem& p = c.problem;
  const std::int64_t Dk = p.key_head_dim;
  const std::int64_t Dv = p.value_head_dim;
  const double scale = p.scale ? *p.scale : std::pow(static_cast<double>(Dk), -0.5);
  WideOutputs<double> result;
  result.state_pool.assign(c.state_pool.begin(), c.state_pool.end());
  for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
    const std::int64_t begin = c.sequence_offsets.at(n);
    const std::int64_t end = c.sequence_offsets.at(n + 1);
    result.output.resize(static_cast<std::size_t>(end * p.num_value_heads * Dv), 0.0);
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
          if (p.initial_state != InitialState::absent) S[i][j] = c.state_pool.at(pool_at(i, j));
        }
      }
      for (std::int64_t t = begin; t < end; ++t) {
        std::vector<double> q(Dk);
        std::vector<double> k(Dk);
        double q_squares = 1e-6;
        double k_squares = 1e-6;
        for (std::int64_t i = 0; i < Dk; ++i) {
          q[i] = c.query.at((t * p.num_key_heads + key_head) * Dk + i);
          k[i] = c.key.at((t * p.num_key_heads + key_head) * Dk + i);
          q_squares += q[i] * q[i];
          k_squares += k[i] * k[i];
        }
        for (std::int64_t i = 0; i < Dk && p.normalize_qk; ++i) {
          q[i] /= std::sqrt(q_squares);
          k[i] /= std::sqrt(k_squares);
        }
        const double alpha = dense_alpha(c, t, h);
        const double beta = dense_beta(c, t, h);
        const auto old = S;
        for (std::int64_t i = 0; i < Dk; ++i) {
          for (std::int64_t j = 0; j < Dv; ++j) {
            double sum = beta * k[i] * c.value.at((t * p.num_value_heads + h) * Dv + j);
            for (std::int64_t m = 0; m < Dk; ++m) {
              sum += alpha * ((i == m ? 1.0 : 0.0) - beta * k[i] * k[m]) * old[m][j];
            }
            S[i][j] = sum;
          }
        }
        for (std::int64_t j = 0; j < Dv; ++j) {
          double sum = 0;
          for (std::int64_t i = 0; i < Dk; ++i) sum += scale * S[i][j] * q[i];
          result.output.at((t * p.num_value_heads + h) * Dv + j) = sum;
        }
      }
      for (std::int64_t i = 0; i < Dk; ++i) {
        for (std::int64_t j = 0; j < Dv; ++j) {
          if (p.final_state) result.state_pool.at(pool_at(i, j)) = S[i][j];
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
