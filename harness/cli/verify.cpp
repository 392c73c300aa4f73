// gdnbench verify: implementations against the float64 reference, and outputs made elsewhere.
#include "harness/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "harness/case_file.h"
#include "harness/cli/axes.h"
#include "harness/cli/command.h"
#include "harness/cli/number_check.h"
#include "harness/cli/usage.h"
#include "harness/guarded_device.h"
#include "harness/host_memory.h"
#include "harness/inputs.h"
#include "harness/json.h"
#include "harness/known_limits.h"
#include "harness/side_by_side.h"
#include "harness/suites.h"
#include "harness/sweep.h"
#include "harness/verification_share.h"
#include "interface/error.h"

namespace gdn::cli {
namespace {

using reference::TensorError;

const char* verdict_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::passed:
      return "PASS";
    case Verdict::failed:
      return "FAIL";
    case Verdict::unsupported:
    case Verdict::too_large:
      return "skip";
    case Verdict::known_limit:
      return "LIMIT";
  }
  return "?";
}

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::passed:
      return "passed";
    case Verdict::failed:
      return "failed";
    case Verdict::unsupported:
      return "unsupported";
    case Verdict::too_large:
      return "too large";
    case Verdict::known_limit:
      return "known limit";
  }
  return "?";
}

std::string error_text(const TensorError& error) {
  return fmt::format("{:.2e} ({:.1f}x floor)", error.relative_l2, error.floor_ratio);
}

std::string tensor_json(const TensorError& error) {
  return json_object({{"relative_l2", json_number(error.relative_l2)},
                      {"floor", json_number(error.floor)},
                      {"floor_ratio", json_number(error.floor_ratio)},
                      {"scaled_max", json_number(error.scaled_max)},
                      {"non_finite", std::to_string(error.non_finite)}});
}

std::string result_json(const std::string& problem, const std::string& implementation,
                        const VerifyResult& result) {
  std::string checks;
  for (const Check& check : result.checks) {
    const char* text = check.result == Check::Result::passed   ? "passed"
                       : check.result == Check::Result::failed ? "failed"
                                                               : "not applicable";
    checks += (checks.empty() ? "" : ", ") + json_string(check.name) + ": " + json_string(text);
  }
  const reference::ErrorReport& report = result.report;
  const char* verdict = verdict_name(result.verdict);
  return json_object({{"problem", json_string(problem)},
                      {"implementation", json_string(implementation)},
                      {"verdict", json_string(verdict)},
                      {"reason", json_string(result.reason)},
                      {"output", tensor_json(report.worst_output.output)},
                      {"state", tensor_json(report.worst_state.state)},
                      {"output_limit", json_number(report.limits.output_of(report.worst_output))},
                      {"state_limit", json_number(report.limits.state)},
                      {"checked_pairs", std::to_string(report.checked_pairs)},
                      {"total_pairs", std::to_string(report.total_pairs)},
                      {"checks", "{" + checks + "}"}});
}

// The detail of -v: each check, each (sequence, head), error by position.
void print_detail(const VerifyResult& result) {
  for (const Check& check : result.checks) {
    const bool failed = check.result == Check::Result::failed;
    const bool passed = check.result == Check::Result::passed;
    fmt::print("       {:<13} {}{}\n", check.name,
               passed   ? "passed"
               : failed ? "FAILED: "
                        : "not applicable: ",
               check.detail);
  }
  const reference::ErrorReport& report = result.report;
  if (report.heads.empty()) return;
  fmt::print(
      "       limits: output {:.2e}, state {:.2e}; growth of the chunk inverse {:.1f}, "
      "cancellation {:.1f}, memory {:.0f} tokens\n",
      report.limits.output, report.limits.state, report.conditioning.inverse_growth,
      report.conditioning.cancellation, report.conditioning.memory_tokens);
  fmt::print("       {:>8} {:>5}  {:>10} {:>10} {:>10} {:>8} {:>10}  {:>10} {:>10} {:>8}\n",
             "sequence", "head", "output", "limit", "floor", "x floor", "max", "state", "floor",
             "x floor");
  for (const reference::HeadError& head : report.heads) {
    fmt::print(
        "       {:>8} {:>5}  {:>10.2e} {:>10.2e} {:>10.2e} {:>8.2f} {:>10.2e}  {:>10.2e} {:>10.2e} "
        "{:>8.2f}\n",
        head.where.sequence, head.where.value_head, head.output.relative_l2,
        report.limits.output_of(head), head.output.floor, head.output.floor_ratio,
        head.output.scaled_max, head.state.relative_l2, head.state.floor, head.state.floor_ratio);
  }
  for (const reference::PositionError& window : report.positions) {
    fmt::print("       tokens {:>6} .. {:<6} {:.2e}\n", window.first_token,
               window.first_token + window.num_tokens - 1, window.relative_l2);
  }
}

