#include "interface/matrix_product.h"

#include "cpu/matrix_product.h"
#ifdef GDN_WITH_CUDA
#include "cuda/matrix_product.h"
#endif

namespace gdn {

std::function<void()> matrix_product(const Device& device, const MatrixProduct& product,
                                     const void* a, const void* b, void* c) {
  if (device.info().backend == "cpu") return cpu::matrix_product(product, a, b, c);
#ifdef GDN_WITH_CUDA
  if (device.info().backend == "cuda") return cuda::matrix_product(device, product, a, b, c);
#endif
  return nullptr;
}

}  // namespace gdn
