#include "reference/conditioning.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <limits>
#include <mutex>
#include <sstream>

#include "reference/operation.h"
#include "reference/parallel.h"
#include "reference/pool_state.h"
#include "reference/recurrence.h"

namespace gdn::reference {
namespace {

constexpr std::int64_t kDefaultChunk = 64;
constexpr std::int64_t kMostSystems = 256;
constexpr std::int64_t kMostReadoutTokens = 32;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kZeroDecay = 104;  // exp(-104) rounds to zero in float32, subnormals included

template <typename Element>
class Measurement {
 public:
  Measurement(const Case& inputs, const QkvSource<Element>& source, bool normalise,
              const InitialStateOf& initial_state, std::int64_t num_pairs)
      : inputs_(inputs),
        p_(inputs.problem),
        source_(source),
        normalise_(normalise),
        initial_state_(initial_state),
        gates_(decode_gates<double>(inputs)),
        chunk_(std::max<std::int64_t>(1, (p_.chunk > 0 ? p_.chunk : kDefaultChunk) / p_.steps) *
               p_.steps),
        systems_per_pair_(std::max<std::int64_t>(1, kMostSystems / num_pairs)),
        pair_step_(std::max<std::int64_t>(1, num_pairs / kMostSystems)) {}

  // All but the readout.
  Conditioning of_pair(std::int64_t index, const SequenceHead& pair) const {
    Conditioning result;
    if (computes_nothing(pair)) return result;
    const std::int64_t first = first_token(pair);
    const std::int64_t end = end_token(pair);
    scan_gates(first, end, pair.value_head, result);
    if (index % pair_step_ != 0) return result;
    const std::int64_t rows = (end - first) * p_.steps;
    const std::int64_t chunks = (rows + chunk_ - 1) / chunk_;
    const std::int64_t looked_at = std::min(chunks, systems_per_pair_);
    double growth = 0;
    double cancellation_squares = 0;
    for (std::int64_t i = 0; i < looked_at; ++i) {
      const std::int64_t begin = first * p_.steps + i * chunks / looked_at * chunk_;
      const ChunkSystem one =
          solve(begin, std::min(end * p_.steps, begin + chunk_), pair.value_head);
      growth += one.inverse_growth;
      cancellation_squares += one.cancellation * one.cancellation;
    }
    const auto count = static_cast<double>(looked_at);
    result.inverse_growth = growth / count;
    result.cancellation = std::max(1.0, std::sqrt(cancellation_squares / count));
    return result;
  }

  // Scaling q changes both norms alike, so neither its normalisation nor the scale matter here.
  double readout(const SequenceHead& pair) const {
    const std::int64_t begin = first_token(pair);
    const std::int64_t end = end_token(pair);
    if (computes_nothing(pair) || end - begin > kMostReadoutTokens) return 1;
    const std::int64_t head = pair.value_head;
    const Eigen::MatrixXd q = queries(begin, end, head);
    const Eigen::MatrixXd k = keys(begin * p_.steps, end * p_.steps, head);
    const Eigen::MatrixXd v = values(begin * p_.steps, end * p_.steps, head);
    Eigen::MatrixXd state = initial_state(pair);
    double product_squares = 0;
    double output_squares = 0;
    for (Eigen::Index i = 0; i < k.rows(); ++i) {
      const std::int64_t row = begin * p_.steps + i;
      state.array().colwise() *= decays(row, head);
      Eigen::RowVectorXd update = v.row(i);
      if (p_.update == UpdateRule::delta) update -= k.row(i) * state;
      state += beta(row, head) * k.row(i).transpose() * update;
      if ((row + 1) % p_.steps != 0) continue;
      const Eigen::RowVectorXd query = q.row(i / p_.steps);
      product_squares += (query.transpose().asDiagonal() * state).squaredNorm();
      output_squares += (query * state).squaredNorm();
    }
    if (product_squares == 0) return 1;
    return std::max(1.0, std::sqrt(product_squares / output_squares));
  }

 private:
  struct ChunkSystem {
    double inverse_growth = 1;
    double cancellation = 1;
  };

  // Rows are Householder steps: row = token * steps + step, over the whole batch.

  double log_decay(std::int64_t token, std::int64_t head, std::int64_t channel) const {
    return gates_.log_decay[static_cast<std::size_t>(token * p_.gates_per_token() +
                                                     head * p_.gates_per_head() + channel)];
  }
  double beta(std::int64_t row, std::int64_t head) const {
    return gates_.beta[static_cast<std::size_t>(row * p_.num_value_heads + head)];
  }
  // log_decay of what happens just before `row`: nothing but for a token's first step.
  double row_log_decay(std::int64_t row, std::int64_t head, std::int64_t channel) const {
    return row % p_.steps == 0 ? log_decay(row / p_.steps, head, channel) : 0;
  }
  // exp of it, one per key channel.
  Eigen::ArrayXd decays(std::int64_t row, std::int64_t head) const {
    if (p_.decay == DecayPer::head) {
      return Eigen::ArrayXd::Constant(p_.key_head_dim, std::exp(row_log_decay(row, head, 0)));
    }
    Eigen::ArrayXd result(p_.key_head_dim);
    for (Eigen::Index d = 0; d < result.size(); ++d) {
      result[d] = std::exp(row_log_decay(row, head, d));
    }
    return result;
  }