class Verify : public Command {
 public:
  std::string name() const override { return "verify"; }
  std::string help() const override {
    return "check implementations, or outputs made elsewhere, against the float64 reference";
  }
  std::string example() const override {
    return "gdnbench verify --case data/gdn_lm_trace.h5:/layer0 --impl cpu/chunkwise -v\n"
           "  gdnbench verify --suite stress --device cpu --shard 3/12\n"
           "  gdnbench verify --heads 2/4 --seq 1x257,3x100 --dtype f32,bf16 --gates mid\n"
           "  gdnbench verify --case case.h5 --outputs mine.h5";
  }
  void add_options(CLI::App& app) override {
    app_ = &app;
    axes_.add_to(app);
    std::string names;
    for (const std::string& name : suite_names()) names += (names.empty() ? "" : " | ") + name;
    const std::string how = "How to verify";
    app.add_option("--suite", suite_,
                   names + " (quick if no problem is named); of more than 2.5 GB: errors, repeat")
        ->group(how);
    app.add_option("--impl", implementations_, "only these; default: all that run here")
        ->delimiter(',')
        ->group(how);
    app.add_option("--device", device_,
                   "best | cpu | cuda | cuda:1 | cuda-emulated | hip | gfx906-emulator")
        ->capture_default_str()
        ->group(how);
    app.add_option("--outputs", outputs_, "judge this file's outputs instead of running anything")
        ->group(how);
    app.add_flag("--errors-only", errors_only_, "compare with the reference, and nothing else")
        ->group(how);
    app.add_option(
           "--shard", shard_,
           "INDEX/COUNT, as 2/8: one of COUNT parts of about equal work, largest problems first")
        ->group(how);
    app.add_option("--jobs", jobs_,
                   "problems verified side by side, each on a stream of its own (default: on a "
                   "GPU half the processors, 12 at most; else 1)")
        ->check(more_than_zero())
        ->group(how);
    app.add_option("--largest", largest_,
                   "leave out problems of more operations than this, and say so (default: "
                   "5e9 on a CPU, 2e7 on an emulator, none on a GPU)")
        ->group(how);
    app.add_flag("--exact-buffers", exact_buffers_,
                 "no guard bands around buffers, so that compute-sanitizer sees reads past them")
        ->group(how);
    app.add_flag("--whole", whole_, "evaluate the reference whole, however large the problem")
        ->group(how);
    app.add_flag("-v,--verbose", verbose_, "every check, (sequence, head) and token window")
        ->group(how);
    app.add_flag("--quiet", quiet_, "only what failed")->group(how);
    CLI::Option* json =
        app.add_flag("--json", json_, "machine-readable output: one list")->group(how);
    app.add_flag("--json-lines", json_lines_,
                 "a line saying how many results are ahead, then a line per result as "
                 "it is made: what a run that was cut has done stays readable")
        ->excludes(json)
        ->group(how);
  }

  int run() override {
    if (errors_only_) {
      options_ = VerifyOptions();
      options_.repeat = options_.alone = options_.duplicates = options_.continuation = false;
    }
    use_exact_buffers(exact_buffers_);
    if (whole_) options_.most_reference_flops = std::numeric_limits<double>::infinity();
    if (!outputs_.empty()) require_flags_of_judging();
    try {
      const int code = outputs_.empty() ? verify_implementations() : judge_outputs();
      if (json_) fmt::print("{}", first_ ? "[]\n" : "\n]\n");
      return code;
    } catch (...) {
      // Results that were printed stay a list that can be read; without any, nothing is printed.
      if (json_ && !first_) fmt::print("\n]\n");
      throw;
    }
  }

 private:
  std::vector<SuiteProblem> problems() const {
    const GridSpec spec = axes_.spec();
    std::vector<SuiteProblem> all;
    const bool named = spec.names_problems();
    if (named) {
      for (const Problem& problem : expand(spec)) all.push_back({problem, "-", "-", false, false});
    }
    if (!named || !suite_.empty()) {
      const std::string name = suite_.empty() ? "quick" : suite_;
      for (const SuiteProblem& entry : find_suite(name).problems) {
        if (!spec.operation_given || entry.problem.operation == spec.operation)
          all.push_back(entry);
      }
    }
    return all;
  }

