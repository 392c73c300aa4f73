#include "interface/honoured_fields.h"

#include <algorithm>
#include <string_view>

namespace gdn {
namespace {

// "a|b|c" has the value.
bool lists(std::string_view values, std::string_view value) {
  while (!values.empty()) {
    const std::size_t bar = values.find('|');
    if (values.substr(0, bar) == value) return true;
    values = bar == std::string_view::npos ? std::string_view() : values.substr(bar + 1);
  }
  return false;
}

bool honours(const std::string& entry, const std::string& key, const std::string& value) {
  const std::size_t equals = entry.find('=');
  if (entry.substr(0, equals) != key) return false;
  return equals == std::string::npos || lists(std::string_view(entry).substr(equals + 1), value);
}

}  // namespace

std::string first_not_honoured(const Problem& problem, const HonouredFields& honoured) {
  static const Problem defaults;
  for (const ProblemField& field : problem_fields()) {
    if (field.of_inputs || is_common_field(field.key)) continue;
    const std::string value = field.get(problem);
    if (value == field.get(defaults)) continue;
    const bool known = std::any_of(honoured.begin(), honoured.end(), [&](const std::string& entry) {
      return honours(entry, field.key, value);
    });
    if (!known) return field.key + "=" + value;
  }
  return "";
}

HonouredFields operator+(HonouredFields fields, const HonouredFields& more) {
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

}  // namespace gdn
