// Numbers out of text, with an error line that names the field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gdn {

/// Throws Error(bad_input) naming `field` unless the whole text is an integer of at least `lowest`.
std::int64_t parse_integer(std::string_view text, std::string_view field, std::int64_t lowest);
/// Throws Error(bad_input): "'whole'; expected ..." unless the whole text is a number.
double parse_number(std::string_view text, std::string_view whole, const std::string& expected);
/// The shortest text that reads back as the same number.
std::string shortest_text(double value);

}  // namespace gdn
