#include "harness/work_count.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "interface/error.h"

namespace gdn {
namespace {

// Sequences that read and write a row of the pool, and their tokens.
struct ActiveWork {
  std::int64_t tokens = 0;
  std::int64_t states = 0;  // of non-empty sequences: an empty one leaves its row alone
};

ActiveWork active_work(const Case& inputs) {
  ActiveWork active;
  const auto& lengths = inputs.problem.sequences.lengths;
  for (std::size_t n = 0; n < lengths.size(); ++n) {
    if (!inputs.slot_index.empty() && inputs.slot_index[n] == -1) continue;
    active.tokens += lengths[n];
    active.states += lengths[n] > 0 ? 1 : 0;
  }
  return active;
}

constexpr double kGateBytes = 4;   // gates, betas, A_log, dt_bias stay float32
constexpr double kIndexBytes = 8;  // sequence_offsets, slot_index

double index_bytes(const Case& inputs) {
  return kIndexBytes *
         static_cast<double>(inputs.sequence_offsets.size() + inputs.slot_index.size());
}

// Gates, betas, the recurrent state and the output: shared by gated_delta and the layer.
void add_recurrence(const Case& inputs, const ActiveWork& active, std::int64_t plan_chunk,
                    WorkCount& work) {
  const Problem& problem = inputs.problem;
  const double tokens = static_cast<double>(active.tokens);
  const double value_heads = static_cast<double>(problem.num_value_heads);
  const double key_dim = static_cast<double>(problem.key_head_dim);
  const double value_dim = static_cast<double>(problem.value_head_dim);

  work.count_chunk = plan_chunk > 0 ? plan_chunk : kNominalChunk;
  const double chunk = static_cast<double>(work.count_chunk);
  const double steps = static_cast<double>(problem.steps);
  // Of the steps, those whose key meets the state and the other keys: none without the delta term.
  const double corrected = problem.update == UpdateRule::delta ? steps : 0;
  work.flops_recurrent +=
      tokens * value_heads * (3 + 2 * steps + 2 * corrected) * key_dim * value_dim;
  work.flops_chunkwise += tokens * value_heads * 2 *
                          ((1 + steps + corrected) * key_dim * value_dim +
                           (1 + corrected) * chunk * (key_dim + value_dim));

  const double gates = static_cast<double>(problem.gates_per_token());
  const double betas = static_cast<double>(problem.betas_per_token());
  work.bytes_read += tokens * (gates + betas) * kGateBytes;
  if (problem.gate_encoding == GateEncoding::logits) {
    work.bytes_read += (value_heads + gates) * kGateBytes;  // A_log, dt_bias
  }
  const double state_bytes = static_cast<double>(active.states) * value_heads * key_dim *
                             value_dim * static_cast<double>(size_of(problem.state_dtype));
  if (problem.initial_state != InitialState::absent) work.bytes_read += state_bytes;
  if (problem.final_state) work.bytes_written += state_bytes;
  work.bytes_written += tokens * value_heads * value_dim *
                        static_cast<double>(size_of(problem.effective_output_dtype()));
}

void add_convolution(const Case& inputs, const ActiveWork& active, bool writes_output,
                     WorkCount& work) {
  const Problem& problem = inputs.problem;
  const double elements =
      static_cast<double>(active.tokens) * static_cast<double>(problem.conv_channels());
  const double channels = static_cast<double>(problem.conv_channels());
  const double width = static_cast<double>(problem.conv_width);
  const double token_bytes = static_cast<double>(size_of(problem.token_dtype));

  const double flops = elements * (2 * width + (problem.conv_bias ? 1 : 0));
  work.flops_recurrent += flops;
  work.flops_chunkwise += flops;
  work.bytes_read += elements * token_bytes + channels * width * token_bytes +
                     (problem.conv_bias ? channels * token_bytes : 0);
  const double window_bytes = static_cast<double>(active.states) * channels * (width - 1) *
                              static_cast<double>(size_of(problem.state_dtype));
  work.bytes_read += window_bytes;
  work.bytes_written += window_bytes;
  if (writes_output) work.bytes_written += elements * token_bytes;
}

// What cannot have been served by a last-level cache of l2_bytes.
double compulsory_bytes(const WorkCount& work, CacheMode mode, const DeviceInfo& device) {
  const double cache = static_cast<double>(device.l2_bytes);
  const double written = std::max(0.0, work.bytes_written - cache);
  // Writing a buffer of its size empties a GPU's L2; a CPU's shared, not strictly LRU cache may
  // keep part of the inputs, so there only what exceeds the cache is certain to come from memory.
  const bool flush_is_certain = mode == CacheMode::cold && device.backend != "cpu";
  const double read = flush_is_certain ? work.bytes_read : std::max(0.0, work.bytes_read - cache);
  return read + written;
}

constexpr double kTera = 1e12;

}  // namespace

WorkCount count_work(const Case& inputs, std::int64_t plan_chunk) {
  const Problem& problem = inputs.problem;
  const ActiveWork active = active_work(inputs);
  WorkCount work;
  work.tokens = active.tokens;
  work.bytes_read = index_bytes(inputs);
  switch (problem.operation) {
    case Operation::gated_delta: {
      const double queries = static_cast<double>(problem.num_key_heads * problem.key_head_dim);
      const double keys = static_cast<double>(problem.keys_per_token());
      const double values = static_cast<double>(problem.values_per_token());
      work.bytes_read += static_cast<double>(active.tokens) * (queries + keys + values) *
                         static_cast<double>(size_of(problem.token_dtype));
      add_recurrence(inputs, active, plan_chunk, work);
      break;
    }
    case Operation::causal_conv1d:
      add_convolution(inputs, active, true, work);
      break;
    case Operation::gated_delta_layer:
      add_convolution(inputs, active, false, work);
      add_recurrence(inputs, active, plan_chunk, work);
      break;
  }
  return work;
}

std::string chunkwise_count_name(std::int64_t count_chunk) {
  if (count_chunk == 0) return "2 width (+ 1 with a bias) per token and channel";
  return fmt::format("{}, C = {}", kChunkwiseCount, count_chunk);
}

std::string to_string(CacheMode mode) { return mode == CacheMode::cold ? "cold" : "hot"; }

CacheMode parse_cache_mode(const std::string& text) {
  if (text == "cold") return CacheMode::cold;
  if (text == "hot") return CacheMode::hot;
  throw_bad_input("cache mode '" + text + "': expected cold or hot");
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
  const double tolerance = device.backend == "cpu" ? kCpuCeilingTolerance : kCeilingTolerance;
  const double seconds = fastest_time_ms * 1e-3;
  const double tb_per_s = compulsory_bytes(work, mode, device) / seconds / kTera;
  if (ceilings.copy_tb_per_s > 0 && !(tb_per_s <= tolerance * ceilings.copy_tb_per_s)) {
    return fmt::format(
        "{:.3g} TB/s of compulsory traffic in {:.4g} ms ({}), above the copy bandwidth "
        "of {:.3g} TB/s measured on this device",
        tb_per_s, fastest_time_ms, to_string(mode), ceilings.copy_tb_per_s);
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
