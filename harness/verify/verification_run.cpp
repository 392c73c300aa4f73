#include "harness/verify/verification_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "harness/operations/make_case.h"
#include "harness/run/host_memory.h"
#include "harness/run/memory_needed.h"
#include "harness/verify/implementation_apart.h"
#include "harness/verify/side_by_side.h"
#include "harness/verify/verification_cost.h"
#include "interface/error.h"
#include "interface/select.h"

namespace gdn {
namespace {

constexpr int kMostJobs = 12;
constexpr std::int64_t kWorthEveryProcessor = std::int64_t{1} << 29;  // bytes

int processors() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

std::int64_t memory_for_jobs(const DeviceInfo& info) {
  // The rest: the process, estimates.
  return std::min(host_memory_bytes(), info.memory_bytes) / 10 * 7;
}

VerifyResult not_run(Verdict verdict, const std::string& reason) {
  VerifyResult result;
  result.verdict = verdict;
  result.reason = reason;
  return result;
}

JudgedApart judged_apart(const ImplementationApart& implementation, const Problem& problem,
                         const VerifyOptions& options) {
  try {
    return implementation.verify(problem, options);
  } catch (const Error& error) {
    return {"", not_run(Verdict::failed, error.what())};
  }
}

}  // namespace

VerificationRun::VerificationRun(VerificationSpec spec, std::vector<KnownLimit> limits)
    : spec_(std::move(spec)),
      limits_(std::move(limits)),
      device_(open_device(spec_.device)->info()) {
  const double most = most_operations();
  const std::vector<VerificationTask> every = every_task();
  const auto work = [&](const VerificationTask& task) {
    return work_to_share(task, options_for(task.entry), device_, most);
  };
  tasks_ = for_workers(share_of(every, spec_.shard, work), jobs(), work);
  others_may_verify_ =
      spec_.shard.count > 1 && std::any_of(every.begin(), every.end(), [&](const auto& task) {
        return !is_left_out(task, device_, most);
      });
}

// Every problem with the implementations of its operation.
std::vector<VerificationTask> VerificationRun::every_task() const {
  const auto implementations = choose_implementations(spec_.implementations, device_);
  std::vector<VerificationTask> every;
  for (const SuiteProblem& entry : spec_.problems) {
    VerificationTask task{entry, {}};
    for (const Implementation* implementation : implementations) {
      if (implementation->description().operation != entry.problem.operation) continue;
      task.implementations.push_back(implementation);
    }
    if (!task.implementations.empty()) every.push_back(std::move(task));
  }
  return every;
}

VerifyOptions VerificationRun::options_for(const SuiteProblem& entry) const {
  VerifyOptions options = spec_.options;
  options.every_split |= entry.every_split && !spec_.errors_only;
  options.token_by_token |= entry.token_by_token && !spec_.errors_only;
  if (jobs() > 1) options.threads = std::max(1, processors() / jobs());
  // Few of these are under way together.
  if (host_bytes_needed(entry.problem) > kWorthEveryProcessor) options.threads = 0;
  return spec_.of_suite ? options.of_suite_problem(entry.problem) : options;
}

double VerificationRun::most_operations() const {
  if (spec_.most_operations > 0) return spec_.most_operations;
  if (!spec_.of_suite || device_.has_own_memory) return std::numeric_limits<double>::infinity();
  return device_.emulated ? 2e7 : 5e9;
}

// A card waits for the host's work on each problem; on a CPU the kernels take all processors.
int VerificationRun::jobs() const {
  if (spec_.jobs > 0) return spec_.jobs;
  return device_.has_own_memory ? std::clamp(processors() / 2, 1, kMostJobs) : 1;
}

std::int64_t VerificationRun::memory_of(const VerificationTask& task) const {
  std::int64_t most = 0;
  for (const Implementation* implementation : task.implementations) {
    const Problem& problem = task.entry.problem;
    if (!implementation->supports(problem)) continue;
    most = std::max(most, verification_memory(problem, implementation->workspace_bytes(problem),
                                              options_for(task.entry)));
  }
  return most;
}

// Why a problem is left out on this device; empty if it is not.
std::string VerificationRun::too_large(const SuiteProblem& entry,
                                       const std::vector<const Implementation*>& implementations,
                                       const Device& device) const {
  const Problem& problem = entry.problem;
  const double operations = reference::evaluation_flops(problem);
  if (operations > most_operations()) {
    return fmt::format("{:.1e} operations, more than {:.1e} (--largest)", operations,
                       most_operations());
  }
  for (const Implementation* implementation : implementations) {
    try {
      require_memory(problem, implementation->workspace_bytes(problem), device);
    } catch (const Error& error) {
      // A problem named by itself must be verified; of a suite, what is too large is left out.
      if (error.kind() != ErrorKind::out_of_memory || !spec_.of_suite) throw;
      return error.what();
    }
  }
  const std::string no_room =
      exceeds_host_memory(problem, options_for(entry), device.info(), host_memory_bytes());
  if (!no_room.empty() && !spec_.of_suite) throw Error(ErrorKind::out_of_memory, no_room);
  return no_room;
}

std::size_t VerificationRun::results_ahead() const {
  std::size_t results = 0;
  for (const VerificationTask& task : tasks_) results += task.implementations.size();
  return results;
}

std::size_t VerificationRun::leave_out(
    const std::function<bool(const Problem&, const std::string& implementation)>& is_made) {
  const std::size_t before = results_ahead();
  for (VerificationTask& task : tasks_) {
    auto& all = task.implementations;
    all.erase(std::remove_if(all.begin(), all.end(),
                             [&](const Implementation* implementation) {
                               return is_made(task.entry.problem,
                                              implementation->description().name);
                             }),
              all.end());
  }
  tasks_.erase(std::remove_if(tasks_.begin(), tasks_.end(),
                              [](const auto& task) { return task.implementations.empty(); }),
               tasks_.end());
  return before - results_ahead();
}

void VerificationRun::verify_task(const VerificationTask& task, Device& device,
                                  const HandOverResult& hand_over) const {
  const SuiteProblem& entry = task.entry;
  std::vector<const Implementation*> able;
  for (const Implementation* implementation : task.implementations) {
    const Support support = implementation->supports(entry.problem);
    if (support) {
      able.push_back(implementation);
    } else {
      hand_over(*implementation, "", not_run(Verdict::unsupported, support.reason));
    }
  }
  if (able.empty()) return;
  // Before a byte is generated: does the problem fit the device, and its inputs this machine?
  const std::string why_not = too_large(entry, able, device);
  if (!why_not.empty()) {
    for (const Implementation* implementation : able) {
      hand_over(*implementation, "", not_run(Verdict::too_large, why_not));
    }
    return;
  }
  const VerifyOptions options = options_for(entry);
  std::optional<Case> inputs;  // where one of them runs in this process
  std::optional<CheckedReference> reference;
  for (const Implementation* implementation : able) {
    JudgedApart judged;
    if (const auto* const apart = dynamic_cast<const ImplementationApart*>(implementation)) {
      judged = judged_apart(*apart, entry.problem, options);
    } else {
      if (!inputs) inputs.emplace(make_case(entry.problem));
      if (!reference) reference.emplace(*inputs, options);
      judged = {reference->coverage(), verify(*implementation, *reference, device, options)};
    }
    VerifyResult& result = judged.result;
    const std::string& name = implementation->description().name;
    const KnownLimit* limit = find_known_limit(limits_, name, entry.problem);
    if (limit != nullptr && result.verdict == Verdict::failed) {
      result.verdict = Verdict::known_limit;
      result.reason += "; known limit: " + limit->cause;
    }
    result.outputs = {};  // may wait for those before it
    hand_over(*implementation, judged.coverage, std::move(result));
  }
}

void VerificationRun::run(const std::function<void(const VerifiedProblem&)>& hand_over) {
  SideBySide how;
  how.threads = jobs();
  how.memory_bytes = memory_for_jobs(device_);
  how.in_order = spec_.in_order;
  run_side_by_side(
      how, static_cast<std::int64_t>(tasks_.size()),
      [&](std::int64_t i) { return memory_of(tasks_[static_cast<std::size_t>(i)]); },
      [&]() -> Worker {
        const std::shared_ptr<Device> own = open_device(spec_.device);
        return [this, own, &hand_over](std::int64_t i, const Emit& emit) {
          const VerificationTask& task = tasks_[static_cast<std::size_t>(i)];
          verify_task(task, *own,
                      [&](const Implementation& implementation, const std::string& coverage,
                          VerifyResult result) {
                        emit([this, &task, &implementation, coverage, &hand_over,
                              result = std::move(result)] {
                          const std::string& name = implementation.description().name;
                          const Problem& problem = task.entry.problem;
                          VerifiedProblem verified{problem, name, coverage, result, {}};
                          // Some limits show in the continuation alone, and are not gone without it.
                          if (result.passed() && options_for(task.entry).continuation) {
                            verified.limits_gone = limits_witnessed_by(limits_, name, problem);
                          }
                          hand_over(verified);
                        });
                      });
        };
      });
}

}  // namespace gdn
