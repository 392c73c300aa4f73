#include "cpu/instruction_set.h"

#include <cstdlib>

#include "interface/error.h"

namespace gdn::cpu {
namespace {

InstructionSet widest() {
#ifdef GDN_CPU_X86_SETS
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("fma")) {
    return InstructionSet::avx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return InstructionSet::avx2;
#endif
  return InstructionSet::baseline;
}

}  // namespace

std::string to_string(InstructionSet set) {
  switch (set) {
    case InstructionSet::baseline:
      return "baseline";
    case InstructionSet::avx2:
      return "avx2";
    case InstructionSet::avx512:
      return "avx512";
  }
  return "baseline";
}

InstructionSet instruction_set() {
  const InstructionSet best = widest();
  const char* text = std::getenv("GDN_CPU_ISA");
  if (text == nullptr || *text == '\0') return best;
  for (InstructionSet set :
       {InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512}) {
    if (text != to_string(set)) continue;
    if (set > best) {
      throw Error(ErrorKind::device_unavailable,
                  "GDN_CPU_ISA: " + to_string(set) +
                      " is not available here; the widest instruction set is " + to_string(best));
    }
    return set;
  }
  throw_bad_input("GDN_CPU_ISA: '" + std::string(text) + "'; expected baseline, avx2 or avx512");
}

}  // namespace gdn::cpu
