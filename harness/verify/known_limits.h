// Failures that are known and explained (data/known_limits.tsv, held by the program itself):
// verification reports them as such, and says when one is gone.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "interface/problem.h"

namespace gdn {

struct KnownLimit {
  std::string implementation;
  std::map<std::string, std::set<std::string>> fields;  ///< of a problem: the values it covers
  Problem witness;  ///< fails because of the limit; passes once it is gone
  std::string cause;
  std::string seen;  ///< where it was measured
};

/// The entries of a table of that form. Throws Error(bad_input) naming the line: an unknown field,
/// a witness that is not of its own entry.
std::vector<KnownLimit> parse_known_limits(const std::string& name, const std::string& text);
const std::vector<KnownLimit>& known_limits();

/// The first entry that covers the problem for the implementation; nullptr if there is none.
const KnownLimit* find_known_limit(const std::vector<KnownLimit>& limits,
                                   const std::string& implementation, const Problem& problem);

/// The entries whose witness this is: passed, they are gone.
std::vector<const KnownLimit*> limits_witnessed_by(const std::vector<KnownLimit>& limits,
                                                   const std::string& implementation,
                                                   const Problem& problem);

}  // namespace gdn
