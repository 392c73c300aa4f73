// Suites, cases and verdicts behind C functions: what the program's gen, verify and explain do, for arrays
// that are handed over in memory.
#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "harness/c_library/edge.h"
#include "harness/c_library/explanation_text.h"
#include "harness/explain/fault_patterns.h"
#include "harness/files/case_attributes.h"
#include "harness/operations/generate_case.h"
#include "harness/verify/known_limits.h"
#include "harness/verify/suites.h"
#include "harness/verify/verify.h"
#include "harness/verify/worst_unit.h"
#include "interface/batch_part.h"
#include "interface/dtype.h"
#include "interface/honoured_fields.h"
#include "interface/storage_type.h"
#include "plugin/operand_in_c.h"

/// Inputs, and what has been asked about them so far.
struct gdnbench_case {
  gdn::Case inputs;
  gdn::Arrays<float> packed;  // pools without the padding behind their rows
  std::optional<gdn::CheckedReference> reference;
  gdn::Arrays<double> packed_reference;
  gdn::VerifyResult result;
  std::string coverage;
  std::string explanation;

  const gdn::CheckedReference& checked_reference() {
    if (!reference) reference.emplace(inputs);
    return *reference;
  }
};

namespace {

using namespace gdn;             // NOLINT: this file is the library's edge
using namespace gdn::c_library;  // NOLINT

/// The suite and its problems' strings, kept: a caller asks for one problem after the other.
struct SuiteText {
  Suite suite;
  std::vector<std::string> problems;
};

const SuiteText& suite_text_of(const std::string& name) {
  static thread_local SuiteText kept;
  if (kept.suite.name != name || kept.problems.empty()) {
    SuiteText made{find_suite(name), {}};
    for (const SuiteProblem& entry : made.suite.problems) {
      made.problems.push_back(entry.problem.to_string());
    }
    kept = std::move(made);
  }
  return kept;
}

/// The output of a caller's array, by either of its names.
const Operand& output_of(const Problem& problem, const char* name) {
  const Operand* found = problem.operation->find_output(name);
  const Operand& operand = found != nullptr ? *found : problem.operation->at(name);
  if (!operand.is_output() || operand.hand_over.between_steps || !is_present(operand, problem) ||
      !is_written(operand, problem)) {
    throw_bad_input(std::string(name) + ": " + problem.to_string() + " does not write it");
  }
  return operand;
}

std::vector<float> read_values(const gdnbench_array& array, const Operand& operand,
                               const Problem& problem) {
  const std::string& name = operand.output_name();
  const std::vector<std::int64_t> expected = extents(operand, problem);
  if (array.strides != nullptr) {
    throw_bad_input(name + ": has strides, expected a dense array");
  }
  if (array.extents != nullptr &&
      std::vector<std::int64_t>(array.extents, array.extents + array.rank) != expected) {
    throw_bad_input(name + ": other extents than its operand's, expected " +
                    shape_names(operand, problem));
  }
  std::int64_t count = 1;
  for (const std::int64_t extent : expected) count *= extent;
  std::vector<float> values(static_cast<std::size_t>(count));
  if (count == 0) return values;
  const StorageType type = array.dtype == nullptr ? storage_type(operand.dtype(problem))
                                                  : parse_storage_type(array.dtype, name);
  const std::optional<DType> dtype = dtype_of(type);
  const bool takes_int8 = operand.dtype(problem) == DType::int8;
  if (!dtype || (*dtype == DType::int8 && !takes_int8)) {
    throw_bad_input(name + ": '" + array.dtype + "', expected 'f32', 'bf16' or 'f16'" +
                    (takes_int8 ? ", or 'i8'" : ""));
  }
  decode(*dtype, required(array.read, (name + ": read").c_str()), values.data(), count);
  return values;
}

/// Of a pool that the call does not read, a caller never had what lies in rows that no sequence writes, and
/// cannot leave it as it was: these rows take the case's values, which are what they are compared with.
void restore_unwritten_rows(const Case& inputs, const Operand& operand, std::vector<float>& pool) {
  const Problem& problem = inputs.problem;
  if (operand.role != Role::in_place || cut_of(operand, problem) != Cut::pool_rows ||
      is_read(operand, problem)) {
    return;
  }
  const std::vector<float>& before = inputs[operand.name];
  const std::int64_t stride = row_stride(operand, problem);
  if (stride == 0) return;
  std::vector<bool> written(before.size() / static_cast<std::size_t>(stride));
  for (std::int64_t n = 0; n < problem.num_sequences(); ++n) {
    if (writes_row(operand, inputs, n)) {
      written[static_cast<std::size_t>(inputs.output_slot(n))] = true;
    }
  }
  for (std::size_t row = 0; row < written.size(); ++row) {
    if (written[row]) continue;
    const auto begin = static_cast<std::ptrdiff_t>(row) * stride;
    std::copy(before.begin() + begin, before.begin() + begin + stride, pool.begin() + begin);
  }
}

/// The caller's outputs as an implementation's would be: what nobody wrote holds what was there before.
Outputs outputs_of(const Case& inputs, const gdnbench_array* arrays, std::int64_t count) {
  const Problem& problem = inputs.problem;
  if (count < 0) throw_bad_input("num_outputs: " + std::to_string(count) + ", expected 0 or more");
  if (count > 0) required(arrays, "outputs");
  Outputs outputs;
  for (const Operand& operand : problem.operation->operands) {
    if (!operand.is_output() || operand.hand_over.between_steps || !is_present(operand, problem) ||
        operand.role != Role::in_place) {
      continue;
    }
    outputs[operand.output_name()] = inputs[operand.name];
  }
  std::vector<std::string> given;
  for (std::int64_t i = 0; i < count; ++i) {
    const gdnbench_array& array = arrays[i];
    const Operand& operand =
        output_of(problem, required(array.operand, "outputs: an operand's name"));
    const std::string& name = operand.output_name();
    if (std::find(given.begin(), given.end(), name) != given.end()) {
      throw_bad_input("outputs: " + name + " is given twice");
    }
    given.push_back(name);
    std::vector<float> values = read_values(array, operand, problem);
    std::vector<float>& output = outputs[name];
    if (operand.pool.row_padding == nullptr) {
      output = std::move(values);
    } else {
      if (operand.role != Role::in_place) {
        output.assign(static_cast<std::size_t>(element_count(operand, problem)),
                      std::numeric_limits<float>::quiet_NaN());
      }
      copy_into_padded(operand, problem, values, output);
    }
    restore_unwritten_rows(inputs, operand, output);
  }
  for (const Operand& operand : problem.operation->operands) {
    if (!operand.is_output() || operand.hand_over.between_steps || operand.hand_over.on_request ||
        !is_present(operand, problem) || !is_written(operand, problem)) {
      continue;
    }
    if (std::find(given.begin(), given.end(), operand.output_name()) == given.end()) {
      throw_bad_input(operand.output_name() + ": is missing, " + problem.to_string() +
                      " writes it");
    }
  }
  return outputs;
}

gdnbench_output_error error_of(const reference::OutputErrors& output,
                               const reference::ErrorLimits& limits) {
  const reference::UnitError& unit = worst_unit(output, limits);
  const reference::TensorError& error = unit.error;
  return {
      output.name().c_str(),
      error.relative_l2,
      error.floor,
      output.is_measured_in_floors ? error.floor_ratio : std::numeric_limits<double>::quiet_NaN(),
      error.scaled_max,
      reference::allowed(output, unit, limits),
      limit_ratio(output, unit, limits),
      error.non_finite,
      unit.where.sequence,
      unit.where.head == BatchPart::kEveryHead ? -1 : unit.where.head};
}

}  // namespace

