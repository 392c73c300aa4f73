// Outputs with scales (Operand::scaled), such as state checkpoints in int8, out of any implementation that
// writes the same output in float32: its plan writes into this plan's workspace, and one launch behind it makes
// integers and their scales of that (Device::enqueue_quantization). So every form has them that hands out
// float32 checkpoints, layers among them, and none has a second way to store a state.
//
// Bound, beside the implementation, by device memory: of each value 4 bytes are written, 4 read and 1 written.
// Not measured. A kernel that quantized where it holds the state would write the last byte alone.
#pragma once

#include <memory>
#include <vector>

#include "interface/implementation.h"

namespace gdn {

/// Each implementation behind one that also does such problems, where its operation has them and it honours
/// what asks for them; an implementation that writes scales itself as it is. Each of the result owns the one it
/// is made of. An example of such a problem joins the description's, made of its own.
std::vector<std::unique_ptr<const Implementation>> with_quantized_outputs(
    std::vector<std::unique_ptr<const Implementation>> implementations);

}  // namespace gdn
