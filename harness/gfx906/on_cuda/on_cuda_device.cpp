#include "harness/gfx906/on_cuda/on_cuda_device.h"

#include <cuda_runtime_api.h>

#include <map>
#include <string>

#include "cuda/check.h"
#include "cuda/cuda_device.h"
#include "harness/gfx906/on_cuda/device_as_hip.h"
#include "hip/code_objects.h"
#include "hip/emulator/code_object.h"
#include "interface/error.h"

namespace gdn::hip {
namespace {

class OnCudaDevice final : public DeviceAsHip {
 public:
  OnCudaDevice(int wave, int index)
      : DeviceAsHip(cuda::open(index), ", gfx906 kernels in waves of " + std::to_string(wave)),
        wave_(wave) {
    register_launcher(native_stream(), this);
  }
  ~OnCudaDevice() override {
    unregister_launcher(native_stream());
    for (const auto& [name, library] : libraries_) (void)cudaLibraryUnload(library);
  }

  void launch(const std::string& kernel, Extent grid, Extent block, const void* arguments,
              std::size_t) override {
    GDN_CUDA_CHECK(cudaSetDevice(info().index));
    const Entry& entry = find(kernel);
    void* parameters[] = {const_cast<void*>(arguments)};
    GDN_CUDA_CHECK(cudaLaunchKernel(entry.function, dim3(grid.x, grid.y, grid.z),
                                    dim3(block.x, block.y, block.z), parameters, entry.lds_bytes,
                                    static_cast<cudaStream_t>(native_stream())));
  }

 private:
  struct Entry {
    const void* function = nullptr;  ///< a cudaKernel_t
    std::size_t lds_bytes = 0;
  };

  const Entry& find(const std::string& kernel) {
    const auto known = entries_.find(kernel);
    if (known != entries_.end()) return known->second;
    const EmbeddedCodeObject& object = code_object_of(kernel);
    auto library = libraries_.find(object.name);
    if (library == libraries_.end()) {
      library = libraries_.emplace(object.name, load(object.name)).first;
    }
    cudaKernel_t function = nullptr;
    GDN_CUDA_CHECK(cudaLibraryGetKernel(&function, library->second, kernel.c_str()));
    Entry entry;
    entry.function = reinterpret_cast<const void*>(function);
    for (const auto& resources : gfx906::read_resources(object.elf)) {
      if (resources.name == kernel) entry.lds_bytes = static_cast<std::size_t>(resources.lds_bytes);
    }
    GDN_CUDA_CHECK(cudaFuncSetAttribute(entry.function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(entry.lds_bytes)));
    return entries_.emplace(kernel, entry).first->second;
  }

  cudaLibrary_t load(const std::string& name) const {
    for (const CudaImage& image : cuda_images()) {
      if (image.name != name || image.wave != wave_) continue;
      cudaLibrary_t library = nullptr;
      GDN_CUDA_CHECK(cudaLibraryLoadData(&library, image.fatbin.data(), nullptr, nullptr, 0,
                                         nullptr, nullptr, 0));
      return library;
    }
    throw_bad_input("gfx906 on CUDA: " + name + " was not built for waves of " +
                    std::to_string(wave_));
  }

  int wave_;
  std::map<std::string, cudaLibrary_t> libraries_;
  std::map<std::string, Entry> entries_;
};

}  // namespace

std::unique_ptr<Device> open_on_cuda(int wave, int index) {
  if (wave != 32 && wave != 64) {
    throw_bad_input("wave " + std::to_string(wave) + ": expected 32 or 64");
  }
  return std::make_unique<OnCudaDevice>(wave, index);
}

}  // namespace gdn::hip
