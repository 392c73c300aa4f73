#include "interface/parse_number.h"

#include <charconv>
#include <cmath>

#include "interface/error.h"

namespace gdn {

std::int64_t parse_integer(std::string_view text, std::string_view field, std::int64_t lowest) {
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || value < lowest) {
    throw_bad_input(std::string(field) + ": '" + std::string(text) +
                    "' is not an integer of at least " + std::to_string(lowest));
  }
  return value;
}

double parse_number(std::string_view text, std::string_view whole, const std::string& expected) {
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || std::isnan(value)) {
    throw_bad_input("'" + std::string(whole) + "'; expected " + expected);
  }
  return value;
}

std::string shortest_text(double value) {
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, result.ptr);
}

}  // namespace gdn
