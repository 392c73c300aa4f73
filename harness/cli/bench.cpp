// gdnbench bench: measurements under Google Benchmark, whose filters, repetitions and reporters
// work as usual. What Google Benchmark calls one iteration is one whole measurement of ours:
// verified, sampled until the stopping rule is satisfied, verified again; its time is the median of
// the samples (manual time). Repetitions are then independent measurements. Its own choice of
// iteration counts does not apply: derived from wall time it explodes for short kernels behind a
// cache flush.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <new>
#include <optional>
#include <sstream>
#include <utility>

#include "harness/cli/axes.h"
#include "harness/cli/command.h"
#include "harness/cli/measure_options.h"
#include "harness/measure/measure.h"
#include "harness/operations/make_case.h"
#include "harness/operations/operation_harness.h"
#include "harness/rows/build_info.h"
#include "harness/sweep/sweep.h"
#include "harness/verify/implementation_apart.h"
#include "harness/verify/verify.h"
#include "interface/error.h"

namespace gdn::cli {
namespace {

// Inputs and reference of the latest problem: benchmarks of one problem follow each other.
class LatestCase {
 public:
  const CheckedReference& of(const Problem& problem) {
    // Without a reference its making failed, and the inputs are of a problem before it.
    if (!reference_ || !(inputs_->problem == problem)) {
      reference_.reset();
      inputs_.emplace(make_case(problem));
      reference_.emplace(*inputs_);
    }
    return *reference_;
  }

 private:
  std::optional<Case> inputs_;
  std::optional<CheckedReference> reference_;
};

// What Google Benchmark writes to std::cerr until it is known whether there is anything to time: a
// complaint about its filter becomes a line of ours, the context it begins with is passed on.
class HeldBackErrors {
 public:
  HeldBackErrors() : cerr_(std::cerr.rdbuf(held_.rdbuf())) {}
  ~HeldBackErrors() { pass_on(); }
  HeldBackErrors(const HeldBackErrors&) = delete;
  HeldBackErrors& operator=(const HeldBackErrors&) = delete;

  void pass_on() {
    if (cerr_ == nullptr) return;
    std::cerr.rdbuf(std::exchange(cerr_, nullptr));
    std::cerr << without_debug_warning(held_.str()) << std::flush;
  }
  /// Its first line, taken out of what is passed on.
  std::string take_complaint() {
    const std::string text = held_.str();
    held_.str("");
    return text.substr(0, text.find('\n'));
  }

 private:
  // Distributions build Google Benchmark without NDEBUG, and it warns that its own loop may be slow. Times here are
  // those of a device's clock, inside one iteration of that loop.
  static std::string without_debug_warning(std::string text) {
    const std::size_t begin = text.find("***WARNING*** Library was built as DEBUG");
    if (begin == std::string::npos) return text;
    const std::size_t end = text.find('\n', begin);
    return text.erase(begin, end == std::string::npos ? end : end + 1 - begin);
  }

  std::ostringstream held_;
  std::streambuf* cerr_;
};

class Bench : public Command {
 public:
  std::string name() const override { return "bench"; }
  std::string help() const override {
    return "time implementations under Google Benchmark (--benchmark_* flags are its own)";
  }
  std::string example() const override {
    return "gdnbench bench --heads 16/32 --seq 4x8192 --dtype bf16 --impl cuda/fused "
           "--benchmark_repetitions=5 --benchmark_format=json";
  }
  bool allows_extras() const override { return true; }
  void take_extras(const std::vector<std::string>& extras) override { extras_ = extras; }

  void add_options(CLI::App& app) override {
    axes_.add_to(app);
    measure_.add_with_plugins_to(app);
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) flags_.push_back("--" + name);
    }
  }

  int run() override {
    initialize_library();
    measure_.options();  // contradictions are found before the work
    const auto device = open_device(measure_.device());
    const auto implementations = measure_.chosen(device->info());
    LatestCase cases;
    HeldBackErrors errors;
    int failures = 0;
    std::size_t registered = 0;
    std::string why_not = "no implementation does any of the problems";
    for (const Problem& problem : problems_of(axes_, device->info())) {
      for (const Implementation* implementation : implementations) {
        if (implementation->description().operation != problem.operation) continue;
        if (const Support support = implementation->supports(problem); !support) {
          why_not = implementation->description().name + ": " + support.reason;
          continue;
        }
        const std::string name = implementation->description().name + "/" + problem.to_string();
        benchmark::RegisterBenchmark(name.c_str(),
                                     [this, implementation, problem, &device, &cases, &errors,
                                      &failures](benchmark::State& state) {
                                       errors.pass_on();
                                       run_one(*implementation, problem, *device, cases, state,
                                               failures);
                                     })
            ->UseManualTime()
            ->Iterations(1)
            ->Unit(benchmark::kMillisecond);
        ++registered;
      }
    }
    if (registered == 0) throw Error(ErrorKind::unsupported, "bench: " + why_not);
    add_context(*device);
    const std::size_t matched = benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    if (matched == 0) {
      throw_bad_input("bench: --benchmark_filter leaves nothing to time: " +
                      errors.take_complaint());
    }
    return failures > 0 ? 1 : 0;
  }

