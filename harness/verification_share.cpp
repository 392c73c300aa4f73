#include "harness/verification_share.h"

#include <algorithm>

namespace gdn {
namespace {

using Tasks = std::vector<VerificationTask>;
using Work = std::function<double(const VerificationTask&)>;

// Tasks of one implementation where a task is more than this part of what a shard has to do.
constexpr double kLargestPart = 0.2;

Tasks with_large_ones_split(const Tasks& tasks, int shards, const Work& work) {
  double total = 0;
  for (const VerificationTask& task : tasks) total += work(task);
  Tasks all;
  for (const VerificationTask& task : tasks) {
    if (work(task) <= kLargestPart * total / shards) {
      all.push_back(task);
      continue;
    }
    for (const Implementation* implementation : task.implementations) {
      all.push_back({task.entry, {implementation}});
    }
  }
  return all;
}

// One task per problem again, where the first of them stood.
Tasks joined_by_problem(const Tasks& tasks) {
  Tasks joined;
  for (const VerificationTask& task : tasks) {
    const auto same =
        std::find_if(joined.begin(), joined.end(), [&](const VerificationTask& other) {
          return other.entry.problem.to_string() == task.entry.problem.to_string();
        });
    if (same == joined.end()) {
      joined.push_back(task);
    } else {
      same->implementations.insert(same->implementations.end(), task.implementations.begin(),
                                   task.implementations.end());
    }
  }
  return joined;
}

}  // namespace

Tasks share_of(const Tasks& tasks, const Shard& shard, const Work& work) {
  if (shard.count == 1) return tasks;
  return joined_by_problem(
      part_of_equal_work(with_large_ones_split(tasks, shard.count, work), shard, work));
}

}  // namespace gdn
