// Executes gfx906 machine code on the host: the public face of the emulator.
//
// What is modelled: every instruction's result in all 64 lanes, exec, LDS, scratch, barriers, the
// launch state of the ABI (kernel arguments, workgroup and work-item ids). What is checked besides:
// LDS races between waves, out-of-bounds accesses of every memory, values nobody defined, divergent
// barriers, instructions the emulator does not know (at load). A load is complete at once: whether
// the waits suffice is proved without executing anything (wait_check.h). What is not modelled, and
// what that means for a verdict, is in README.md beside this file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hip/emulator/code_object.h"
#include "hip/emulator/context.h"
#include "hip/emulator/counters.h"

namespace gdn::gfx906 {

struct Extent {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
  std::uint32_t z = 1;
  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

/// With LaunchOptions::profile, of one workgroup: how long it runs alone on a CU (cost_model.h) and
/// the cache lines it touches, in its own time.
struct WorkgroupTrace {
  std::uint64_t path_cycles = 0;
  std::vector<LineAccess> lines;  ///< with LaunchOptions::trace_lines
};

struct LaunchResult {
  Counters counters;
  std::vector<WorkgroupTrace> workgroups;
  std::vector<Fault> faults;  ///< the first few, in words
  std::uint64_t num_faults = 0;
};

/// Runs a grid of workgroups. `global` are the addresses kernels may touch besides the kernel
/// arguments and the image. Throws Error(bad_input) for an unknown kernel, more than 1024 threads
/// or 64 KB of LDS, Error(device_failure) for a fault that ends the launch.
LaunchResult launch(const CodeObject& code, const std::string& kernel, Extent grid, Extent block,
                    std::string_view arguments, std::uint32_t dynamic_lds_bytes,
                    const std::vector<MemoryRange>& global, const LaunchOptions& options);

/// Executes the instructions on one wave until s_endpgm or the end: for tests of single
/// instructions.
void execute_wave(Context& context, Wave& wave);
/// A wave before its first instruction: nothing defined, all lanes on.
void clear(Wave& wave);

}  // namespace gdn::gfx906
