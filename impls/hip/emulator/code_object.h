// A gfx906 code object (AMDGPU ELF, code object version 4) and its llvm-objdump listing, loaded
// into an image whose kernels can be launched. What the code object's metadata says of each
// kernel's resources is here too: the budgets are checked against it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "hip/emulator/instruction.h"

namespace gdn::gfx906 {

/// What the compiler allocated for one kernel: the code object's own metadata (NT_AMDGPU_METADATA).
struct KernelResources {
  std::string name;
  int vgprs = 0;
  int sgprs = 0;
  int vgpr_spills = 0;
  int sgpr_spills = 0;
  int lds_bytes = 0;      ///< static
  int scratch_bytes = 0;  ///< per lane
  int wave_size = 0;
  int max_workgroup = 0;  ///< threads, from __launch_bounds__
  int kernarg_bytes = 0;
  /// Waves one SIMD can hold at once: 256 VGPRs in allocation units of 4, 64 KB of LDS per CU of 4
  /// SIMDs, at most 10.
  int waves_per_simd(int dynamic_lds_bytes = 0) const;
};

/// Resources of every kernel, in the order of the metadata. Throws Error(bad_input) if `elf` is not
/// an AMDGPU code object.
std::vector<KernelResources> read_resources(std::string_view elf);
/// A table of them: one line per kernel, with the occupancy.
std::string resource_table(const std::vector<KernelResources>& kernels);

struct Kernel {
  std::string name;
  std::vector<Instruction> code;
  std::uint32_t lds_bytes = 0;
  std::uint32_t scratch_bytes = 0;
  std::uint32_t kernarg_bytes = 0;
  std::uint32_t resource1 = 0;  ///< COMPUTE_PGM_RSRC1
  std::uint32_t resource2 = 0;
  std::uint16_t properties = 0;
  int vgprs = kLanes;  ///< allocated: register indices stay below this
};

class CodeObject {
 public:
  /// Throws Error(bad_input): not an AMDGPU ELF, a float mode other than the default (round to
  /// nearest even, denormals kept), a listing that names none of the kernels.
  CodeObject(std::string_view elf, std::string listing);
  CodeObject(const CodeObject&) = delete;
  CodeObject& operator=(const CodeObject&) = delete;

  /// The kernel, decoded when it is first asked for. Throws Error(bad_input) naming the nearest
  /// kernel, the instructions of this one that the emulator does not know, or a branch out of it.
  const Kernel& find(const std::string& name) const;
  const std::uint8_t* image() const { return image_; }
  std::uint64_t image_bytes() const { return image_bytes_; }

 private:
  std::string listing_;
  struct Entry {
    Kernel kernel;
    std::string_view lines;  ///< of listing_
  };
  std::vector<std::uint8_t> storage_;
  std::uint8_t* image_ = nullptr;
  std::uint64_t image_bytes_ = 0;
  mutable std::mutex mutex_;  ///< guards the decoding in find()
  mutable std::vector<Entry> entries_;
};

/// Decodes the instruction lines of one function of a listing (no ELF needed): for tests of single
/// instructions. Branch targets are resolved.
std::vector<Instruction> decode_listing(std::string_view listing);

}  // namespace gdn::gfx906
