// What verifying a problem costs, in work and in memory: known before anything is generated.
#pragma once

#include <cstdint>
#include <string>

#include "harness/verify/verify_options.h"
#include "interface/device.h"

namespace gdn {

/// How much work it is to verify so many implementations on a problem, in bytes gone over on the
/// host: to share problems out, not to foretell times.
double verification_work(const Problem& problem, const VerifyOptions& options,
                         std::int64_t implementations);

/// Bytes that verifying implementations of such a workspace holds at most, on the host or on the
/// device: the case, its outputs, those of the reference in float64, and what the checks asked for hold
/// beside them: a second run's outputs, other cases.
std::int64_t verification_memory(const Problem& problem, std::int64_t workspace_bytes,
                                 const VerifyOptions& options);

/// Empty, or why a host of so much memory cannot verify the problem: verification_memory, and on a
/// device without memory of its own what the device holds.
std::string exceeds_host_memory(const Problem& problem, const VerifyOptions& options,
                                const DeviceInfo& device, std::int64_t host_memory_bytes);

}  // namespace gdn
