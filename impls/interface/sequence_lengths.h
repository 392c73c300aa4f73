// The sequence lengths of a ragged batch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gdn {

/// Sequence lengths of one ragged batch; prints run-length encoded: "4x8192", "1x63+2x64+1x0".
struct SequenceLengths {
  std::vector<std::int64_t> lengths{64};

  std::int64_t num_sequences() const { return static_cast<std::int64_t>(lengths.size()); }
  std::int64_t total_tokens() const;
  std::int64_t longest() const;
  std::vector<std::int64_t> offsets() const;  ///< exclusive prefix sums, num_sequences() + 1 values
  static SequenceLengths from_offsets(const std::vector<std::int64_t>& offsets);
  std::string to_string() const;
  /// "COUNTxLENGTH" or "LENGTH" terms joined by '+'; throws Error(bad_input).
  static SequenceLengths parse(std::string_view text);

  bool operator==(const SequenceLengths&) const = default;
};

}  // namespace gdn
