#include "hip/emulator/code_object.h"

#include <elf.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <set>

#include "hip/emulator/decoder.h"
#include "hip/emulator/metadata.h"
#include "interface/error.h"
#include "interface/problem.h"

namespace gdn::gfx906 {
namespace {

constexpr int kMachineAmdGpu = 224;          // EM_AMDGPU
constexpr std::uint32_t kNoteMetadata = 32;  // NT_AMDGPU_METADATA

template <typename T>
const T& at(std::string_view elf, std::uint64_t offset) {
  if (offset + sizeof(T) > elf.size()) throw_bad_input("code object: truncated ELF");
  return *reinterpret_cast<const T*>(elf.data() + offset);
}

const Elf64_Ehdr& elf_header(std::string_view elf) {
  const auto& header = at<Elf64_Ehdr>(elf, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != kMachineAmdGpu) {
    throw_bad_input("code object: not an AMDGPU ELF file");
  }
  return header;
}

/// Kernel descriptors: symbols NAME.kd, by kernel name, as image addresses.
std::map<std::string, std::uint64_t> descriptor_addresses(std::string_view elf) {
  std::map<std::string, std::uint64_t> addresses;
  const Elf64_Ehdr& header = elf_header(elf);
  for (int i = 0; i < header.e_shnum; ++i) {
    const auto& section = at<Elf64_Shdr>(elf, header.e_shoff + sizeof(Elf64_Shdr) * i);
    if (section.sh_type != SHT_SYMTAB) continue;
    const auto& strings =
        at<Elf64_Shdr>(elf, header.e_shoff + sizeof(Elf64_Shdr) * section.sh_link);
    for (std::uint64_t k = 0; k < section.sh_size / sizeof(Elf64_Sym); ++k) {
      const auto& symbol = at<Elf64_Sym>(elf, section.sh_offset + sizeof(Elf64_Sym) * k);
      const std::string name = elf.data() + strings.sh_offset + symbol.st_name;
      if (name.ends_with(".kd")) addresses[name.substr(0, name.size() - 3)] = symbol.st_value;
    }
  }
  return addresses;
}

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/// "\tv_add_f32_e32 v0, v1, v2  // 000000001A00: 02000501" to an instruction; the comment gives the
/// address and the encoding's length. Without a comment, instructions are 4 bytes apart.
Instruction decode_line(std::string_view line, std::uint32_t fallback_address) {
  const auto comment = line.find("//");
  Instruction instruction = decode(trim(line.substr(0, comment)));
  instruction.address = fallback_address;
  instruction.next_address = fallback_address + 4;
  if (comment == std::string_view::npos) return instruction;
  const std::string_view note = trim(line.substr(comment + 2));
  std::from_chars(note.data(), note.data() + note.size(), instruction.address, 16);
  std::uint32_t words = 0;
  for (std::size_t i = note.find(':'); i < note.size();) {
    const std::string_view word = note.substr(std::min(note.size(), i + 1));
    const auto begin = word.find_first_not_of(' ');
    if (begin == std::string_view::npos ||
        word.find_first_not_of("0123456789ABCDEFabcdef", begin) == begin)
      break;
    ++words;
    i = note.find(' ', i + 2);
    if (i == std::string_view::npos) break;
  }
  instruction.next_address = instruction.address + 4 * std::max(words, 1u);
  return instruction;
}

bool is_branch(const Instruction& instruction) {
  return instruction.unit == Unit::branch &&
         (instruction.text.starts_with("s_branch") || instruction.text.starts_with("s_cbranch"));
}

void resolve_branches(std::vector<Instruction>& code, const std::string& name) {
  std::map<std::uint32_t, int> index;
  for (std::size_t i = 0; i < code.size(); ++i) index[code[i].address] = static_cast<int>(i);
  for (Instruction& instruction : code) {
    if (!is_branch(instruction)) continue;
    const auto displacement = static_cast<std::int16_t>(instruction.operand[0].bits);
    const auto target =
        index.find(instruction.address + 4 + static_cast<std::uint32_t>(4 * displacement));
    if (target == index.end()) {
      throw_bad_input("code object: kernel " + name +
                      " branches out of itself: " + instruction.text);
    }
    instruction.target = target->second;
  }
}

/// Throws Error(bad_input) naming the instructions that the emulator does not know.
void expect_known(const std::vector<Instruction>& code, const std::string& name) {
  std::set<std::string> unknown;
  for (const Instruction& instruction : code) {
    if (instruction.execute == nullptr) unknown.insert(instruction.text);
  }
  if (unknown.empty()) return;
  std::string message = "gfx906-emulator: kernel " + name + " holds instructions it does not know:";
  for (const std::string& text : unknown) message += " [" + text + "]";
  throw_bad_input(message);
}

template <typename F>
void for_each_line(std::string_view text, F f) {
  while (!text.empty()) {
    const auto end = text.find('\n');
    f(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
}

/// "0000000000001A00 <name>:" or empty.
std::string function_name(std::string_view line) {
  const auto open = line.find('<');
  if (line.empty() || line[0] != '0' || open == std::string_view::npos || !line.ends_with(">:")) {
    return {};
  }
  return std::string(line.substr(open + 1, line.size() - open - 3));
}

std::vector<Instruction> decode_kernel(std::string_view lines, const std::string& name) {
  std::vector<Instruction> code;
  for_each_line(lines, [&](std::string_view line) {
    if (line.find("//") != std::string_view::npos) code.push_back(decode_line(line, 0));
  });
  resolve_branches(code, name);
  expect_known(code, name);
  return code;
}

/// The fields of a kernel descriptor (AMDGPU ABI, "Kernel Descriptor").
Kernel read_descriptor(const std::string& name, const std::uint8_t* fields) {
  Kernel kernel;
  kernel.name = name;
  std::memcpy(&kernel.lds_bytes, fields, 4);
  std::memcpy(&kernel.scratch_bytes, fields + 4, 4);
  std::memcpy(&kernel.kernarg_bytes, fields + 8, 4);
  std::memcpy(&kernel.resource1, fields + 48, 4);
  std::memcpy(&kernel.resource2, fields + 52, 4);
  std::memcpy(&kernel.properties, fields + 56, 2);
  kernel.vgprs = static_cast<int>((kernel.resource1 & 63) + 1) * 4;
  if ((kernel.resource1 >> 12 & 0xff) != 0xf0) {
    throw_bad_input("code object: kernel " + name +
                    " changes the float mode; expected round to nearest with denormals kept");
  }
  return kernel;
}

int integer(const MetadataValue& kernel, std::string_view key) {
  return static_cast<int>(kernel[key].integer);
}

}  // namespace

int KernelResources::waves_per_simd(int dynamic_lds_bytes) const {
  constexpr int kMaxWaves = 10, kSimds = 4, kLds = 64 * 1024;
  const int allocated = std::max(4, (vgprs + 3) / 4 * 4);
  const int by_registers = std::min(kMaxWaves, 256 / allocated);
  const int lds = lds_bytes + dynamic_lds_bytes;
  if (lds == 0 || lds > kLds) return lds == 0 ? by_registers : 0;
  const int waves_per_group = (max_workgroup + 63) / 64;
  const int by_lds = std::max(1, kLds / lds * waves_per_group / kSimds);
  return std::min(by_registers, by_lds);
}

std::vector<KernelResources> read_resources(std::string_view elf) {
  const Elf64_Ehdr& header = elf_header(elf);
  std::vector<KernelResources> kernels;
  for (int i = 0; i < header.e_phnum; ++i) {
    const auto& segment = at<Elf64_Phdr>(elf, header.e_phoff + sizeof(Elf64_Phdr) * i);
    if (segment.p_type != PT_NOTE) continue;
    const auto& note = at<Elf64_Nhdr>(elf, segment.p_offset);
    if (note.n_type != kNoteMetadata) continue;
    const std::uint64_t start = segment.p_offset + sizeof(note) + (note.n_namesz + 3u) / 4 * 4;
    if (start + note.n_descsz > elf.size()) throw_bad_input("code object: truncated metadata");
    const MetadataValue metadata = parse_message_pack(elf.substr(start, note.n_descsz));
    for (const MetadataValue& kernel : metadata["amdhsa.kernels"].list) {
      KernelResources resources;
      resources.name = kernel[".name"].text;
      resources.vgprs = integer(kernel, ".vgpr_count");
      resources.sgprs = integer(kernel, ".sgpr_count");
      resources.vgpr_spills = integer(kernel, ".vgpr_spill_count");
      resources.sgpr_spills = integer(kernel, ".sgpr_spill_count");
      resources.lds_bytes = integer(kernel, ".group_segment_fixed_size");
      resources.scratch_bytes = integer(kernel, ".private_segment_fixed_size");
      resources.wave_size = integer(kernel, ".wavefront_size");
      resources.max_workgroup = integer(kernel, ".max_flat_workgroup_size");
      resources.kernarg_bytes = integer(kernel, ".kernarg_segment_size");
      kernels.push_back(resources);
    }
  }
  return kernels;
}

std::string resource_table(const std::vector<KernelResources>& kernels) {
  std::size_t width = 6;
  for (const KernelResources& kernel : kernels) width = std::max(width, kernel.name.size());
  std::string table;
  char line[512];
  const int column = static_cast<int>(width);
  std::snprintf(line, sizeof(line), "%-*s %5s %5s %7s %8s %7s %8s %11s\n", column, "kernel", "VGPR",
                "SGPR", "spills", "scratch", "LDS", "threads", "waves/SIMD");
  table += line;
  for (const KernelResources& kernel : kernels) {
    std::snprintf(line, sizeof(line), "%-*s %5d %5d %7d %8d %7d %8d %11d\n", column,
                  kernel.name.c_str(), kernel.vgprs, kernel.sgprs,
                  kernel.vgpr_spills + kernel.sgpr_spills, kernel.scratch_bytes, kernel.lds_bytes,
                  kernel.max_workgroup, kernel.waves_per_simd());
    table += line;
  }
  return table;
}

std::vector<Instruction> decode_listing(std::string_view listing) {
  std::vector<Instruction> code;
  std::uint32_t address = 0;
  for_each_line(listing, [&](std::string_view line) {
    if (trim(line).empty()) return;
    code.push_back(decode_line(line, address));
    address = code.back().next_address;
  });
  resolve_branches(code, "listing");
  return code;
}

CodeObject::CodeObject(std::string_view elf, std::string whole_listing)
    : listing_(std::move(whole_listing)) {
  const std::string_view listing = listing_;
  const Elf64_Ehdr& header = elf_header(elf);
  for (int pass = 0; pass < 2; ++pass) {
    for (int i = 0; i < header.e_phnum; ++i) {
      const auto& segment = at<Elf64_Phdr>(elf, header.e_phoff + sizeof(Elf64_Phdr) * i);
      if (segment.p_type != PT_LOAD) continue;
      if (pass == 0) {
        // Instructions are fetched ahead: the image ends 256 bytes after its last byte.
        image_bytes_ =
            std::max<std::uint64_t>(image_bytes_, segment.p_vaddr + segment.p_memsz + 256);
      } else {
        if (segment.p_offset + segment.p_filesz > elf.size())
          throw_bad_input("code object: truncated ELF");
        std::memcpy(image_ + segment.p_vaddr, elf.data() + segment.p_offset, segment.p_filesz);
      }
    }
    if (pass == 0) {
      storage_.assign(image_bytes_ + 4096, 0);
      const auto base = reinterpret_cast<std::uintptr_t>(storage_.data());
      image_ = storage_.data() + ((base + 4095) / 4096 * 4096 - base);
    }
  }
  const auto descriptors = descriptor_addresses(elf);
  // A function's first line alone starts with a digit of its address.
  for (std::size_t start = listing.find("\n0"); start != std::string_view::npos;) {
    const std::string_view label =
        listing.substr(start + 1, listing.find('\n', start + 1) - start - 1);
    const std::size_t next = listing.find("\n0", start + 1);
    const std::string name = function_name(label);
    const auto descriptor = descriptors.find(name);
    if (descriptor != descriptors.end()) {
      Entry& entry = entries_.emplace_back();
      entry.kernel = read_descriptor(name, image_ + descriptor->second);
      entry.lines = listing.substr(start + 1 + label.size(), next - start - 1 - label.size());
    }
    start = next;
  }
  if (entries_.empty()) throw_bad_input("code object: the listing names none of its kernels");
}

const Kernel& CodeObject::find(const std::string& name) const {
  const std::scoped_lock lock(mutex_);
  for (Entry& entry : entries_) {
    Kernel& kernel = entry.kernel;
    if (kernel.name != name) continue;
    if (kernel.code.empty()) kernel.code = decode_kernel(entry.lines, name);
    return kernel;
  }
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.push_back(entry.kernel.name);
  throw_bad_input("gfx906: no kernel '" + name + "' (did you mean '" + nearest_name(name, names) +
                  "'?)");
}

}  // namespace gdn::gfx906
