// Checks of numbers on the command line. CLI11's own let NaN through and name their bounds in 309
// digits.
#pragma once

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <string>

namespace gdn::cli {

/// A finite number that is `accepted`; `expected` says in words which are: "more than 0".
inline CLI::Validator number_check(const std::string& expected, const std::string& description,
                                   const std::function<bool(double)>& accepted) {
  return CLI::Validator(
      [expected, accepted](std::string& text) {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        const bool number = end != text.c_str() && *end == '\0' && std::isfinite(value);
        if (number && accepted(value)) return std::string();
        return "expected " + expected + (number ? "" : ", a finite number") + ", not '" + text +
               "'";
      },
      description);
}

inline CLI::Validator more_than_zero() {
  return number_check("more than 0", "POSITIVE", [](double value) { return value > 0; });
}

inline CLI::Validator zero_or_more() {
  return number_check("0 or more", "NONNEGATIVE", [](double value) { return value >= 0; });
}

/// Bounds included.
inline CLI::Validator between(int low, int high) {
  const std::string range = std::to_string(low) + " to " + std::to_string(high);
  return number_check(range,
                      "FLOAT in [" + std::to_string(low) + " - " + std::to_string(high) + "]",
                      [low, high](double value) { return low <= value && value <= high; });
}

}  // namespace gdn::cli
