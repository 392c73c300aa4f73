// Dense matrix products on a device by a matrix library: not what is under test, but what stands
// around it in a model.
#pragma once

#include <cstdint>
#include <functional>

#include "interface/device.h"
#include "interface/dtype.h"

namespace gdn {

/// C [rows, columns] = A [rows, inner] B [inner, columns], row-major, float32 accumulation.
struct MatrixProduct {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t inner = 0;
  DType dtype = DType::float32;  ///< of A, B and C
};

/// A function that enqueues the product by the matrix library there is for the device: Eigen on
/// the CPU (float32), cuBLAS on CUDA devices. nullptr where it has none, or none for the element
/// type. Pointers are the device's.
std::function<void()> matrix_product(const Device& device, const MatrixProduct& product,
                                     const void* a, const void* b, void* c);

}  // namespace gdn
