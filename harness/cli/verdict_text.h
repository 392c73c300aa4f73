// What verification found, as text and as JSON.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/files/json.h"
#include "harness/verify/verify.h"

namespace gdn::cli {

/// "PASS", "FAIL", "skip" or "LIMIT".
const char* verdict_label(Verdict verdict);

/// "2.1e-03 (1.3x floor, 0.21 of the limit)"; without floors where errors are not measured in them.
std::string unit_error_text(const reference::OutputErrors& output, const reference::UnitError& unit,
                            const reference::ErrorLimits& limits);
/// Every output's worst unit, by error over limit: "output 2.1e-03 (...), final_state 1.9e-03 (...)".
std::string errors_text(const reference::ErrorReport& report);
/// The detail of -v: each check, each unit of each output, error by position. Ends in a new line.
/// What the inputs amplify is said of operations whose reference measures it.
std::string verification_detail(Operation operation, const VerifyResult& result);

std::string unit_error_json(const reference::OutputErrors& output, const reference::UnitError& unit,
                            const reference::ErrorLimits& limits);
/// `lists`: further members, each a list of texts.
std::string result_json(
    const std::string& problem, const std::string& implementation, const VerifyResult& result,
    const std::vector<std::pair<std::string, std::vector<std::string>>>& lists = {});

/// The JSON schema (2020-12) of the list of results that verify --json prints; its $defs have a line of --json-lines.
std::string verdicts_json_schema();

}  // namespace gdn::cli
