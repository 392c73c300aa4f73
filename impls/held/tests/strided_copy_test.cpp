// Strided copies: the host's against their definition, and every device's kernel against the host's.
#include "interface/strided_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "interface/device.h"

namespace gdn {
namespace {

constexpr unsigned char kPoison = 0xa5;

/// A random copy between two arrays with room for it, dimensions in any order of memory.
struct RandomCopy {
  explicit RandomCopy(std::uint64_t seed) : random(seed) {
    using enum StorageType;
    const bool integers = pick(4) == 0;
    const std::vector<StorageType> types =
        integers ? std::vector<StorageType>{int32, int64}
                 : std::vector<StorageType>{float32, bfloat16, float16, float8_e4m3, float8_e5m2};
    copy.from_type = types[pick(types.size())];
    copy.to_type = types[pick(types.size())];
    copy.rank = 1 + static_cast<int>(pick(5));
    for (int d = 0; d < copy.rank; ++d) {
      copy.extents[static_cast<std::size_t>(d)] =
          static_cast<std::int64_t>(pick(8) == 0 ? 1 : 1 + pick(copy.rank < 3 ? 90 : 9));
    }
    const std::int64_t from_elements = lay(copy.from_strides);
    const std::int64_t to_elements = lay(copy.to_strides);
    if (pick(3) == 0) {
      // A pool of as many rows as dimension 0 has entries: some of them, in any order.
      rows.resize(static_cast<std::size_t>(copy.extents[0]));
      std::iota(rows.begin(), rows.end(), 0);
      std::shuffle(rows.begin(), rows.end(), random);
      for (std::int64_t& row : rows) {
        if (pick(4) == 0) row = -1;
      }
    }
    if (pick(3) == 0) {
      copy.bounded_begin = static_cast<int>(pick(static_cast<std::uint64_t>(copy.rank)));
      copy.bounded_end =
          copy.bounded_begin + 1 +
          static_cast<int>(pick(static_cast<std::uint64_t>(copy.rank - copy.bounded_begin)));
      std::int64_t most = 1;
      for (int d = copy.bounded_begin; d < copy.bounded_end; ++d)
        most *= copy.extents[static_cast<std::size_t>(d)];
      bound = static_cast<std::int64_t>(pick(static_cast<std::uint64_t>(most) + 2));
      is_bounded = true;
    }
    from.resize(static_cast<std::size_t>(from_elements * size_of(copy.from_type)));
    for (unsigned char& byte : from) byte = static_cast<unsigned char>(pick(256));
    // Values that a narrower type holds, NaN among them: bits of NaN are a device's own.
    if (!integers) {
      for (std::int64_t i = 0; i < from_elements; ++i) {
        const auto value = static_cast<float>(static_cast<double>(pick(2001)) / 97.0 - 10.0);
        StridedCopy one;
        one.from = &value;
        one.to = from.data() + i * size_of(copy.from_type);
        one.to_type = copy.from_type;
        one.rank = 1;
        one.extents[0] = 1;
        copy_on_host(one);
      }
    }
    to.assign(static_cast<std::size_t>(to_elements * size_of(copy.to_type)), kPoison);
  }

  std::uint64_t pick(std::uint64_t count) { return random() % count; }
  /// Strides of a random order of memory with random gaps; the elements that spans.
  std::int64_t lay(StridedCopy::Extents& strides) {
    std::vector<std::size_t> order(static_cast<std::size_t>(copy.rank));
    std::iota(order.begin(), order.end(), 0);
    if (pick(2) == 0) {
      std::reverse(order.begin(), order.end());
    } else {
      std::shuffle(order.begin(), order.end(), random);
    }
    std::int64_t span = 1;
    for (const std::size_t d : order) {
      strides[d] = span + static_cast<std::int64_t>(pick(3) == 0 ? pick(5) : 0);
      span = strides[d] * copy.extents[d];
    }
    return span;
  }
  std::string text() const {
    std::string text = short_name(copy.from_type) + " -> " + short_name(copy.to_type) + ", extents";
    for (int d = 0; d < copy.rank; ++d) {
      const auto i = static_cast<std::size_t>(d);
      text += " " + std::to_string(copy.extents[i]) + " (" + std::to_string(copy.from_strides[i]) +
              ", " + std::to_string(copy.to_strides[i]) + ")";
    }
    if (!rows.empty()) text += ", rows";
    if (is_bounded) {
      text += ", " + std::to_string(bound) + " of dimensions " +
              std::to_string(copy.bounded_begin) + " to " + std::to_string(copy.bounded_end);
    }
    return text;
  }

