#include "harness/cli/axes.h"

#include "interface/error.h"

namespace gdn::cli {

void AxisOptions::add_to(CLI::App& app) {
  const std::string what = "What to run";
  std::string names;
  for (const Operation operation : operations()) {
    names += (names.empty() ? "" : " | ") + operation->name;
    if (operation == Operation()) names += " (default)";
  }
  app.add_option("--op", operation_, names + "; a case is read as this")->group(what);
  app.add_option("--preset", presets_,
                 "named axis values, several combine; gdnbench list --presets names them")
      ->delimiter(',')
      ->group(what);
  app.add_option("--problem", problems_, "a whole Problem string; may be repeated")->group(what);
  app.add_option("--case", cases_, "inputs from a case file, FILE.h5[:/group]; may be repeated")
      ->group(what);
  add_axes_to(app);
}

void AxisOptions::add_axes_to(CLI::App& app) {
  for (const ProblemField& field : problem_fields()) {
    if (field.key == "case") continue;
    // --out names a file in several commands.
    const std::string flag = field.key == "out" ? "output-dtype" : field.key;
    Axis& axis = axes_[field.key];
    axis.option = app.add_option("--" + flag, axis.text, field.help)->group("Axes (comma lists)");
  }
}

GridSpec AxisOptions::spec() const {
  GridSpec spec;
  spec.operation_given = !operation_.empty();
  if (spec.operation_given) spec.operation = parse_operation(operation_);
  spec.presets = presets_;
  spec.problems = problems_;
  spec.cases = cases_;
  spec.axes = values();
  return spec;
}

std::map<std::string, std::vector<std::string>> AxisOptions::values() const {
  std::map<std::string, std::vector<std::string>> given;
  for (const auto& [key, axis] : axes_) {
    if (axis.option->count() == 0) continue;
    // Taken for an axis not given, an empty shell variable would run something else.
    if (axis.text.empty()) {
      throw_bad_input(axis.option->get_name() + ": is empty; expected " +
                      axis.option->get_description());
    }
    given[key] = split_values(key, axis.text);
  }
  return given;
}

}  // namespace gdn::cli
