// Looking implementations up. The list itself, all_implementations(), is made by
// impls/CMakeLists.txt.
#include "interface/error.h"
#include "interface/implementation.h"

namespace gdn {

const Implementation& find_implementation(Operation operation, const std::string& name) {
  std::vector<std::string> names;
  for (const Implementation* implementation : all_implementations()) {
    const Description& description = implementation->description();
    if (description.operation != operation) continue;
    if (description.name == name) return *implementation;
    names.push_back(description.name);
  }
  throw_bad_input("implementation '" + name + "' is unknown for " + to_string(operation) +
                  " (did you mean '" + nearest_name(name, names) + "'? see gdnbench list)");
}

}  // namespace gdn
