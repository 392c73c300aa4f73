#include "harness/verify/shrink.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "interface/error.h"
#include "interface/operation.h"

namespace gdn {
namespace {

using Lengths = std::vector<std::int64_t>;

// The largest steps first: most of what is asked is asked of small problems then.
std::vector<Problem> simpler(const Problem& problem) {
  std::vector<Problem> all;
  const auto add = [&](auto change) {
    Problem changed = problem;
    try {
      change(changed);
      changed.validate();
      if (changed == problem || !(Problem::parse(changed.to_string()) == changed)) return;
    } catch (const Error&) {
      return;
    }
    all.push_back(std::move(changed));
  };
  const Lengths& lengths = problem.sequences.lengths;
  if (lengths.size() > 1) {
    for (const std::int64_t length : lengths)
      add([&](Problem& p) { p.sequences.lengths = {length}; });
    for (std::size_t n = 0; n < lengths.size(); ++n)
      add([&](Problem& p) {
        p.sequences.lengths.erase(p.sequences.lengths.begin() + static_cast<std::ptrdiff_t>(n));
      });
  }
  for (std::size_t n = 0; n < lengths.size(); ++n) {
    for (const std::int64_t length : {lengths[n] / 2, lengths[n] * 3 / 4, lengths[n] - 1}) {
      if (length >= 0) add([&](Problem& p) { p.sequences.lengths[n] = length; });
    }
  }
  add([](Problem& p) { p.num_key_heads = p.num_value_heads = 1; });
  add([](Problem& p) { p.num_value_heads = p.num_key_heads; });
  add([](Problem& p) {
    p.num_value_heads /= p.num_key_heads;
    p.num_key_heads = 1;
  });
  static const Problem defaults;
  for (const std::string& key : problem.operation->fields) {
    const ProblemField& field = problem_field(key);
    add([&](Problem& p) { field.set(p, field.get(defaults)); });
  }
  add([](Problem& p) { p.chunk = 0; });
  for (const std::int64_t dim : {8, 16, 32, 64, 128}) {
    if (dim < problem.key_head_dim) add([&](Problem& p) { p.key_head_dim = dim; });
    if (dim < problem.value_head_dim) add([&](Problem& p) { p.value_head_dim = dim; });
    if (dim < std::min(problem.key_head_dim, problem.value_head_dim))
      add([&](Problem& p) { p.key_head_dim = p.value_head_dim = dim; });
  }
  return all;
}

}  // namespace

Problem shrunk(const Problem& problem, const std::function<bool(const Problem&)>& fails,
               int most_asked) {
  Problem least = problem;
  std::set<std::string> asked;
  for (bool found = true; found;) {
    found = false;
    for (const Problem& candidate : simpler(least)) {
      if (!asked.insert(candidate.to_string()).second) continue;
      if (static_cast<int>(asked.size()) > most_asked) return least;
      if (!fails(candidate)) continue;
      least = candidate;
      found = true;
      break;
    }
  }
  return least;
}

}  // namespace gdn
