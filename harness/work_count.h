// What one run of a case must do, counted from its shapes: tokens, floating-point operations in two
// stated conventions, bytes; and the rates a time makes of them, beside the device's ceilings.
//
// Operations of gated_delta, per token and value head (a multiply-add is two):
//   recurrent   7 Dk Dv                       the token recurrence: decay the state (Dk Dv), S^T k
//                                             (2 Dk Dv), rank-one update (2 Dk Dv), S^T q
//                                             (2 Dk Dv). The work the result needs when nothing is
//                                             chunked; the same for every implementation.
//   chunkwise   2 (3 Dk Dv + 2 C (Dk + Dv))   the dense products of the chunkwise form (contract
//                                             section 2) with chunk C: K S, Q S and K^T V' are
//                                             3 Dk Dv multiply-adds per token; K K^T and Q K^T are
//                                             2 C Dk; L^-1 V' and (Q K^T) V' are 2 C Dv. Full
//                                             squares; the inverse itself, norms, gates and
//                                             exponentials are not counted.
// With Dk = Dv = D the second is 2 (3 D^2 + 4 C D).
//
// Variants: with n steps per token K, V and their products have n rows per token: (4n + 3) Dk Dv,
// and 2 ((2n + 1) Dk Dv + (n + 1) C (Dk + Dv)). Without the delta term (update=additive) S^T k, K
// S, K K^T and L^-1 are left out: (2n + 3) Dk Dv, and 2 ((n + 1) Dk Dv + C (Dk + Dv)). A decay per
// channel multiplies elements and is not counted.
//
// causal_conv1d counts 2 width (+ 1 with a bias) per token and channel; activations are not
// counted. A layer is the sum of both.
//
// Tokens and states of padding sequences (slot -1) are not work and are not counted.
#pragma once

#include <cstdint>
#include <string>

#include "interface/case.h"
#include "interface/device.h"

namespace gdn {

/// Chunk of the chunkwise count where the plan is not chunked (naive, recurrent): the usual one.
inline constexpr std::int64_t kNominalChunk = 64;

struct WorkCount {
  std::int64_t tokens = 0;       ///< of sequences that are not padding
  std::int64_t count_chunk = 0;  ///< C of flops_chunkwise: the plan's, or kNominalChunk; 0: conv
  double flops_chunkwise = 0;
  double flops_recurrent = 0;
  double bytes_read = 0;     ///< each input once, as stored
  double bytes_written = 0;  ///< each output once, as stored
  double bytes_moved() const { return bytes_read + bytes_written; }
};

/// `plan_chunk`: tokens per chunk the plan uses, 0 = not chunked (PlanInfo::chunk).
WorkCount count_work(const Case& inputs, std::int64_t plan_chunk);

/// The chunkwise count in words, and that of the variants, for captions.
inline constexpr const char* kChunkwiseCount =
    "2 (3 Dk Dv + 2 C (Dk + Dv)) per token and value head";
inline constexpr const char* kVariantCount =
    "n steps: 2 ((2n + 1) Dk Dv + (n + 1) C (Dk + Dv)); additive: 2 ((n + 1) Dk Dv + C (Dk + Dv))";
/// The convention in words, for table captions: "2 (3 Dk Dv + 2 C (Dk + Dv)) per token and value
/// head, C = 64".
std::string chunkwise_count_name(std::int64_t count_chunk);

enum class CacheMode { cold, hot };
std::string to_string(CacheMode mode);
/// Throws Error(bad_input).
CacheMode parse_cache_mode(const std::string& text);

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
