// JSON text for --json output: strings escaped, non-finite numbers as null.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace gdn {

std::string json_string(const std::string& text);
/// Shortest form that reads back to the same double; null for NaN and infinities.
std::string json_number(double value);
/// Values are JSON already.
std::string json_object(const std::vector<std::pair<std::string, std::string>>& members);
std::string json_array(const std::vector<std::string>& values);
/// An array of these strings.
std::string json_strings(const std::vector<std::string>& texts);

}  // namespace gdn
