#include "hip/emulator/metadata.h"

#include "interface/error.h"

namespace gdn::gfx906 {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view bytes) : bytes_(bytes) {}

  MetadataValue value() {
    MetadataValue result;
    const unsigned tag = static_cast<unsigned>(number(1));
    using Kind = MetadataValue::Kind;
    if (tag <= 0x7f) return integer(tag);
    if (tag <= 0x8f) return map(tag & 15);
    if (tag <= 0x9f) return list(tag & 15);
    if (tag <= 0xbf) return text(tag & 31);
    if (tag >= 0xe0) return integer(static_cast<std::int8_t>(tag));
    switch (tag) {
      case 0xc0:
        return result;
      case 0xc2:
        return integer(0);
      case 0xc3:
        return integer(1);
      case 0xcc:
        return integer(static_cast<std::int64_t>(number(1)));
      case 0xcd:
        return integer(static_cast<std::int64_t>(number(2)));
      case 0xce:
        return integer(static_cast<std::int64_t>(number(4)));
      case 0xcf:
        return integer(static_cast<std::int64_t>(number(8)));
      case 0xd0:
        return integer(static_cast<std::int8_t>(number(1)));
      case 0xd1:
        return integer(static_cast<std::int16_t>(number(2)));
      case 0xd2:
        return integer(static_cast<std::int32_t>(number(4)));
      case 0xd3:
        return integer(static_cast<std::int64_t>(number(8)));
      case 0xd9:
        return text(number(1));
      case 0xda:
        return text(number(2));
      case 0xdb:
        return text(number(4));
      case 0xdc:
        return list(number(2));
      case 0xdd:
        return list(number(4));
      case 0xde:
        return map(number(2));
      case 0xdf:
        return map(number(4));
      default:
        break;
    }
    result.kind = Kind::nothing;
    throw_bad_input("code object metadata: unexpected type tag " + std::to_string(tag));
  }

 private:
  std::uint64_t number(int size) {
    const std::string_view raw = take(static_cast<std::uint64_t>(size));
    std::uint64_t result = 0;
    for (const char c : raw) result = result << 8 | static_cast<unsigned char>(c);
    return result;
  }
  std::string_view take(std::uint64_t size) {
    if (size > bytes_.size() - at_) throw_bad_input("code object metadata: truncated");
    const std::string_view part = bytes_.substr(at_, size);
    at_ += size;
    return part;
  }
  static MetadataValue integer(std::int64_t number) {
    MetadataValue result;
    result.kind = MetadataValue::Kind::integer;
    result.integer = number;
    return result;
  }
  MetadataValue text(std::uint64_t size) {
    MetadataValue result;
    result.kind = MetadataValue::Kind::text;
    result.text = std::string(take(size));
    return result;
  }
  MetadataValue list(std::uint64_t count) {
    MetadataValue result;
    result.kind = MetadataValue::Kind::list;
    for (std::uint64_t i = 0; i < count; ++i) result.list.push_back(value());
    return result;
  }
  MetadataValue map(std::uint64_t count) {
    MetadataValue result;
    result.kind = MetadataValue::Kind::map;
    for (std::uint64_t i = 0; i < count; ++i) {
      std::string key = value().text;
      result.map.emplace_back(std::move(key), value());
    }
    return result;
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
};

}  // namespace

const MetadataValue& MetadataValue::operator[](std::string_view key) const {
  static const MetadataValue nothing;
  for (const auto& [name, entry] : map) {
    if (name == key) return entry;
  }
  return nothing;
}

MetadataValue parse_message_pack(std::string_view bytes) { return Parser(bytes).value(); }

}  // namespace gdn::gfx906
