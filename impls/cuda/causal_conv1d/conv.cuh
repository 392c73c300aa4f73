// The convolution of docs/contract.md, section 1.2, as a stage other implementations can enqueue.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/divisor.h"
#include "cuda/target.h"
#include "interface/operations/causal_conv1d.h"
#include "interface/operations/convolution_operands.h"

namespace gdn::GDN_CUDA_TARGET {

/// What kernels of ordinary windows take: [rows, channels, width - 1] in window_dtype, oldest first, read by all
/// sequences or by none. Apart from what other windows need: in one struct with that, even behind it and unread,
/// it takes registers from these kernels (nvcc 13.0), which one-token sequences pay for.
struct OrdinaryConvParams {
  const void* input = nullptr;
  const void* weight = nullptr;  ///< [channels, width], in weight_dtype
  const void* bias = nullptr;    ///< [channels] in weight_dtype, or null
  IndexArray sequence_offsets;
  IndexArray slot_index;            ///< none: sequence n has row n
  const void* window_in = nullptr;  ///< null: zeros stand before the sequences
  void* window_out = nullptr;       ///< null: windows stay as they are; may be window_in
  void* output = nullptr;
  DType token_dtype = DType::float32;
  DType weight_dtype = DType::float32;  ///< the token dtype or float32
  DType window_dtype = DType::float32;
  DType output_dtype = DType::float32;  ///< the token dtype or float32
  ConvLayout input_layout = ConvLayout::channels;
  ConvLayout output_layout = ConvLayout::channels;
  std::int64_t num_sequences = 0;
  std::int64_t token_capacity = 0;  ///< T
  std::int64_t channels = 0;
  std::int64_t input_token_stride = 0;  ///< of the channels-fastest input; never 0
  std::int32_t width = 4;
  bool silu = false;
  bool whole = false;  ///< windows and weights are aligned to 16 bytes (set where it is launched)
};

/// TokenRows, for tokens of 32 bits.
struct ConvRows {
  Divisor length;
  std::int64_t channel_stride = 0, row_stride = 0;

  ConvRows() = default;
  explicit ConvRows(const TokenRows& rows)
      : length(rows.length), channel_stride(rows.channel_stride), row_stride(rows.row_stride) {}

  __host__ __device__ std::int64_t at(std::int64_t channel, int token) const {
    const auto t = static_cast<std::uint32_t>(token);
    return channel * channel_stride + length.divide(t) * row_stride + length.remainder(t);
  }
  __host__ __device__ bool are_in_one(int first, int last) const {
    return length.divide(static_cast<std::uint32_t>(first)) ==
           length.divide(static_cast<std::uint32_t>(last));
  }
};

/// Validated arguments of one convolution.
struct ConvParams : OrdinaryConvParams {
  /// [N], 0: zeros stand before the sequence; null: none is 0.
  IndexArray has_window;
  /// [N], tokens of the sequence before the call, where windows are rings; else null.
  IndexArray window_position;
  ConvRows input_rows;  ///< of time-fastest tokens
  ConvRows output_rows;
  WindowStrides window_strides;
  std::int32_t window_places = 3;
  bool residual = false;  ///< the input itself is added behind the activation
  /// A window is read and written in vectors (VectorWindow of conv.cu; set where it is launched).
  bool window_vectors = false;
  /// Windows are OrdinaryConvParams' and there is no residual.
  bool ordinary = true;
};

/// What kernels that normalise heads take besides.
struct NormalizingConvParams : OrdinaryConvParams {
  std::int64_t normalized_channels = 0;  ///< heads of 128, the first ones
  float epsilon = 0;
};

/// What kernels that add a tensor behind the activation take besides.
struct AddingConvParams : ConvParams {
  const void* added = nullptr;  ///< in the input's layout and type; null: these kernels do not run
  std::int64_t added_token_stride = 0;
  ConvRows added_rows;
  std::int64_t longest = 0;  ///< of the sequences that the plan is for; others may come
};

/// Heads of 128 channels, the first ones, whose outputs are divided by their lengths behind the activation, as
/// gated_delta does with norm=1 to the queries and keys that a layer's convolution makes. None: 0 channels.
struct NormalizedHeads {
  std::int64_t channels = 0;
  float epsilon = 0;  ///< added to a head's squares
};
/// Heads of Dk channels: where tokens are of 16 bits, channels fastest, and windows ordinary.
bool can_normalize_heads(const Problem& problem);

/// Throws Error(bad_input) for null or misaligned pointers. The output is in the problem's layout and token dtype; a caller may replace these three fields.
AddingConvParams make_conv_params(const Problem& problem, const CausalConv1dArguments& arguments);

/// The windows inside a call: of each sequence `count` ones, after so many tokens.
struct CheckpointWindows {
  IndexArray tokens;  ///< [N, K]
  void* data =
      nullptr;  ///< [N, K] windows at window_strides(), in the state dtype; null: none are wanted
  std::int64_t count = 0;
};
/// One launch, ahead of the convolution, which may write the windows that this one reads. Throws
/// Error(unsupported) beyond the largest grid.
void enqueue_checkpoint_windows(const ConvParams& convolution, const CheckpointWindows& windows,
                                cudaStream_t stream);

/// One launch. Throws Error(unsupported) beyond the largest grid. `heads`: of a problem that
/// can_normalize_heads(), to an aligned output in the token dtype.
void enqueue_causal_conv1d(const AddingConvParams& params, cudaStream_t stream,
                           const NormalizedHeads& heads = {});

}  // namespace gdn::GDN_CUDA_TARGET
