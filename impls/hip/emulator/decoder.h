// Decoder: a line of llvm-objdump text to an Instruction. The text is a sound machine-readable
// form: it reassembles to the same bytes, and LLVM 14 to 19 print the same forms (two spellings of
// bound_ctrl are both read).
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "hip/emulator/instruction.h"

namespace gdn::gfx906 {

/// What a mnemonic (without its _e32, _e64, _dpp, _sdwa suffix) means.
struct OpcodeEntry {
  Unit unit = Unit::scalar;
  Execute execute = nullptr;
  MemoryForm memory;
};

/// Every mnemonic the emulator executes. Filled by the semantics_*.cpp files, one class each.
const std::unordered_map<std::string, OpcodeEntry>& opcode_table();

/// `text` is the assembler text alone, e.g. "v_fma_f32 v1, v2, -v3, |v4|". An unknown mnemonic,
/// operand or modifier leaves `execute` null.
Instruction decode(std::string_view text);

}  // namespace gdn::gfx906
