// The list of backends, and opening a device of one. A new backend is its own files, which define
// status() and open(), and one entry here.
#include <charconv>

#include "cpu/cpu_device.h"
#include "interface/device.h"
#include "interface/error.h"
#include "interface/nearest_name.h"
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

std::vector<Backend> make_backends() {
  std::vector<Backend> all;
  all.push_back({.name = "cpu", .runs = "cpu", .status = cpu::status, .open = [](int) {
                   return cpu::open();
                 }});

  Backend cuda{.name = "cuda", .runs = "cuda", .has_own_memory = true, .has_several = true};
#ifdef GDN_WITH_CUDA
  cuda.status = cuda::status;
  cuda.open = cuda::open;
#else
  cuda.status = [] { return BackendStatus{"cuda", false, GDN_CUDA_ABSENT_REASON}; };
#endif
  all.push_back(cuda);

  Backend emulated{.name = "cuda-emulated", .runs = "cuda", .has_several = true};
#ifdef GDN_CUDA_EMULATED
  emulated.status = cuda_emulated::status;
  emulated.open = cuda_emulated::open;
#else
  emulated.status = [] {
    return BackendStatus{"cuda-emulated", false, "built with GDN_CUDA_EMULATED=OFF"};
  };
#endif
  all.push_back(emulated);

  Backend hip{.name = "hip", .runs = "hip", .has_own_memory = true, .has_several = true};
  Backend emulator{.name = "gfx906-emulator", .runs = "hip"};
#ifdef GDN_WITH_HIP
  hip.status = hip::status;
  hip.open = hip::open;
  emulator.status = hip::emulator_status;
  emulator.open = [](int) { return hip::open_emulator(); };
#else
  hip.status = [] { return BackendStatus{"hip", false, GDN_HIP_ABSENT_REASON}; };
  emulator.status = [] { return BackendStatus{"gfx906-emulator", false, GDN_HIP_ABSENT_REASON}; };
#endif
  all.push_back(hip);
  all.push_back(emulator);
  return all;
}

const Backend& best_backend() {
  for (const Backend& backend : backends()) {
    if (backend.has_own_memory && backend.status().available) return backend;
  }
  return backends().front();
}

int parse_index(const std::string& name, std::size_t colon) {
  int index = 0;
  const char* first = name.data() + colon + 1;
  const char* last = name.data() + name.size();
  const auto [end, status] = std::from_chars(first, last, index);
  if (status != std::errc() || end != last || index < 0) {
    throw_bad_input("device '" + name + "': expected BACKEND or BACKEND:INDEX, as cuda:1");
  }
  return index;
}

}  // namespace

const std::vector<Backend>& backends() {
  static const std::vector<Backend> all = make_backends();
  return all;
}

const Backend& find_backend(const std::string& name) {
  std::vector<std::string> known = {"best"};
  for (const Backend& backend : backends()) {
    if (backend.name == name) return backend;
    known.push_back(backend.name);
  }
  throw_bad_input("device '" + name + "' is unknown (did you mean '" + nearest_name(name, known) +
                  "'?)");
}

std::unique_ptr<Device> open_device(const std::string& name) {
  if (name == "best") return best_backend().open(0);
  const auto colon = name.find(':');
  const int index = colon == std::string::npos ? 0 : parse_index(name, colon);
  const std::string of_backend = name.substr(0, colon);
  const Backend& backend = find_backend(of_backend);
  const BackendStatus status = backend.status();
  if (!status.available) {
    throw Error(ErrorKind::device_unavailable, "device '" + name + "': " + status.detail);
  }
  if (index > 0 && !backend.has_several) {
    throw_bad_input("device '" + name + "': there is only one; expected '" + backend.name + "'");
  }
  return backend.open(index);
}

std::string device_names() {
  std::string names = "best";
  for (const Backend& backend : backends()) {
    names += " | " + backend.name;
    if (backend.has_several && backend.has_own_memory) names += " | " + backend.name + ":1";
  }
  return names;
}

}  // namespace gdn
