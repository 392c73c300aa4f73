// gdnbench explain: where the error of one case sits, and what it looks like.
#include "harness/explain/explain.h"

#include <fmt/format.h>

#include "harness/cli/command.h"
#include "harness/cli/number_check.h"
#include "harness/cli/plugin_options.h"
#include "harness/cli/usage.h"
#include "harness/cli/verdict_text.h"
#include "harness/files/json.h"
#include "harness/operations/make_case.h"
#include "harness/rows/build_info.h"
#include "harness/verify/worst_unit.h"
#include "interface/error.h"

namespace gdn::cli {
namespace {

using reference::OutputErrors;
using reference::UnitError;

std::string json_set(const WrongSet& set) {
  std::string members;
  for (const std::int64_t member : set.members) {
    members += (members.empty() ? "" : ", ") + std::to_string(member);
  }
  return json_object({{"total", std::to_string(set.total)}, {"members", "[" + members + "]"}});
}

std::string json_list(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ", ") + item;
  return "[" + text + "]";
}

std::vector<std::string> json_strings(const std::vector<std::string>& texts) {
  std::vector<std::string> strings;
  for (const std::string& text : texts) strings.push_back(json_string(text));
  return strings;
}

std::string wrong_json(const Anatomy& anatomy, const WrongOutput& output) {
  const OutputErrors& errors = anatomy.report[output.name()];
  return json_object({{"output", json_string(output.name())},
                      {"wrong_units", std::to_string(output.wrong_units)},
                      {"checked_units", std::to_string(output.checked_units)},
                      {"sequences", json_set(output.sequences)},
                      {"heads", json_set(output.heads)},
                      {"worst", unit_error_json(errors, output.worst, anatomy.report.limits)},
                      {"sequence", std::to_string(output.worst.where.sequence)},
                      {"head", std::to_string(output.worst.where.head)},
                      {"tokens", json_set(output.tokens)},
                      {"elements", json_set(output.elements)},
                      {"place", json_string(output.furthest)},
                      {"actual", json_number(output.actual)},
                      {"expected", json_number(output.expected)}});
}

class Explain : public Command {
 public:
  std::string name() const override { return "explain"; }
  std::string help() const override {
    return "where the error of one case sits, and what it looks like";
  }
  std::string example() const override {
    return "gdnbench explain --problem gated_delta:heads=2/4,dim=64x64,seq=300,gates=mid --impl "
           "cpu/chunkwise\n"
           "  gdnbench explain --case case.h5 --outputs mine.h5 --chunk 64 --save tensors.h5";
  }
  void add_options(CLI::App& app) override {
    app_ = &app;
    auto* from_file = app.add_option("--case", case_, "FILE.h5[:/group]");
    app.add_option("--problem", problem_, "a generated problem instead of a case file")
        ->excludes(from_file);
    auto* outputs = app.add_option("--outputs", outputs_, "outputs of the case, made elsewhere");
    app.add_option("--impl", implementation_, "run this implementation instead")->excludes(outputs);
    plugins_.add_here_to(app);
    app.add_option("--device", device_, "cpu, cuda, cuda:1, ...; the implementation's by default");
    app.add_option("--chunk", chunk_,
                   "tokens per chunk: for the implementation, or of what made the outputs")
        ->check(more_than_zero());
    app.add_option("--save", save_,
                   "reference, outputs and differences go to this HDF5 file; one that exists is "
                   "replaced only if an earlier --save made it");
    app.add_flag("--whole", whole_, "evaluate the reference whole, however large the problem");
    app.add_flag("--json", json_, "machine-readable output");
  }

  int run() override {
    if (case_.empty() && problem_.empty()) {
      throw_bad_input("explain: --case or --problem is needed");
    }
    if (outputs_.empty() && implementation_.empty()) {
      throw_bad_input("explain: --impl or --outputs is needed");
    }
    if (!outputs_.empty()) {
      require_only(*app_,
                   {"--case", "--problem", "--outputs", "--chunk", "--save", "--whole", "--json"},
                   "not with --outputs; nothing is run");
    }
    Problem problem = case_.empty() ? resolve_problem(problem_)
                                    : case_problem(case_, operations_of_case(case_).back());
    if (chunk_ > 0) problem.chunk = chunk_;
    if (!save_.empty()) require_save_target(problem);
    VerifyOptions options;
    if (whole_) options.most_reference_flops = 1e300;
    return outputs_.empty() ? explain_implementation(problem, options)
                            : explain_outputs(problem, options);
  }

 private:
  // Before the work whose result it takes.
  void require_save_target(const Problem& problem) const {
    const std::string target = CasePath::parse(save_).file;
    std::vector<std::string> inputs;
    for (const std::string& path : {problem.case_file, outputs_}) {
      if (!path.empty()) inputs.push_back(CasePath::parse(path).file);
    }
    require_none_overwritten(target, inputs);
    require_tensors_or_absent(save_);
  }