  void scan_gates(std::int64_t first, std::int64_t end, std::int64_t head,
                  Conditioning& result) const {
    const std::int64_t tokens_per_chunk = chunk_ / p_.steps;
    double squares = 0;
    for (std::int64_t channel = 0; channel < p_.gates_per_head(); ++channel) {
      double memory = 0;
      double in_chunk = 0;
      for (std::int64_t t = first; t < end; ++t) {
        if ((t - first) % tokens_per_chunk == 0) in_chunk = 0;
        const double g = log_decay(t, head, channel);
        in_chunk += std::min(-g, kZeroDecay);
        const double decay = std::exp(g);
        memory = decay * decay * memory + static_cast<double>(p_.steps);
        squares += decay * in_chunk * decay * in_chunk;
        result.memory_tokens = std::max(result.memory_tokens, memory);
      }
    }
    result.chunk_log_decay =
        std::sqrt(squares / static_cast<double>((end - first) * p_.gates_per_head()));
  }

  // Rows begin .. end - 1 of one head: `rows_per_token` a token, `heads` vectors of `width` a row.
  Eigen::MatrixXd head_rows(const Element* data, std::int64_t token_stride,
                            std::int64_t rows_per_token, std::int64_t heads, std::int64_t head,
                            std::int64_t width, std::int64_t begin, std::int64_t end) const {
    Eigen::MatrixXd rows(end - begin, width);
    for (Eigen::Index i = 0; i < rows.rows(); ++i) {
      const std::int64_t token = (begin + i) / rows_per_token;
      const std::int64_t step = (begin + i) % rows_per_token;
      const Element* row =
          data + token * token_stride + (step * heads + head) * width * source_.element_stride;
      for (Eigen::Index e = 0; e < width; ++e) {
        rows(i, e) = static_cast<double>(row[e * source_.element_stride]);
      }
    }
    return rows;
  }

  Eigen::MatrixXd keys(std::int64_t begin, std::int64_t end, std::int64_t head) const {
    Eigen::MatrixXd k =
        head_rows(source_.key, source_.key_token_stride, p_.steps, p_.num_key_heads,
                  head / p_.value_heads_per_key_head(), p_.key_head_dim, begin, end);
    if (!normalise_) return k;
    for (Eigen::Index i = 0; i < k.rows(); ++i) {
      k.row(i) /= std::sqrt(k.row(i).squaredNorm() + 1e-6);
    }
    return k;
  }

  // Of tokens, one a token.
  Eigen::MatrixXd queries(std::int64_t begin, std::int64_t end, std::int64_t head) const {
    return head_rows(source_.query, source_.query_token_stride, 1, p_.num_key_heads,
                     head / p_.value_heads_per_key_head(), p_.key_head_dim, begin, end);
  }

  Eigen::MatrixXd values(std::int64_t begin, std::int64_t end, std::int64_t head) const {
    return head_rows(source_.value, source_.value_token_stride, p_.steps, p_.num_value_heads, head,
                     p_.value_head_dim, begin, end);
  }

  Eigen::MatrixXd initial_state(const SequenceHead& pair) const {
    if (initial_state_) return initial_state_(pair);
    return initial_state_of<double>(inputs_, inputs_.slot(pair.sequence), pair.value_head);
  }

  bool computes_nothing(const SequenceHead& pair) const {
    return inputs_.slot(pair.sequence) < 0 || inputs_.length(pair.sequence) == 0;
  }
  std::int64_t first_token(const SequenceHead& pair) const {
    return inputs_.first_token(pair.sequence);
  }
  std::int64_t end_token(const SequenceHead& pair) const {
    return inputs_.first_token(pair.sequence + 1);
  }

  // K K^T * D below the diagonal, D the decays between two rows; elsewhere anything.
  Eigen::MatrixXd decayed_products(const Eigen::MatrixXd& k, std::int64_t begin,
                                   std::int64_t head) const {
    const Eigen::Index n = k.rows();
    const Eigen::MatrixXd key_columns = k.transpose();
    Eigen::MatrixXd products = k * key_columns;
    if (p_.decay == DecayPer::head) {
      for (Eigen::Index i = 0; i < n; ++i) {
        double log_ratio = 0;
        for (Eigen::Index j = i - 1; j >= 0; --j) {
          log_ratio += row_log_decay(begin + j + 1, head, 0);
          products(i, j) *= std::exp(log_ratio);
        }
      }
      return products;
    }
    Eigen::ArrayXXd decay_columns(k.cols(), n);
    for (Eigen::Index i = 0; i < n; ++i) decay_columns.col(i) = decays(begin + i, head);
    for (Eigen::Index i = 0; i < n; ++i) {
      Eigen::ArrayXd decayed_key = key_columns.col(i);  // k_i times the decays from row j to row i
      for (Eigen::Index j = i - 1; j >= 0; --j) {
        decayed_key *= decay_columns.col(j + 1);
        products(i, j) = decayed_key.matrix().dot(key_columns.col(j));
      }
    }
    return products;
  }

