// gdnbench verify: implementations against the float64 reference, and outputs made elsewhere.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "harness/cli/axes.h"
#include "harness/cli/command.h"
#include "harness/cli/number_check.h"
#include "harness/cli/plugin_options.h"
#include "harness/cli/result_lines.h"
#include "harness/cli/suite_folder.h"
#include "harness/cli/usage.h"
#include "harness/cli/verdict_text.h"
#include "harness/explain/untold_forms.h"
#include "harness/files/case_file.h"
#include "harness/files/data_file.h"
#include "harness/files/outputs_file.h"
#include "harness/operations/make_case.h"
#include "harness/rows/build_info.h"
#include "harness/run/guarded_device.h"
#include "harness/verify/drawn_problems.h"
#include "harness/verify/shrink.h"
#include "harness/verify/verification_run.h"
#include "interface/error.h"
#include "interface/parse_number.h"
#include "plugin/file_hash.h"

namespace gdn::cli {
namespace {

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
           "  gdnbench verify --case case.h5 --outputs mine.h5\n"
           "  gdnbench verify --suite quick --op gated_delta --outputs mine\n"
           "  gdnbench verify --plugin libmine.so --suite quick\n"
           "  gdnbench verify --fuzz 200 --fuzz-seed 7 --op gated_delta_backward --device cuda";
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
    CLI::Option* fuzz =
        app.add_option("--fuzz", fuzz_,
                       "so many problems that nobody wrote, every field drawn; one that fails is "
                       "told as the least that does")
            ->check(more_than_zero())
            ->group(how);
    app.add_option("--fuzz-seed", fuzz_seed_,
                   "what they are drawn by: a number, or fresh, which says its number")
        ->capture_default_str()
        ->needs(fuzz)
        ->group(how);
    app.add_option("--impl", implementations_, "only these; default: all that run here")
        ->delimiter(',')
        ->group(how);
    app.add_option("--device", device_, device_names())->capture_default_str()->group(how);
    plugins_.add_to(app, how);
    app.add_option("--outputs", outputs_,
                   "judge this file's outputs instead of running anything; with --suite those of a "
                   "folder, of the files' names that gen --suite gives")
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
    CLI::Option* lines =
        app.add_flag("--json-lines", json_lines_,
                     "a line saying how many results are ahead, then a line per result as "
                     "it is made: what a run that was cut has done stays readable")
            ->excludes(json)
            ->group(how);
    app.add_flag("--json-schema", json_schema_,
                 "the JSON schema of what --json and --json-lines print, and nothing else")
        ->group(how);
    app.add_option(
           "--out", lines_path_,
           "a file for those lines; what a run that was cut has left there is not made again")
        ->needs(lines)
        ->group(how);
  }

  int run() override {
    if (json_schema_) {
      fmt::print("{}\n", verdicts_json_schema());
      return 0;
    }
    use_exact_buffers(exact_buffers_);
    if (!outputs_.empty()) require_flags_of_judging();
    if (fuzz_ > 0) begin_fuzzing();
    try {
      const int code = outputs_.empty() ? verify_implementations()
                       : suite_.empty() ? judge_outputs()
                                        : judge_folder();
      if (json_) fmt::print("{}", first_ ? "[]\n" : "\n]\n");
      return code;
    } catch (...) {
      // Results that were printed stay a list that can be read; without any, nothing is printed.
      if (json_ && !first_) fmt::print("\n]\n");
      throw;
    }
  }

 private:
  VerifyOptions options() const {
    VerifyOptions options =
        errors_only_ ? VerifyOptions::errors_only() : VerifyOptions::all_invariances();
    if (whole_) options.most_reference_flops = std::numeric_limits<double>::infinity();
    return options;
  }

