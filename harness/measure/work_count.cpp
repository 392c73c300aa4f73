#include "harness/measure/work_count.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/operations/active_work.h"
#include "harness/operations/operation_harness.h"
#include "harness/run/memory_needed.h"
#include "interface/error.h"

namespace gdn {
namespace {

// Elements of a pool that a run goes over, which are those of sequences that have a row: with tokens of those it
// reads, with tokens that are carried of those it writes.
double pool_elements(const Operand& operand, const Case& inputs, bool written) {
  const Problem& p = inputs.problem;
  const auto elements_of = written ? operand.pool.elements_written : operand.pool.elements_read;
  double elements = 0;
  for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
    const std::int64_t tokens = written ? inputs.carried_tokens(n) : inputs.length(n);
    if (inputs.slot(n) < 0 || tokens == 0) continue;
    elements += static_cast<double>(elements_of != nullptr ? elements_of(inputs, n)
                                                           : row_elements(operand, p));
  }
  return elements;
}

// Bytes of the part of an operand's array that a run goes over.
double bytes_of(const Operand& operand, const Case& inputs, std::int64_t tokens, bool written) {
  const Problem& p = inputs.problem;
  if (operand.is_index()) {
    return sizeof(std::int64_t) * static_cast<double>(inputs.indices(operand).size());
  }
  const auto element = static_cast<double>(size_of(operand.dtype(p)));
  switch (cut_of(operand, p)) {
    case Cut::tokens:
      return element * static_cast<double>(tokens) *
             static_cast<double>(elements_per_token(operand, p));
    case Cut::pool_rows:
      return element * pool_elements(operand, inputs, written);
    case Cut::sequences:
    case Cut::whole:
      break;
  }
  return element * static_cast<double>(element_count(operand, p));
}

// What cannot have been served by a last-level cache of l2_bytes; none where that size is unknown, as
// in a container without /sys: the cache may have served everything.
double compulsory_bytes(const WorkCount& work, CacheMode mode, const DeviceInfo& device) {
  if (device.l2_bytes <= 0) return 0;
  const double cache = static_cast<double>(device.l2_bytes);
  const double written = std::max(0.0, work.bytes_written - cache);
  // Writing a buffer of its size empties a GPU's L2; a CPU's shared, not strictly LRU cache may
  // keep part of the inputs, so there only what exceeds the cache is certain to come from memory.
  const bool flush_is_certain = mode == CacheMode::cold && device.flush_is_certain;
  const double read = flush_is_certain ? work.bytes_read : std::max(0.0, work.bytes_read - cache);
  return read + written;
}

constexpr double kTera = 1e12;

}  // namespace

template <>
const EnumNames<CacheMode>& names_of() {
  static const EnumNames<CacheMode> names = {{"cold", CacheMode::cold}, {"hot", CacheMode::hot}};
  return names;
}

WorkCount count_work(const Case& inputs, std::int64_t plan_chunk) {
  const Problem& problem = inputs.problem;
  const ActiveWork active = active_work(inputs);
  const FlopCount flops = harness_of(problem.operation).count_flops(inputs, plan_chunk);
  WorkCount work;
  work.tokens = active.tokens;
  work.count_chunk = flops.chunk;
  work.flops_chunkwise = flops.chunkwise;
  work.flops_recurrent = flops.recurrent;
  for (const Operand& operand : problem.operation->operands) {
    if (!is_handed_over(operand, problem)) continue;
    if (operand.is_index() || is_read(operand, problem)) {
      work.bytes_read += bytes_of(operand, inputs, active.tokens, false);
    }
    if (is_written(operand, problem)) {
      work.bytes_written += bytes_of(operand, inputs, active.tokens, true);
    }
  }
  return work;
}

Rates rates(const WorkCount& work, double time_ms, DType token_dtype, CacheMode mode,
            const DeviceInfo& device, const Device::Ceilings& ceilings) {
  if (!(time_ms > 0))
    throw_bad_input(fmt::format("rates: time {} ms, expected more than 0", time_ms));
  const double seconds = time_ms * 1e-3;
  Rates result;
  result.tokens_per_s = static_cast<double>(work.tokens) / seconds;
  result.chunkwise_tflops = work.flops_chunkwise / seconds / kTera;
  result.recurrent_tflops = work.flops_recurrent / seconds / kTera;
  result.tb_per_s = work.bytes_moved() / seconds / kTera;
  const double compute = token_dtype == DType::float32 || !(ceilings.matrix_tflops > 0)
                             ? ceilings.float32_tflops
                             : ceilings.matrix_tflops;
  if (compute > 0) result.fraction_of_compute = result.chunkwise_tflops / compute;
  if (ceilings.copy_tb_per_s > 0) {
    result.fraction_of_bandwidth =
        compulsory_bytes(work, mode, device) / seconds / kTera / ceilings.copy_tb_per_s;
  }
  return result;
}

std::string impossible_figure(const WorkCount& work, double fastest_time_ms, CacheMode mode,
                              const DeviceInfo& device, const Device::Ceilings& ceilings) {
  if (!(fastest_time_ms > 0)) {
    return fmt::format("a sample of {} ms: nothing runs in no time", fastest_time_ms);
  }
  const double tolerance =
      !device.has_own_memory && !device.emulated ? kCpuCeilingTolerance : kCeilingTolerance;
  const double seconds = fastest_time_ms * 1e-3;
  const double tb_per_s = compulsory_bytes(work, mode, device) / seconds / kTera;
  if (ceilings.copy_tb_per_s > 0 && !(tb_per_s <= tolerance * ceilings.copy_tb_per_s)) {
    return fmt::format(
        "{:.3g} TB/s of compulsory traffic in {:.4g} ms ({}), above the copy bandwidth "
        "of {:.3g} TB/s measured on this device",
        tb_per_s, fastest_time_ms, name_of(mode), ceilings.copy_tb_per_s);
  }
  const double compute = std::max(ceilings.matrix_tflops, ceilings.float32_tflops);
  const double tflops = work.flops_recurrent / seconds / kTera;
  if (compute > 0 && !(tflops <= tolerance * compute)) {
    return fmt::format(
        "{:.3g} TFLOP/s (recurrent count) in {:.4g} ms, above the {:.3g} TFLOP/s "
        "measured on this device",
        tflops, fastest_time_ms, compute);
  }
  return "";
}

}  // namespace gdn