  // Every problem with the implementations of its operation.
  std::vector<VerificationTask> tasks(const std::vector<SuiteProblem>& all,
                                      const DeviceInfo& device) const {
    const auto implementations = choose_implementations(implementations_, device);
    std::vector<VerificationTask> every;
    for (const SuiteProblem& entry : all) {
      VerificationTask task{entry, {}};
      for (const Implementation* implementation : implementations) {
        if (implementation->description().operation != entry.problem.operation) continue;
        task.implementations.push_back(implementation);
      }
      if (!task.implementations.empty()) every.push_back(std::move(task));
    }
    return every;
  }

  VerifyOptions options_for(const SuiteProblem& entry) const {
    VerifyOptions options = options_;
    options.every_split |= entry.every_split && !errors_only_;
    options.token_by_token |= entry.token_by_token && !errors_only_;
    // Few of these are under way together.
    if (host_bytes_needed(entry.problem) > kWorthEveryProcessor) options.threads = 0;
    return suite_.empty() ? options : options.of_suite_problem(entry.problem);
  }

  // Of a problem that is not left out (--largest).
  double most_operations(const DeviceInfo& device) const {
    if (largest_ > 0) return largest_;
    if (suite_.empty()) return std::numeric_limits<double>::infinity();
    if (device.backend.find("emulat") != std::string::npos) return 2e7;
    return device.backend == "cpu" ? 5e9 : std::numeric_limits<double>::infinity();
  }

  // Why a problem is left out on this device; empty if it is not.
  std::string too_large(const SuiteProblem& entry,
                        const std::vector<const Implementation*>& implementations,
                        const Device& device) const {
    const Problem& problem = entry.problem;
    const double operations = reference::evaluation_flops(problem);
    if (operations > most_operations(device.info())) {
      return fmt::format("{:.1e} operations, more than {:.1e} (--largest)", operations,
                         most_operations(device.info()));
    }
    for (const Implementation* implementation : implementations) {
      try {
        require_memory(problem, implementation->workspace_bytes(problem), device);
      } catch (const Error& error) {
        // A problem named by itself must be verified; of a suite, what is too large is left out.
        if (error.kind() != ErrorKind::out_of_memory || suite_.empty()) throw;
        return error.what();
      }
    }
    const std::string no_room =
        exceeds_host_memory(problem, options_for(entry), device.info(), host_memory_bytes());
    if (!no_room.empty() && suite_.empty()) throw Error(ErrorKind::out_of_memory, no_room);
    return no_room;
  }

  int verify_implementations() {
    const Shard shard = shard_.empty() ? Shard{} : Shard::parse(shard_);
    const std::vector<SuiteProblem> all = problems();
    auto device = open_device(device_);
    const DeviceInfo info = device->info();
    const double most = most_operations(info);
    const std::vector<VerificationTask> every = tasks(all, info);
    const auto work = [&](const VerificationTask& task) {
      return work_to_share(task, options_for(task.entry), info, most);
    };
    SideBySide how;
    how.threads = jobs_for(info);
    const std::vector<VerificationTask> mine =
        for_workers(share_of(every, shard, work), how.threads, work);
    if (json_lines_) announce(mine);
    how.memory_bytes = memory_for_jobs(info);
    how.in_order = !json_lines_;
    if (how.threads > 1) {
      options_.threads = std::max(1, processors() / how.threads);
      device.reset();  // each job opens its own
    }
    run_side_by_side(
        how, static_cast<std::int64_t>(mine.size()),
        [&](std::int64_t i) { return memory_of(mine[static_cast<std::size_t>(i)]); },
        [&]() -> Worker {
          const std::shared_ptr<Device> own = device ? std::move(device) : open_device(device_);
          return [this, own, &mine](std::int64_t i, const Emit& emit) {
            verify_problem(mine[static_cast<std::size_t>(i)], *own, emit);
          };
        });
    const bool others_may =
        shard.count > 1 && std::any_of(every.begin(), every.end(), [&](const auto& task) {
          return !is_left_out(task, info, most);
        });
    return finish(others_may);
  }

  static int processors() {
    return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  }

  // A GPU waits for the host's work on each problem; on a CPU the kernels take all processors.
  int jobs_for(const DeviceInfo& info) const {
    if (jobs_ > 0) return jobs_;
    return has_memory_of_its_own(info) ? std::clamp(processors() / 2, 1, kMostJobs) : 1;
  }

  static std::int64_t memory_for_jobs(const DeviceInfo& info) {
    // The rest: the process, estimates.
    return std::min(host_memory_bytes(), info.memory_bytes) / 10 * 7;
  }

  std::int64_t memory_of(const VerificationTask& task) const {
    std::int64_t most = 0;
    for (const Implementation* implementation : task.implementations) {
      const Problem& problem = task.entry.problem;
      if (!implementation->supports(problem)) continue;
      most = std::max(most, verification_memory(problem, implementation->workspace_bytes(problem),
                                                options_for(task.entry)));
    }
    return most;
  }

