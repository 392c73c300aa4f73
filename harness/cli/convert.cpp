// gdnbench convert: cases and outputs between our convention and those of other systems.
#include "harness/conventions/convert.h"

#include <fmt/format.h>

#include <filesystem>

#include "harness/cli/command.h"
#include "harness/operations/make_case.h"
#include "interface/error.h"

namespace gdn::cli {
namespace {

constexpr const char* kOurs = "gdnbench";

class Convert : public Command {
 public:
  std::string name() const override { return "convert"; }
  std::string help() const override {
    return "cases and outputs between our convention and those of other systems";
  }
  std::string example() const override {
    return "gdnbench convert --to ggml case.h5 ggml_case.h5\n"
           "  gdnbench convert --from ggml --outputs-of case.h5 ggml_outputs.h5 outputs.h5\n"
           "  gdnbench convert --from ggml --to max ggml_case.h5 max_case.h5\n"
           "  gdnbench convert --list";
  }
  void add_options(CLI::App& app) override {
    std::string names = kOurs;
    for (const auto& convention : conventions::all_conventions()) names += " | " + convention.name;
    app.add_option("--from", from_, names)->capture_default_str();
    app.add_option("--to", to_, "the same")->capture_default_str();
    app.add_option("IN", in_, "FILE.h5[:/group]: a case, or outputs with --outputs-of");
    app.add_option("OUT", out_,
                   "FILE.h5[:/group]; a case's group is added to an existing file, outputs replace "
                   "it");
    app.add_option("--outputs-of", outputs_of_,
                   "IN holds outputs of this case (a case file of ours): convert those");
    app.add_option("--op", operation_,
                   "gated_delta takes the recurrence out of a case of gated_delta_layer");
    app.add_flag("--round", options_.round,
                 "round gates and normalised q and k where the convention stores 16 bits; judge "
                 "outputs against the file converted back");
    app.add_flag("--list", list_, "print every convention: meanings, datasets, shapes");
  }

  int run() override {
    if (list_) {
      for (const auto& convention : conventions::all_conventions()) {
        fmt::print("{}\n", conventions::describe(convention));
      }
      return 0;
    }
    check_usage();
    if (outputs_of_.empty()) {
      convert_case();
    } else {
      convert_outputs();
    }
    fmt::print("{}: {} as {}\n", out_, in_, to_);
    return 0;
  }

 private:
  void check_usage() const {
    if (in_.empty() || out_.empty()) throw_bad_input("convert: expected two files, IN and OUT");
    for (const std::string& name : {from_, to_}) {
      if (name != kOurs) conventions::find_convention(name);
    }
    if (from_ == to_) throw_bad_input("convert: --from and --to are both '" + from_ + "'");
    const std::string target = CasePath::parse(out_).file;
    for (const std::string& source : {in_, outputs_of_}) {
      std::error_code ignored;
      if (source.empty()) continue;
      if (std::filesystem::equivalent(CasePath::parse(source).file, target, ignored)) {
        throw_bad_input("convert: " + target + " is read; name another file to write");
      }
    }
  }

  Case our_case(const std::string& path) const {
    if (operation_.empty()) return read_case(path);
    return make_case(case_problem(path, parse_operation(operation_)));
  }

  void convert_case() const {
    const Case ours = from_ == kOurs
                          ? our_case(in_)
                          : conventions::import_case(conventions::find_convention(from_), in_);
    if (to_ == kOurs) {
      write_case(ours, out_);
    } else {
      conventions::export_case(conventions::find_convention(to_), ours, out_, options_);
    }
  }

  void convert_outputs() const {
    const Case ours = our_case(outputs_of_);
    conventions::ImportedOutputs read;
    if (from_ == kOurs) {
      const StoredOutputs stored = read_outputs(ours, in_);
      read = {stored.narrowed(), stored.origin};
    } else {
      read = conventions::import_outputs(conventions::find_convention(from_), ours, in_);
    }
    if (to_ == kOurs) {
      write_outputs(ours, read.outputs, read.origin, out_);
    } else {
      conventions::export_outputs(conventions::find_convention(to_), ours, read.outputs,
                                  read.origin, out_);
    }
  }

  std::string from_ = kOurs;
  std::string to_ = kOurs;
  std::string in_;
  std::string out_;
  std::string outputs_of_;
  std::string operation_;
  conventions::ConvertOptions options_;
  bool list_ = false;
};

}  // namespace

std::unique_ptr<Command> make_convert() { return std::make_unique<Convert>(); }

}  // namespace gdn::cli
