// Every lane exchange of lanes_device.h on 128 threads, as the kernels use them: one result per
// thread and exchange. Compiled for gfx906, and for the host over lanes_cuda.h.
#pragma once

#include "hip/lanes_device.h"

namespace gdn::hip {

constexpr int kLanesThreads = 128;
constexpr int kLanesResults = 24;

/// in[128], out[24][128].
__device__ __forceinline__ void exchange_lanes(const float* in, float* out) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWave;
  const float x = in[thread];
  int result = 0;
  const auto put = [&](float value) { out[kLanesThreads * result++ + thread] = value; };

  put(shuffle(x, 5));
  put(shuffle(x, (lane * 7 + 3) % kWave));
  put(shuffle_up(x, 1));
  put(static_cast<float>(shuffle_up(static_cast<double>(x) + 0.5, 8)));
  put(static_cast<float>(shuffle_up(static_cast<int>(x), 16)));
  put(shuffle_xor(x, 1));
  put(shuffle_xor(x, kWave / 2));
  put(read_lane<kWave - 1>(x));
  put(static_cast<float>(uniform(thread / kWave)));
  put(dpp_moved<0xb1, 0xf>(x));   // quad_perm:[1,0,3,2]
  put(dpp_moved<0x4e, 0xf>(x));   // quad_perm:[2,3,0,1]
  put(dpp_moved<0x1b, 0x5>(x));   // quad_perm:[3,2,1,0], rows 0 and 2
  put(dpp_moved<0x103, 0xf>(x));  // row_shl:3
  put(dpp_moved<0x111, 0xf>(x));  // row_shr:1, 2, 4, 8
  put(dpp_moved<0x112, 0xf>(x));
  put(dpp_moved<0x114, 0xf>(x));
  put(dpp_moved<0x118, 0xf>(x));
  put(dpp_moved<0x124, 0xf>(x));  // row_ror:4
  put(dpp_moved<0x140, 0xf>(x));  // row_mirror
  put(dpp_moved<0x141, 0xf>(x));  // row_half_mirror
  put(dpp_moved<0x142, 0xa>(x));  // row_bcast:15 into rows 1 and 3
  put(dpp_moved<0x142, 0xf>(x));  // and into all
  put(dpp_moved<0x143, 0xc>(x));  // row_bcast:31 into rows 2 and 3
  float sum = x;
  for (int distance = kWave / 2; distance > 0; distance /= 2) sum += shuffle_xor(sum, distance);
  put(sum);
}

}  // namespace gdn::hip
