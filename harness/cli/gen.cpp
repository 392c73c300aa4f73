// gdnbench gen: writes a generated case to a file, or those of a suite to a folder, for kernels that
// live elsewhere.
#include "harness/cli/command.h"
#include "harness/cli/outcome.h"
#include "harness/cli/suite_folder.h"
#include "harness/files/case_file.h"
#include "harness/files/json.h"
#include "harness/operations/make_case.h"
#include "interface/error.h"

namespace gdn::cli {
namespace {

class Gen : public Command {
 public:
  std::string name() const override { return "gen"; }
  std::string help() const override {
    return "write the inputs of a problem, or of a suite, to case files";
  }
  std::string example() const override {
    return "gdnbench gen --problem gated_delta:heads=2/4,dim=128x128,seq=1x1000,dtype=bf16 "
           "--out case.h5\n"
           "  gdnbench gen --suite quick --op gated_delta --out cases";
  }
  void add_options(CLI::App& app) override {
    auto* problem =
        app.add_option("--problem", problem_, "the problem, as one string (see list --help)");
    auto* suite = app.add_option("--suite", suite_, "every problem of this suite, a file each");
    suite->excludes(problem);
    app.add_option("--op", operation_, "of the suite this operation alone")->needs(suite);
    app.add_option("--out", out_,
                   "FILE.h5[:/group]; a group is added to an existing case file. With --suite a "
                   "folder; files that are there stay")
        ->required();
    outcome_.add_to(app);
  }

  int run() override {
    if (problem_.empty() && suite_.empty()) throw_bad_input("gen: --problem or --suite is needed");
    if (!suite_.empty()) return write_folder();
    const Case inputs = generate_case(Problem::parse(problem_));
    write_case(inputs, out_);
    const std::string problem = inputs.problem.to_string();
    outcome_.print(out_ + ": " + problem,
                   {{"file", json_string(out_)}, {"problem", json_string(problem)}});
    return 0;
  }

 private:
  int write_folder() const {
    const WrittenSuite suite = write_suite(suite_problems(suite_, operation_), out_);
    std::string line = out_ + ": " + std::to_string(suite.written) + " case files written";
    if (suite.there > 0) line += ", " + std::to_string(suite.there) + " were there";
    std::string left_out;
    for (const std::string& one : suite.left_out) {
      line += "\n  left out: " + one;
      left_out += (left_out.empty() ? "" : ", ") + json_string(one);
    }
    outcome_.print(line, {{"folder", json_string(out_)},
                          {"written", std::to_string(suite.written)},
                          {"there", std::to_string(suite.there)},
                          {"left_out", "[" + left_out + "]"}});
    return 0;
  }

  std::string problem_;
  std::string suite_;
  std::string operation_;
  std::string out_;
  Outcome outcome_;
};

}  // namespace

std::unique_ptr<Command> make_gen() { return std::make_unique<Gen>(); }

}  // namespace gdn::cli