  std::vector<SuiteProblem> problems() const {
    const GridSpec spec = axes_.spec();
    if (fuzz_ > 0) {
      DrawnProblems wanted;
      wanted.count = fuzz_;
      wanted.seed = drawn_by_;
      if (spec.operation_given) wanted.operations = {spec.operation};
      if (largest_ > 0) wanted.most_operations = largest_;
      return draw_problems(wanted);
    }
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

  int verify_implementations() {
    VerificationSpec spec;
    spec.shard = shard_.empty() ? Shard{} : Shard::parse(shard_);
    spec.problems = problems();
    spec.of_suite = !suite_.empty() || fuzz_ > 0;
    spec.implementations = plugins_.names_with(implementations_, device_, exact_buffers_);
    spec.device = device_;
    spec.options = options();
    spec.errors_only = errors_only_;
    spec.jobs = jobs_;
    spec.most_operations = largest_;
    spec.in_order = !json_lines_;
    VerificationRun run(std::move(spec), known_limits());
    if (!lines_path_.empty()) {
      go_on_with_file(run);
    } else if (json_lines_) {
      print_line(json_object({{"results_ahead", std::to_string(run.results_ahead())}}));
    }
    run.run([&](const VerifiedProblem& verified) {
      std::vector<std::string> gone;
      for (const KnownLimit* limit : verified.limits_gone) {
        gone.push_back(limit->cause);
        fmt::print(stderr,
                   "gdnbench: verify: {}: limit gone, remove it from data/known_limits.tsv: {}\n",
                   verified.implementation, limit->cause);
        ++limits_gone_;
      }
      report(verified.problem, verified.implementation, verified.coverage, verified.result, gone);
    });
    tell_the_least_that_fail();
    return finish(run.others_may_verify());
  }

  void begin_fuzzing() {
    if (axes_.spec().names_problems() || !suite_.empty()) {
      throw_bad_input(
          "--fuzz: draws its problems; not with a suite, a preset, axes, problems or cases");
    }
    if (fuzz_seed_ == "fresh") {
      drawn_by_ = std::random_device{}();
    } else {
      drawn_by_ = static_cast<std::uint64_t>(parse_integer(fuzz_seed_, "--fuzz-seed", 0));
    }
    fmt::print(json_ || json_lines_ ? stderr : stdout, "{} problems drawn by --fuzz-seed {}\n",
               fuzz_, drawn_by_);
  }

  // The first of those that failed: problems drawn at random fail alike.
  void tell_the_least_that_fail() const {
    constexpr std::size_t kMost = 5;
    for (std::size_t i = 0; i < std::min(kMost, drawn_that_failed_.size()); ++i) {
      const auto& [problem, implementation] = drawn_that_failed_[i];
      const Problem least =
          shrunk(Problem::parse(problem), [&, &of = implementation](const Problem& candidate) {
            VerificationSpec spec;
            spec.problems = {{candidate, "-", "-"}};
            spec.of_suite = true;
            spec.implementations = {of};
            spec.device = device_;
            spec.options = options();
            spec.errors_only = errors_only_;
            bool fails = false;
            VerificationRun run(std::move(spec), known_limits());
            run.run([&](const VerifiedProblem& verified) {
              fails |= verified.result.verdict == Verdict::failed;
            });
            return fails;
          });
      fmt::print(stderr, "gdnbench: verify: {} fails from here on: {}\n", implementation,
                 least.to_string());
    }
  }

  // What the file has counts as if it had been made now.
  void go_on_with_file(VerificationRun& run) {
    const std::string how = std::string(errors_only_ ? "--errors-only " : "") +
                            (whole_ ? "--whole " : "") + (exact_buffers_ ? "--exact-buffers " : "");
    // A plug-in that was built anew, or a case with other numbers under its name, has other results.
    std::set<std::string> paths(plugins_.paths().begin(), plugins_.paths().end());
    for (const SuiteProblem& entry : problems()) {
      const std::string& file = entry.problem.case_file;
      if (!file.empty()) paths.insert(find_data_file(CasePath::parse(file).file));
    }
    std::vector<std::string> hashes;
    for (const std::string& path : paths) hashes.push_back(file_hash(path));
    file_ = std::make_unique<ResultLinesFile>(
        lines_path_, json_object({{"results_ahead", std::to_string(run.results_ahead())},
                                  {"sources", json_string(source_hash())},
                                  {"device", json_string(run.device().name)},
                                  {"driver", json_string(run.device().driver_version)},
                                  {"how", json_string(how)},
                                  {"files", json_strings(hashes)}}));
    const auto& earlier = file_->earlier();
    const std::size_t left_out =
        run.leave_out([&](const Problem& problem, const std::string& implementation) {
          return earlier.count({problem.to_string(), implementation}) > 0;
        });
    if (left_out < earlier.size()) {
      throw_bad_input("--out '" + lines_path_ +
                      "': has results that this run does not make; name another file");
    }
    for (const auto& [key, result] : earlier) {
      ++counts_[result.verdict];
      limits_gone_ += result.shows_limits_gone ? 1 : 0;
    }
  }

  void print_line(const std::string& text) {
    if (file_) return file_->add(text);
    fmt::print("{}\n", text);
    std::fflush(stdout);
  }

  // Nothing is run with --outputs, and the case alone says what was computed.
  void require_flags_of_judging() const {
    const std::vector<std::string> of_running = {"--impl",         "--device",  "--shard",
                                                 "--jobs",         "--largest", "--exact-buffers",
                                                 "--plugin-limit", "--plugin"};
    std::vector<std::string> used = {"--op",      "--outputs", "--errors-only", "--whole",
                                     "--verbose", "--quiet",   "--json",        "--json-lines"};
    if (suite_.empty()) {
      used.insert(used.end(), {"--case", "--problem"});
    } else {
      used.push_back("--suite");
    }
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
    judge_file(problem, outputs_);
    return finish(false);
  }

  // The outputs of a suite's cases, of those that have a file.
  int judge_folder() {
    if (!std::filesystem::is_directory(outputs_)) {
      throw_bad_input("--outputs " + outputs_ + ": with --suite a folder is expected");
    }
    const GridSpec spec = axes_.spec();
    for (const SuiteProblem& entry :
         suite_problems(suite_, spec.operation_given ? to_string(spec.operation) : "")) {
      const std::string file =
          (std::filesystem::path(outputs_) / suite_file_name(entry.problem)).string();
      VerifyResult none;
      if (first_file_.empty()) first_file_ = suite_file_name(entry.problem);
      if (!std::filesystem::exists(file)) {
        none.verdict = Verdict::unsupported;
        none.reason = "there is no file " + file;
        report(entry.problem, outputs_, "", none);
        continue;
      }
      try {
        judge_file(entry.problem, file);
      } catch (const Error& error) {
        none.verdict =
            error.kind() == ErrorKind::out_of_memory ? Verdict::too_large : Verdict::failed;
        none.reason = error.what();
        report(entry.problem, outputs_, "", none);
      }
    }
    const int code = finish(false);
    if (!json_ && !json_lines_ && !quiet_) {
      for (const auto& [form, why] : untold_) {
        fmt::print("none of these cases tells: {} ({})\n", to_string(form), why);
      }
    }
    return code;
  }

  void judge_file(const Problem& problem, const std::string& file) {
    const Case inputs = make_case(problem);
    const StoredOutputs stored = read_outputs(inputs, file);
    const CheckedReference reference(inputs, options());
    const std::string maker =
        stored.origin.implementation.empty() ? file : stored.origin.implementation;
    const VerifyResult result = verify_outputs(reference, stored.narrowed());
    if (result.verdict == Verdict::passed) note_untold(reference, result);
    report(problem, maker, reference.coverage(), result);
  }

  // What the cases judged so far cannot tell. Of one, also what its errors leave open.
  void note_untold(const CheckedReference& reference, const VerifyResult& result) {
    if (!has_hypotheses(reference.inputs().problem)) return;
    untold_texts_.clear();
    untold_.clear();
    for (const UntoldForm& form : untold_forms(reference, told_)) {
      untold_[form.form] = form.why;
      untold_texts_.push_back(to_string(form.form) + " (" + form.why + ")");
    }
    for (const Hypothesis form : all_hypotheses()) {
      if (untold_.count(form) == 0) told_.insert(form);
    }
    if (!suite_.empty()) return;
    const std::string rounded = rounded_state_untold(reference.inputs().problem, result.report);
    if (!rounded.empty()) untold_texts_.push_back(rounded);
  }

  static Problem resolve_case(const std::string& path) {
    return case_problem(path, read_case_problem(path).operation);
  }

  void report(const Problem& of, const std::string& implementation, const std::string& coverage,
              const VerifyResult& result, const std::vector<std::string>& limits_gone = {}) {
    const std::string problem = of.to_string();
    ++counts_[result.verdict];
    if (fuzz_ > 0 && result.verdict == Verdict::failed)
      drawn_that_failed_.emplace_back(problem, implementation);
    if (result.verdict == Verdict::too_large && why_too_large_.empty()) {
      why_too_large_ = result.reason;
    }
    if (json_lines_) return print_line(as_json(problem, implementation, result, limits_gone));
    if (json_) {
      fmt::print("{}{}", first_ ? "[\n" : ",\n",
                 as_json(problem, implementation, result, limits_gone));
      first_ = false;
      return;
    }
    if (quiet_ && result.verdict != Verdict::failed) return;
    if (result.verdict == Verdict::unsupported || result.verdict == Verdict::too_large) {
      if (verbose_) fmt::print("skip {:<22} {}: {}\n", implementation, problem, result.reason);
      return;
    }
    fmt::print("{} {:<22} {}\n", verdict_label(result.verdict), implementation, problem);
    if (!result.reason.empty()) fmt::print("       {}\n", result.reason);
    // What ended its process would end that of explain too.
    const bool has_errors = !result.report.outputs.empty();
    const bool was_run = outputs_.empty() && !plugins_.any();
    if (result.verdict == Verdict::failed && (has_errors || was_run)) {
      print_where_to_look(problem, implementation);
    }
    if (!result.report.outputs.empty()) {
      fmt::print("       {}; {}\n", errors_text(result.report), coverage);
    }
    if (suite_.empty() && result.verdict == Verdict::passed) {
      for (const std::string& text : untold_texts_) fmt::print("       not told by it: {}\n", text);
    }
    if (verbose_) fmt::print("{}", verification_detail(of.operation, result));
  }

  // Of outputs made elsewhere also what is not told, in a suite by none of the cases so far.
  std::string as_json(const std::string& problem, const std::string& implementation,
                      const VerifyResult& result,
                      const std::vector<std::string>& limits_gone) const {
    std::vector<std::pair<std::string, std::vector<std::string>>> lists;
    if (!outputs_.empty() && result.verdict == Verdict::passed) {
      lists.emplace_back("not_told", untold_texts_);
    }
    if (!limits_gone.empty()) lists.emplace_back(ResultLinesFile::kLimitsGone, limits_gone);
    return result_json(problem, implementation, result, lists);
  }

  void print_where_to_look(const std::string& problem, const std::string& implementation) const {
    const std::string made_by =
        outputs_.empty() ? "--impl " + implementation
        : suite_.empty()
            ? "--outputs " + outputs_
            : "--outputs '" +
                  (std::filesystem::path(outputs_) / suite_file_name(Problem::parse(problem)))
                      .string() +
                  "'";
    const std::string device = device_ == "best" || !outputs_.empty() ? "" : " --device " + device_;
    fmt::print("       where: gdnbench explain --problem '{}' {}{}{}\n", problem, made_by, device,
               plugins_.as_arguments());
  }

  std::int64_t count_of(Verdict verdict) const {
    const auto found = counts_.find(verdict);
    return found == counts_.end() ? 0 : found->second;
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
      fmt::print("{} passed, {} failed, {} known limits, {} {}, {} too large{}{}\n", passed, failed,
                 limited, unsupported, of_folder() ? "without a file" : "not supported", too_large,
                 nothing_verified && others_may ? ": this shard holds nothing that fits" : "",
                 unsupported + too_large > 0 && !verbose_ ? " (-v says why)" : "");
    }
    if (nothing_verified && !others_may) {
      throw Error(ErrorKind::unsupported, "verify: nothing was verified: " + why_nothing());
    }
    return failed + limits_gone_ > 0 ? 1 : 0;
  }

