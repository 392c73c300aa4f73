// What one run of a case must do, counted from its operation: tokens, floating-point operations in two
// conventions (harness/operations/: recurrence_flops.h, convolution_flops.h), bytes of its operands;
// and the rates a time makes of them, beside the device's ceilings.
//
// Tokens and rows of padding sequences (slot -1) are not work and are not counted.
#pragma once

#include <cstdint>
#include <string>

#include "interface/case.h"
#include "interface/device.h"
#include "interface/enum_names.h"

namespace gdn {

struct WorkCount {
  std::int64_t tokens = 0;  ///< of sequences that are not padding
  std::int64_t count_chunk =
      0;  ///< C of flops_chunkwise: the plan's, or kNominalChunk; 0: no chunks
  double flops_chunkwise = 0;
  double flops_recurrent = 0;
  double bytes_read = 0;     ///< each input once, as stored
  double bytes_written = 0;  ///< each output once, as stored
  double bytes_moved() const { return bytes_read + bytes_written; }
};

/// `plan_chunk`: tokens per chunk the plan uses, 0 = not chunked (PlanInfo::chunk).
WorkCount count_work(const Case& inputs, std::int64_t plan_chunk);

enum class CacheMode { cold, hot };  ///< names: names_of<CacheMode>()

struct Rates {
  double tokens_per_s = 0;
  double chunkwise_tflops = 0;  ///< TFLOP/s by the chunkwise count
  double recurrent_tflops = 0;  ///< TFLOP/s by the recurrent count
  double tb_per_s = 0;          ///< bytes moved over time
  /// Chunkwise rate over the matrix ceiling (16-bit tokens) or the float32 ceiling (float32
  /// tokens); 0 where the ceiling was not measured.
  double fraction_of_compute = 0;
  /// Compulsory memory traffic over time, over the copy ceiling. Compulsory is what cannot have
  /// stayed in the last-level cache: cold on a GPU, all inputs and the outputs beyond the cache's
  /// size; hot, or on a CPU (whose cache a flush need not empty), inputs and outputs beyond it. 0
  /// where the ceiling was not measured.
  double fraction_of_bandwidth = 0;
};

/// Throws Error(bad_input) unless time_ms > 0.
Rates rates(const WorkCount& work, double time_ms, DType token_dtype, CacheMode mode,
            const DeviceInfo& device, const Device::Ceilings& ceilings);

/// How far a figure may pass a ceiling, itself a measurement, before it is called impossible. On a
/// CPU other processes take what they like, and may have taken it while the ceiling was measured:
/// there only a figure no load explains is called so.
inline constexpr double kCeilingTolerance = 1.05;
inline constexpr double kCpuCeilingTolerance = 10;

/// Empty, or what is impossible about the time: compulsory traffic above the copy bandwidth, or the
/// recurrent count (the least arithmetic any form does) above every compute ceiling of the device.
/// `fastest_time_ms` is the shortest sample counted.
std::string impossible_figure(const WorkCount& work, double fastest_time_ms, CacheMode mode,
                              const DeviceInfo& device, const Device::Ceilings& ceilings);

}  // namespace gdn
