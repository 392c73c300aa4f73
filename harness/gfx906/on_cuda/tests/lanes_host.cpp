// lanes_body.h on the host, over lanes_cuda.h.
#include "harness/gfx906/on_cuda/tests/lanes_body.h"

void exchange_lanes_on_host(const float* in, float* out) {
  gdn::cuda_grid::enqueue_grid(1, gdn::hip::kLanesThreads, 0,
                               [&] { gdn::hip::exchange_lanes(in, out); });
}