extern "C" {

const char* gdnbench_suite_name(int index) {
  static const std::vector<std::string> names = suite_names();
  if (index < 0 || index >= static_cast<int>(names.size())) return nullptr;
  return names[static_cast<std::size_t>(index)].c_str();
}

gdnbench_status gdnbench_suite_problem_of(const char* suite, int index,
                                          gdnbench_suite_problem* problem) {
  return guarded([&] {
    *required(problem, "problem") = {};
    const SuiteText& text = suite_text_of(required(suite, "suite"));
    if (index < 0 || index >= static_cast<int>(text.problems.size())) return;
    const auto place = static_cast<std::size_t>(index);
    const SuiteProblem& entry = text.suite.problems[place];
    *problem = {text.problems[place].c_str(), entry.origin.c_str(), entry.protects.c_str()};
  });
}

gdnbench_status gdnbench_field_of(const char* problem, int index, gdnbench_field* field) {
  return guarded([&] {
    *required(field, "field") = {};
    const Problem parsed = parse_problem(problem, nullptr, 0);
    static thread_local std::string value;
    for (const ProblemField& of : problem_fields()) {
      if (!is_field_of(of, parsed)) continue;
      if (index-- != 0) continue;
      value = of.get(parsed);
      *field = {of.key.c_str(), value.c_str(), of.of_inputs};
      return;
    }
  });
}

gdnbench_status gdnbench_honours(const char* problem, const char* honoured) {
  return guarded([&] {
    const Problem parsed = parse_problem(problem, nullptr, 0);
    HonouredFields fields;
    std::istringstream items(required(honoured, "honoured"));
    for (std::string item; std::getline(items, item, ',');) {
      const std::string key = item.substr(0, item.find('='));
      bool known = false;
      for (const ProblemField& field : problem_fields()) known = known || field.key == key;
      if (!known) throw_bad_input("honoured: '" + item + "' is no field of a problem");
      fields.push_back(item);
    }
    const std::string field = first_not_honoured(parsed, fields);
    if (!field.empty()) throw Error(ErrorKind::unsupported, field + " is not honoured");
  });
}

gdnbench_status gdnbench_known_limit_of(const char* table, const char* implementation,
                                        const char* problem, gdnbench_known_limit* limit) {
  return guarded([&] {
    *required(limit, "limit") = {};
    required(implementation, "implementation");
    const Problem parsed = parse_problem(problem, nullptr, 0);
    std::vector<KnownLimit> own;
    if (table != nullptr) own = parse_known_limits("known limits", table);
    const std::vector<KnownLimit>& limits = table != nullptr ? own : known_limits();
    const KnownLimit* found = find_known_limit(limits, implementation, parsed);
    if (found == nullptr) return;
    static thread_local std::string cause;
    cause = found->cause;
    *limit = {cause.c_str(), !limits_witnessed_by(limits, implementation, parsed).empty()};
  });
}

gdnbench_status gdnbench_case_create(const char* problem, gdnbench_case** made) {
  return guarded([&] {
    *required(made, "made") = nullptr;
    std::unique_ptr<gdnbench_case> result(new gdnbench_case());
    result->inputs = generate_case(parse_problem(problem, nullptr, 0));
    *made = result.release();
  });
}

gdnbench_status gdnbench_case_input(gdnbench_case* of, const char* operand, const void** values,
                                    int64_t* count) {
  return guarded([&] {
    const Case& inputs = required(of, "case")->inputs;
    const Problem& problem = inputs.problem;
    const Operand& wanted = problem.operation->at(required(operand, "operand"));
    if (!is_present(wanted, problem) || !is_read(wanted, problem)) {
      throw_bad_input(wanted.name + ": " + problem.to_string() + " does not read it");
    }
    if (wanted.is_index()) {
      const std::vector<std::int64_t>& indices = inputs.indices(wanted);
      *required(values, "values") = indices.data();
      *required(count, "count") = static_cast<std::int64_t>(indices.size());
      return;
    }
    if (of->packed.find(wanted.name) == nullptr) {
      of->packed[wanted.name] = without_padding(wanted, problem, inputs[wanted.name]);
    }
    const std::vector<float>& packed = of->packed[wanted.name];
    *required(values, "values") = packed.data();
    *required(count, "count") = static_cast<std::int64_t>(packed.size());
  });
}

gdnbench_status gdnbench_case_reference(gdnbench_case* of, const char* output,
                                        const double** values, int64_t* count) {
  return guarded([&] {
    const Problem& problem = required(of, "case")->inputs.problem;
    const Operand& operand = output_of(problem, required(output, "output"));
    const std::string& name = operand.output_name();
    if (of->packed_reference.find(name) == nullptr) {
      const std::vector<double>* found = of->checked_reference().wide().find(name);
      if (found == nullptr) throw_bad_input(name + ": the reference does not have it");
      of->packed_reference[name] = without_padding(operand, problem, *found);
    }
    const std::vector<double>& packed = of->packed_reference[name];
    *required(values, "values") = packed.data();
    *required(count, "count") = static_cast<std::int64_t>(packed.size());
  });
}

gdnbench_status gdnbench_case_judge(gdnbench_case* of, const gdnbench_array* outputs,
                                    int64_t num_outputs, gdnbench_verdict* verdict) {
  return guarded([&] {
    required(of, "case");
    required(verdict, "verdict");
    Outputs given = outputs_of(of->inputs, outputs, num_outputs);
    of->result = verify_outputs(of->checked_reference(), std::move(given));
    of->coverage = of->checked_reference().coverage();
    *verdict = {of->result.passed(), static_cast<std::int32_t>(of->result.report.outputs.size()),
                of->result.reason.c_str(), of->coverage.c_str()};
  });
}

gdnbench_status gdnbench_case_error(const gdnbench_case* of, int index,
                                    gdnbench_output_error* error) {
  return guarded([&] {
    const reference::ErrorReport& report = required(of, "case")->result.report;
    if (index < 0 || index >= static_cast<int>(report.outputs.size())) {
      throw_bad_input("index: " + std::to_string(index) + ", expected 0 .. " +
                      std::to_string(report.outputs.size()) + " outputs judged, less one");
    }
    *required(error, "error") =
        error_of(report.outputs[static_cast<std::size_t>(index)], report.limits);
  });
}

gdnbench_status gdnbench_case_explain(gdnbench_case* of, const gdnbench_array* outputs,
                                      int64_t num_outputs, int64_t chunk, const char** text) {
  return guarded([&] {
    required(of, "case");
    if (chunk < 0) throw_bad_input("chunk: " + std::to_string(chunk) + ", expected 0 or more");
    const Outputs given = outputs_of(of->inputs, outputs, num_outputs);
    const CheckedReference& reference = of->checked_reference();
    const Anatomy anatomy = dissect(reference, given, chunk);
    of->explanation = explanation_text(anatomy, find_patterns(reference, given, anatomy));
    *required(text, "text") = of->explanation.c_str();
  });
}

void gdnbench_case_destroy(gdnbench_case* of) { delete of; }

}  // extern "C"
