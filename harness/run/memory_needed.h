// How much memory a problem takes, on the device and on the host: known from its operands, before a
// byte is generated or allocated.
#pragma once

#include <cstdint>

#include "interface/device.h"
#include "interface/problem.h"

namespace gdn {

/// Whether a run hands the operand to the implementation: not what is made only on request, or from
/// one step of a chain to the next.
bool is_handed_over(const Operand& operand, const Problem& problem);

/// Device bytes of all inputs and outputs of a problem, without guard bands. What is updated in place
/// counts twice: the array in use, and the original it is restored from.
std::int64_t device_bytes_needed(const Problem& problem);

/// Host bytes of a Case of the problem and of its Outputs (float32 throughout).
std::int64_t host_bytes_needed(const Problem& problem);
/// Host bytes of its Outputs alone.
std::int64_t host_bytes_of_outputs(const Problem& problem);
/// Host bytes of its pools (float32).
std::int64_t host_bytes_of_pools(const Problem& problem);

/// Throws Error(out_of_memory), naming the problem, when this machine cannot hold a Case of it:
/// more bytes than it has memory, or than an index counts. Whatever makes or reads a Case asks
/// first: its products of sizes do not wrap then.
void require_host_memory(const Problem& problem);

/// Throws Error(out_of_memory), naming the bytes needed and free, when the case's arrays and the
/// workspace (and, where the device has the host's memory, the Case and its Outputs) do not fit the
/// device. Allocates nothing; ask before generating the inputs.
void require_memory(const Problem& problem, std::int64_t workspace_bytes, const Device& device);
/// The same where the Case is there already.
void require_device_memory(const Problem& problem, std::int64_t workspace_bytes,
                           const Device& device);

/// Whether they are more than the device has in all: then no process can run the problem, whatever
/// is free when it asks.
bool exceeds_memory(const Problem& problem, std::int64_t workspace_bytes, const DeviceInfo& device);

}  // namespace gdn
