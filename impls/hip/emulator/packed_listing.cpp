#include "hip/emulator/packed_listing.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <system_error>
#include <vector>

#include "interface/error.h"

namespace gdn::gfx906 {
namespace {

struct Packed {
  std::uint64_t words = 0;
  std::string_view text;
};

[[noreturn]] void throw_malformed(std::size_t line, std::string_view text) {
  throw_bad_input("packed listing: line " + std::to_string(line) + ": '" +
                  std::string(text.substr(0, 60)) + "'");
}

std::optional<std::uint64_t> number_in(std::string_view text, int base) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// What stands in front of the next `end`, which is taken away with it.
std::string_view take(std::string_view& text, char end) {
  const std::size_t length = std::min(text.find(end), text.size());
  const std::string_view taken = text.substr(0, length);
  text.remove_prefix(std::min(length + 1, text.size()));
  return taken;
}

void append_hex(std::string& text, std::uint64_t value) {
  char digits[16];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value, 16).ptr;
  text.append(digits, end);
}

}  // namespace

std::string unpack_listing(std::string_view packed) {
  std::size_t line = 1;
  const std::string_view first = take(packed, '\n');
  const auto count = number_in(first, 10);
  if (!count || *count > packed.size()) throw_malformed(line, first);
  std::vector<Packed> distinct;
  distinct.reserve(*count);
  while (distinct.size() < *count) {
    std::string_view text = take(packed, '\n');
    const std::string_view whole = text;
    ++line;
    const auto words = number_in(take(text, ' '), 10);
    if (!words || *words == 0 || text.empty()) throw_malformed(line, whole);
    distinct.push_back({*words, text});
  }
  std::string listing;
  while (!packed.empty()) {
    // A blank line in front of a function, as llvm-objdump has it.
    const std::string_view label = take(packed, '\n');
    ++line;
    if (label.empty()) continue;
    const auto start = number_in(label.substr(0, label.find(' ')), 16);
    if (!start || !label.ends_with(">:")) throw_malformed(line, label);
    listing.append("\n").append(label).append("\n");
    std::uint64_t address = *start;
    std::string_view numbers = take(packed, '\n');
    ++line;
    while (!numbers.empty()) {
      const std::string_view token = take(numbers, ' ');
      if (token.empty()) continue;
      if (token.front() == '@') {
        const auto place = number_in(token.substr(1), 16);
        if (!place) throw_malformed(line, token);
        address = *place;
        continue;
      }
      const auto number = number_in(token, 10);
      if (!number || *number >= distinct.size()) throw_malformed(line, token);
      const Packed& instruction = distinct[*number];
      listing.append(instruction.text).append(" // ");
      append_hex(listing, address);
      listing.append(":");
      for (std::uint64_t word = 0; word < instruction.words; ++word) listing.append(" 0");
      listing.append("\n");
      address += 4 * instruction.words;
    }
  }
  return listing;
}

}  // namespace gdn::gfx906
