#include "hip/emulator/refused_forms.h"

namespace gdn::gfx906 {
namespace {

bool is_mix(std::string_view name) { return name.starts_with("v_fma_mix"); }

/// Those whose result is clamped to [0, 1]: it is float16 or float32.
bool clamps(std::string_view name) {
  if (is_mix(name) || name == "v_cvt_f32_f64") return true;
  const bool of_floats = name.ends_with("_f32") || name.ends_with("_f16");
  const bool to_another_type = name.starts_with("v_cmp") || name == "v_pack_b32_f16" ||
                               name == "v_cvt_pkrtz_f16_f32" || name.starts_with("v_cvt_i32") ||
                               name.starts_with("v_cvt_u32") || name.starts_with("v_frexp_exp");
  return name.starts_with("v_") && of_floats && !to_another_type;
}

/// op_sel, where it names halves that the function then reads and writes.
bool selects_halves(std::string_view name, const Instruction& in) {
  return in.packed || name == "v_pack_b32_f16";
}

bool any_negated(const Instruction& in) {
  for (const Operand& operand : in.operand) {
    if (operand.negate || operand.absolute) return true;
  }
  return false;
}

}  // namespace

bool is_refused_form(std::string_view name, const Instruction& in) {
  // The card ignores mul: and div: where float denormals are kept, and every kernel keeps them.
  if (in.output_modifier != 0) return true;
  if (in.clamp && !clamps(name)) return true;
  if (in.op_sel != 0 && !selects_halves(name, in)) return true;
  // Signs are taken of the low half alone.
  if (name == "v_pack_b32_f16" && in.op_sel != 0 && any_negated(in)) return true;
  // A second offset, beside one in a register.
  if (in.unit == Unit::scalar_memory && in.offset != 0) return true;
  return false;
}

}  // namespace gdn::gfx906
