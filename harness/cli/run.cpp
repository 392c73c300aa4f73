// gdnbench run: one implementation on one case, its outputs to a file in the case format.
#include "harness/cli/command.h"
#include "harness/cli/number_check.h"
#include "harness/cli/outcome.h"
#include "harness/files/json.h"
#include "harness/files/outputs_file.h"
#include "harness/operations/make_case.h"
#include "harness/rows/build_info.h"
#include "harness/run/execute.h"
#include "interface/error.h"
#include "reference/reference.h"

namespace gdn::cli {
namespace {

class Run : public Command {
 public:
  std::string name() const override { return "run"; }
  std::string help() const override { return "run one implementation, write its outputs"; }
  std::string example() const override {
    return "gdnbench run --case data/gdn_lm_trace.h5:/layer0 --impl cpu/chunkwise --chunk 64 "
           "--out out.h5";
  }
  void add_options(CLI::App& app) override {
    auto* from_file = app.add_option("--case", case_, "FILE.h5[:/group]");
    app.add_option("--problem", problem_, "a generated problem instead of a case file")
        ->excludes(from_file);
    app.add_option(
           "--impl", implementation_,
           "implementation, as gdnbench list names it; or reference: the oracle, in float64")
        ->required();
    app.add_option("--chunk", chunk_, "tokens per chunk; the implementation's choice if absent")
        ->check(more_than_zero());
    app.add_option("--device", device_, "cpu, cuda, cuda:1, ...; the implementation's by default");
    app.add_option("--out", out_, "outputs go to this HDF5 file (replaced)")->required();
    outcome_.add_to(app);
  }

  int run() override {
    if (case_.empty() && problem_.empty()) throw_bad_input("run: --case or --problem is needed");
    Problem problem =
        case_.empty() ? resolve_problem(problem_) : case_problem(case_, operation_of_case());
    if (chunk_ > 0) problem.chunk = chunk_;
    if (implementation_ == kReference) return run_reference(problem);
    const Implementation& implementation = find_implementation(problem.operation, implementation_);
    require_supported(implementation, problem);
    const auto device =
        open_device(device_.empty() ? implementation.description().backend : device_);
    const Support support = runs_on(implementation, device->info());
    if (!support) throw Error(ErrorKind::device_unavailable, support.reason);

    require_memory(problem, implementation.workspace_bytes(problem), *device);
    const Case inputs = make_case(problem);
    PlanInfo plan;
    const Outputs outputs = execute(implementation, inputs, *device, &plan);
    const OutputsOrigin origin =
        origin_of(implementation.description().name, device->info().name, plan.chunk);
    write_outputs(inputs, outputs, origin, out_);
    return say(origin);
  }

 private:
  static constexpr const char* kReference = "reference";

  // The oracle itself, in float64, all of it.
  int run_reference(const Problem& problem) const {
    if (!device_.empty()) throw_bad_input("run: --device goes with an implementation");
    const Case inputs = make_case(problem);
    const OutputsOrigin origin = origin_of(kReference, "float64 on the CPU", 0);
    write_outputs(inputs, reference::evaluate<double>(inputs), origin, out_);
    return say(origin);
  }

  static OutputsOrigin origin_of(const std::string& implementation, const std::string& device,
                                 std::int64_t chunk) {
    return {implementation, device, chunk, library_version(), command_line()};
  }

  int say(const OutputsOrigin& origin) const {
    outcome_.print(out_ + ": " + origin.implementation + " on " + origin.device,
                   {{"file", json_string(out_)},
                    {"implementation", json_string(origin.implementation)},
                    {"device", json_string(origin.device)},
                    {"chunk", std::to_string(origin.chunk)}});
    return 0;
  }

  // A case can be run by kernels of an inner step alone: the operation is the implementation's.
  Operation operation_of_case() const {
    const std::vector<Operation> candidates = operations_of_case(case_);
    for (auto candidate = candidates.rbegin(); candidate != candidates.rend(); ++candidate) {
      for (const Implementation* implementation : all_implementations()) {
        const Description& d = implementation->description();
        if (d.name == implementation_ && d.operation == *candidate) return *candidate;
      }
    }
    return candidates.back();
  }

  std::string case_;
  std::string problem_;
  std::string implementation_;
  std::string device_;
  std::string out_;
  std::int64_t chunk_ = 0;
  Outcome outcome_;
};

}  // namespace

std::unique_ptr<Command> make_run() { return std::make_unique<Run>(); }

}  // namespace gdn::cli
