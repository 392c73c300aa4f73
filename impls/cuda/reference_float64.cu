#include <cuda_runtime.h>

#include <algorithm>

#include "cuda/check.h"
#include "cuda/element.cuh"
#include "cuda/launch_plan.h"
#include "cuda/reference_float64.h"
#include "interface/honoured_fields.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/gated_delta_layer.h"

namespace gdn::cuda {
namespace {

constexpr int kColumns = 32;  // of one head, per block
constexpr int kLanes = 8;     // per column: rows lane, lane + 8, ...
constexpr int kThreads = kColumns * kLanes;
constexpr unsigned int kAllLanes = 0xffffffffu;

/// q, k and v in the precision the caller has them in; strides in elements.
template <typename Element>
struct Operands {
  const Element* query;
  const Element* key;
  const Element* value;
  std::int64_t query_token_stride;
  std::int64_t key_token_stride;
  std::int64_t value_token_stride;
  const double* log_decay;
  const double* beta;
  IndexArray sequence_offsets;
  IndexArray slot_index;       // null: identity
  const float* initial_state;  // the case's pool; null: zeros
  std::int64_t pool_row_stride;
  bool value_rows;  // state layout vk
  double* output;   // [T, Hv, Dv]
  double* states;   // [N, Hv, Dk, Dv]; [N, Hv, Dv, Dk] with value_rows
  int Hv, value_heads_per_key_head, Dk, Dv;
  double scale;
  bool normalize;
};

__device__ double wide(double x) { return x; }
template <typename Element>
__device__ double wide(Element x) {
  return static_cast<double>(to_float(x));
}

__device__ double lanes_sum(double x) {
  for (int offset = kLanes / 2; offset > 0; offset /= 2) {
    x += __shfl_xor_sync(kAllLanes, x, offset);
  }
  return x;
}

/// Block b: columns [32 * (b % tiles), ...) of value head (b / tiles) % Hv of sequence b / tiles /
/// Hv. The state lives in the result array itself; every element belongs to one thread throughout.
template <typename Element>
__global__ void __launch_bounds__(kThreads, 2) float64_kernel(const Operands<Element> p) {
  const int tiles = (p.Dv + kColumns - 1) / kColumns;
  const int head = static_cast<int>(blockIdx.x / tiles % p.Hv);
  const std::int64_t sequence = blockIdx.x / tiles / p.Hv;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int v =
      static_cast<int>(blockIdx.x % tiles) * kColumns + static_cast<int>(threadIdx.x) / kLanes;
  const bool owns = v < p.Dv;  // the others take part in the shuffles
  const std::int64_t begin = p.sequence_offsets[sequence];
  const std::int64_t end = p.sequence_offsets[sequence + 1];
  const std::int64_t row = p.slot_index ? p.slot_index[sequence] : sequence;
  if (row < 0) {
    for (std::int64_t t = begin + lane; owns && t < end; t += kLanes) {
      p.output[(t * p.Hv + head) * p.Dv + v] = 0;
    }
    return;
  }

  // Column v of the state: its first element, and from one key channel to the next.
  const std::int64_t first = p.value_rows ? static_cast<std::int64_t>(v) * p.Dk : v;
  const int step = p.value_rows ? 1 : p.Dv;
  double* const state =
      p.states + (sequence * p.Hv + head) * p.Dk * static_cast<std::int64_t>(p.Dv) + first;
  const auto element = [&](int k) -> double& { return state[static_cast<std::int64_t>(k) * step]; };
  const std::int64_t initial =
      row * p.pool_row_stride + static_cast<std::int64_t>(head) * p.Dk * p.Dv + first;
  for (int k = lane; owns && k < p.Dk; k += kLanes) {
    element(k) =
        p.initial_state != nullptr
            ? static_cast<double>(p.initial_state[initial + static_cast<std::int64_t>(k) * step])
            : 0.0;
  }

  const std::int64_t key_offset =
      static_cast<std::int64_t>(head / p.value_heads_per_key_head) * p.Dk;
  for (std::int64_t t = begin; t < end; ++t) {
    const Element* const query = p.query + t * p.query_token_stride + key_offset;
    const Element* const key = p.key + t * p.key_token_stride + key_offset;
    double query_length = 1;
    double key_length = 1;
    if (p.normalize) {
      double query_squares = 0;
      double key_squares = 0;
      for (int k = lane; k < p.Dk; k += kLanes) {
        query_squares += wide(query[k]) * wide(query[k]);
        key_squares += wide(key[k]) * wide(key[k]);
      }
      query_length = sqrt(lanes_sum(query_squares) + 1e-6);
      key_length = sqrt(lanes_sum(key_squares) + 1e-6);
    }
    const double decay = exp(p.log_decay[t * p.Hv + head]);
    const double beta = p.beta[t * p.Hv + head];
    double predicted = 0;
    for (int k = lane; owns && k < p.Dk; k += kLanes) {
      const double s = element(k) * decay;
      element(k) = s;
      predicted += s * (wide(key[k]) / key_length);
    }
    predicted = lanes_sum(predicted);
    double output = 0;
    if (owns) {
      const double value =
          wide(p.value[t * p.value_token_stride + static_cast<std::int64_t>(head) * p.Dv + v]);
      for (int k = lane; k < p.Dk; k += kLanes) {
        const double s = element(k) + beta * (wide(key[k]) / key_length) * (value - predicted);
        element(k) = s;
        output += s * (wide(query[k]) / query_length);
      }
    }
    output = lanes_sum(output);
    if (owns && lane == 0) p.output[(t * p.Hv + head) * p.Dv + v] = p.scale * output;
  }
}

template <typename T>
DeviceBuffer upload(Device& device, const std::vector<T>& values) {
  const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
  DeviceBuffer buffer = device.allocate(bytes);
  device.upload(buffer.data(), values.data(), bytes);
  return buffer;
}

std::vector<double> download(Device& device, const DeviceBuffer& buffer, std::int64_t count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  device.download(values.data(), buffer.data(), count * static_cast<std::int64_t>(sizeof(double)));
  return values;
}

void require_count(const char* name, std::size_t actual, std::int64_t expected) {
  if (actual != static_cast<std::size_t>(expected)) {
    throw_bad_input(std::string(name) + ": holds " + std::to_string(actual) + " values, expected " +
                    std::to_string(expected));
  }
}

/// Fills in the problem's sizes and enqueues.
template <typename Element>
void launch(const Problem& problem, Operands<Element> p, Device& device) {
  p.pool_row_stride = problem.state_row_stride();
  p.value_rows = problem.state_layout == StateLayout::vk;
  p.Hv = static_cast<int>(problem.num_value_heads);
  p.value_heads_per_key_head = static_cast<int>(problem.value_heads_per_key_head());
  p.Dk = static_cast<int>(problem.key_head_dim);
  p.Dv = static_cast<int>(problem.value_head_dim);
  p.scale = problem.effective_scale();
  p.normalize = problem.normalize_qk || problem.operation == gated_delta_layer_operation();
  const std::int64_t tiles = (problem.value_head_dim + kColumns - 1) / kColumns;
  const unsigned int blocks =
      grid_blocks(problem.num_sequences() * problem.num_value_heads * tiles, "float64 reference");
  if (blocks == 0) return;
  GDN_CUDA_CHECK(cudaSetDevice(device_index(device)));
  float64_kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(device.native_stream())>>>(p);
  GDN_CUDA_CHECK(cudaGetLastError());
}

/// Uploads what does not depend on the element type, runs, and reads back.
template <typename Element>
Arrays<double> run(const Case& inputs, const std::vector<double>& log_decay,
                   const std::vector<double>& beta, Operands<Element> p, Device& device) {
  const Problem& problem = inputs.problem;
  const std::int64_t state_size = problem.key_head_dim * problem.value_head_dim;
  const std::int64_t output_count =
      problem.total_tokens() * problem.num_value_heads * problem.value_head_dim;
  const std::int64_t state_count = problem.num_sequences() * problem.num_value_heads * state_size;
  const DeviceBuffer decays = upload(device, log_decay);
  const DeviceBuffer betas = upload(device, beta);
  const DeviceBuffer offsets = upload(device, inputs.sequence_offsets);
  const DeviceBuffer slots = upload(device, inputs.slot_index);
  const bool reads_pool = problem.initial_state != InitialState::absent;
  const std::vector<float>& states_before = inputs["initial_state"];
  const DeviceBuffer pool = upload(device, reads_pool ? states_before : std::vector<float>());
  const DeviceBuffer output = device.allocate(output_count * 8);
  const DeviceBuffer states = device.allocate(state_count * 8);
  device.fill_async(output.data(), 0xff, output.bytes());
  device.fill_async(states.data(), 0xff, states.bytes());

  p.log_decay = decays.as<double>();
  p.beta = betas.as<double>();
  p.sequence_offsets = offsets.as<std::int64_t>();
  p.slot_index = inputs.slot_index.empty() ? nullptr : slots.as<std::int64_t>();
  p.initial_state = reads_pool ? pool.as<float>() : nullptr;
  p.output = output.as<double>();
  p.states = states.as<double>();
  launch(problem, p, device);

  Arrays<double> result;
  result["output"] = download(device, output, output_count);
  std::vector<double>& pool_after = result["final_state"];
  pool_after.assign(states_before.begin(), states_before.end());
  if (!problem.final_state) return result;
  const std::vector<double> final_states = download(device, states, state_count);
  for (std::int64_t n = 0; n < problem.num_sequences(); ++n) {
    const std::int64_t row = inputs.output_slot(n);
    if (row < 0 || inputs.length(n) == 0) continue;  // these leave the pool as it is
    for (std::int64_t head = 0; head < problem.num_value_heads; ++head) {
      const double* from = &final_states[static_cast<std::size_t>(
          (n * problem.num_value_heads + head) * state_size)];
      double* to = &pool_after[static_cast<std::size_t>(row * problem.state_row_stride() +
                                                        head * state_size)];
      std::copy(from, from + state_size, to);
    }
  }
  return result;
}

__global__ void widen_kernel(const NumberArray from, double* to, std::int64_t count,
                             std::int64_t width) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) to[i] = load_number(from, i / width, static_cast<int>(i % width));
}

