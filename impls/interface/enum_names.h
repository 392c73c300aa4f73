// Enumerations and their texts: one table each, behind problem strings, case files and error lines.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "interface/error.h"
#include "interface/nearest_name.h"

namespace gdn {

template <typename Enum>
using EnumNames = std::vector<std::pair<const char*, Enum>>;

/// The table of an enumeration; those of Problem are in enum_names.cpp.
template <typename Enum>
const EnumNames<Enum>& names_of();

template <typename Enum>
std::string name_of(Enum value) {
  for (const auto& [name, candidate] : names_of<Enum>()) {
    if (candidate == value) return name;
  }
  throw_bad_input("an enumeration holds a value without a name");
}

/// "delta|additive".
template <typename Enum>
std::string all_names(const char* separator = "|") {
  std::string names;
  for (const auto& entry : names_of<Enum>()) {
    names += (names.empty() ? "" : separator) + std::string(entry.first);
  }
  return names;
}

/// Throws Error(bad_input) naming `field`, what was expected and the nearest name.
template <typename Enum>
Enum parse_name(std::string_view text, std::string_view field) {
  std::vector<std::string> names;
  for (const auto& [name, value] : names_of<Enum>()) {
    if (text == name) return value;
    names.emplace_back(name);
  }
  throw_bad_input(std::string(field) + ": unknown value '" + std::string(text) + "'; expected " +
                  all_names<Enum>() + " (did you mean '" + nearest_name(text, names) + "'?)");
}

}  // namespace gdn
