#include "harness/cli/verdict_text.h"

#include <fmt/format.h>

#include "harness/cli/result_lines.h"
#include "harness/verify/worst_unit.h"
#include "interface/enum_names.h"
#include "reference/operation.h"

namespace gdn::cli {

using reference::OutputErrors;
using reference::UnitError;

namespace {

std::string units_table(const OutputErrors& output, const reference::ErrorLimits& limits) {
  const bool of_key_heads = output.operand->judging.per == JudgedPer::key_head;
  std::string text = fmt::format("       {:<15} {:>8} {:>8}  {:>11} {:>10} {:>10} {:>7} {:>10}\n",
                                 output.name(), "sequence", of_key_heads ? "key head" : "head",
                                 "relative L2", "limit", "floor", "x floor", "scaled max");
  for (const UnitError& unit : output.units) {
    const std::string head =
        unit.where.head == BatchPart::kEveryHead ? "-" : std::to_string(unit.where.head);
    const bool whole = output.operand->judging.per == JudgedPer::tensor;
    const std::string sequence = whole ? "-" : std::to_string(unit.where.sequence);
    const std::string floors =
        output.is_measured_in_floors ? fmt::format("{:.2f}", unit.error.floor_ratio) : "-";
    text += fmt::format(
        "       {:<15} {:>8} {:>8}  {:>11.2e} {:>10.2e} {:>10.2e} {:>7} {:>10.2e}\n", "", sequence,
        head, unit.error.relative_l2, reference::allowed(output, unit, limits), unit.error.floor,
        floors, unit.error.scaled_max);
  }
  for (const reference::PositionError& window : output.positions) {
    text +=
        fmt::format("       tokens {:>6} .. {:<6} worst relative L2 {:.2e}\n", window.first_token,
                    window.first_token + window.num_tokens - 1, window.relative_l2);
  }
  return text;
}

}  // namespace

const char* verdict_label(Verdict verdict) {
  switch (verdict) {
    case Verdict::passed:
      return "PASS";
    case Verdict::failed:
      return "FAIL";
    case Verdict::unsupported:
    case Verdict::too_large:
      return "skip";
    case Verdict::known_limit:
      return "LIMIT";
  }
  return "?";
}

std::string unit_error_text(const OutputErrors& output, const UnitError& unit,
                            const reference::ErrorLimits& limits) {
  const std::string floors =
      output.is_measured_in_floors ? fmt::format("{:.1f}x floor, ", unit.error.floor_ratio) : "";
  return fmt::format("{:.2e} ({}{:.2g} of the limit)", unit.error.relative_l2, floors,
                     limit_ratio(output, unit, limits));
}

std::string errors_text(const reference::ErrorReport& report) {
  std::string text;
  for (const OutputErrors& output : report.outputs) {
    text += (text.empty() ? "" : ", ") + output.name() + " " +
            unit_error_text(output, worst_unit(output, report.limits), report.limits);
  }
  return text;
}

std::string verification_detail(Operation operation, const VerifyResult& result) {
  std::string text;
  for (const Check& check : result.checks) {
    const bool failed = check.result == Check::Result::failed;
    const bool passed = check.result == Check::Result::passed;
    text += fmt::format("       {:<13} {}{}\n", check.name,
                        passed   ? "passed"
                        : failed ? "FAILED: "
                                 : "not applicable: ",
                        check.detail);
  }
  const reference::ErrorReport& report = result.report;
  if (report.outputs.empty()) return text;
  if (const auto words = reference::reference_of(operation).conditioning_text; words != nullptr) {
    text += fmt::format("       conditioning: {}\n", words(report.conditioning));
  }
  for (const OutputErrors& output : report.outputs) text += units_table(output, report.limits);
  return text;
}

std::string unit_error_json(const OutputErrors& output, const UnitError& unit,
                            const reference::ErrorLimits& limits) {
  return json_object(
      {{"relative_l2", json_number(unit.error.relative_l2)},
       {"floor", json_number(unit.error.floor)},
       {"floor_ratio", output.is_measured_in_floors ? json_number(unit.error.floor_ratio) : "null"},
       {"scaled_max", json_number(unit.error.scaled_max)},
       {"non_finite", std::to_string(unit.error.non_finite)},
       {"limit", json_number(reference::allowed(output, unit, limits))},
       {"limit_ratio", json_number(limit_ratio(output, unit, limits))}});
}

std::string result_json(
    const std::string& problem, const std::string& implementation, const VerifyResult& result,
    const std::vector<std::pair<std::string, std::vector<std::string>>>& lists) {
  std::string checks;
  for (const Check& check : result.checks) {
    checks += (checks.empty() ? "" : ", ") + json_string(check.name) + ": " +
              json_string(name_of(check.result));
  }
  const reference::ErrorReport& report = result.report;
  std::vector<std::pair<std::string, std::string>> errors;
  for (const OutputErrors& output : report.outputs) {
    errors.emplace_back(output.name(),
                        unit_error_json(output, worst_unit(output, report.limits), report.limits));
  }
  std::vector<std::pair<std::string, std::string>> members = {
      {"problem", json_string(problem)},
      {"implementation", json_string(implementation)},
      {"verdict", json_string(name_of(result.verdict))},
      {"reason", json_string(result.reason)},
      {"errors", json_object(errors)},
      {"checked_pairs", std::to_string(report.checked_pairs)},
      {"total_pairs", std::to_string(report.total_pairs)},
      {"checks", "{" + checks + "}"}};
  for (const auto& [name, texts] : lists) members.emplace_back(name, json_strings(texts));
  return json_object(members);
}

std::string verdicts_json_schema() {
  using Members = std::vector<std::pair<std::string, std::string>>;
  const auto described = [](const std::string& type, const std::string& description) {
    return json_object({{"type", type}, {"description", json_string(description)}});
  };
  const auto object = [](const Members& properties, const std::vector<std::string>& required) {
    return json_object({{"type", json_string("object")},
                        {"properties", json_object(properties)},
                        {"required", json_strings(required)}});
  };
  const auto map_of = [](const std::string& values, const std::string& description) {
    return json_object({{"type", json_string("object")},
                        {"additionalProperties", values},
                        {"description", json_string(description)}});
  };
  const auto names = [](const auto& table) {
    std::vector<std::string> found;
    for (const auto& [name, value] : table) found.emplace_back(name);
    return json_object({{"enum", json_strings(found)}});
  };
  const auto reference = [](const std::string& definition) {
    return json_object({{"$ref", json_string("#/$defs/" + definition)}});
  };
  const std::string text = json_string("string"), count = json_string("integer");
  const std::string number = json_strings({"number", "null"});  // null where it is not finite
  const std::string texts = json_object(
      {{"type", json_string("array")}, {"items", json_object({{"type", json_string("string")}})}});

  const std::string error = object(
      {{"relative_l2", described(number, "relative L2 error of the worst sequence and head")},
       {"floor", described(number, "the error of rounding the reference to the output's type")},
       {"floor_ratio", described(number, "relative_l2 over floor; null where that says nothing")},
       {"scaled_max", described(number, "the largest error over the root mean square")},
       {"non_finite", described(count, "values not finite where the reference is")},
       {"limit", described(number, "the relative L2 error that is allowed")},
       {"limit_ratio", described(number, "relative_l2 over limit")}},
      {"relative_l2", "floor", "floor_ratio", "scaled_max", "non_finite", "limit", "limit_ratio"});
  const std::string result =
      object({{"problem", described(text, "the problem, as --problem takes it")},
              {"implementation", described(text, "its name, or the file of the outputs")},
              {"verdict", names(names_of<Verdict>())},
              {"reason", described(text, "why, where it is not passed")},
              {"errors", map_of(reference("error"), "of each output the worst sequence and head")},
              {"checked_pairs", described(count, "sequences and heads that were compared")},
              {"total_pairs", described(count, "sequences and heads of the problem")},
              {"checks", map_of(names(names_of<Check::Result>()), "what each check found")},
              {"not_told", texts},
              {ResultLinesFile::kLimitsGone, texts}},
             {"problem", "implementation", "verdict", "reason", "errors", "checked_pairs",
              "total_pairs", "checks"});
  const std::string line = json_object(
      {{"anyOf",
        json_array({reference("result"), object({{"results_ahead", described(count, "first line")}},
                                                {"results_ahead"})})}});
  return json_object(
      {{"$schema", json_string("https://json-schema.org/draft/2020-12/schema")},
       {"$id", json_string("urn:gdnbench:gdn-verdicts:1")},
       {"title", json_string("gdn-verdicts/1: what gdnbench verify --json prints")},
       {"type", json_string("array")},
       {"items", reference("result")},
       {"$defs", json_object({{"error", error}, {"result", result}, {"line", line}})}});
}

}  // namespace gdn::cli
