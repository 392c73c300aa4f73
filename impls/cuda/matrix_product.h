// Dense products on a GPU: cuBLAS's, opened when first asked for, so that neither build nor bundle
// needs it. Not a kernel under test but the yardstick beside them.
#pragma once

#include <functional>

#include "interface/matrix_product.h"

namespace gdn::cuda {

/// What enqueues `product` on the device's stream when called; nullptr where cuBLAS of this
/// toolkit's major version is not installed. Throws Error(device_failure) if cuBLAS refuses.
std::function<void()> matrix_product(const Device& device, const MatrixProduct& product,
                                     const void* a, const void* b, void* c);

}  // namespace gdn::cuda
