#include "hip/emulator/decoder.h"

#include <array>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <utility>
#include <vector>

#include "hip/emulator/opcode_table.h"
#include "hip/emulator/refused_forms.h"

namespace gdn::gfx906 {
namespace {

struct NamedRegister {
  std::string_view name;
  int index;
  int count;
};
constexpr std::array<NamedRegister, 13> kNamedRegisters{{{"vcc", kVcc, 2},
                                                         {"vcc_lo", kVcc, 1},
                                                         {"vcc_hi", kVcc + 1, 1},
                                                         {"exec", kExec, 2},
                                                         {"exec_lo", kExec, 1},
                                                         {"exec_hi", kExec + 1, 1},
                                                         {"m0", kM0, 1},
                                                         {"flat_scratch", 102, 2},
                                                         {"flat_scratch_lo", 102, 1},
                                                         {"flat_scratch_hi", 103, 1},
                                                         {"xnack_mask", 104, 2},
                                                         {"src_scc", kScc, 1},
                                                         {"scc", kScc, 1}}};

/// Removes `prefix` and `suffix` together; false if either is missing.
bool strip(std::string_view& text, std::string_view prefix, std::string_view suffix) {
  if (text.size() < prefix.size() + suffix.size() || !text.starts_with(prefix) ||
      !text.ends_with(suffix)) {
    return false;
  }
  text = text.substr(prefix.size(), text.size() - prefix.size() - suffix.size());
  return true;
}

bool parse_registers(std::string_view text, Operand& operand) {
  if (!text.starts_with('[')) {
    const auto [end, status] =
        std::from_chars(text.data(), text.data() + text.size(), operand.index);
    return status == std::errc() && end == text.data() + text.size();
  }
  if (!strip(text, "[", "]")) return false;
  const auto colon = text.find(':');
  unsigned first = 0, last = 0;
  const std::string_view low = text.substr(0, colon);
  std::from_chars(low.data(), low.data() + low.size(), first);
  last = first;
  if (colon != std::string_view::npos) {
    const std::string_view high = text.substr(colon + 1);
    std::from_chars(high.data(), high.data() + high.size(), last);
  }
  operand.index = static_cast<std::uint16_t>(first);
  operand.count = static_cast<std::uint8_t>(last - first + 1);
  return last >= first;
}

bool parse_constant(const std::string& text, Operand& operand) {
  operand.kind = Operand::Kind::constant;
  char* end = nullptr;
  if (text.find("0x") != std::string::npos) {
    operand.literal = true;
    operand.bits = static_cast<std::uint32_t>(std::strtoull(text.c_str(), &end, 16));
  } else if (text.find('.') != std::string::npos) {
    operand.fraction = true;
    operand.real = std::strtod(text.c_str(), &end);
    // The one inline constant that is not exact in decimal: 1/(2 pi), printed with 8 digits.
    if (text.starts_with("0.15915494")) operand.real = 0.15915494309189532;
    operand.bits = std::bit_cast<std::uint32_t>(static_cast<float>(operand.real));
  } else {
    operand.bits = static_cast<std::uint32_t>(std::strtoll(text.c_str(), &end, 10));
  }
  return end != text.c_str() && *end == '\0';
}

bool parse_operand(std::string_view text, Operand& operand) {
  if (text == "off") {
    operand.kind = Operand::Kind::off;
    return true;
  }
  if (text.size() > 1 && text[0] == '-' && (text[1] == 'v' || text[1] == 's' || text[1] == '|')) {
    operand.negate = true;
    text.remove_prefix(1);
  }
  if (strip(text, "|", "|") || strip(text, "abs(", ")")) operand.absolute = true;
  if (strip(text, "sext(", ")")) operand.sign_extend = true;
  for (const NamedRegister& named : kNamedRegisters) {
    if (text == named.name) {
      operand.kind = Operand::Kind::scalar;
      operand.index = static_cast<std::uint16_t>(named.index);
      operand.count = static_cast<std::uint8_t>(named.count);
      return true;
    }
  }
  if (text.size() > 1 && (text[0] == 'v' || text[0] == 's') && text[1] != 'r') {
    operand.kind = text[0] == 'v' ? Operand::Kind::vector : Operand::Kind::scalar;
    return parse_registers(text.substr(1), operand) &&
           operand.index + operand.count <=
               (operand.kind == Operand::Kind::vector ? 256 : kScalarRegisters);
  }
  return parse_constant(std::string(text), operand);
}

/// "[0,1,1]" to bits, the first element lowest.
std::uint8_t parse_bit_list(std::string_view text) {
  unsigned bits = 0;
  int position = 0;
  for (const char c : text) {
    if (c != '0' && c != '1') continue;
    if (c == '1') bits |= 1u << position;
    ++position;
  }
  return static_cast<std::uint8_t>(bits);
}

std::uint8_t parse_select(std::string_view text) {
  constexpr std::array<std::string_view, 7> names{"BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3",
                                                  "WORD_0", "WORD_1", "DWORD"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (text == names[i]) return static_cast<std::uint8_t>(i);
  }
  return 6;
}

/// The 9-bit DPP control field (Vega ISA, "DPP_CTRL enumeration").
bool parse_dpp_control(std::string_view key, std::string_view value, long number,
                       std::uint16_t& control) {
  if (key == "quad_perm") {
    unsigned permutation = 0;
    int position = 0;
    for (const char c : value) {
      if (c < '0' || c > '3') continue;
      permutation |= static_cast<unsigned>(c - '0') << (2 * position++);
    }
    control = static_cast<std::uint16_t>(permutation);
    return position == 4;
  }
  static const std::unordered_map<std::string_view, int> shifts{
      {"row_shl", 0x100}, {"row_shr", 0x110}, {"row_ror", 0x120}};
  static const std::unordered_map<std::string_view, int> fixed{
      {"wave_shl", 0x130}, {"wave_rol", 0x134},   {"wave_shr", 0x138},
      {"wave_ror", 0x13c}, {"row_mirror", 0x140}, {"row_half_mirror", 0x141}};
  if (const auto shift = shifts.find(key); shift != shifts.end()) {
    control = static_cast<std::uint16_t>(shift->second | static_cast<int>(number));
    return true;
  }
  if (const auto known = fixed.find(key); known != fixed.end()) {
    control = static_cast<std::uint16_t>(known->second);
    return true;
  }
  if (key == "row_bcast") {
    control = number == 15 ? 0x142 : 0x143;
    return number == 15 || number == 31;
  }
  return false;
}

bool parse_modifier(const std::string& text, Instruction& instruction) {
  const auto colon = text.find(':');
  const std::string key = text.substr(0, colon);
  const std::string value = colon == std::string::npos ? "" : text.substr(colon + 1);
  char* end = nullptr;
  const long number = std::strtol(value.c_str(), &end, 0);
  const bool numeric = end != value.c_str() && *end == '\0';
  if (key == "offset" || key == "offset0") {
    instruction.offset = static_cast<std::int32_t>(number);
    return numeric;  // the symbolic swizzle(...) form is not read
  }
  if (key == "offset1") {
    instruction.offset1 = static_cast<std::int32_t>(number);
    return numeric;
  }
  if (key == "clamp") return instruction.clamp = true;
  if (key == "mul") {
    instruction.output_modifier = number == 2 ? 1 : 2;
  } else if (key == "div") {
    instruction.output_modifier = 3;
  } else if (key == "offen") {
    instruction.offset_enable = true;
  } else if (key == "glc") {
    instruction.returns_value = true;
  } else if (key == "slc" || key == "nv") {
    // cache hints: no effect on values
  } else if (key == "row_mask") {
    instruction.row_mask = static_cast<std::uint8_t>(number);
  } else if (key == "bank_mask") {
    instruction.bank_mask = static_cast<std::uint8_t>(number);
  } else if (key == "bound_ctrl") {
    // Printed as :0 by LLVM 14 and as :1 later, for the same set bit.
    instruction.bound_ctrl = true;
  } else if (key == "dst_sel") {
    instruction.destination_select = parse_select(value);
  } else if (key == "src0_sel") {
    instruction.source_select[0] = parse_select(value);
  } else if (key == "src1_sel") {
    instruction.source_select[1] = parse_select(value);
  } else if (key == "dst_unused") {
    instruction.preserve = value == "UNUSED_PRESERVE";
    return value != "UNUSED_SEXT";
  } else if (key == "op_sel") {
    instruction.op_sel = parse_bit_list(value);
  } else if (key == "op_sel_hi") {
    instruction.op_sel_hi = parse_bit_list(value);
  } else if (key == "neg_lo") {
    instruction.neg_lo = parse_bit_list(value);
  } else if (key == "neg_hi") {
    instruction.neg_hi = parse_bit_list(value);
  } else {
    return parse_dpp_control(key, value, number, instruction.dpp_control);
  }
  return true;
}

/// Splits "v1, s[2:3], v4 offset:8 glc" into operands (joined by commas) and modifiers.
void split(std::string_view text, std::vector<std::string>& operands,
           std::vector<std::string>& modifiers) {
  int depth = 0;
  std::string current;
  bool in_modifiers = false;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ' ';
    if (c == '[' || c == '(') ++depth;
    if (c == ']' || c == ')') --depth;
    if ((c == ',' || c == ' ') && depth == 0) {
      if (!current.empty())
        (in_modifiers ? modifiers : operands).push_back(std::exchange(current, {}));
      if (c == ' ' && i > 0 && text[i - 1] != ',') in_modifiers = true;
    } else {
      current += c;
    }
  }
}

/// "vmcnt(2) lgkmcnt(0)": counters not named are not waited for. False for any other text: a wait
/// that is not read would pass for none.
bool parse_waitcnt(std::string_view text, Instruction& instruction) {
  std::uint8_t exports = 0;  // nothing here exports, and so nothing waits for it
  while (!text.empty()) {
    const auto end = text.find(' ');
    std::string_view word = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    std::uint8_t* const wait = word.starts_with("vmcnt(")     ? &instruction.wait_vm
                               : word.starts_with("lgkmcnt(") ? &instruction.wait_lgkm
                               : word.starts_with("expcnt(")  ? &exports
                                                              : nullptr;
    if (wait == nullptr || !strip(word, word.substr(0, word.find('(') + 1), ")")) return false;
    const auto [last, status] = std::from_chars(word.data(), word.data() + word.size(), *wait);
    if (status != std::errc() || last != word.data() + word.size()) return false;
  }
  return true;
}

bool ends_with_and_cut(std::string& name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return false;
  name.resize(name.size() - suffix.size());
  return true;
}

}  // namespace

