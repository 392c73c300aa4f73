// One decoded gfx906 instruction: what the decoder makes of a line of llvm-objdump and the
// semantics functions execute. Operands keep the order of the assembler text, as the ISA documents
// do ("Vega" 7nm Shader ISA): destination first, then carry or mask, then sources.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace gdn::gfx906 {

inline constexpr int kLanes = 64;

/// Scalar register file indices of the named registers.
inline constexpr int kVcc = 106;
inline constexpr int kM0 = 124;
inline constexpr int kExec = 126;
inline constexpr int kScc = 128;
inline constexpr int kScalarRegisters = 130;

struct Context;
struct Wave;
struct Instruction;
using Execute = void (*)(Context&, Wave&, const Instruction&);

/// The functional unit that executes an instruction: what counts and the cost model distinguish.
enum class Unit : std::uint8_t {
  scalar,          ///< SALU: arithmetic and exec-mask handling
  branch,          ///< branches, barriers, waits, end
  scalar_memory,   ///< s_load
  vector,          ///< VALU at full rate: 64 lanes in 4 cycles
  vector_half,     ///< float64: 8 cycles
  vector_quarter,  ///< exp, log, rcp, rsq, sqrt, 32-bit integer products: 16 cycles
  cross_lane,      ///< ds_bpermute, ds_permute, ds_swizzle: through the LDS crossbar, no LDS memory
  lds,
  global,
  scratch,
};
inline constexpr int kUnits = 10;
const char* name_of(Unit unit);

struct Operand {
  enum class Kind : std::uint8_t { none, vector, scalar, constant, off };
  Kind kind = Kind::none;
  bool negate = false;
  bool absolute = false;
  bool sign_extend = false;
  bool fraction = false;    ///< constant written as a decimal fraction: its bits depend on the type
  bool literal = false;     ///< constant written in hexadecimal: raw 32 bits, never sign-extended
  std::uint16_t index = 0;  ///< first register
  std::uint8_t count = 1;   ///< registers
  std::uint32_t bits = 0;   ///< constants: as float32 if a fraction
  double real = 0;
};

/// Width and conversion of a memory access.
struct MemoryForm {
  std::uint8_t dwords = 0;  ///< 1..16; 0 for the sub-dword forms below
  std::uint8_t bytes = 0;   ///< bytes per lane of a sub-dword form
  bool sign_extend = false;
  std::uint8_t half = 0;    ///< d16 forms: 1 = low half kept apart, 2 = high half
  std::uint8_t stride = 1;  ///< ds_read2st64: 64
  int size() const { return dwords != 0 ? 4 * dwords : bytes; }
};

struct Instruction {
  Execute execute = nullptr;  ///< nullptr: not known; its kernel is refused at load
  Unit unit = Unit::scalar;
  std::uint8_t num_operands = 0;
  std::array<Operand, 6> operand;

  // modifiers
  bool clamp = false;
  std::uint8_t output_modifier = 0;  ///< 1 = mul:2, 2 = mul:4, 3 = div:2: refused
  bool dpp = false;
  /// dpp: an invalid source lane reads 0 (otherwise the lane is not written).
  bool bound_ctrl = false;
  std::uint16_t dpp_control = 0;
  std::uint8_t row_mask = 15;
  std::uint8_t bank_mask = 15;
  bool sdwa = false;
  bool preserve = false;                ///< sdwa: dst_unused:UNUSED_PRESERVE
  std::uint8_t destination_select = 6;  ///< sdwa: 0..3 = byte, 4..5 = word, 6 = dword
  std::array<std::uint8_t, 2> source_select{6, 6};
  bool packed = false;  ///< VOP3P, fma_mix, fma_f16: negation is of the selected half
  std::uint8_t op_sel = 0;
  std::uint8_t op_sel_hi = 7;
  std::uint8_t neg_lo = 0;
  std::uint8_t neg_hi = 0;
  MemoryForm memory;
  std::int32_t offset = 0;
  std::int32_t offset1 = 0;     ///< ds_read2/ds_write2: `offset` is offset0
  bool offset_enable = false;   ///< scratch: vaddr holds an offset
  bool returns_value = false;   ///< atomics: glc or _rtn
  std::uint8_t wait_vm = 63;    ///< s_waitcnt: most vector-memory accesses that may be outstanding
  std::uint8_t wait_lgkm = 63;  ///< the same for LDS and scalar memory

  std::uint32_t address = 0;  ///< in the code object's image
  std::uint32_t next_address = 0;
  int target = -1;  ///< branches: index into the kernel's code
  std::string text;
};

}  // namespace gdn::gfx906
