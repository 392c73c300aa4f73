// Forms of known instructions that the emulator would execute as other ones, without a word: a
// modifier that the instruction's function does not look at, or that the card ignores in the float
// mode that kernels run in. They decode to nothing, so that a kernel that holds one is refused.
#pragma once

#include <string_view>

#include "hip/emulator/instruction.h"

namespace gdn::gfx906 {

/// `mnemonic` without its _e32, _e64, _dpp, _sdwa suffix; operands and modifiers are decoded.
bool is_refused_form(std::string_view mnemonic, const Instruction& instruction);

}  // namespace gdn::gfx906