// Dense, of tokens of `width` elements.
DeviceBuffer widened(const NumberArray& from, std::int64_t tokens, std::int64_t width,
                     Device& device) {
  const std::int64_t count = tokens * width;
  DeviceBuffer result = device.allocate(count * 8);
  if (count == 0) return result;
  GDN_CUDA_CHECK(cudaSetDevice(device_index(device)));
  widen_kernel<<<grid_blocks((count + kThreads - 1) / kThreads, "float64 reference"), kThreads, 0,
                 static_cast<cudaStream_t>(device.native_stream())>>>(from, result.as<double>(),
                                                                      count, width);
  GDN_CUDA_CHECK(cudaGetLastError());
  return result;
}

/// `output` and `final_states` null where nobody asks for them.
template <typename Element>
void run_on_device(const Problem& problem, const GatedDeltaArguments& arguments, double* output,
                   double* final_states, Device& device) {
  const std::int64_t tokens = problem.total_tokens();
  const std::int64_t heads = problem.num_value_heads;
  const DeviceBuffer decays = widened(arguments.gate, tokens, heads, device);
  const DeviceBuffer betas = widened(arguments.beta, tokens, heads, device);
  DeviceBuffer own_output;
  DeviceBuffer own_states;
  if (output == nullptr) own_output = device.allocate(tokens * heads * problem.value_head_dim * 8);
  if (final_states == nullptr) {
    own_states = device.allocate(problem.num_sequences() * problem.state_row_stride() * 8);
  }
  Operands<Element> p{};
  p.query = static_cast<const Element*>(arguments.query);
  p.key = static_cast<const Element*>(arguments.key);
  p.value = static_cast<const Element*>(arguments.value);
  p.query_token_stride = arguments.query_token_stride;
  p.key_token_stride = arguments.key_token_stride;
  p.value_token_stride = arguments.value_token_stride;
  p.log_decay = decays.as<double>();
  p.beta = betas.as<double>();
  p.sequence_offsets = arguments.sequence_offsets;
  p.initial_state = problem.initial_state != InitialState::absent
                        ? static_cast<const float*>(arguments.state_pool)
                        : nullptr;
  p.output = output == nullptr ? own_output.as<double>() : output;
  p.states = final_states == nullptr ? own_states.as<double>() : final_states;
  launch(problem, p, device);
  GDN_CUDA_CHECK(cudaStreamSynchronize(static_cast<cudaStream_t>(device.native_stream())));
}

}  // namespace

