// Files named *_kernel.cpp are compiled once per instruction set, each time in a namespace of that
// name (the macro GDN_ISA), and the widest one this processor has is called: one binary runs on any
// x86-64 and uses the vector units of the machine it is on. Elsewhere there is the baseline alone.
//
// Results are deterministic per instruction set; between sets they differ by the rounding of sums
// taken in another order. PlanInfo::choice of every CPU plan therefore names its set, "isa=avx2", so
// that a row says what was measured.
//
// A kernel file calls nothing inline of the standard library or of Eigen that another set may
// share: Eigen is renamed per set on the compiler's command line (impls/cpu/CMakeLists.txt), so
// that the linker cannot take one set's code for another's.
#pragma once

#include <string>

namespace gdn::cpu {

enum class InstructionSet { baseline, avx2, avx512 };

/// "baseline" (what the compiler assumes by default), "avx2" (with FMA), "avx512" (F, BW, DQ, VL).
std::string to_string(InstructionSet set);

/// The widest set of this processor and build; the environment variable GDN_CPU_ISA names a
/// narrower one. Throws Error(bad_input) for an unknown name, Error(device_unavailable) for one
/// that the processor or the build lacks.
InstructionSet instruction_set();

/// Picks among a function's versions, for use with GDN_CPU_VERSIONS.
template <typename Function>
Function version_for(InstructionSet set, Function baseline, [[maybe_unused]] Function avx2,
                     [[maybe_unused]] Function avx512) {
  return set == InstructionSet::avx512 ? avx512 : set == InstructionSet::avx2 ? avx2 : baseline;
}

}  // namespace gdn::cpu

// GDN_CPU_DECLARE(void f(int)); declares f once per instruction set in the build;
// GDN_CPU_VERSIONS(f) is the list that version_for takes.
#ifdef GDN_CPU_X86_SETS
#define GDN_CPU_DECLARE(...) \
  namespace baseline {       \
  __VA_ARGS__;               \
  }                          \
  namespace avx2 {           \
  __VA_ARGS__;               \
  }                          \
  namespace avx512 {         \
  __VA_ARGS__;               \
  }
#define GDN_CPU_VERSIONS(function) \
  &gdn::cpu::baseline::function, &gdn::cpu::avx2::function, &gdn::cpu::avx512::function
#else
#define GDN_CPU_DECLARE(...) \
  namespace baseline {       \
  __VA_ARGS__;               \
  }
#define GDN_CPU_VERSIONS(function) \
  &gdn::cpu::baseline::function, &gdn::cpu::baseline::function, &gdn::cpu::baseline::function
#endif
