// What one workgroup's execution needs besides its waves: memories, counters, options and the list
// of faults found. One Context per host thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hip/emulator/code_object.h"
#include "hip/emulator/counters.h"
#include "hip/emulator/memory.h"
#include "hip/emulator/wave.h"

namespace gdn::gfx906 {

enum class FaultKind : std::uint8_t {
  lds_race,           ///< two waves touch one LDS location within a barrier interval, one writing
  undefined_value,    ///< a value nobody wrote decides a branch, an address or a stored value
  out_of_bounds,      ///< global, LDS or scratch; ends the launch
  divergent_barrier,  ///< some waves ended while others wait; ends the launch
  bad_instruction,    ///< executed with operands that have no meaning; ends the launch
};
const char* name_of(FaultKind kind);

struct Fault {
  FaultKind kind;
  std::string text;  ///< kernel, workgroup, wave, instruction and address
};

enum class WaveOrder : std::uint8_t { forward, reverse, random };

struct LaunchOptions {
  WaveOrder order = WaveOrder::forward;  ///< of waves within a workgroup, and of workgroups
  /// Random order: switch waves after up to this many instructions; 0 = only at barriers.
  int preempt_every = 0;
  /// +- this many ulp of pseudo-random noise on exp, log, rcp, rsq, sqrt.
  int transcendental_ulp = 0;
  int threads = 0;           ///< host threads over workgroups; 0 = all cores
  bool profile = false;      ///< LDS bank conflicts, cache lines, timelines (slower)
  bool trace_lines = false;  ///< with profile: record every cache line touched, for the L2's model
  int max_faults = 8;        ///< recorded in words; all are counted
};

/// One cache line touched by one vector-memory instruction, for the model of the L2.
struct LineAccess {
  std::uint64_t cycle;  ///< of the workgroup's own timeline
  std::uint64_t line;   ///< address / 64, times 2, plus 1 if written
};

struct Context {
  const Kernel& kernel;
  const std::vector<MemoryRange>& global;
  const LaunchOptions& options;
  std::uint64_t image_base = 0;
  LocalMemory lds;
  Counters counters;
  std::vector<std::uint64_t> executed;  ///< profile: times each instruction of the kernel ran
  std::vector<Fault> faults;
  std::uint64_t num_faults = 0;
  std::uint64_t workgroup = 0;
  MemoryRange last_range;  ///< the range the previous global access fell into
  std::string last_undefined_lds_read;
  std::vector<LineAccess> lines{};  ///< LaunchOptions::trace_lines: of the running workgroup

  /// Records a fault; throws it as Error(device_failure) if the launch cannot go on.
  void report(FaultKind kind, const Wave& wave, const Instruction& instruction,
              const std::string& detail);
};

/// Makes `last_range` the registered range that holds [address, address + size), or reports.
void find_range(Context& context, const Wave& wave, const Instruction& instruction,
                std::uint64_t address, std::uint64_t size);

/// Reports if any of the lanes in `active` is not in `defined`.
inline void require_defined(Context& context, const Wave& wave, const Instruction& instruction,
                            std::uint64_t active, std::uint64_t defined, const char* what) {
  if ((active & ~defined) != 0) {
    context.report(FaultKind::undefined_value, wave, instruction, what);
  }
}

}  // namespace gdn::gfx906
