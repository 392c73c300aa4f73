#include "harness/verify/implementation_apart.h"

#include "interface/error.h"

namespace gdn {

std::unique_ptr<Plan> ImplementationApart::plan(const Problem&, const Arguments&, Device&) const {
  throw Error(ErrorKind::unsupported,
              description().name + ": runs in a process of its own, and has no plans in this one");
}

}  // namespace gdn
