#include "harness/c_library/explanation_text.h"

#include <cstdio>

namespace gdn::c_library {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string lines_of(const WrongOutput& output) {
  std::string text = "wrong " + output.name() + ": " + std::to_string(output.wrong_units) + " of " +
                     std::to_string(output.checked_units) + " units";
  if (output.sequences.total > 0) text += "; sequences " + output.sequences.to_string();
  if (output.heads.total > 0) text += "; heads " + output.heads.to_string();
  text += "\n  worst" + (output.place().empty() ? "" : " " + output.place()) +
          ": relative L2 error " + number(output.worst.error.relative_l2) + ", " +
          number(output.excess) + " of the limit";
  if (output.by_tokens()) text += "\n  tokens " + output.tokens.to_string();
  text += std::string("\n  ") + (output.by_tokens() ? "columns " : "elements ") +
          output.elements.to_string();
  return text + "\n  furthest off at " + output.furthest + ": " + number(output.actual) +
         ", expected " + number(output.expected);
}

}  // namespace

std::string explanation_text(const Anatomy& anatomy, const std::vector<FaultPattern>& patterns) {
  if (anatomy.violation.empty()) return "within the limits";
  std::string text = anatomy.violation;
  for (const WrongOutput& output : anatomy.outputs) text += "\n" + lines_of(output);
  for (const FaultPattern& pattern : patterns) {
    text += "\npattern consistent with: " + pattern.place + ": " + pattern.text;
    for (const std::string& evidence : pattern.evidence) text += "\n  - " + evidence;
  }
  if (patterns.empty()) text += "\nno known pattern";
  return text;
}

}  // namespace gdn::c_library
