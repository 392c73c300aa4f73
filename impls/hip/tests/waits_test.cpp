// The waits of every kernel that ships, by the walk of hip/emulator/wait_check.h.
#include <gtest/gtest.h>

#include "hip/code_objects.h"
#include "hip/emulator/wait_check.h"

namespace gdn::hip {
namespace {

TEST(Waits, NoKernelUsesWhatMayNotHaveArrived) {
  for (const EmbeddedCodeObject& object : code_objects()) {
    const gfx906::CodeObject code(object.elf, object.listing());
    const auto kernels = gfx906::read_resources(object.elf);
    ASSERT_FALSE(kernels.empty()) << object.name;
    for (const gfx906::KernelResources& kernel : kernels) {
      for (const auto& wait : gfx906::missing_waits(code.find(kernel.name))) {
        ADD_FAILURE() << object.name << ": " << wait.text;
      }
    }
  }
}

// A walk that sees nothing would pass as well: here each wait of a kernel is taken out in turn. The
// compiler places a few that no path needs, hence not all of them are missed.
TEST(Waits, AWaitTakenOutOfAKernelIsMissed) {
  const std::string name = "naive_f32";
  const EmbeddedCodeObject& object = code_object_of(name);
  const gfx906::CodeObject code(object.elf, object.listing());
  gfx906::Kernel kernel;
  kernel.name = name;
  kernel.code = code.find(name).code;
  int waits = 0, missed = 0;
  std::string not_missed;
  for (gfx906::Instruction& instruction : kernel.code) {
    if (!instruction.text.starts_with("s_waitcnt ")) continue;
    const gfx906::Instruction kept = instruction;
    instruction.wait_vm = instruction.wait_lgkm = 63;
    const bool found = !gfx906::missing_waits(kernel).empty();
    instruction = kept;
    ++waits;
    missed += found ? 1 : 0;
    if (!found) not_missed += " [" + kept.text + "]";
  }
  EXPECT_GT(waits, 10);
  EXPECT_GE(missed, waits * 3 / 4) << "of " << waits << ", not missed:" << not_missed;
}

}  // namespace
}  // namespace gdn::hip
