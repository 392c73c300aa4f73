#include "reference/conditioning.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "reference/parallel.h"

namespace gdn::reference {
namespace {

constexpr std::int64_t kDefaultChunk = 64;
constexpr std::int64_t kMostSystems = 256;
constexpr double kZeroDecay = 104;  // exp(-104) rounds to zero in float32, subnormals included

class Measurement {
 public:
  Measurement(const Case& inputs, const WideOutputs<double>& wide, std::int64_t num_pairs)
      : inputs_(inputs),
        p_(inputs.problem),
        wide_(wide),
        gates_(decode_gates<double>(inputs)),
        chunk_(p_.chunk > 0 ? p_.chunk : kDefaultChunk),
        systems_per_pair_(std::max<std::int64_t>(1, kMostSystems / num_pairs)),
        pair_step_(std::max<std::int64_t>(1, num_pairs / kMostSystems)) {}

  Conditioning of_pair(std::int64_t index, const SequenceHead& pair) const {
    Conditioning result;
    const auto n = static_cast<std::size_t>(pair.sequence);
    if (!inputs_.slot_index.empty() && inputs_.slot_index[n] < 0) return result;
    const std::int64_t first = inputs_.sequence_offsets[n];
    const std::int64_t end = inputs_.sequence_offsets[n + 1];
    scan_gates(first, end, pair.value_head, result);
    if (index % pair_step_ != 0) return result;
    const std::int64_t chunks = (end - first + chunk_ - 1) / chunk_;
    const std::int64_t looked_at = std::min(chunks, systems_per_pair_);
    for (std::int64_t i = 0; i < looked_at; ++i) {
      const std::int64_t begin = first + i * chunks / looked_at * chunk_;
      const double condition =
          solve_condition(begin, std::min(end, begin + chunk_), pair.value_head);
      // Overflow of the inverse (NaN) is the worst conditioning there is.
      if (!(condition <= result.chunk_solve)) result.chunk_solve = condition;
    }
    return result;
  }

 private:
  double log_decay(std::int64_t token, std::int64_t head) const {
    return gates_.log_decay[static_cast<std::size_t>(token * p_.num_value_heads + head)];
  }
  double beta(std::int64_t token, std::int64_t head) const {
    return gates_.beta[static_cast<std::size_t>(token * p_.num_value_heads + head)];
  }

  void scan_gates(std::int64_t first, std::int64_t end, std::int64_t head,
                  Conditioning& result) const {
    double memory = 0;
    double in_chunk = 0;
    for (std::int64_t t = first; t < end; ++t) {
      if ((t - first) % chunk_ == 0) in_chunk = 0;
      const double g = log_decay(t, head);
      in_chunk += std::min(-g, kZeroDecay);
      const double decay = std::exp(g);
      memory = decay * decay * memory + 1;
      result.chunk_log_decay = std::max(result.chunk_log_decay, decay * in_chunk);
      result.memory_tokens = std::max(result.memory_tokens, memory);
    }
  }

  // Keys of tokens begin..end-1, one per row, normalised if the operation normalises them.
  Eigen::MatrixXd keys(std::int64_t begin, std::int64_t end, std::int64_t head) const {
    const bool layer = p_.operation == Operation::gated_delta_layer;
    const std::int64_t key_dims = p_.num_key_heads * p_.key_head_dim;
    const std::int64_t offset = head / p_.value_heads_per_key_head() * p_.key_head_dim;
    const bool by_time = p_.conv_layout == ConvLayout::time;
    const std::int64_t token_stride = by_time ? 1 : p_.conv_channels();
    const std::int64_t channel_stride = by_time ? p_.total_tokens() : 1;
    Eigen::MatrixXd k(end - begin, p_.key_head_dim);
    for (Eigen::Index i = 0; i < k.rows(); ++i) {
      for (Eigen::Index e = 0; e < k.cols(); ++e) {
        k(i, e) =
            layer ? wide_.conv_output[static_cast<std::size_t>(
                        (begin + i) * token_stride + (key_dims + offset + e) * channel_stride)]
                  : static_cast<double>(
                        inputs_.key[static_cast<std::size_t>((begin + i) * key_dims + offset + e)]);
      }
      if (layer || p_.normalize_qk) k.row(i) /= std::sqrt(k.row(i).squaredNorm() + 1e-6);
    }
    return k;
  }

  double solve_condition(std::int64_t begin, std::int64_t end, std::int64_t head) const {
    const Eigen::MatrixXd k = keys(begin, end, head);
    const Eigen::Index n = k.rows();
    const Eigen::MatrixXd gram = k * k.transpose();
    Eigen::MatrixXd system = Eigen::MatrixXd::Identity(n, n);
    for (Eigen::Index i = 0; i < n; ++i) {
      double log_ratio = 0;  // of the decays between token j and token i
      for (Eigen::Index j = i - 1; j >= 0; --j) {
        log_ratio += log_decay(begin + j + 1, head);
        system(i, j) = beta(begin + i, head) * gram(i, j) * std::exp(log_ratio);
      }
    }
    const Eigen::MatrixXd inverse =
        system.triangularView<Eigen::UnitLower>().solve(Eigen::MatrixXd::Identity(n, n));
    if (!inverse.allFinite()) return std::numeric_limits<double>::infinity();
    return (inverse.cwiseAbs() * (system.cwiseAbs() * Eigen::VectorXd::Ones(n))).maxCoeff();
  }

  const Case& inputs_;
  const Problem& p_;
  const WideOutputs<double>& wide_;
  Gates<double> gates_;
  std::int64_t chunk_;
  std::int64_t systems_per_pair_;
  std::int64_t pair_step_;
};

}  // namespace

Conditioning measure_conditioning(const Case& inputs, const WideOutputs<double>& wide,
                                  const EvaluationOptions& options) {
  Conditioning worst;
  if (inputs.problem.operation == Operation::causal_conv1d) return worst;
  const std::vector<SequenceHead> pairs = pairs_of(inputs.problem, options);
  const auto num_pairs = static_cast<std::int64_t>(pairs.size());
  const Measurement measurement(inputs, wide, std::max<std::int64_t>(1, num_pairs));
  std::mutex mutex;
  parallel_for(num_pairs, options.threads, [&](std::int64_t i) {
    const Conditioning one = measurement.of_pair(i, pairs[static_cast<std::size_t>(i)]);
    const std::lock_guard lock(mutex);
    worst.chunk_solve = std::max(worst.chunk_solve, one.chunk_solve);
    worst.memory_tokens = std::max(worst.memory_tokens, one.memory_tokens);
    worst.chunk_log_decay = std::max(worst.chunk_log_decay, one.chunk_log_decay);
  });
  return worst;
}

}  // namespace gdn::reference
