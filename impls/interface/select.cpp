#include "interface/select.h"

#include "interface/error.h"
#include "interface/nearest_name.h"

namespace gdn {

std::vector<const Implementation*> choose_implementations(const std::vector<std::string>& names,
                                                          const DeviceInfo& device) {
  std::vector<const Implementation*> chosen;
  if (names.empty()) {
    for (const Implementation* implementation : all_implementations()) {
      if (runs_on(*implementation, device)) chosen.push_back(implementation);
    }
    return chosen;
  }
  std::vector<std::string> known;
  for (const Implementation* implementation : all_implementations()) {
    known.push_back(implementation->description().name);
  }
  for (const std::string& name : names) {
    bool found = false;
    for (const Implementation* implementation : all_implementations()) {
      if (implementation->description().name != name) continue;
      found = true;
      if (const Support support = runs_on(*implementation, device); !support) {
        throw Error(ErrorKind::unsupported, support.reason);
      }
      chosen.push_back(implementation);
    }
    if (!found) {
      throw_bad_input("implementation '" + name + "' is unknown (did you mean '" +
                      nearest_name(name, known) + "'?)");
    }
  }
  return chosen;
}

Selection select(const Problem& problem, const DeviceInfo& device) {
  const Implementation* best = nullptr;
  struct Refusal {
    const Implementation* by;
    int rank;
    std::string reason;
  };
  std::vector<Refusal> refusals;
  for (const Implementation* implementation : all_implementations()) {
    const Description& description = implementation->description();
    if (description.operation != problem.operation || description.backend != device.runs) continue;
    Support support = runs_on(*implementation, device);
    if (support) support = implementation->supports(problem);
    const int rank = implementation->rank(problem);
    if (!support) {
      refusals.push_back({implementation, rank, support.reason});
    } else if (best == nullptr || rank > best->rank(problem)) {
      best = implementation;
    }
  }
  std::string why;
  for (const Refusal& refusal : refusals) {
    if (best != nullptr && refusal.rank <= best->rank(problem)) continue;
    why += (why.empty() ? "" : "; ") + refusal.by->description().name +
           " does not do it: " + refusal.reason;
  }
  if (best == nullptr) {
    throw Error(ErrorKind::unsupported, problem.to_string() + ": nothing here does it on " +
                                            device.backend + (why.empty() ? "" : ": " + why));
  }
  if (why.empty()) why = "the highest rank of those that do it here";
  return {best, best->description().name + ": " + why};
}

}  // namespace gdn
