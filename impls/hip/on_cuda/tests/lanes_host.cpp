// lanes_body.h over lanes_cuda.h, on the host: compiled twice, with GDN_WAVE = 64 and 32.
#include "hip/on_cuda/tests/host_warps.h"
// After the block it runs on:
#include "hip/on_cuda/tests/lanes_body.h"

#define GDN_NAME_OF(wave) exchange_lanes_on_host_##wave
#define GDN_NAME(wave) GDN_NAME_OF(wave)

void GDN_NAME(GDN_WAVE)(const float* in, float* out, unsigned seed) {
  gdn::host_warps::run_block(gdn::hip::kLanesThreads, seed,
                             [&] { gdn::hip::exchange_lanes(in, out); });
}
