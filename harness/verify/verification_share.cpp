#include "harness/verify/verification_share.h"

#include <algorithm>
#include <utility>

#include "harness/run/memory_needed.h"
#include "harness/verify/verification_cost.h"

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

std::vector<const Implementation*> able_of(const VerificationTask& task) {
  std::vector<const Implementation*> able;
  for (const Implementation* implementation : task.implementations) {
    if (implementation->supports(task.entry.problem)) able.push_back(implementation);
  }
  return able;
}

}  // namespace

bool is_left_out(const VerificationTask& task, const DeviceInfo& device, double most_operations) {
  const Problem& problem = task.entry.problem;
  const std::vector<const Implementation*> able = able_of(task);
  if (able.empty() || reference::evaluation_flops(problem) > most_operations) return true;
  return std::any_of(able.begin(), able.end(), [&](const Implementation* implementation) {
    return exceeds_memory(problem, implementation->workspace_bytes(problem), device);
  });
}

double work_to_share(const VerificationTask& task, const VerifyOptions& options,
                     const DeviceInfo& device, double most_operations) {
  if (is_left_out(task, device, most_operations)) return 1;
  return verification_work(task.entry.problem, options,
                           static_cast<std::int64_t>(able_of(task).size()));
}

Tasks share_of(const Tasks& tasks, const Shard& shard, const Work& work) {
  if (shard.count == 1) return tasks;
  return joined_by_problem(
      part_of_equal_work(with_large_ones_split(tasks, shard.count, work), shard, work));
}

Tasks for_workers(const Tasks& tasks, int workers, const Work& work) {
  if (workers == 1) return tasks;
  std::vector<std::pair<double, VerificationTask>> weighed;
  Tasks split = with_large_ones_split(tasks, workers, work);
  for (VerificationTask& task : split) {
    const double own = work(task);  // once each: it asks every implementation
    weighed.emplace_back(own, std::move(task));
  }
  std::stable_sort(weighed.begin(), weighed.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  Tasks all;
  for (auto& [own, task] : weighed) all.push_back(std::move(task));
  return all;
}

}  // namespace gdn
