// What this machine can do at most, measured: the denominators of every "fraction of the ceiling".
#pragma once

#include <cstdint>

#include "cpu/instruction_set.h"
#include "interface/device.h"

namespace gdn::cpu {

/// Copy bandwidth (bytes read + written, buffers beyond the last-level cache where memory allows)
/// and the float32 rate of an Eigen matrix product that stays in cache; all threads, best of
/// several repetitions; measured once per process. matrix_tflops stays 0: no 16-bit products are
/// made here.
Device::Ceilings measured_ceilings(std::int64_t last_level_cache_bytes,
                                   std::int64_t free_memory_bytes);

/// C += A B, each [size, size] and row-major: the product whose rate is measured.
GDN_CPU_DECLARE(void multiply_add_square(const float* A, const float* B, float* C,
                                         std::int64_t size))

}  // namespace gdn::cpu
