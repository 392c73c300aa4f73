#include "hip/runtime_library.h"

#include <dlfcn.h>
#include <hip/hip_version.h>

#include "interface/error.h"

namespace gdn::hip {
namespace {

// The macro argument is expanded before it becomes a string: a redirected name is what is looked
// up.
#define GDN_HIP_TEXT(function) #function
#define GDN_HIP_SYMBOL(function) GDN_HIP_TEXT(function)

template <typename Function>
void resolve(void* library, const char* name, Function& function, std::string& problem) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr && problem.empty()) {
    problem = std::string("the HIP runtime has no function ") + name;
  }
}

}  // namespace

std::string hip_library_name() { return "libamdhip64.so." + std::to_string(HIP_VERSION_MAJOR); }

HipRuntime open_hip_runtime(const std::string& name) {
  HipRuntime runtime;
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    runtime.problem = "the HIP runtime cannot be opened: " + std::string(why ? why : name.c_str());
    return runtime;
  }
#define GDN_HIP_RESOLVE(function) \
  resolve(library, GDN_HIP_SYMBOL(function), runtime.function##_, runtime.problem);
  GDN_HIP_FUNCTIONS(GDN_HIP_RESOLVE)
#undef GDN_HIP_RESOLVE
  resolve(library, "hipMalloc", runtime.hipMalloc_, runtime.problem);
  resolve(library, "hipHostMalloc", runtime.hipHostMalloc_, runtime.problem);
  return runtime;
}

const HipRuntime& hip_runtime() {
  static const HipRuntime runtime = open_hip_runtime(hip_library_name());
  return runtime;
}

void HipRuntime::check(hipError_t status, const char* call) const {
  if (status == hipSuccess) return;
  throw Error(ErrorKind::device_failure, std::string(call) + ": " + hipGetErrorString_(status) +
                                             " (" + hipGetErrorName_(status) + ")");
}

}  // namespace gdn::hip
