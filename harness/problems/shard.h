// Parts of a list of problems, for job arrays: disjoint and together complete.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace gdn {

/// Part `index` of `count` (1-based) of the problems, for job arrays.
struct Shard {
  int index = 1;
  int count = 1;
  /// "2/8"; throws Error(bad_input) unless 1 <= index <= count.
  static Shard parse(const std::string& text);
};
/// Every count-th problem from the index-th on: the parts are disjoint and together complete, and
/// neighbours in the grid (of like cost) go to different parts.
template <typename Item>
std::vector<Item> part_of(const std::vector<Item>& problems, const Shard& shard) {
  std::vector<Item> part;
  const auto count = static_cast<std::size_t>(shard.count);
  for (auto i = static_cast<std::size_t>(shard.index - 1); i < problems.size(); i += count) {
    part.push_back(problems[i]);
  }
  return part;
}

/// A part of about as much work as each of the others, its largest problems first, by `work` of a
/// problem. Largest first, each goes to the part that has the least so far; the parts are disjoint
/// and together complete. The whole (1/1) is left in its order.
template <typename Item, typename Work>
std::vector<Item> part_of_equal_work(const std::vector<Item>& problems, const Shard& shard,
                                     const Work& work) {
  if (shard.count == 1) return problems;
  struct Weighed {
    const Item* item;
    double work;
  };
  std::vector<Weighed> ordered;
  for (const Item& problem : problems) ordered.push_back({&problem, work(problem)});
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const Weighed& a, const Weighed& b) { return a.work > b.work; });
  std::vector<double> loads(static_cast<std::size_t>(shard.count), 0.0);
  std::vector<Item> part;
  for (const Weighed& weighed : ordered) {
    const auto least = std::min_element(loads.begin(), loads.end());
    *least += weighed.work;
    if (least - loads.begin() == shard.index - 1) part.push_back(*weighed.item);
  }
  return part;
}

}  // namespace gdn
