// "Did you mean": the nearest of several names.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace gdn {

/// Letters to insert, delete or replace to make one word of the other.
std::size_t edit_distance(std::string_view from, std::string_view to);
/// The candidate nearest to `text` by edit distance: for "did you mean" in error lines.
std::string nearest_name(std::string_view text, const std::vector<std::string>& candidates);

}  // namespace gdn