  bool of_folder() const { return !outputs_.empty() && !suite_.empty(); }

  std::string why_nothing() const {
    const std::int64_t too_large = count_of(Verdict::too_large);
    if (too_large == 0 && of_folder()) {
      return outputs_ + " has no file of the suite's names, as " + first_file_;
    }
    if (too_large == 0) return "no implementation here does these problems";
    const std::int64_t unsupported = count_of(Verdict::unsupported);
    const std::string others =
        unsupported == 0 ? "" : fmt::format("{} results are not supported, ", unsupported);
    return fmt::format("{}{} too large: {}", others, too_large, why_too_large_);
  }

  const CLI::App* app_ = nullptr;
  AxisOptions axes_;
  std::int64_t fuzz_ = 0;
  std::string fuzz_seed_ = "1";
  std::uint64_t drawn_by_ = 0;  // fuzz_seed_, or what was drawn for it
  std::vector<std::pair<std::string, std::string>> drawn_that_failed_;  // problem, implementation
  std::string suite_;
  std::vector<std::string> implementations_;
  PluginOptions plugins_;
  std::string device_ = "best";
  std::string outputs_;
  bool errors_only_ = false;
  bool exact_buffers_ = false;
  bool whole_ = false;
  bool verbose_ = false;
  bool quiet_ = false;
  bool json_ = false;
  bool json_lines_ = false;
  bool json_schema_ = false;
  std::string lines_path_;
  std::unique_ptr<ResultLinesFile> file_;
  bool first_ = true;
  std::set<Hypothesis> told_;                 // by a case that passed
  std::map<Hypothesis, std::string> untold_;  // by none, and why the last one does not
  std::vector<std::string> untold_texts_;
  std::map<Verdict, std::int64_t> counts_;
  std::int64_t limits_gone_ = 0;
  std::string why_too_large_;  // of the first such result
  std::string first_file_;     // that is looked for in a folder
  std::string shard_;
  double largest_ = 0;  // 0: as VerificationSpec says
  int jobs_ = 0;        // likewise
};

}  // namespace

std::unique_ptr<Command> make_verify() { return std::make_unique<Verify>(); }

}  // namespace gdn::cli
