// Which (sequence, head) pairs to check: all, or a sample of a problem too large to check whole.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "interface/error.h"
#include "reference/reference.h"

namespace gdn::reference {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014): the same draws on every machine.
class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// Uniform in 0..bound-1, without the bias of a plain remainder.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t reject_below = (0 - bound) % bound;
    std::uint64_t x = next();
    while (x < reject_below) x = next();
    return x % bound;
  }

 private:
  std::uint64_t state_;
};

}  // namespace

std::vector<SequenceHead> pairs_of(const Problem& problem, const EvaluationOptions& options) {
  if (options.pairs.empty()) {
    std::vector<SequenceHead> pairs;
    for (std::int64_t n = 0; n < problem.num_sequences(); ++n) {
      for (std::int64_t h = 0; h < problem.num_value_heads; ++h) pairs.push_back({n, h});
    }
    return pairs;
  }
  for (const SequenceHead& pair : options.pairs) {
    if (pair.sequence < 0 || pair.sequence >= problem.num_sequences() || pair.value_head < 0 ||
        pair.value_head >= problem.num_value_heads) {
      throw_bad_input("pairs: sequence " + std::to_string(pair.sequence) + ", head " +
                      std::to_string(pair.value_head) + " is not in the problem " +
                      problem.to_string());
    }
  }
  return options.pairs;
}

std::vector<SequenceHead> key_pairs_of(const Problem& problem, const EvaluationOptions& options) {
  const std::int64_t group = problem.value_heads_per_key_head();
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> value_heads;
  for (const SequenceHead& pair : pairs_of(problem, options)) {
    ++value_heads[{pair.sequence, pair.value_head / group}];
  }
  std::vector<SequenceHead> pairs;
  for (const auto& [pair, count] : value_heads) {
    if (count == group) pairs.push_back({pair.first, pair.second});
  }
  return pairs;
}

std::vector<std::int64_t> sequences_of(const Problem& problem, const EvaluationOptions& options) {
  std::vector<std::int64_t> sequences;
  if (options.pairs.empty()) {
    for (std::int64_t n = 0; n < problem.num_sequences(); ++n) sequences.push_back(n);
    return sequences;
  }
  std::set<std::int64_t> named;
  for (const SequenceHead& pair : pairs_of(problem, options)) named.insert(pair.sequence);
  sequences.assign(named.begin(), named.end());
  return sequences;
}

std::vector<SequenceHead> sample_pairs(const Problem& problem, std::int64_t count,
                                       std::uint64_t seed) {
  const std::int64_t heads = problem.num_value_heads;
  std::vector<std::int64_t> sequences;  // the non-empty ones
  std::int64_t longest = 0;             // position in `sequences`
  const auto& lengths = problem.sequences.lengths;
  for (std::int64_t n = 0; n < problem.num_sequences(); ++n) {
    if (lengths[n] == 0) continue;
    sequences.push_back(n);
    if (lengths[n] > lengths[sequences[longest]]) {
      longest = static_cast<std::int64_t>(sequences.size()) - 1;
    }
  }
  const std::int64_t total = static_cast<std::int64_t>(sequences.size()) * heads;
  std::set<std::int64_t> chosen;
  if (total <= count) {
    for (std::int64_t i = 0; i < total; ++i) chosen.insert(i);
  } else {
    chosen = {longest * heads, longest * heads + heads - 1};
    SplitMix64 random(seed);
    while (static_cast<std::int64_t>(chosen.size()) < count) {
      chosen.insert(static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(total))));
    }
  }
  if (is_judged_by_key_head(problem.operation)) {
    const std::int64_t group = problem.value_heads_per_key_head();
    std::set<std::int64_t> whole_groups;
    for (const std::int64_t i : chosen) {
      for (std::int64_t h = 0; h < group; ++h) whole_groups.insert(i / group * group + h);
    }
    chosen = std::move(whole_groups);
  }
  std::vector<SequenceHead> pairs;
  for (std::int64_t i : chosen) pairs.push_back({sequences[i / heads], i % heads});
  return pairs;
}

}  // namespace gdn::reference
