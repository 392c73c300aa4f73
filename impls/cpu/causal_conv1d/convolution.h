// The causal convolution of one block of channels of one sequence (docs/contract.md, section 1.2):
// it reads token and window dtypes, layouts and slots, computes in float32, and writes one or two
// outputs.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/causal_conv1d/channel_block.h"
#include "cpu/instruction_set.h"
#include "interface/operations/causal_conv1d.h"
#include "interface/operations/convolution_operands.h"
#include "interface/problem.h"

namespace gdn::cpu {

class Convolution {
 public:
  /// Throws Error(bad_input) for null or misaligned pointers, and for window pointers that do not
  /// fit the problem's choice of in place or out of place. arguments.output and
  /// arguments.intermediate are not looked at.
  Convolution(const Problem& problem, const CausalConv1dArguments& arguments,
              std::vector<ConvolutionOutput> outputs);

  /// Independent units of work: (sequence, block of channels).
  std::int64_t num_items() const { return problem_.num_sequences() * num_blocks_; }
  /// Floats that run_item needs.
  static std::int64_t workspace_floats(const Problem& problem);
  /// Outputs and the new window of one item. Within an item the old window is read before the new
  /// one is written, so both may be the same memory.
  void run_item(std::int64_t item, float* workspace) const;

 private:
  /// Where the window of a channel begins.
  std::int64_t first_place(std::int64_t slot, std::int64_t channel) const {
    return slot * strides_.row + channel * strides_.channel;
  }
  /// The window of a sequence that owns the row `slot`.
  struct Window {
    std::int64_t slot;
    bool reads;  ///< false: zeros stand before the sequence
    /// At which place the oldest input lies before the call and after it; not 0 in rings alone.
    std::int64_t oldest, oldest_after;
    /// Of the new window, oldest first, inputs that stay where they are and are not written.
    std::int64_t stays;
  };
  Window window_of(std::int64_t sequence, std::int64_t slot) const;
  /// Where input `j` of a channel's window lies, counted from the oldest one.
  std::int64_t place(std::int64_t slot, std::int64_t channel, std::int64_t oldest,
                     std::int64_t j) const {
    return first_place(slot, channel) + (oldest + j) % problem_.window_places() * strides_.place;
  }
  void load_window(const Window& window, const ChannelBlock& block, float* rows) const;
  void store_window(const Window& window, const ChannelBlock& block, const float* rows) const;
  /// The places before the last width - 1 of the new window, before these are stored: what stays of
  /// the old one moves to lower places, so in ascending order nothing is overwritten before it is read;
  /// in a ring it does not move.
  void move_older_inputs(const Window& window, const ChannelBlock& block,
                         std::int64_t sequence) const;
  /// Of every checkpoint of the sequence, before its new window is stored. `window` is null where the sequence has
  /// no row.
  void store_checkpoints(const Window* window, const ChannelBlock& block,
                         std::int64_t sequence) const;
  /// Input `i` of the sequence, counted from its first token; of negative i, of its old window.
  float input_of(const Window& window, std::int64_t channel, std::int64_t first_token,
                 std::int64_t i) const;
  TokenInput inputs() const {
    return {arguments_.input, problem_.token_dtype, problem_.conv_layout,
            arguments_.input_token_stride, arguments_.input_rows};
  }
  /// What is added behind the activation.
  TokenInput residual() const {
    return {arguments_.residual, problem_.token_dtype, problem_.conv_layout,
            arguments_.residual_token_stride, arguments_.residual_rows};
  }
  void store_tokens(std::int64_t first, std::int64_t count, const ChannelBlock& block,
                    const float* rows, float* scratch) const;

  Problem problem_;
  CausalConv1dArguments arguments_;
  std::vector<ConvolutionOutput> outputs_;
  std::int64_t channels_;
  WindowStrides strides_;
  std::int64_t num_blocks_;
  void (*convolve_rows_)(const float*, const float*, const float*, std::int64_t, std::int64_t,
                         std::int64_t, bool, float*);
};

/// y[t, c] = act(bias[c] + sum_j weight[j, c] * ext[t + j, c]) for dense float rows: ext
/// [tokens + width - 1, channels], weight [width, channels], bias [channels], y [tokens, channels].
GDN_CPU_DECLARE(void convolve_rows(const float* ext, const float* weight, const float* bias,
                                   std::int64_t tokens, std::int64_t channels, std::int64_t width,
                                   bool silu, float* y))

}  // namespace gdn::cpu
