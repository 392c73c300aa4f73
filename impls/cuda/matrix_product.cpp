#include "cuda/matrix_product.h"

#if __has_include(<cublas_v2.h>)

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <memory>
#include <string>

#include "cuda/check.h"
#include "interface/error.h"

namespace gdn::cuda {
namespace {

struct Cublas {
  Cublas() {
    const std::string name = "libcublas.so." + std::to_string(CUBLAS_VER_MAJOR);
    void* library = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);  // never closed
    usable = library != nullptr && find(library, "cublasCreate_v2", create) &&
             find(library, "cublasDestroy_v2", destroy) &&
             find(library, "cublasSetStream_v2", set_stream) &&
             find(library, "cublasGemmEx", multiply);
  }

  template <typename Function>
  static bool find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
  }

  bool usable = false;
  cublasStatus_t (*create)(cublasHandle_t*) = nullptr;
  cublasStatus_t (*destroy)(cublasHandle_t) = nullptr;
  cublasStatus_t (*set_stream)(cublasHandle_t, cudaStream_t) = nullptr;
  cublasStatus_t (*multiply)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                             const void*, const void*, cudaDataType, int, const void*, cudaDataType,
                             int, const void*, void*, cudaDataType, int, cublasComputeType_t,
                             cublasGemmAlgo_t) = nullptr;
};

void require(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw Error(ErrorKind::device_failure,
                std::string(call) + " failed with status " + std::to_string(status));
  }
}

cudaDataType element_type(DType dtype) {
  return dtype == DType::float32 ? CUDA_R_32F : dtype == DType::bfloat16 ? CUDA_R_16BF : CUDA_R_16F;
}

}  // namespace

std::function<void()> matrix_product(const Device& device, const MatrixProduct& product,
                                     const void* a, const void* b, void* c) {
  static const Cublas cublas;
  if (!cublas.usable) return nullptr;
  GDN_CUDA_CHECK(cudaSetDevice(device.info().index));
  cublasHandle_t created = nullptr;
  require(cublas.create(&created), "cublasCreate");
  const std::shared_ptr<cublasContext> handle(created, cublas.destroy);
  require(cublas.set_stream(created, static_cast<cudaStream_t>(device.native_stream())),
          "cublasSetStream");
  const auto rows = static_cast<int>(product.rows);
  const auto columns = static_cast<int>(product.columns);
  const auto inner = static_cast<int>(product.inner);
  const cudaDataType type = element_type(product.dtype);
  // cuBLAS counts by columns: C^T [columns, rows] = B^T A^T is what lies in memory.
  return [=] {
    const float one = 1;
    const float zero = 0;
    require(cublas.multiply(handle.get(), CUBLAS_OP_N, CUBLAS_OP_N, columns, rows, inner, &one, b,
                            type, columns, a, type, inner, &zero, c, type, columns,
                            CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
            "cublasGemmEx");
  };
}

}  // namespace gdn::cuda

#else

namespace gdn::cuda {

std::function<void()> matrix_product(const Device&, const MatrixProduct&, const void*, const void*,
                                     void*) {
  return nullptr;
}

}  // namespace gdn::cuda

#endif
