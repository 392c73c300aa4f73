// Argument blocks of the support kernels (support.hip), shared by host and device code.
#pragma once

#include <cstdint>

namespace gdn::hip {

/// hold_stream: waits until *flag is not 0, at most max_polls reads of it.
struct HoldParams {
  const std::int32_t* flag;  ///< host memory, coherent
  std::int64_t max_polls;
};

/// copy_words: destination[i] = source[i], 16 bytes per element, grid-strided by the given step.
struct CopyParams {
  const void* source;
  void* destination;
  std::int64_t elements;
  std::int64_t step;  ///< threads in the grid
};

/// fma_chain: `rounds` times kFmaPerRound float32 multiply-adds per lane, in independent chains.
struct FmaParams {
  float* sink;  ///< one float per lane: the results are used
  std::int32_t rounds;
};
constexpr int kFmaPerRound = 128;

}  // namespace gdn::hip
