// The windows inside a call (docs/contract.md, section 1.7), as cuda/direct writes them: a launch of its own, ahead
// of the convolution's, which may overwrite the old windows that the first tokens' checkpoints still hold.
//
// A thread copies the window of one checkpoint and channel, place by place: neighbouring threads have neighbouring
// channels, so that with channels fastest a warp reads whole lines of tokens.
//
// Bound by: device memory and the launch. With 8192 channels and width 4 a float32 window is 96 KiB, a twentieth of the
// state of 32 heads of 128 that a layer hands out beside it. Not timed.
#include <cuda_runtime.h>

#include "cuda/causal_conv1d/conv.cuh"
#include "cuda/element.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/launch_plan.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

constexpr int kThreads = 128;  // channels of a block

struct CheckpointWindowsParams {
  ConvParams convolution;
  IndexArray tokens;  // [N, K]
  void* windows = nullptr;
  std::int32_t count = 0;  // K
  std::int32_t channel_blocks = 0;
};

/// Grid: blocks of channels of every checkpoint, those of a checkpoint side by side.
__global__ void __launch_bounds__(kThreads)
    checkpoint_windows_kernel(LargeParameter<CheckpointWindowsParams> params) {
  const ConvParams& p = params.convolution;
  const auto blocks = static_cast<unsigned int>(params.channel_blocks);
  const auto checkpoint = static_cast<std::int64_t>(blockIdx.x / blocks);
  const std::int64_t channel =
      static_cast<std::int64_t>(blockIdx.x % blocks) * kThreads + threadIdx.x;
  if (channel >= p.channels) return;
  const std::int64_t sequence =
      blockIdx.x / blocks / static_cast<unsigned int>(params.count);  // both below 2^31
  const std::int64_t slot = p.slot_index ? p.slot_index[sequence] : sequence;
  const std::int64_t tokens = slot < 0 ? 0 : params.tokens[checkpoint];
  const std::int64_t first = p.sequence_offsets[sequence];
  const bool reads =
      slot >= 0 && p.window_in != nullptr && (!p.has_window || p.has_window[sequence] != 0);
  const int places = p.window_places;
  // Places of the oldest input, before the call and after these tokens: other than 0 in rings alone.
  int oldest = 0;
  int oldest_then = 0;
  if (p.window_position && tokens > 0) {
    oldest = static_cast<int>(p.window_position[sequence] % places);
    oldest_then = static_cast<int>((oldest + tokens) % places);
  }
  const auto place_of = [&](std::int64_t row, int from, int number) {
    const int place = from + number < places ? from + number : from + number - places;
    return row * p.window_strides.row + channel * p.window_strides.channel +
           place * p.window_strides.place;
  };
  for (int j = 0; j < places; ++j) {
    const std::int64_t i = tokens - places + j;  // counted from the sequence's first token
    float value = 0;
    if (tokens > 0 && i >= 0) {
      const std::int64_t at = p.input_layout == ConvLayout::channels
                                  ? (first + i) * p.input_token_stride + channel
                                  : p.input_rows.at(channel, static_cast<int>(first + i));
      value = load_element(p.input, at, p.token_dtype);
    } else if (tokens > 0 && reads) {
      value = load_element(p.window_in, place_of(slot, oldest, static_cast<int>(places + i)),
                           p.window_dtype);
    }
    store_element(params.windows, place_of(checkpoint, oldest_then, j), p.window_dtype, value);
  }
}

}  // namespace

void enqueue_checkpoint_windows(const ConvParams& convolution, const CheckpointWindows& windows,
                                cudaStream_t stream) {
  CheckpointWindowsParams params;
  params.convolution = convolution;
  params.tokens = windows.tokens;
  params.windows = windows.data;
  params.count = static_cast<std::int32_t>(windows.count);
  params.channel_blocks =
      static_cast<std::int32_t>((convolution.channels + kThreads - 1) / kThreads);
  const unsigned int blocks = grid_blocks(
      convolution.num_sequences * windows.count * params.channel_blocks, "causal_conv1d");
  if (blocks == 0) return;
  launch_kernel(checkpoint_windows_kernel, blocks, kThreads, 0, stream, params);
}

}  // namespace gdn::GDN_CUDA_TARGET
