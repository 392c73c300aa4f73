// See lanes_body.h.
#include "harness/gfx906/on_cuda/tests/lanes_body.h"

extern "C" __global__ __launch_bounds__(128) void exchange_lanes(const float* in, float* out) {
  gdn::hip::exchange_lanes(in, out);
}