  std::mt19937_64 random;
  StridedCopy copy;
  std::vector<unsigned char> from, to;
  std::vector<std::int64_t> rows;
  std::int64_t bound = 0;
  bool is_bounded = false;
};

std::vector<unsigned char> copied_on(Device& device, RandomCopy random) {
  const auto upload = [&](const auto& values) {
    const auto bytes = static_cast<std::int64_t>(
        values.size() * sizeof(typename std::decay_t<decltype(values)>::value_type));
    DeviceBuffer buffer = device.allocate(bytes);
    if (bytes > 0) device.upload(buffer.data(), values.data(), bytes);
    return buffer;
  };
  const DeviceBuffer from = upload(random.from), to = upload(random.to), rows = upload(random.rows),
                     bound = upload(std::vector<std::int64_t>{random.bound});
  StridedCopy copy = random.copy;
  copy.from = from.data();
  copy.to = to.data();
  if (!random.rows.empty()) copy.rows = rows.as<std::int64_t>();
  if (random.is_bounded) copy.bound = bound.as<std::int64_t>();
  device.enqueue_copies(std::vector<StridedCopy>{copy}, device.native_stream());
  device.download(random.to.data(), to.data(), static_cast<std::int64_t>(random.to.size()));
  return random.to;
}

/// Element by element, in the order of the array that is written.
std::vector<unsigned char> by_definition(const RandomCopy& random) {
  std::vector<unsigned char> to = random.to;
  const StridedCopy& copy = random.copy;
  for (std::int64_t i = 0; i < copy.elements(); ++i) {
    std::int64_t rest = i, from = 0, at = 0, counted = 0, weight = 1;
    bool is_copied = true;
    for (int d = copy.rank - 1; d >= 0; --d) {
      const auto k = static_cast<std::size_t>(d);
      std::int64_t place = rest % copy.extents[k];
      rest /= copy.extents[k];
      if (d >= copy.bounded_begin && d < copy.bounded_end) {
        counted += place * weight;
        weight *= copy.extents[k];
      }
      if (d == 0 && !random.rows.empty()) {
        place = random.rows[static_cast<std::size_t>(place)];
        is_copied = place >= 0;
      }
      from += place * copy.from_strides[k];
      at += place * copy.to_strides[k];
    }
    if (!is_copied || (random.is_bounded && counted >= random.bound)) continue;
    StridedCopy one;
    one.from = random.from.data() + from * size_of(copy.from_type);
    one.to = to.data() + at * size_of(copy.to_type);
    one.from_type = copy.from_type;
    one.to_type = copy.to_type;
    one.rank = 1;
    one.extents[0] = 1;
    copy_on_host(one);
  }
  return to;
}

class StridedCopies : public testing::TestWithParam<const char*> {};

TEST_P(StridedCopies, AreTheirDefinitionElementByElementAndWriteNothingElse) {
  std::unique_ptr<Device> device;
  try {
    device = open_device(GetParam());
  } catch (const std::exception& error) {
    GTEST_SKIP() << error.what();
  }
  constexpr std::uint64_t kFirstSeed = 2026;
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + 150; ++seed) {
    const RandomCopy random(seed);
    ASSERT_EQ(copied_on(*device, random), by_definition(random))
        << "seed " << seed << ": " << random.text();
  }
}

TEST_P(StridedCopies, SeveralAtOnceAreEachTheirOwn) {
  std::unique_ptr<Device> device;
  try {
    device = open_device(GetParam());
  } catch (const std::exception& error) {
    GTEST_SKIP() << error.what();
  }
  // More than a launch takes, of different sizes, each with its own values.
  std::vector<std::vector<float>> sources;
  std::vector<DeviceBuffer> from, to;
  std::vector<StridedCopy> copies;
  for (int i = 0; i < 25; ++i) {
    sources.emplace_back(static_cast<std::size_t>(1 + 70 * i), static_cast<float>(i));
    const auto count = static_cast<std::int64_t>(sources.back().size());
    from.push_back(device->allocate(4 * count));
    to.push_back(device->allocate(2 * count));
    device->upload(from.back().data(), sources.back().data(), 4 * count);
    StridedCopy copy;
    copy.from = from.back().data();
    copy.to = to.back().data();
    copy.to_type = StorageType::bfloat16;
    copy.rank = 1;
    copy.extents[0] = count;
    copy.from_strides[0] = copy.to_strides[0] = 1;
    copies.push_back(copy);
  }
  device->enqueue_copies(copies, device->native_stream());
  for (std::size_t i = 0; i < copies.size(); ++i) {
    std::vector<std::uint16_t> raw(sources[i].size());
    device->download(raw.data(), to[i].data(), static_cast<std::int64_t>(2 * raw.size()));
    std::vector<float> values(raw.size());
    decode(DType::bfloat16, raw.data(), values.data(), static_cast<std::int64_t>(raw.size()));
    EXPECT_EQ(values, sources[i]) << "copy " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, StridedCopies,
                         testing::Values("cpu", "cuda-emulated", "gfx906-emulator", "cuda"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace gdn
