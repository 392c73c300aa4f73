// Time of a dense matrix product on a device, by the library the device has
// (interface/matrix_product.h): what the projections around the recurrence cost.
#pragma once

#include "harness/measure/measure.h"
#include "interface/device.h"
#include "interface/matrix_product.h"

namespace gdn {

struct ProductTime {
  Summary time_ms;
  double tflops = 0;  ///< 2 rows columns inner over the median time
};

/// Measured as implementations are (cold or hot, the same stopping rule), on inputs whose products
/// are known: the result is checked after timing. Throws Error(unsupported) if the device has no
/// library for the product, Error(device_failure) if its result is wrong.
ProductTime time_product(const MatrixProduct& product, Device& device,
                         const MeasureOptions& options);

}  // namespace gdn