  int explain_implementation(const Problem& problem, const VerifyOptions& options) {
    plugins_.load_here();
    const Implementation& implementation = find_implementation(problem.operation, implementation_);
    require_supported(implementation, problem);
    const auto device =
        open_device(device_.empty() ? implementation.description().backend : device_);
    const Support support = runs_on(implementation, device->info());
    if (!support) throw Error(ErrorKind::device_unavailable, support.reason);
    require_memory(problem, implementation.workspace_bytes(problem), *device);
    const Case inputs = make_case(problem);
    const CheckedReference reference(inputs, options);
    const Explanation explanation = explain(reference, implementation, *device);
    OutputsOrigin origin;
    origin.implementation = implementation.description().name;
    origin.device = device->info().name;
    origin.chunk = explanation.anatomy.chunk;
    origin.library_version = library_version();
    origin.command = command_line();
    return report(reference, explanation, origin);
  }

  int explain_outputs(const Problem& problem, const VerifyOptions& options) {
    const Case inputs = make_case(problem);
    const StoredOutputs stored = read_outputs(inputs, outputs_);
    const CheckedReference reference(inputs, options);
    const std::int64_t chunk = chunk_ > 0 ? chunk_ : stored.origin.chunk;
    return report(reference, explain(reference, stored.narrowed(), chunk), stored.origin);
  }

  int report(const CheckedReference& reference, const Explanation& explanation,
             const OutputsOrigin& origin) const {
    if (!save_.empty()) write_tensors(reference, explanation, origin, save_);
    const std::string maker = origin.implementation.empty() ? outputs_ : origin.implementation;
    const Problem& problem = reference.inputs().problem;
    if (json_) {
      print_json(explanation, maker, problem.to_string());
    } else {
      print(explanation, maker, problem, reference.coverage());
    }
    return explanation.passed() ? 0 : 1;
  }

  static void print(const Explanation& explanation, const std::string& maker,
                    const Problem& problem, const std::string& coverage) {
    const Anatomy& anatomy = explanation.anatomy;
    fmt::print("{} {:<22} {}\n", explanation.passed() ? "PASS" : "FAIL", maker,
               problem.to_string());
    if (explanation.passed()) {
      for (const OutputErrors& output : anatomy.report.outputs) {
        fmt::print("  worst {:<12} {}\n", output.name(),
                   unit_error_text(output, worst_unit(output, anatomy.report.limits),
                                   anatomy.report.limits));
      }
      fmt::print("  {}\n", coverage);
      return;
    }
    fmt::print("  {}\n", anatomy.violation);
    for (const WrongOutput& output : anatomy.outputs) print_output(anatomy, output);
    for (const FaultPattern& pattern : explanation.patterns) {
      fmt::print("  pattern consistent with: {}: {}\n", pattern.place, pattern.text);
      for (const std::string& evidence : pattern.evidence) fmt::print("    - {}\n", evidence);
    }
    const std::vector<std::string> lines = unexplained(explanation);
    for (const std::string& line : lines) fmt::print("  no known pattern: {}\n", line);
    if (explanation.patterns.empty() && lines.empty()) fmt::print("  no known pattern\n");
  }

  // "2 of 8 units (sequence, head)": in words of the operation.
  static std::string count_of_wrong(const WrongOutput& output) {
    switch (output.operand->judging.per) {
      case JudgedPer::tensor:
        return "the tensor";
      case JudgedPer::sequence:
        return fmt::format("{} of {} sequences: {}", output.wrong_units, output.checked_units,
                           output.sequences.to_string());
      case JudgedPer::head:
      case JudgedPer::key_head: {
        const char* head = output.operand->judging.per == JudgedPer::head ? "head" : "key head";
        return fmt::format("{} of {} (sequence, {}) pairs; sequences {}; {}s {}",
                           output.wrong_units, output.checked_units, head,
                           output.sequences.to_string(), head, output.heads.to_string());
      }
    }
    return "";
  }

