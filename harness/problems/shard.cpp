#include "harness/problems/shard.h"

#include <charconv>
#include <string_view>

#include "interface/error.h"

namespace gdn {

Shard Shard::parse(const std::string& text) {
  Shard shard;
  const auto slash = text.find('/');
  const auto number = [&](std::string_view part, int& value) {
    const auto [end, status] = std::from_chars(part.data(), part.data() + part.size(), value);
    return status == std::errc() && end == part.data() + part.size() && !part.empty();
  };
  const std::string_view view = text;
  if (slash == std::string::npos || !number(view.substr(0, slash), shard.index) ||
      !number(view.substr(slash + 1), shard.count) || shard.index < 1 ||
      shard.index > shard.count) {
    throw_bad_input("shard '" + text + "': expected INDEX/COUNT with 1 <= INDEX <= COUNT, as 2/8");
  }
  return shard;
}

}  // namespace gdn
