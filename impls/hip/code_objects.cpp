#include "hip/code_objects.h"

#include <map>
#include <mutex>

#include "hip/emulator/code_object.h"
#include "hip/emulator/packed_listing.h"
#include "interface/error.h"
#include "interface/problem.h"

namespace gdn::hip {
namespace {

struct Index {
  std::mutex mutex;
  std::map<std::string, const EmbeddedCodeObject*> by_kernel;

  Index() { add(code_objects()); }
  void add(const std::vector<EmbeddedCodeObject>& objects) {
    for (const EmbeddedCodeObject& object : objects) {
      for (const auto& resources : gfx906::read_resources(object.elf)) {
        by_kernel[resources.name] = &object;
      }
    }
  }
};

Index& index() {
  static Index all;
  return all;
}

}  // namespace

std::string EmbeddedCodeObject::listing() const { return gfx906::unpack_listing(packed_listing); }

const char* code_object_compiler() { return "clang " GDN_CLANG_VERSION; }

void add_code_objects(const std::vector<EmbeddedCodeObject>& objects) {
  const std::scoped_lock lock(index().mutex);
  index().add(objects);
}

const EmbeddedCodeObject& code_object_of(const std::string& kernel) {
  const std::scoped_lock lock(index().mutex);
  const auto found = index().by_kernel.find(kernel);
  if (found != index().by_kernel.end()) return *found->second;
  std::vector<std::string> names;
  for (const auto& [name, object] : index().by_kernel) names.push_back(name);
  throw_bad_input("gfx906: no kernel '" + kernel + "' (did you mean '" +
                  nearest_name(kernel, names) + "'?)");
}

}  // namespace gdn::hip
