// Host values in float32 to and from device arrays of any element type, block by block on several
// threads, with a fingerprint of what went up.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "interface/device.h"
#include "interface/dtype.h"

namespace gdn {

/// An array on the device in room for more: `count` runs, each of `held` values in room for `room`.
/// What lies behind the values of a run is kUnreadWord, a NaN (harness/run/guarded_device.h).
struct Runs {
  std::int64_t count = 1;
  std::int64_t held = 0;
  std::int64_t room = 0;
};
/// One run, full.
Runs whole_array(std::int64_t count);

/// Encodes and uploads. `fingerprints`, if given, gets one per block of what each block holds.
/// `copying` is held during each copy: a device copies for one thread at a time.
void upload_encoded(Device& device, std::mutex& copying, void* destination, DType dtype,
                    const std::vector<float>& values, const Runs& runs,
                    std::vector<std::uint64_t>* fingerprints);
/// As they are, with the fingerprints of the same blocks.
void upload_indices(Device& device, void* destination, const std::vector<std::int64_t>& values,
                    std::vector<std::uint64_t>* fingerprints);

std::vector<float> download_decoded(Device& device, std::mutex& copying, const void* source,
                                    DType dtype, std::int64_t count);

/// Empty if the `bytes` at `data` still hold what was uploaded, else where they do not.
std::string where_changed(Device& device, const void* data, std::int64_t bytes,
                          const std::vector<std::uint64_t>& fingerprints);

}  // namespace gdn
