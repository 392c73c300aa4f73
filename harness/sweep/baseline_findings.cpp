#include "harness/sweep/baseline_findings.h"

#include <algorithm>

namespace gdn {
namespace {

bool is_worse(const BaselineFinding& a, const BaselineFinding& b) {
  if (a.kind != b.kind) return a.kind < b.kind;
  return a.error && b.error && a.error->times_allowed() > b.error->times_allowed();
}

}  // namespace

std::string name_of(BaselineFinding::Kind kind) {
  switch (kind) {
    case BaselineFinding::Kind::not_ok:
      return "not_ok";
    case BaselineFinding::Kind::grown:
      return "grown";
    case BaselineFinding::Kind::gone:
      return "gone";
    case BaselineFinding::Kind::not_stored:
      return "not_stored";
  }
  return "";
}

std::vector<BaselineFindings> worst_first(std::vector<BaselineFinding> findings) {
  std::stable_sort(findings.begin(), findings.end(), is_worse);
  std::vector<BaselineFindings> groups;
  for (BaselineFinding& finding : findings) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](const BaselineFindings& known) {
      return known.implementation == finding.implementation && known.operation == finding.operation;
    });
    if (group == groups.end()) {
      group = groups.insert(groups.end(), {finding.implementation, finding.operation, {}});
    }
    group->findings.push_back(std::move(finding));
  }
  return groups;
}

}  // namespace gdn
