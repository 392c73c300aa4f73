#include "hip/code_objects.h"

#include <map>

#include "hip/emulator/code_object.h"
#include "interface/error.h"
#include "interface/problem.h"

namespace gdn::hip {

const EmbeddedCodeObject& code_object_of(const std::string& kernel) {
  static const auto index = [] {
    std::map<std::string, const EmbeddedCodeObject*> by_kernel;
    for (const EmbeddedCodeObject& object : code_objects()) {
      for (const auto& resources : gfx906::read_resources(object.elf)) {
        by_kernel[resources.name] = &object;
      }
    }
    return by_kernel;
  }();
  const auto found = index.find(kernel);
  if (found != index.end()) return *found->second;
  std::vector<std::string> names;
  for (const auto& [name, object] : index) names.push_back(name);
  throw_bad_input("gfx906: no kernel '" + kernel + "' (did you mean '" +
                  nearest_name(kernel, names) + "'?)");
}

}  // namespace gdn::hip