  static void announce(const std::vector<VerificationTask>& tasks) {
    std::size_t results = 0;
    for (const VerificationTask& task : tasks) results += task.implementations.size();
    print_line(json_object({{"results_ahead", std::to_string(results)}}));
  }

  static void print_line(const std::string& text) {
    fmt::print("{}\n", text);
    std::fflush(stdout);
  }

  void verify_problem(const VerificationTask& task, Device& device, const Emit& emit) {
    const SuiteProblem& entry = task.entry;
    std::vector<const Implementation*> able;
    for (const Implementation* implementation : task.implementations) {
      const Support support = implementation->supports(entry.problem);
      if (support) {
        able.push_back(implementation);
        continue;
      }
      VerifyResult result;
      result.verdict = Verdict::unsupported;
      result.reason = support.reason;
      hand_over(emit, task, *implementation, "", std::move(result));
    }
    if (able.empty()) return;
    // Before a byte is generated: does the problem fit the device, and its inputs this machine?
    const std::string why_not = too_large(entry, able, device);
    if (!why_not.empty()) {
      for (const Implementation* implementation : able) {
        VerifyResult result;
        result.verdict = Verdict::too_large;
        result.reason = why_not;
        hand_over(emit, task, *implementation, "", std::move(result));
      }
      return;
    }
    const Case inputs = make_case(entry.problem);
    const VerifyOptions options = options_for(entry);
    const CheckedReference reference(inputs, options);
    for (const Implementation* implementation : able) {
      VerifyResult result = verify(*implementation, reference, device, options);
      const std::string& name = implementation->description().name;
      const KnownLimit* limit = find_known_limit(known_limits(), name, entry.problem);
      if (limit != nullptr && result.verdict == Verdict::failed) {
        result.verdict = Verdict::known_limit;
        result.reason += "; known limit: " + limit->cause;
      }
      result.outputs = {};  // may wait for those before it
      hand_over(emit, task, *implementation, reference.coverage(), std::move(result));
    }
  }

  void hand_over(const Emit& emit, const VerificationTask& task,
                 const Implementation& implementation, const std::string& coverage,
                 VerifyResult result) {
    emit([this, &task, &implementation, coverage, result = std::move(result)] {
      const std::string& name = implementation.description().name;
      const Problem& problem = task.entry.problem;
      if (result.passed()) report_limits_gone(name, problem);
      report(problem.to_string(), name, coverage, result);
    });
  }

  void report_limits_gone(const std::string& implementation, const Problem& problem) {
    for (const KnownLimit* limit : limits_witnessed_by(known_limits(), implementation, problem)) {
      fmt::print(stderr,
                 "gdnbench: verify: {}: limit gone, remove it from data/known_limits.tsv: {}\n",
                 implementation, limit->cause);
      ++limits_gone_;
    }
  }

  // Nothing is run with --outputs, and the case alone says what was computed.
  void require_flags_of_judging() const {
    const std::vector<std::string> of_running = {"--impl", "--device",  "--shard",
                                                 "--jobs", "--largest", "--exact-buffers"};
    std::vector<std::string> used = {"--case",        "--problem",   "--op",      "--outputs",
                                     "--errors-only", "--whole",     "--verbose", "--quiet",
                                     "--json",        "--json-lines"};
    const std::vector<std::string> of_judging = used;
    used.insert(used.end(), of_running.begin(), of_running.end());
    require_only(*app_, used, "not with --outputs; the case says what was computed");
    require_only(*app_, of_judging, "not with --outputs; nothing is run");
  }

  int judge_outputs() {
    const GridSpec spec = axes_.spec();
    const std::size_t named = spec.cases.size() + spec.problems.size();
    if (named == 0) throw_bad_input("verify --outputs: name the case with --case or --problem");
    if (named > 1) {
      throw_bad_input("verify --outputs: one case or problem is expected, not " +
                      std::to_string(named));
    }
    // A layer's file stands for its own operation first.
    const Problem problem = spec.cases.size() == 1 && !spec.operation_given
                                ? resolve_case(spec.cases[0])
                                : expand(spec).front();
    const Case inputs = make_case(problem);
    const StoredOutputs stored = read_outputs(inputs, outputs_);
    const CheckedReference reference(inputs, options_);
    const std::string maker =
        stored.origin.implementation.empty() ? outputs_ : stored.origin.implementation;
    report(problem.to_string(), maker, reference.coverage(),
           verify_outputs(reference, stored.narrowed()));
    return finish(false);
  }

