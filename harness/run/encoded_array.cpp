#include "harness/run/encoded_array.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "harness/run/guarded_device.h"
#include "interface/fingerprint.h"
#include "reference/parallel.h"

namespace gdn {
namespace {

// Bytes converted and copied at a time: what a core's own cache holds beside the values they are
// made of, so that a block is read again from there.
constexpr std::int64_t kTransferBytes = std::int64_t{1} << 20;

// Calls body(at, n) for every block of `count` elements, on several threads if there are many.
template <typename Body>
void for_blocks(std::int64_t count, std::int64_t block, const Body& body) {
  constexpr std::int64_t kBlocksOfOneThread = 64;
  constexpr int kMostThreads = 8;
  const std::int64_t blocks = (count + block - 1) / block;
  const int threads =
      static_cast<int>(std::clamp<std::int64_t>(blocks / kBlocksOfOneThread, 1, kMostThreads));
  reference::parallel_for(blocks, threads, [&](std::int64_t i) {
    body(i * block, std::min(block, count - i * block));
  });
}

// kUnreadWord over `bytes` bytes, as many as some elements take.
void fill_unread(unsigned char* destination, std::int64_t bytes) {
  for (std::int64_t at = 0; at < bytes; at += static_cast<std::int64_t>(sizeof(kUnreadWord))) {
    std::memcpy(destination + at, &kUnreadWord, sizeof(kUnreadWord));
  }
}

// Elements at .. at + n - 1 of the runs and the NaN behind each.
void encode_part(DType dtype, const float* values, const Runs& runs, std::int64_t at,
                 std::int64_t n, unsigned char* encoded) {
  const std::int64_t width = static_cast<std::int64_t>(size_of(dtype));
  for (const std::int64_t end = at + n; at < end;) {
    const std::int64_t run = at / runs.room;
    const std::int64_t in_run = at % runs.room;
    const bool held = in_run < runs.held;
    const std::int64_t m = std::min(end - at, (held ? runs.held : runs.room) - in_run);
    if (held) {
      encode(dtype, values + run * runs.held + in_run, encoded, m);
    } else {
      fill_unread(encoded, m * width);
    }
    at += m;
    encoded += m * width;
  }
}

}  // namespace

Runs whole_array(std::int64_t count) { return {1, count, count}; }

void upload_encoded(Device& device, std::mutex& copying, void* destination, DType dtype,
                    const std::vector<float>& values, const Runs& runs,
                    std::vector<std::uint64_t>* fingerprints) {
  const std::int64_t width = static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t block = kTransferBytes / width;
  const std::int64_t count = runs.count * runs.room;
  if (fingerprints != nullptr) {
    fingerprints->assign(static_cast<std::size_t>((count + block - 1) / block), 0);
  }
  for_blocks(count, block, [&](std::int64_t at, std::int64_t n) {
    std::vector<unsigned char> encoded(static_cast<std::size_t>(n * width));
    encode_part(dtype, values.data(), runs, at, n, encoded.data());
    if (fingerprints != nullptr) {
      (*fingerprints)[static_cast<std::size_t>(at / block)] =
          fingerprint_of(encoded.data(), n * width, at * width / 8);
    }
    const std::lock_guard lock(copying);
    device.upload(static_cast<char*>(destination) + at * width, encoded.data(), n * width);
  });
}

void upload_indices(Device& device, void* destination, const std::vector<std::int64_t>& values,
                    std::vector<std::uint64_t>* fingerprints) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
  const auto count = static_cast<std::int64_t>(values.size() * sizeof(std::int64_t));
  fingerprints->clear();
  for (std::int64_t at = 0; at < count; at += kTransferBytes) {
    const std::int64_t n = std::min(kTransferBytes, count - at);
    device.upload(static_cast<char*>(destination) + at, bytes + at, n);
    fingerprints->push_back(fingerprint_of(bytes + at, n, at / 8));
  }
}

std::vector<float> download_decoded(Device& device, std::mutex& copying, const void* source,
                                    DType dtype, std::int64_t count) {
  const std::int64_t width = static_cast<std::int64_t>(size_of(dtype));
  std::vector<float> values(static_cast<std::size_t>(count));
  for_blocks(count, kTransferBytes / width, [&](std::int64_t at, std::int64_t n) {
    std::vector<unsigned char> encoded(static_cast<std::size_t>(n * width));
    {
      const std::lock_guard lock(copying);
      device.download(encoded.data(), static_cast<const char*>(source) + at * width, n * width);
    }
    decode(dtype, encoded.data(), values.data() + at, n);
  });
  return values;
}

std::string where_changed(Device& device, const void* data, std::int64_t bytes,
                          const std::vector<std::uint64_t>& fingerprints) {
  const std::uint64_t uploaded =
      std::accumulate(fingerprints.begin(), fingerprints.end(), std::uint64_t{0});
  if (device.fingerprint(data, bytes) == uploaded) return "";
  // Where? Block by block, on the host.
  std::vector<unsigned char> seen(static_cast<std::size_t>(std::min(kTransferBytes, bytes)));
  std::size_t block = 0;
  for (std::int64_t at = 0; at < bytes; at += kTransferBytes, ++block) {
    const std::int64_t n = std::min(kTransferBytes, bytes - at);
    device.download(seen.data(), static_cast<const char*>(data) + at, n);
    if (fingerprint_of(seen.data(), n, at / 8) == fingerprints.at(block)) continue;
    return "within bytes " + std::to_string(at) + ".." + std::to_string(at + n - 1);
  }
  return "somewhere";
}

}  // namespace gdn
