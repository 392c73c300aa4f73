#include "interface/sequence_lengths.h"

#include <algorithm>
#include <numeric>

#include "interface/error.h"
#include "interface/index_array.h"
#include "interface/parse_number.h"

namespace gdn {

std::int64_t SequenceLengths::total_tokens() const {
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

std::int64_t SequenceLengths::longest() const {
  return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
}

std::vector<std::int64_t> SequenceLengths::offsets() const {
  std::vector<std::int64_t> result(lengths.size() + 1, 0);
  std::partial_sum(lengths.begin(), lengths.end(), result.begin() + 1);
  return result;
}

SequenceLengths SequenceLengths::from_offsets(const std::vector<std::int64_t>& offsets) {
  if (offsets.size() < 2 || offsets.front() != 0) {
    throw_bad_input("sequence_offsets: expected at least two values, the first 0");
  }
  SequenceLengths result;
  result.lengths.clear();
  for (std::size_t n = 0; n + 1 < offsets.size(); ++n) {
    if (offsets[n + 1] < offsets[n]) {
      throw_bad_input("sequence_offsets: not monotone at index " + std::to_string(n + 1) + " (" +
                      std::to_string(offsets[n]) + " then " + std::to_string(offsets[n + 1]) + ")");
    }
    result.lengths.push_back(offsets[n + 1] - offsets[n]);
  }
  return result;
}

std::string SequenceLengths::to_string() const {
  std::string text;
  for (std::size_t n = 0; n < lengths.size();) {
    std::size_t end = n;
    while (end < lengths.size() && lengths[end] == lengths[n]) ++end;
    text += (text.empty() ? "" : "+") + std::to_string(end - n) + "x" + std::to_string(lengths[n]);
    n = end;
  }
  return text;
}

SequenceLengths SequenceLengths::parse(std::string_view text) {
  constexpr std::int64_t kMostSequences = 1 << 24;
  SequenceLengths result;
  result.lengths.clear();
  std::string_view rest = text;
  while (true) {
    const auto plus = rest.find('+');
    const std::string_view term = rest.substr(0, plus);
    const auto cross = term.find('x');
    std::int64_t count = 1;
    std::string_view length = term;
    if (cross != std::string_view::npos) {
      count = parse_integer(term.substr(0, cross), "seq", 1);
      length = term.substr(cross + 1);
    }
    if (count > kMostSequences - result.num_sequences()) {
      throw_bad_input("seq: more than " + std::to_string(kMostSequences) + " sequences in '" +
                      std::string(text) + "'");
    }
    const std::int64_t tokens = parse_integer(length, "seq", 0);
    if (tokens > kLargestIndex / count) {
      throw_bad_input("seq: '" + std::string(text) + "' holds 2^31 tokens or more");
    }
    result.lengths.insert(result.lengths.end(), static_cast<std::size_t>(count), tokens);
    if (plus == std::string_view::npos) break;
    rest = rest.substr(plus + 1);
  }
  return result;
}

}  // namespace gdn