  static Problem resolve_case(const std::string& path) {
    return case_problem(path, read_case_problem(path).operation);
  }

  void report(const std::string& problem, const std::string& implementation,
              const std::string& coverage, const VerifyResult& result) {
    ++counts_[static_cast<std::size_t>(result.verdict)];
    if (result.verdict == Verdict::too_large && why_too_large_.empty()) {
      why_too_large_ = result.reason;
    }
    if (json_lines_) return print_line(result_json(problem, implementation, result));
    if (json_) {
      fmt::print("{}{}", first_ ? "[\n" : ",\n", result_json(problem, implementation, result));
      first_ = false;
      return;
    }
    if (quiet_ && result.verdict != Verdict::failed) return;
    if (result.verdict == Verdict::unsupported || result.verdict == Verdict::too_large) {
      if (verbose_) fmt::print("skip {:<22} {}: {}\n", implementation, problem, result.reason);
      return;
    }
    fmt::print("{} {:<22} {}\n", verdict_text(result.verdict), implementation, problem);
    if (!result.reason.empty()) fmt::print("       {}\n", result.reason);
    if (result.verdict == Verdict::failed) print_where_to_look(problem, implementation);
    const reference::ErrorReport& errors = result.report;
    if (!errors.heads.empty()) {
      fmt::print("       output {}, state {}; {}\n", error_text(errors.worst_output.output),
                 error_text(errors.worst_state.state), coverage);
    }
    if (verbose_) print_detail(result);
  }

  void print_where_to_look(const std::string& problem, const std::string& implementation) const {
    const std::string made_by =
        outputs_.empty() ? "--impl " + implementation : "--outputs " + outputs_;
    const std::string device = device_ == "best" || !outputs_.empty() ? "" : " --device " + device_;
    fmt::print("       where: gdnbench explain --problem '{}' {}{}\n", problem, made_by, device);
  }

  std::int64_t count_of(Verdict verdict) const {
    return counts_[static_cast<std::size_t>(verdict)];
  }

  // `others_may`: this was one of several shards, and another may have something to verify.
  int finish(bool others_may) const {
    const std::int64_t passed = count_of(Verdict::passed);
    const std::int64_t failed = count_of(Verdict::failed);
    const std::int64_t limited = count_of(Verdict::known_limit);
    const std::int64_t unsupported = count_of(Verdict::unsupported);
    const std::int64_t too_large = count_of(Verdict::too_large);
    const bool nothing_verified = passed + failed + limited == 0;
    if (!json_ && !json_lines_ && !quiet_) {
      fmt::print("{} passed, {} failed, {} known limits, {} not supported, {} too large{}{}\n",
                 passed, failed, limited, unsupported, too_large,
                 nothing_verified && others_may ? ": this shard holds nothing that fits" : "",
                 unsupported + too_large > 0 && !verbose_ ? " (-v says why)" : "");
    }
    if (nothing_verified && !others_may) {
      throw Error(ErrorKind::unsupported, "verify: nothing was verified: " + why_nothing());
    }
    return failed + limits_gone_ > 0 ? 1 : 0;
  }

  std::string why_nothing() const {
    const std::int64_t too_large = count_of(Verdict::too_large);
    if (too_large == 0) return "no implementation here does these problems";
    const std::int64_t unsupported = count_of(Verdict::unsupported);
    const std::string others =
        unsupported == 0 ? "" : fmt::format("{} results are not supported, ", unsupported);
    return fmt::format("{}{} too large: {}", others, too_large, why_too_large_);
  }

  static constexpr int kMostJobs = 12;
  static constexpr std::int64_t kWorthEveryProcessor = std::int64_t{1} << 29;  // bytes

  const CLI::App* app_ = nullptr;
  AxisOptions axes_;
  VerifyOptions options_ = VerifyOptions::all_invariances();
  std::string suite_;
  std::vector<std::string> implementations_;
  std::string device_ = "best";
  std::string outputs_;
  bool errors_only_ = false;
  bool exact_buffers_ = false;
  bool whole_ = false;
  bool verbose_ = false;
  bool quiet_ = false;
  bool json_ = false;
  bool json_lines_ = false;
  bool first_ = true;
  std::int64_t counts_[5] = {0, 0, 0, 0, 0};  // per verdict
  std::int64_t limits_gone_ = 0;
  std::string why_too_large_;  // of the first such result
  std::string shard_;
  double largest_ = 0;
  int jobs_ = 0;  // as jobs_for() says
};

}  // namespace

std::unique_ptr<Command> make_verify() { return std::make_unique<Verify>(); }

}  // namespace gdn::cli
