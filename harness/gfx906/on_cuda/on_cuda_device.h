// An NVIDIA card as a device for the HIP implementations: their plans launch the same kernels,
// built by the CUDA compiler with waves of 64 or 32 lanes (lanes_cuda.h). For verifying them at
// sizes the emulator cannot reach; its times are those of an NVIDIA card and say nothing of gfx906.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "interface/device.h"

namespace gdn::hip {

/// The kernels of one source of impls/hip, built by nvcc: a fatbin, embedded by CMakeLists.txt.
struct CudaImage {
  std::string_view name;  ///< as EmbeddedCodeObject::name
  int wave = 64;
  std::string_view fatbin;
};
const std::vector<CudaImage>& cuda_images();

/// Throws Error(device_unavailable) as the CUDA backend does, Error(bad_input) unless `wave` is 32
/// or 64.
std::unique_ptr<Device> open_on_cuda(int wave, int index);

}  // namespace gdn::hip