 private:
  void initialize_library() {
    static std::string program = "gdnbench";
    std::vector<char*> arguments = {program.data()};
    for (std::string& extra : extras_) {
      if (extra.rfind("--benchmark_", 0) != 0 && extra != "--v" && extra.rfind("--v=", 0) != 0) {
        throw_bad_input("bench: unknown argument '" + extra + "' (did you mean '" +
                        nearest_name(extra.substr(0, extra.find('=')), flags_) + "'?)");
      }
      arguments.push_back(extra.data());
    }
    int count = static_cast<int>(arguments.size());
    benchmark::Initialize(&count, arguments.data());
    // What Google Benchmark does not take off the list it does not know.
    if (count > 1) {
      throw_bad_input(std::string("bench: Google Benchmark does not know '") + arguments[1] + "'");
    }
  }

  void add_context(Device& device) const {
    const DeviceInfo& info = device.info();
    const Device::Ceilings ceilings = device.ceilings();
    benchmark::AddCustomContext("device", info.name);
    benchmark::AddCustomContext("driver", info.driver_version);
    benchmark::AddCustomContext("sources", source_hash());
    benchmark::AddCustomContext("version", library_version());
    benchmark::AddCustomContext("cache", name_of(measure_.options().mode));
    benchmark::AddCustomContext("ceiling_copy_TB/s", fmt::format("{:.4g}", ceilings.copy_tb_per_s));
    benchmark::AddCustomContext("ceiling_matrix_TFLOP/s",
                                fmt::format("{:.4g}", ceilings.matrix_tflops));
    benchmark::AddCustomContext("ceiling_float32_TFLOP/s",
                                fmt::format("{:.4g}", ceilings.float32_tflops));
    for (const OperationHarness* harness : operation_harnesses()) {
      benchmark::AddCustomContext("TFLOP/s_of_" + harness->operation->name, harness->flops_text(0));
    }
  }

  void run_one(const Implementation& implementation, const Problem& problem, Device& device,
               LatestCase& cases, benchmark::State& state, int& failures) const {
    try {
      const Row row = measured(implementation, problem, device, cases);
      if (!row.ok()) {
        ++failures;
        state.SkipWithError(row.reason.c_str());
        return;
      }
      for (auto iteration : state) {
        (void)iteration;
        state.SetIterationTime(row.time_ms * 1e-3);
      }
      add_counters(row, state);
    } catch (const std::bad_alloc&) {
      ++failures;
      state.SkipWithError((problem.to_string() + ": host memory ran out").c_str());
    } catch (const std::exception& error) {
      ++failures;
      state.SkipWithError(error.what());
    }
  }

  Row measured(const Implementation& implementation, const Problem& problem, Device& device,
               LatestCase& cases) const {
    if (const auto* const apart = dynamic_cast<const ImplementationApart*>(&implementation)) {
      SweepOptions options;
      options.measure = measure_.options();
      std::vector<TimeSample> samples;
      return apart->row(problem, options, samples);
    }
    const CheckedReference& reference = cases.of(problem);
    Row row;
    describe_measurement(
        measure(
            implementation, reference.inputs(), device,
            [&](const Outputs& outputs) { return reference.check(outputs); }, measure_.options()),
        row);
    return row;
  }

  static void add_counters(const Row& row, benchmark::State& state) {
    const auto set = [&](const char* name, double value) { state.counters[name] = value; };
    set("tokens/s", row.tokens_per_s);
    set("TFLOP/s", row.chunkwise_tflops);
    set("useful_TFLOP/s", row.recurrent_tflops);
    set("count_chunk", static_cast<double>(row.count_chunk));
    set("TB/s", row.tb_per_s);
    set("of_compute", row.fraction_of_compute);
    set("of_bandwidth", row.fraction_of_bandwidth);
    set("samples", static_cast<double>(row.sample_count));
    set("spread", row.time_relative_spread);
    set("min_ms", row.time_min_ms);
    set("first_call_ms", row.first_call_ms);
    set("planning_ms", row.planning_ms);
    state.SetLabel(row.chunk > 0 ? fmt::format("chunk={} {}", row.chunk, row.plan_choice)
                                 : row.plan_choice);
  }

  AxisOptions axes_;
  MeasureCliOptions measure_;
  std::vector<std::string> extras_;
  std::vector<std::string> flags_;  ///< of ours, to name the nearest to a mistyped one
};

}  // namespace

std::unique_ptr<Command> make_bench() { return std::make_unique<Bench>(); }

}  // namespace gdn::cli
