// Which backends this build has, and opening a device of one.
#include <charconv>

#include "cpu/cpu_device.h"
#include "interface/device.h"
#include "interface/error.h"
#include "interface/problem.h"
#ifdef GDN_WITH_CUDA
#include "cuda/cuda_device.h"
#endif
#ifdef GDN_CUDA_EMULATED
#include "cuda/emulated/emulated_device.h"
#endif
#ifdef GDN_WITH_HIP
#include "hip/emulator_device.h"
#include "hip/hip_device.h"
#endif

namespace gdn {
namespace {

BackendStatus cuda_status() {
#ifdef GDN_WITH_CUDA
  return cuda::status();
#else
  return {"cuda", false, GDN_CUDA_ABSENT_REASON};
#endif
}

BackendStatus cuda_emulated_status() {
#ifdef GDN_CUDA_EMULATED
  return cuda_emulated::status();
#else
  return {"cuda-emulated", false, "built with GDN_CUDA_EMULATED=OFF"};
#endif
}

BackendStatus hip_status() {
#ifdef GDN_WITH_HIP
  return hip::status();
#else
  return {"hip", false, GDN_HIP_ABSENT_REASON};
#endif
}

BackendStatus emulator_status() {
#ifdef GDN_WITH_HIP
  return hip::emulator_status();
#else
  return {"gfx906-emulator", false, GDN_HIP_ABSENT_REASON};
#endif
}

}  // namespace

std::vector<BackendStatus> backend_statuses() {
  return {cpu::status(), cuda_status(), cuda_emulated_status(), hip_status(), emulator_status()};
}

std::unique_ptr<Device> open_device(const std::string& name) {
  if (name == "best") return open_device(cuda_status().available ? "cuda" : "cpu");
  const auto colon = name.find(':');
  const std::string backend = name.substr(0, colon);
  int index = 0;
  if (colon != std::string::npos) {
    const char* first = name.data() + colon + 1;
    const char* last = name.data() + name.size();
    const auto [end, status] = std::from_chars(first, last, index);
    if (status != std::errc() || end != last || index < 0) {
      throw_bad_input("device '" + name + "': expected BACKEND or BACKEND:INDEX, as cuda:1");
    }
  }
  std::vector<std::string> known;
  for (const BackendStatus& status : backend_statuses()) {
    known.push_back(status.backend);
    if (status.backend != backend) continue;
    if (!status.available) {
      throw Error(ErrorKind::device_unavailable, "device '" + name + "': " + status.detail);
    }
    if (index > 0 && (backend == "cpu" || backend == "gfx906-emulator"))
      throw_bad_input("device '" + name + "': there is only one; expected '" + backend + "'");
    if (backend == "cpu") return cpu::open();
#ifdef GDN_WITH_CUDA
    if (backend == "cuda") return cuda::open(index);
#endif
#ifdef GDN_CUDA_EMULATED
    if (backend == cuda_emulated::kBackend) return cuda_emulated::open(index);
#endif
#ifdef GDN_WITH_HIP
    if (backend == "hip") return hip::open(index);
    if (backend == "gfx906-emulator") return hip::open_emulator();
#endif
  }
  known.emplace_back("best");
  throw_bad_input("device '" + name + "' is unknown (did you mean '" +
                  nearest_name(backend, known) + "'?)");
}

}  // namespace gdn