const char* name_of(Unit unit) {
  constexpr std::array<const char*, kUnits> names{"scalar",
                                                  "branch",
                                                  "scalar memory",
                                                  "vector",
                                                  "vector (half rate)",
                                                  "vector (quarter rate)",
                                                  "cross-lane",
                                                  "LDS",
                                                  "global",
                                                  "scratch"};
  return names[static_cast<std::size_t>(unit)];
}

const std::unordered_map<std::string, OpcodeEntry>& opcode_table() {
  static const auto table = [] {
    OpcodeTable entries;
    add_scalar(entries);
    add_vector_float(entries);
    add_vector_integer(entries);
    add_vector_half(entries);
    add_lane_exchange(entries);
    add_memory(entries);
    return std::move(entries.entries);
  }();
  return table;
}

Instruction decode(std::string_view text) {
  Instruction instruction;
  instruction.text = std::string(text);
  const auto space = text.find(' ');
  std::string mnemonic(text.substr(0, space));
  const std::string_view rest =
      space == std::string_view::npos ? std::string_view() : text.substr(space + 1);
  if (mnemonic.starts_with("v_") && !ends_with_and_cut(mnemonic, "_e32") &&
      !ends_with_and_cut(mnemonic, "_e64")) {
    instruction.dpp = ends_with_and_cut(mnemonic, "_dpp");
    if (!instruction.dpp) instruction.sdwa = ends_with_and_cut(mnemonic, "_sdwa");
  }
  const auto entry = opcode_table().find(mnemonic);
  if (entry == opcode_table().end()) return instruction;
  const bool mixed = mnemonic.starts_with("v_fma_mix");
  instruction.packed = mixed || mnemonic.starts_with("v_pk_") || mnemonic.starts_with("v_dot") ||
                       mnemonic == "v_fma_f16";
  instruction.op_sel_hi = mixed ? 0 : 7;
  instruction.unit = entry->second.unit;
  instruction.memory = entry->second.memory;
  if (mnemonic == "s_waitcnt") {
    if (parse_waitcnt(rest, instruction)) instruction.execute = entry->second.execute;
    return instruction;
  }
  if (mnemonic == "s_nop" || mnemonic == "s_sleep" || mnemonic == "s_setprio") {
    instruction.execute = entry->second.execute;
    return instruction;
  }
  std::vector<std::string> operands, modifiers;
  split(rest, operands, modifiers);
  if (operands.size() > instruction.operand.size()) return instruction;
  for (const std::string& operand : operands) {
    if (!parse_operand(operand, instruction.operand[instruction.num_operands++]))
      return instruction;
  }
  for (const std::string& modifier : modifiers) {
    if (!parse_modifier(modifier, instruction)) return instruction;
  }
  if (mnemonic.find("_rtn_") != std::string::npos) instruction.returns_value = true;
  if (is_refused_form(mnemonic, instruction)) return instruction;
  instruction.execute = entry->second.execute;
  return instruction;
}

}  // namespace gdn::gfx906