void evaluate_gated_delta_float64_on_device(const Problem& problem, const Arguments& arguments,
                                            Device& device) {
  if (problem.operation != gated_delta_operation()) {
    throw Error(ErrorKind::unsupported,
                "float64 reference on device arrays: does gated_delta, not " +
                    to_string(problem.operation));
  }
  // Outputs are float64 whatever `out` says.
  const std::string field = first_not_honoured(
      problem, {"out", "layout", "h0", "ht", "pool_pad", "pool_rows", "norm", "scale"});
  if (!field.empty()) {
    throw Error(ErrorKind::unsupported,
                "float64 reference on device arrays: does not honour " + field);
  }
  auto* const output = static_cast<double*>(arguments.output("output"));
  auto* const final_states = static_cast<double*>(arguments.output("initial_state"));
  // The same problem without its outputs, whose arrays are of another type here.
  Problem only_reads = problem;
  only_reads.final_state = false;
  Arguments inputs = arguments;
  inputs.set_input("initial_state", arguments.input("initial_state"));
  inputs.set_output("output", output == nullptr ? final_states : output);
  const GatedDeltaArguments given = gated_delta_arguments(only_reads, inputs);
  switch (problem.token_dtype) {
    case DType::bfloat16:
      return run_on_device<__nv_bfloat16>(problem, given, output, final_states, device);
    case DType::float16:
      return run_on_device<__half>(problem, given, output, final_states, device);
    case DType::float32:
      return run_on_device<float>(problem, given, output, final_states, device);
    case DType::int8:  // no token is
      return;
  }
}

