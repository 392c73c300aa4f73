// gdnbench estimate: a whole model's throughput from measured parts.
#include <fmt/format.h>

#include <cstdio>

#include "harness/cli/command.h"
#include "harness/cli/measure_options.h"
#include "harness/cli/progress.h"
#include "harness/cli/table_output.h"
#include "harness/measure/model_estimate.h"
#include "harness/problems/grid.h"
#include "harness/sweep/sweep.h"
#include "interface/error.h"
#include "interface/select.h"

namespace gdn::cli {
namespace {

// 32K tokens as in the paper's figure on a GPU; on a CPU what its products take seconds for.
std::string default_sequences(const DeviceInfo& device) {
  return device.has_own_memory ? "16x2048,8x4096,4x8192,2x16384" : "4x64,2x128,1x256";
}

class Estimate : public Command {
 public:
  std::string name() const override { return "estimate"; }
  std::string help() const override {
    return "a model's throughput from its mixer and dense products, each measured alone";
  }
  std::string example() const override {
    return "gdnbench estimate --model paper-1.3b --device cuda --dtype bf16\n"
           "  gdnbench estimate --training --device cuda\n"
           "  gdnbench estimate --model paper-h1-1.3b --attention times.csv --device cuda\n"
           "  gdnbench estimate --device cpu --seq 1x128 --impl cpu/chunkwise --json\n"
           "\n"
           "An estimate, and labelled so: what lies between the parts is left out. Exit code 1: a "
           "mixer failed\nits check; 3: no matrix library for the device here.";
  }

  void add_options(CLI::App& app) override {
    std::string names;
    for (const ModelShape& model : model_shapes())
      names += (names.empty() ? "" : " | ") + model.name;
    app.add_option("--model", model_, names)->capture_default_str();
    app.add_flag("--training", training_,
                 "of a training step, forward and backward, in the place of the forward pass");
    app.add_option("--attention", attention_,
                   "of a hybrid: times of its attention on this device, a file that "
                   "scripts/peers/time_attention.py writes");
    app.add_option("--seq", sequences_,
                   "batches, comma list; default: 32K tokens on a GPU, 256 on a CPU");
    app.add_option("--dtype", dtype_,
                   "element type: f32|bf16|f16; default: bf16 on a GPU, else f32");
    app.add_option("--format", format_, "markdown | latex | csv")->capture_default_str();
    app.add_flag("--quiet", quiet_, "no progress line");
    app.add_flag("--json", json_, "JSON instead of a format for people");
    measure_.add_to(app);
  }

  int run() override {
    const TableFormat format = parse_table_format(format_);
    const ModelShape& model = find_model_shape(model_);
    require_attention_file(model);
    const auto device = open_device(measure_.device());
    const bool cpu = !device->info().has_own_memory;
    const DType dtype =
        dtype_.empty() ? (cpu ? DType::float32 : DType::bfloat16) : parse_dtype(dtype_, "--dtype");
    if (!matrix_product(*device, {1, 1, 1, dtype}, nullptr, nullptr, nullptr)) {
      throw Error(ErrorKind::device_unavailable,
                  fmt::format("estimate: dense products in {} cannot be measured on {}: no "
                              "matrix library for them here",
                              long_name(dtype), device->info().backend));
    }
    EstimateParts parts;
    parts.pass = training_ ? Pass::training : Pass::forward;
    std::vector<Problem> problems;
    std::vector<SequenceLengths> shapes;
    for (const std::string& text : split_values(
             "--seq", sequences_.empty() ? default_sequences(device->info()) : sequences_)) {
      shapes.push_back(SequenceLengths::parse(text));
      problems.push_back(training_ ? training_problem(model, shapes.back(), dtype)
                                   : mixer_problem(model, shapes.back(), dtype));
    }
    if (model.is_hybrid()) {
      parts.attention = attention_of(model, shapes, dtype, device->info().name, parts.pass,
                                     AttentionTimes::read(attention_));
    }
    bool failed = false;
    parts.mixers =
        measured(problems, choose_implementations(measure_.implementations(), device->info()),
                 *device, failed);
    for (const SequenceLengths& shape : shapes) {
      if (!training_) break;
      std::vector<Row>& beside = parts.beside[shape.to_string()];
      for (const Problem& problem : problems_beside_training(model, shape, dtype)) {
        const std::vector<Row> rows =
            measured({problem}, {select(problem, device->info()).implementation}, *device, failed);
        beside.push_back(rows.front());
      }
    }
    for (const Row& row : parts.mixers) {
      const std::int64_t tokens = row.integer("total_tokens");
      if (parts.products.count(tokens) > 0) continue;
      parts.products[tokens] =
          time_products(model, tokens, dtype, *device, measure_.options(), parts.pass);
    }
    print_tables(estimate_tables(model, parts), format, json_);
    return failed ? 1 : 0;
  }

 private:
  void require_attention_file(const ModelShape& model) const {
    if (model.is_hybrid() && attention_.empty()) {
      throw_bad_input(
          fmt::format("--model {}: its attention layers need --attention FILE.csv, which "
                      "scripts/peers/time_attention.py --models {} --out FILE.csv writes",
                      model.name, model.name));
    }
    if (!model.is_hybrid() && !attention_.empty()) {
      throw_bad_input(
          fmt::format("--attention {}: goes with a model that has attention layers, {} "
                      "has none",
                      attention_, model.name));
    }
  }

  // Rows that are ok: those an estimate can be made of.
  std::vector<Row> measured(const std::vector<Problem>& problems,
                            const std::vector<const Implementation*>& implementations,
                            Device& device, bool& failed) {
    SweepOptions options;
    options.measure = measure_.options();
    options.command = command_line();
    RowMemorySink sink;
    const SweepTotals totals =
        sweep_with_progress(problems, implementations, device, options, sink, quiet_ || json_, 30);
    failed = failed || totals.failed > 0;
    std::vector<Row> rows;
    const std::string what = to_string(problems.front().operation);
    std::string why_not = "no implementation of " + what;
    for (const Row& row : sink.stored().rows) {
      if (row.ok()) {
        rows.push_back(row);
      } else {
        why_not = row.implementation + ": " + row.reason;
      }
    }
    if (rows.empty())
      throw Error(ErrorKind::unsupported, "estimate: no " + what + " ran: " + why_not);
    return rows;
  }

  std::string model_ = "paper-1.3b";
  std::string attention_;
  bool training_ = false;
  std::string sequences_;
  std::string dtype_;
  std::string format_ = "markdown";
  bool quiet_ = false;
  bool json_ = false;
  MeasureCliOptions measure_;
};

}  // namespace

std::unique_ptr<Command> make_estimate() { return std::make_unique<Estimate>(); }

}  // namespace gdn::cli
