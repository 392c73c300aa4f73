// The operands of the short causal convolution (docs/contract.md, section 1.2), which causal_conv1d
// and the layer have in common.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interface/honoured_fields.h"
#include "interface/operation.h"

namespace gdn {

/// qkv, conv_weight and conv_bias.
std::vector<Operand> convolution_operands();
/// Whether the problem has windows.
bool has_windows(const Problem& problem);
/// The window of raw inputs conv_state, oldest first: read, written, or updated in place or out of
/// place, as Problem::conv_window has it.
Operand convolution_window_operand();
/// has_window, [N], where Problem::fresh_windows: 1 or 0, whether sequence n reads its window.
Operand has_window_operand();
/// window_position, [N], where Problem::window_order is ring: how many tokens sequence n has had before
/// the call, 0 or more; its first token's place in the ring is that modulo Problem::window_places().
Operand window_position_operand();
/// OperationSchema::fit_part of an operation with a convolution: a part behind a sequence's first token
/// has a window, and its position in a ring counts the tokens before it.
void fit_convolution_part(const Case& whole, const std::vector<PartOfSequence>& parts, Case& part);
/// residual, of qkv's shape, where Problem::conv_residual is the tensor: added behind the activation.
Operand convolution_residual_operand();
/// conv_output, of qkv's shape; `on_request`: an operation goes on from it and need not show it.
Operand convolution_output_operand(bool on_request);
/// Keys of the problem fields the convolution looks at.
std::vector<std::string> convolution_fields();
/// Those that every form of the convolution is written for (docs/contract.md, section 1.2); an option
/// that comes later is named by the forms that have it.
HonouredFields convolution_options();
/// Those that say how windows are held (docs/contract.md, section 1.2).
HonouredFields convolution_window_options();
/// Elements from one row, channel and place of conv_state to the next.
struct WindowStrides {
  std::int64_t row = 0;
  std::int64_t channel = 0;
  std::int64_t place = 0;
};
WindowStrides window_strides(const Problem& problem);
/// What a problem with a convolution must fulfil; throws Error(bad_input).
void validate_convolution(const Problem& problem);

}  // namespace gdn
