#include "harness/verify/known_limits.h"

#include <sstream>

#include "harness/problems/problem_table.h"
#include "interface/error.h"

namespace gdn {
namespace suite_text {  // embedded by cmake/GdnEmbedText.cmake
extern const char* const known_limits_tsv;
}  // namespace suite_text

namespace {

std::map<std::string, std::string> fields_of(const Problem& problem) {
  std::map<std::string, std::string> values;
  for (const ProblemField& field : problem_fields()) values[field.key] = field.get(problem);
  return values;
}

bool covers(const KnownLimit& limit, const Problem& problem) {
  const std::map<std::string, std::string> values = fields_of(problem);
  for (const auto& [key, accepted] : limit.fields) {
    if (accepted.count(values.at(key)) == 0) return false;
  }
  return true;
}

std::map<std::string, std::set<std::string>> parse_fields(const std::string& text) {
  const auto known = fields_of(Problem());
  std::map<std::string, std::set<std::string>> fields;
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');) {
    const auto equals = item.find('=');
    const std::string key = item.substr(0, equals);
    if (equals == std::string::npos || known.count(key) == 0) {
      throw_bad_input("'" + item + "' is not field=value|value of a problem");
    }
    std::istringstream values(item.substr(equals + 1));
    for (std::string value; std::getline(values, value, '|');) fields[key].insert(value);
  }
  return fields;
}

}  // namespace

std::vector<KnownLimit> parse_known_limits(const std::string& name, const std::string& text) {
  const TextTable table =
      TextTable::parse(name, text, {"implementation", "problems", "witness", "cause", "seen"});
  std::vector<KnownLimit> limits;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const std::vector<std::string>& row = table.rows[i];
    try {
      limits.push_back({row[0], parse_fields(row[1]), Problem::parse(row[2]), row[3], row[4]});
      if (!covers(limits.back(), limits.back().witness)) {
        throw_bad_input("the witness is not among the entry's own problems");
      }
    } catch (const Error& error) {
      throw Error(error.kind(), table.place(i) + ": " + error.what());
    }
  }
  return limits;
}

const std::vector<KnownLimit>& known_limits() {
  static const std::vector<KnownLimit> limits =
      parse_known_limits("known_limits.tsv", suite_text::known_limits_tsv);
  return limits;
}

const KnownLimit* find_known_limit(const std::vector<KnownLimit>& limits,
                                   const std::string& implementation, const Problem& problem) {
  for (const KnownLimit& limit : limits) {
    if (limit.implementation == implementation && covers(limit, problem)) return &limit;
  }
  return nullptr;
}

std::vector<const KnownLimit*> limits_witnessed_by(const std::vector<KnownLimit>& limits,
                                                   const std::string& implementation,
                                                   const Problem& problem) {
  std::vector<const KnownLimit*> witnessed;
  for (const KnownLimit& limit : limits) {
    if (limit.implementation == implementation && limit.witness == problem) {
      witnessed.push_back(&limit);
    }
  }
  return witnessed;
}

}  // namespace gdn
