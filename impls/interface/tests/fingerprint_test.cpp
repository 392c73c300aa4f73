// Fingerprints: equal for equal bytes, another for a change anywhere.
#include "interface/fingerprint.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

namespace gdn {
namespace {

TEST(Fingerprint, AnyChangedBitShows) {
  for (const std::size_t count : {1u, 7u, 8u, 9u, 40u, 61u}) {
    std::vector<unsigned char> bytes(count);
    for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<unsigned char>(37 * i);
    const auto print = [&] {
      return fingerprint_of(bytes.data(), static_cast<std::int64_t>(bytes.size()));
    };
    const std::uint64_t before = print();
    std::set<std::uint64_t> seen = {before};
    for (std::size_t bit = 0; bit < 8 * count; ++bit) {
      const auto mask = static_cast<unsigned char>(1u << (bit % 8));
      bytes[bit / 8] ^= mask;
      EXPECT_TRUE(seen.insert(print()).second) << "bit " << bit << " of " << count << " bytes";
      bytes[bit / 8] ^= mask;
    }
    EXPECT_EQ(print(), before);
  }
}

TEST(Fingerprint, WordsThatChangePlacesShow) {
  std::vector<std::uint64_t> words = {1, 2, 3, 4};
  const std::uint64_t before = fingerprint_of(words.data(), 32);
  std::swap(words[1], words[2]);
  EXPECT_NE(fingerprint_of(words.data(), 32), before);
}

TEST(Fingerprint, PartsAddUpToTheWhole) {
  std::vector<unsigned char> bytes(45);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(3 * i + 1);
  EXPECT_EQ(fingerprint_of(bytes.data(), 45), fingerprint_of(bytes.data(), 16) +
                                                  fingerprint_of(bytes.data() + 16, 24, 2) +
                                                  fingerprint_of(bytes.data() + 40, 5, 5));
}

TEST(Fingerprint, ReadsAtAnyAlignmentAndNoFurther) {
  std::vector<unsigned char> bytes(40, 9);
  const std::uint64_t before = fingerprint_of(bytes.data() + 3, 29);
  bytes[2] = bytes[32] = 1;
  EXPECT_EQ(fingerprint_of(bytes.data() + 3, 29), before);
}

}  // namespace
}  // namespace gdn
