// ChannelQuantization: float32 values as integers of 8 bits with a scale for each channel, as outputs with
// scales hold them (Operand::scaled). A channel is what shares a scale: values along one dimension. Of its
// largest magnitude a, in float32 arithmetic that rounds to nearest even:
//
//     scale   = a / 127                0 where that is less than 2^-126, the smallest normal number
//     element = value / scale          rounded to an integer, nearest even: -127..127; 0 where the scale is 0
//
// So the largest element of a channel is 127 or -127, but for a channel of zeros, and half a step is scale / 2.
// A channel that holds NaN has a scale of NaN, else one that holds an infinity a scale of infinity. Its elements
// are 0, and every product of the two is NaN.
#pragma once

#include <cstdint>

#include "interface/operation.h"

namespace gdn {

/// The largest integer.
inline constexpr int kLargestInt8 = 127;
/// A channel whose scale would be smaller is one of zeros.
inline constexpr float kSmallestScale = 0x1p-126f;

/// Where the values of a channel lie: [outer, extent, inner], a channel along the one in the middle, and
/// scales [outer, inner].
struct ChannelLayout {
  std::int64_t outer = 0;
  std::int64_t extent = 0;
  std::int64_t inner = 0;

  std::int64_t channels() const { return outer * inner; }
  std::int64_t elements() const { return channels() * extent; }
  /// Value i of a channel.
  std::int64_t place(std::int64_t channel, std::int64_t i) const {
    return (channel / inner * extent + i) * inner + channel % inner;
  }
};

/// Of an output that has scales.
ChannelLayout channel_layout(const Operand& operand, const Problem& problem);
/// Whether the operation has an output that the problem has with scales; null: none. The first of them.
const Operand* scaled_output(const Problem& problem);
/// The scales' operand.
const Operand& scales_of(const Operand& operand, const OperationSchema& schema);

struct ChannelQuantization {
  ChannelLayout layout;
  const float* values = nullptr;
  std::int8_t* elements = nullptr;  ///< as the values lie
  float* scales = nullptr;          ///< [outer, inner]
};

/// Of arrays in the host's memory.
void quantize_on_host(const ChannelQuantization& quantization);

}  // namespace gdn
