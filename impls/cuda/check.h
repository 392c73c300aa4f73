// Status of every CUDA call: GDN_CUDA_CHECK(cudaMemcpyAsync(...)) throws gdn::Error(device_failure)
// with the call, the file and line, and the driver's own words.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <string_view>

#include "cuda/target.h"
#include "interface/error.h"

namespace gdn::GDN_CUDA_TARGET {

[[noreturn]] inline void throw_device_failure(cudaError_t status, std::string_view call,
                                              std::string_view file, int line) {
  cudaGetLastError();  // a sticky error stays, any other must not surface at an unrelated call
  const auto root = file.rfind("impls/");
  if (root != std::string_view::npos) file.remove_prefix(root);
  throw Error(ErrorKind::device_failure, std::string(call) + ": " + cudaGetErrorString(status) +
                                             " (" + cudaGetErrorName(status) + ") at " +
                                             std::string(file) + ":" + std::to_string(line));
}

inline void check(cudaError_t status, std::string_view call, std::string_view file, int line) {
  if (status != cudaSuccess) throw_device_failure(status, call, file, line);
}

}  // namespace gdn::GDN_CUDA_TARGET

#define GDN_CUDA_CHECK(...) \
  ::gdn::GDN_CUDA_TARGET::check((__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)