Arrays<double> evaluate_gated_delta_float64(const Case& inputs,
                                            const std::vector<double>& log_decay,
                                            const std::vector<double>& beta,
                                            const std::vector<double>& conv_output,
                                            Device& device) {
  validate(inputs);
  const Problem& problem = inputs.problem;
  const std::int64_t tokens = problem.total_tokens();
  require_count("log_decay", log_decay.size(), tokens * problem.num_value_heads);
  require_count("beta", beta.size(), tokens * problem.num_value_heads);
  const std::int64_t key_elements = problem.num_key_heads * problem.key_head_dim;
  const std::int64_t value_elements = problem.num_value_heads * problem.value_head_dim;
  if (problem.operation == gated_delta_operation()) {
    require_count("conv_output", conv_output.size(), 0);
    const DeviceBuffer query = upload(device, inputs["q"]);
    const DeviceBuffer key = upload(device, inputs["k"]);
    const DeviceBuffer value = upload(device, inputs["v"]);
    Operands<float> operands{};
    operands.query = query.as<float>();
    operands.key = key.as<float>();
    operands.value = value.as<float>();
    operands.query_token_stride = key_elements;
    operands.key_token_stride = key_elements;
    operands.value_token_stride = value_elements;
    return run(inputs, log_decay, beta, operands, device);
  }
  if (problem.operation != gated_delta_layer_operation()) {
    throw_bad_input(
        "float64 reference on the device: does gated_delta and gated_delta_layer, not " +
        to_string(problem.operation));
  }
  require_count("conv_output", conv_output.size(), tokens * problem.conv_channels());
  const DeviceBuffer channels = upload(device, conv_output);
  Operands<double> operands{};
  operands.query = channels.as<double>();
  operands.key = operands.query + key_elements;
  operands.value = operands.query + 2 * key_elements;
  operands.query_token_stride = problem.conv_channels();
  operands.key_token_stride = problem.conv_channels();
  operands.value_token_stride = problem.conv_channels();
  return run(inputs, log_decay, beta, operands, device);
}

}  // namespace gdn::cuda
