#include "harness/run/memory_needed.h"

#include <limits>
#include <string>

#include "harness/run/host_memory.h"
#include "interface/error.h"

namespace gdn {
namespace {

std::int64_t saturated(long double value) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return value >= static_cast<long double>(kMost) ? kMost : static_cast<std::int64_t>(value);
}

// Copies of an operand's array on the device.
long double device_copies(const Operand& operand, const Problem& problem) {
  if (operand.role != Role::in_place) return 1;
  const bool apart = operand.pool.out_of_place != nullptr && operand.pool.out_of_place(problem);
  return apart ? 3 : 2;
}

// Sum of count(operand) over the operands that a run hands over.
template <typename Count>
long double sum_of_operands(const Problem& problem, const Count& count) {
  long double sum = 0;
  for (const Operand& operand : problem.operation->operands) {
    if (is_handed_over(operand, problem)) sum += count(operand);
  }
  return sum;
}

long double host_bytes_of_inputs(const Problem& problem) {
  return sum_of_operands(problem, [&](const Operand& operand) -> long double {
    const bool counts = operand.role != Role::output && !operand.is_index();
    return counts ? 4 * element_count(operand, problem) : 0;
  });
}

long double outputs_on_host(const Problem& problem) {
  return sum_of_operands(problem, [&](const Operand& operand) -> long double {
    return operand.is_output() ? 4 * element_count(operand, problem) : 0;
  });
}

struct MemoryNeeded {
  std::int64_t arrays;
  std::int64_t workspace;
  std::int64_t host;  // the Case and its Outputs, where they share the device's memory

  long double total() const {
    return static_cast<long double>(arrays) + static_cast<long double>(workspace) +
           static_cast<long double>(host);
  }
};

// Of a case yet to be generated.
MemoryNeeded memory_needed(const Problem& problem, std::int64_t workspace_bytes,
                           const DeviceInfo& device) {
  const bool shares = !device.has_own_memory && !device.emulated;
  return {device_bytes_needed(problem), workspace_bytes, shares ? host_bytes_needed(problem) : 0};
}

void require_free(const Problem& problem, const MemoryNeeded& needed, const Device& device) {
  const std::int64_t available = device.free_memory_bytes();
  if (needed.total() <= static_cast<long double>(available)) return;
  throw Error(ErrorKind::out_of_memory,
              problem.to_string() + ": needs " + in_gib(static_cast<double>(needed.total())) +
                  " on " + device.info().name + " (" + std::to_string(needed.arrays) +
                  " bytes of inputs and outputs, " + std::to_string(needed.workspace) +
                  " of workspace, " + std::to_string(needed.host) + " on the host's side), " +
                  in_gib(static_cast<double>(available)) + " are free");
}

}  // namespace

bool is_handed_over(const Operand& operand, const Problem& problem) {
  return is_present(operand, problem) && !operand.hand_over.on_request &&
         !operand.hand_over.between_steps;
}

std::int64_t device_bytes_needed(const Problem& problem) {
  return saturated(sum_of_operands(problem, [&](const Operand& operand) -> long double {
    const auto bytes = operand.is_index() ? sizeof(std::int64_t) : size_of(operand.dtype(problem));
    return device_copies(operand, problem) * static_cast<long double>(bytes) *
           element_count(operand, problem);
  }));
}

std::int64_t host_bytes_needed(const Problem& problem) {
  return saturated(host_bytes_of_inputs(problem) + outputs_on_host(problem));
}

std::int64_t host_bytes_of_outputs(const Problem& problem) {
  return saturated(outputs_on_host(problem));
}

std::int64_t host_bytes_of_pools(const Problem& problem) {
  return saturated(sum_of_operands(problem, [&](const Operand& operand) -> long double {
    const bool pool = operand.is_output() && cut_of(operand, problem) == Cut::pool_rows;
    return pool ? 4 * element_count(operand, problem) : 0;
  }));
}

void require_host_memory(const Problem& problem) {
  const std::string why = exceeds_host(host_bytes_of_inputs(problem));
  if (why.empty()) return;
  throw Error(ErrorKind::out_of_memory, problem.to_string() + ": its inputs take " + why);
}

void require_memory(const Problem& problem, std::int64_t workspace_bytes, const Device& device) {
  require_free(problem, memory_needed(problem, workspace_bytes, device.info()), device);
}

void require_device_memory(const Problem& problem, std::int64_t workspace_bytes,
                           const Device& device) {
  require_free(problem, {device_bytes_needed(problem), workspace_bytes, 0}, device);
}

bool exceeds_memory(const Problem& problem, std::int64_t workspace_bytes,
                    const DeviceInfo& device) {
  return memory_needed(problem, workspace_bytes, device).total() >
         static_cast<long double>(device.memory_bytes);
}

}  // namespace gdn
