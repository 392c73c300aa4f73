#include "interface/matrix_product.h"

#include "cpu/matrix_product.h"

namespace gdn {

std::function<void()> matrix_product(const Device& device, const MatrixProduct& product,
                                     const void* a, const void* b, void* c) {
  if (device.info().backend == "cpu") return cpu::matrix_product(product, a, b, c);
  return nullptr;
}

}  // namespace gdn
