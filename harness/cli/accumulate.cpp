// gdnbench accumulate: how the error of a long decode grows, by tokens and by the state's element type.
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "harness/cli/axes.h"
#include "harness/cli/command.h"
#include "harness/cli/measure_options.h"
#include "harness/cli/table_output.h"
#include "harness/operations/make_case.h"
#include "harness/run/execute.h"
#include "harness/tables/table.h"
#include "harness/verify/accumulation.h"
#include "interface/error.h"
#include "interface/select.h"

namespace gdn::cli {
namespace {

class Accumulate : public Command {
 public:
  std::string name() const override { return "accumulate"; }
  std::string help() const override {
    return "how the error of a long decode grows: one call a token, against float64";
  }
  std::string example() const override {
    return "gdnbench accumulate --impl cpu/recurrent --heads 1/2 --dim 64 --seq 1x2000 \\\n"
           "      --dtype f32 --h0 normal --norm 1 --state f32,bf16,f16\n"
           "\n"
           "Every token is a call, which finds the state that the one before it left, rounded\n"
           "to the pool's type. A table a problem has relative L2 errors of the output by\n"
           "windows of tokens, and of the final state, each of the worst sequence and head;\n"
           "beside them those of the whole in one call, which rounds the state once, where the\n"
           "implementation takes it. Exit code 1: an error beyond the limit, widened by a\n"
           "rounding of the state for each token.";
  }

  void add_options(CLI::App& app) override {
    axes_.add_to(app);
    app.add_option("--impl", implementations_,
                   "implementations, comma list, as gdnbench list names them")
        ->delimiter(',')
        ->required();
    app.add_option("--device", device_, "cpu, cuda, cuda:1, ...")->capture_default_str();
    app.add_option("--format", format_, "markdown | latex | csv")->capture_default_str();
    app.add_flag("--quiet", quiet_, "no progress line");
    app.add_flag("--json", json_, "JSON instead of a format for people");
  }

  int run() override {
    const TableFormat format = parse_table_format(format_);
    const GridSpec spec = axes_.spec();
    if (!spec.names_problems()) {
      throw_bad_input("accumulate: no problem; name one with --problem, or --heads, --seq, ...");
    }
    const auto device = open_device(device_);
    const auto implementations = choose_implementations(implementations_, device->info());
    std::vector<Table> tables;
    std::string why_not = "no implementation of the operation is named";
    for (const Problem& problem : expand(spec)) {
      if (const std::string why = not_token_by_token(problem); !why.empty()) {
        throw_bad_input(problem.to_string() + ": " + why);
      }
      Table table = table_of(problem, *device);
      const Case inputs = make_case(problem);
      std::optional<CheckedReference> reference;
      for (const Implementation* implementation : implementations) {
        const Description& description = implementation->description();
        if (description.operation != problem.operation) continue;
        if (const Support support = implementation->supports(problem_of_a_step(problem));
            !support) {
          why_not = description.name + ": " + support.reason;
          continue;
        }
        if (!reference) reference.emplace(inputs);
        add_rows(*implementation, *reference, *device, table);
      }
      if (!table.rows.empty()) tables.push_back(std::move(table));
    }
    if (tables.empty()) throw Error(ErrorKind::unsupported, "accumulate: " + why_not);
    print_tables(tables, format, json_);
    return failed_ ? 1 : 0;
  }

 private:
  static Problem problem_of_a_step(Problem problem) {
    problem.sequences = SequenceLengths::parse(std::to_string(problem.num_sequences()) + "x1");
    problem.final_state = true;
    return problem;
  }

  Table table_of(const Problem& problem, const Device& device) const {
    Table table;
    table.title = "Errors of a long decode: " + problem.to_string();
    table.origin = {"Command: " + command_line()};
    table.notes = {"Device: " + device.info().name + ".",
                   "Relative L2 errors against float64, of the worst sequence and value head."};
    table.label_columns = 2;
    table.header = {"implementation", "calls"};
    for (const TokenWindow& window : decades(problem.sequences.longest())) {
      table.header.push_back(window.end - window.first == 1
                                 ? fmt::format("token {}", window.first)
                                 : fmt::format("{}..{}", window.first, window.end - 1));
    }
    table.header.push_back("final state");
    return table;
  }

  void add_rows(const Implementation& implementation, const CheckedReference& reference,
                Device& device, Table& table) {
    const Problem& problem = reference.inputs().problem;
    const std::string& name = implementation.description().name;
    const std::int64_t tokens = problem.sequences.longest();
    const Outputs decoded =
        decoded_token_by_token(implementation, reference, device, [&](std::int64_t done) {
          if (!quiet_ && !json_ && done % kProgressTokens == 0 && isatty(STDERR_FILENO) != 0) {
            fmt::print(stderr, "\r{}: {} of {} tokens ", name, done, tokens);
          }
        });
    if (!quiet_ && !json_ && isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r\033[K");
    judge(name, "one a token", reference.check_continued(decoded, tokens - 1));
    add_row(name, "one a token", accumulated_errors(reference, decoded), table);
    if (!implementation.supports(problem)) return;
    const Outputs at_once = execute(implementation, reference.inputs(), device);
    judge(name, "one", reference.check(at_once));
    add_row(name, "one", accumulated_errors(reference, at_once), table);
  }

  void judge(const std::string& implementation, const std::string& calls,
             const std::string& wrong) {
    if (wrong.empty()) return;
    failed_ = true;
    fmt::print(stderr, "{}, calls: {}: {}\n", implementation, calls, wrong);
  }

  static void add_row(const std::string& implementation, const std::string& calls,
                      const AccumulatedErrors& errors, Table& table) {
    std::vector<std::string> row = {implementation, calls};
    for (const double error : errors.by_window) row.push_back(significant(error, 3));
    row.push_back(significant(errors.final_state, 3));
    table.rows.push_back(std::move(row));
  }

  static constexpr std::int64_t kProgressTokens = 100;

  AxisOptions axes_;
  std::vector<std::string> implementations_;
  std::string device_ = "best";
  std::string format_ = "markdown";
  bool quiet_ = false;
  bool json_ = false;
  bool failed_ = false;
};

}  // namespace

std::unique_ptr<Command> make_accumulate() { return std::make_unique<Accumulate>(); }

}  // namespace gdn::cli
