// The HIP runtime, opened when first needed: the build links nothing of it, so one binary runs with
// and without ROCm. Types and enumerators come from the installed HIP headers; the library of the
// same major version is asked for, so that they agree.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <string>

namespace gdn::hip {

// X(function): the functions used. Names that the headers redirect (hipGetDeviceProperties) are
// looked up as redirected.
#define GDN_HIP_FUNCTIONS(X)  \
  X(hipDriverGetVersion)      \
  X(hipDeviceSynchronize)     \
  X(hipEventCreate)           \
  X(hipEventDestroy)          \
  X(hipEventElapsedTime)      \
  X(hipEventRecord)           \
  X(hipEventSynchronize)      \
  X(hipFree)                  \
  X(hipGetDeviceCount)        \
  X(hipGetDeviceProperties)   \
  X(hipGetErrorName)          \
  X(hipGetErrorString)        \
  X(hipGetLastError)          \
  X(hipGraphDestroy)          \
  X(hipGraphExecDestroy)      \
  X(hipGraphInstantiate)      \
  X(hipGraphLaunch)           \
  X(hipHostFree)              \
  X(hipMemGetInfo)            \
  X(hipMemcpyAsync)           \
  X(hipMemsetAsync)           \
  X(hipModuleGetFunction)     \
  X(hipModuleLaunchKernel)    \
  X(hipModuleLoadData)        \
  X(hipModuleUnload)          \
  X(hipSetDevice)             \
  X(hipStreamBeginCapture)    \
  X(hipStreamCreateWithFlags) \
  X(hipStreamDestroy)         \
  X(hipStreamEndCapture)      \
  X(hipStreamSynchronize)

/// Pointers to the runtime's functions. `problem` is empty, or says why the library or one of its
/// functions is missing; then no pointer may be called.
struct HipRuntime {
  std::string problem;
#define GDN_HIP_MEMBER(function) decltype(&::function) function##_ = nullptr;
  GDN_HIP_FUNCTIONS(GDN_HIP_MEMBER)
#undef GDN_HIP_MEMBER
  // Overloaded by templates in the headers, so their types are written out.
  hipError_t (*hipMalloc_)(void** data, std::size_t bytes) = nullptr;
  hipError_t (*hipHostMalloc_)(void** data, std::size_t bytes, unsigned int flags) = nullptr;

  /// Throws Error(device_failure) naming the call, unless `status` is hipSuccess.
  void check(hipError_t status, const char* call) const;
};

/// Opened once; `library` overrides the name that is opened (tests of the error paths).
const HipRuntime& hip_runtime();
HipRuntime open_hip_runtime(const std::string& library);
/// "libamdhip64.so.5": of the headers this was built with.
std::string hip_library_name();

}  // namespace gdn::hip
