// Proves the waits of a kernel without running it: a walk over its instructions, along every path,
// that knows at each of them which registers a load may not have reached yet. Executing a kernel
// finds nothing of the kind, for there a load is complete at once.
//
// What the walk takes the hardware to promise (Vega ISA, "Data Dependency Resolution"; LLVM's User
// Guide for AMDGPU, memory model of gfx6 to gfx9):
//   - Vector memory, scratch included, counts in vmcnt: loads, stores and atomics alike, and in the
//     order in which they were issued.
//   - LDS instructions, those that only exchange lanes included, count in lgkmcnt, in order.
//   - Scalar loads count in lgkmcnt, in any order: only lgkmcnt(0) waits for one.
//   - Flat accesses count in both, in any order: one needs vmcnt(0) and lgkmcnt(0).
//   - A store has read its registers when it is issued, so that these may be overwritten (expcnt
//     counts exports alone, which no kernel here has).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hip/emulator/code_object.h"

namespace gdn::gfx906 {

/// An instruction that some path reaches before something it depends on is surely there.
struct MissingWait {
  int index = 0;              ///< of the instruction, in Kernel::code
  std::uint32_t address = 0;  ///< its own
  std::string subject;        ///< "v3", "s12", or "LDS" at a barrier
  std::string needed;         ///< the weakest wait that would do, "vmcnt(2)"
  std::string text;           ///< all of it in one line, with kernel and instruction
};

/// Every missing wait, by address. A finding is the first on its path: after it the register counts
/// as waited for. A use is any read of a register, and any overwrite but by a later access of the
/// same kind, whose results come in order. At s_barrier no access to LDS may be outstanding, since
/// the other waves rely on it. Throws Error(bad_input), naming kernel, address and instruction, for
/// what the walk does not know: then nothing is proved.
std::vector<MissingWait> missing_waits(const Kernel& kernel);

}  // namespace gdn::gfx906