  static void print_output(const Anatomy& anatomy, const WrongOutput& output) {
    const OutputErrors& errors = anatomy.report[output.name()];
    fmt::print("  wrong {}: {}\n", output.name(), count_of_wrong(output));
    fmt::print("    worst {}{}\n", output.place().empty() ? "" : output.place() + ": ",
               unit_error_text(errors, output.worst, anatomy.report.limits));
    if (output.by_tokens()) {
      const std::int64_t first = output.tokens.empty() ? 0 : output.tokens.members.front();
      fmt::print("      tokens {}\n", output.tokens.to_string());
      fmt::print("      the first in chunk {} of {} ({} tokens each), at index {} in it\n",
                 first / anatomy.chunk, output.chunk_errors.size(), anatomy.chunk,
                 first % anatomy.chunk);
      std::string by_chunk;
      const std::size_t shown = 8;
      for (std::size_t i = 0; i < output.chunk_errors.size() && i < shown; ++i) {
        by_chunk += fmt::format(" {:.1e}", output.chunk_errors[i]);
      }
      fmt::print("      error by chunk:{}{}\n", by_chunk,
                 output.chunk_errors.size() > shown ? " ..." : "");
    }
    const char* elements = output.by_tokens() ? "columns" : "elements";
    fmt::print("      {} {}\n", elements, output.elements.to_string());
    if (const PairAnatomy* pair = pair_of(anatomy, output)) {
      fmt::print("      key rows {}, value columns {}\n", pair->state_rows.to_string(),
                 pair->state_columns.to_string());
    }
    fmt::print("      furthest off: {}{} {}, at {}: {:.6g}, expected {:.6g}\n",
               output.by_tokens() ? fmt::format("token {}, ", output.token) : "",
               output.by_tokens() ? "column" : "element", output.element, output.furthest,
               output.actual, output.expected);
  }

  // What is known of the rows and columns of the worst unit's state.
  static const PairAnatomy* pair_of(const Anatomy& anatomy, const WrongOutput& output) {
    const OutputErrors* state = anatomy.state_output();
    if (state == nullptr || state->operand != output.operand) return nullptr;
    for (const PairAnatomy& pair : anatomy.wrong) {
      if (pair.state.where == output.worst.where && pair.state_wrong()) return &pair;
    }
    return nullptr;
  }

  static void print_json(const Explanation& explanation, const std::string& maker,
                         const std::string& problem) {
    const Anatomy& anatomy = explanation.anatomy;
    const reference::ErrorLimits& limits = anatomy.report.limits;
    const OutputErrors* output = anatomy.main_output();
    const OutputErrors* state = anatomy.state_output();
    std::vector<std::string> patterns;
    for (const FaultPattern& pattern : explanation.patterns) {
      const std::vector<std::string> evidence = json_strings(pattern.evidence);
      patterns.push_back(json_object({{"place", json_string(pattern.place)},
                                      {"text", json_string(pattern.text)},
                                      {"outputs", json_list(json_strings(pattern.outputs))},
                                      {"evidence", json_list(evidence)}}));
    }
    std::vector<std::string> outputs;
    for (const WrongOutput& wrong : anatomy.outputs) outputs.push_back(wrong_json(anatomy, wrong));
    std::vector<std::string> pairs;
    for (const PairAnatomy& pair : anatomy.wrong) {
      std::vector<std::string> chunks;
      for (const double error : pair.chunk_errors) chunks.push_back(json_number(error));
      pairs.push_back(json_object(
          {{"sequence", std::to_string(pair.output.where.sequence)},
           {"head", std::to_string(pair.output.where.head)},
           {"output", unit_error_json(*output, pair.output, limits)},
           {"state", state == nullptr ? "null" : unit_error_json(*state, pair.state, limits)},
           {"tokens", json_set(pair.tokens)},
           {"output_columns", json_set(pair.output_columns)},
           {"state_rows", json_set(pair.state_rows)},
           {"state_columns", json_set(pair.state_columns)},
           {"chunk_errors", json_list(chunks)}}));
    }
    std::vector<std::pair<std::string, std::string>> errors;
    for (const OutputErrors& of_output : anatomy.report.outputs) {
      errors.emplace_back(of_output.name(),
                          unit_error_json(of_output, worst_unit(of_output, limits), limits));
    }
    fmt::print("{}\n",
               json_object({{"problem", json_string(problem)},
                            {"implementation", json_string(maker)},
                            {"verdict", json_string(explanation.passed() ? "passed" : "failed")},
                            {"violation", json_string(anatomy.violation)},
                            {"chunk", std::to_string(anatomy.chunk)},
                            {"errors", json_object(errors)},
                            {"wrong_outputs", json_list(outputs)},
                            {"unexplained", json_list(json_strings(unexplained(explanation)))},
                            {"sequences", json_set(anatomy.sequences)},
                            {"heads", json_set(anatomy.heads)},
                            {"wrong_pairs", json_list(pairs)},
                            {"patterns", json_list(patterns)}}));
  }

  const CLI::App* app_ = nullptr;
  std::string case_;
  std::string problem_;
  std::string outputs_;
  PluginOptions plugins_;
  std::string implementation_;
  std::string device_;
  std::string save_;
  std::int64_t chunk_ = 0;
  bool whole_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_explain() { return std::make_unique<Explain>(); }

}  // namespace gdn::cli
