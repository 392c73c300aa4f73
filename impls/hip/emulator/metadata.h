// MessagePack, as far as code object metadata uses it: maps, arrays, strings, integers, booleans.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gdn::gfx906 {

struct MetadataValue {
  enum class Kind { nothing, integer, text, list, map };
  Kind kind = Kind::nothing;
  std::int64_t integer = 0;
  std::string text;
  std::vector<MetadataValue> list;
  std::vector<std::pair<std::string, MetadataValue>> map;
  /// The entry, or a value of kind nothing.
  const MetadataValue& operator[](std::string_view key) const;
};

/// Throws Error(bad_input) on truncated data or a type metadata does not use.
MetadataValue parse_message_pack(std::string_view bytes);

}  // namespace gdn::gfx906
