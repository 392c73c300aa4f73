// What this machine can do at most, measured: the denominators of every "fraction of the ceiling".
#pragma once

#include <cstdint>

#include "interface/device.h"

namespace gdn::cpu {

/// Copy bandwidth (bytes read + written, buffers beyond the last-level cache where memory allows)
/// and the float32 rate of an Eigen matrix product that stays in cache; all threads, best of
/// several repetitions; measured once per process. matrix_tflops stays 0: no 16-bit products are
/// made here.
Device::Ceilings measured_ceilings(std::int64_t last_level_cache_bytes,
                                   std::int64_t free_memory_bytes);

}  // namespace gdn::cpu