  ChunkSystem solve(std::int64_t begin, std::int64_t end, std::int64_t head) const {
    const Eigen::MatrixXd k = keys(begin, end, head);
    const Eigen::Index n = k.rows();
    Eigen::MatrixXd system = Eigen::MatrixXd::Identity(n, n);
    if (p_.update == UpdateRule::delta) system += decayed_products(k, begin, head);
    Eigen::MatrixXd updates = values(begin, end, head);
    for (Eigen::Index i = 0; i < n; ++i) {
      system.row(i).head(i) *= beta(begin + i, head);
      updates.row(i) *= beta(begin + i, head);
    }
    const auto lower = system.triangularView<Eigen::UnitLower>();
    const Eigen::MatrixXd inverse = lower.solve(Eigen::MatrixXd::Identity(n, n));
    updates = lower.solve(updates).eval();
    if (!inverse.allFinite() || !updates.allFinite()) return {kInfinity, kInfinity};

    ChunkSystem result;
    result.inverse_growth = inverse.cwiseAbs().sum() / static_cast<double>(n);
    Eigen::MatrixXd decayed_keys = k;
    Eigen::ArrayXd ratios = Eigen::ArrayXd::Ones(k.cols());  // decays between row i and the end
    double update_squares = 0;
    for (Eigen::Index i = n - 1; i >= 0; --i) {
      decayed_keys.row(i).array() *= ratios.transpose();
      update_squares += decayed_keys.row(i).squaredNorm() * updates.row(i).squaredNorm();
      ratios *= decays(begin + i, head);
    }
    const double state_norm = (decayed_keys.transpose() * updates).norm();
    if (update_squares > 0) result.cancellation = std::sqrt(update_squares) / state_norm;
    return result;
  }

  const Case& inputs_;
  const Problem& p_;
  QkvSource<Element> source_;
  bool normalise_;
  const InitialStateOf& initial_state_;
  Gates<double> gates_;
  std::int64_t chunk_;
  std::int64_t systems_per_pair_;
  std::int64_t pair_step_;
};

}  // namespace

template <typename Element>
Conditioning measure_recurrence_conditioning(const Case& inputs, const QkvSource<Element>& source,
                                             bool normalise, const EvaluationOptions& options,
                                             const InitialStateOf& initial_state) {
  Conditioning worst;
  if (inputs.problem.chunk > 0) worst.chunk = static_cast<double>(inputs.problem.chunk);
  const std::vector<SequenceHead> pairs = pairs_of(inputs.problem, options);
  const auto num_pairs = static_cast<std::int64_t>(pairs.size());
  const Measurement<Element> measurement(inputs, source, normalise, initial_state,
                                         std::max<std::int64_t>(1, num_pairs));
  worst.readouts.resize(pairs.size(), 1.0);
  std::mutex mutex;
  parallel_for(num_pairs, options.threads, [&](std::int64_t i) {
    const SequenceHead& pair = pairs[static_cast<std::size_t>(i)];
    worst.readouts[static_cast<std::size_t>(i)] = measurement.readout(pair);
    const Conditioning one = measurement.of_pair(i, pair);
    const std::lock_guard lock(mutex);
    worst.inverse_growth = std::max(worst.inverse_growth, one.inverse_growth);
    worst.cancellation = std::max(worst.cancellation, one.cancellation);
    worst.memory_tokens = std::max(worst.memory_tokens, one.memory_tokens);
    worst.chunk_log_decay = std::max(worst.chunk_log_decay, one.chunk_log_decay);
  });
  return worst;
}

template Conditioning measure_recurrence_conditioning(const Case&, const QkvSource<float>&, bool,
                                                      const EvaluationOptions&,
                                                      const InitialStateOf&);
template Conditioning measure_recurrence_conditioning(const Case&, const QkvSource<double>&, bool,
                                                      const EvaluationOptions&,
                                                      const InitialStateOf&);

std::string recurrence_conditioning_text(const Conditioning& conditioning) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << "growth of the chunk inverse "
       << conditioning.inverse_growth << ", cancellation " << conditioning.cancellation
       << ", memory " << std::setprecision(0) << conditioning.memory_tokens << " tokens";
  const auto& growths = conditioning.norm_growths;
  if (!growths.empty()) {
    text << ", growth by the norm " << std::setprecision(1)
         << *std::max_element(growths.begin(), growths.end());
  }
  return text.str();
}

Conditioning measure_conditioning(const Case& inputs, const Arrays<double>& reference,
                                  const EvaluationOptions& options) {
  const auto measure = reference_of(inputs.problem.operation).conditioning;
  return measure == nullptr ? Conditioning{} : measure(inputs, reference, options);
}

}  // namespace gdn::reference
