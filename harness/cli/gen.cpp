// gdnbench gen: writes a generated case to a file, for kernels that live elsewhere.
#include "harness/cli/command.h"
#include "harness/cli/outcome.h"
#include "harness/files/case_file.h"
#include "harness/files/json.h"
#include "harness/operations/make_case.h"

namespace gdn::cli {
namespace {

class Gen : public Command {
 public:
  std::string name() const override { return "gen"; }
  std::string help() const override { return "write the inputs of a problem to a case file"; }
  std::string example() const override {
    return "gdnbench gen --problem gated_delta:heads=2/4,dim=128x128,seq=1x1000,dtype=bf16 "
           "--out case.h5";
  }
  void add_options(CLI::App& app) override {
    app.add_option("--problem", problem_, "the problem, as one string (see list --help)")
        ->required();
    app.add_option("--out", out_, "FILE.h5[:/group]; a group is added to an existing case file")
        ->required();
    outcome_.add_to(app);
  }

  int run() override {
    const Case inputs = generate_case(Problem::parse(problem_));
    write_case(inputs, out_);
    const std::string problem = inputs.problem.to_string();
    outcome_.print(out_ + ": " + problem,
                   {{"file", json_string(out_)}, {"problem", json_string(problem)}});
    return 0;
  }

 private:
  std::string problem_;
  std::string out_;
  Outcome outcome_;
};

}  // namespace

std::unique_ptr<Command> make_gen() { return std::make_unique<Gen>(); }

}  // namespace gdn::cli
