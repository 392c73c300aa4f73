#include "harness/execute.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <mutex>
#include <numeric>
#include <utility>

#include "harness/guarded_device.h"
#include "interface/error.h"
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

std::int64_t saturated(long double value) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return value >= static_cast<long double>(kMost) ? kMost : static_cast<std::int64_t>(value);
}

// Element counts of a problem's arrays, in a type that no valid problem overflows.
struct ElementCounts {
  long double query_and_key = 0, value = 0, gates = 0, state_pool = 0, qkv = 0, conv_weights = 0,
              conv_state = 0, output = 0, conv_output = 0;

  long double inputs() const {
    return query_and_key + value + gates + state_pool + qkv + conv_weights + conv_state;
  }
};

ElementCounts element_counts(const Problem& p) {
  ElementCounts n;
  const long double tokens = static_cast<long double>(p.total_tokens());
  const long double rows = static_cast<long double>(p.num_pool_rows());
  const long double channels = static_cast<long double>(p.conv_channels());
  if (p.operation == Operation::gated_delta) {
    n.query_and_key = tokens * (static_cast<long double>(p.num_key_heads * p.key_head_dim) +
                                static_cast<long double>(p.keys_per_token()));
    n.value = tokens * static_cast<long double>(p.values_per_token());
  } else {
    n.qkv = tokens * channels;
    n.conv_weights = channels * static_cast<long double>(p.conv_width + (p.conv_bias ? 1 : 0));
    n.conv_state = rows * channels * static_cast<long double>(p.conv_width - 1);
  }
  if (p.operation == Operation::causal_conv1d) {
    n.conv_output = n.qkv;
  } else {
    n.gates = tokens * static_cast<long double>(p.gates_per_token() + p.betas_per_token());
    // Not state_row_stride(), which wraps: a padding is as large as an int64 may be.
    n.state_pool = rows * (static_cast<long double>(p.num_value_heads) *
                               static_cast<long double>(p.key_head_dim * p.value_head_dim) +
                           static_cast<long double>(p.pool_row_padding));
    n.output = tokens * static_cast<long double>(p.num_value_heads * p.value_head_dim);
  }
  return n;
}

// Where the tokens of an array lie in room for more: [capacity, width], or [width, capacity] if
// tokens are fastest. What lies behind the tokens is NaN.
struct TokenRoom {
  std::int64_t tokens = 0;
  std::int64_t capacity = 0;
  bool by_time = false;

  // The array is this many runs of values, each `held` long in room for `room`.
  struct Runs {
    std::int64_t count = 1;
    std::int64_t held = 0;
    std::int64_t room = 0;
  };
  Runs runs(std::int64_t width) const {
    return by_time ? Runs{width, tokens, capacity} : Runs{1, tokens * width, capacity * width};
  }
};

// The array without the room behind its tokens; throws if anything there is not the NaN it was
// filled with.
void remove_rest(const char* name, const TokenRoom& room, std::vector<float>& values) {
  if (values.empty() || room.tokens == room.capacity) return;
  const std::int64_t width = static_cast<std::int64_t>(values.size()) / room.capacity;
  const TokenRoom::Runs runs = room.runs(width);
  for (std::int64_t run = 0; run < runs.count; ++run) {
    const auto begin = values.begin() + run * runs.room;
    const auto written = std::find_if(begin + runs.held, begin + runs.room,
                                      [](float value) { return !std::isnan(value); });
    if (written != begin + runs.room) {
      const std::int64_t token = (written - begin) / (room.by_time ? 1 : width);
      throw Error(ErrorKind::device_failure, std::string(name) + ": token " +
                                                 std::to_string(token) + " was written, past the " +
                                                 std::to_string(room.tokens) + " of the sequences");
    }
    if (run > 0) std::copy(begin, begin + runs.held, values.begin() + run * runs.held);
  }
  values.resize(static_cast<std::size_t>(runs.count * runs.held));
}

}  // namespace

// ---- the case on the device

struct DeviceCase::State {
  enum class Role { input, output, in_place };
  struct Buffer {
    std::string name;
    Role role = Role::input;
    DType dtype = DType::float32;
    std::int64_t count = 0;
    GuardedBuffer memory;
    DeviceBuffer original;                    // in_place: what reset_async() restores
    std::vector<std::uint64_t> fingerprints;  // input: one per transfer block
  };

  Device& device;
  mutable std::mutex copying;  // a device's copies, one thread at a time
  std::vector<std::unique_ptr<Buffer>> buffers;
  Buffer* output = nullptr;
  Buffer* state_pool = nullptr;
  Buffer* conv_output = nullptr;
  Buffer* conv_state = nullptr;
  Arguments arguments;

  Problem problem;          // whose shapes the buffers have
  std::int64_t tokens = 0;  // of the case they hold now: the rest is NaN

  explicit State(Device& where) : device(where) {}

  // The buffer of that name, made the first time it is asked for.
  Buffer& add(const char* name, Role role, DType dtype, std::int64_t count) {
    for (const auto& made : buffers) {
      if (made->name == name) return *made;
    }
    auto buffer = std::make_unique<Buffer>();
    buffer->name = name;
    buffer->role = role;
    buffer->dtype = dtype;
    buffer->count = count;
    buffer->memory = GuardedBuffer(device, count * static_cast<std::int64_t>(size_of(dtype)));
    buffers.push_back(std::move(buffer));
    return *buffers.back();
  }

  TokenRoom room(bool by_time) const { return {tokens, problem.total_tokens(), by_time}; }

  // Encodes and uploads block by block, and remembers what each block held.
  const void* input(const char* name, DType dtype, const std::vector<float>& values,
                    const TokenRoom::Runs& runs) {
    Buffer& buffer = add(name, Role::input, dtype, runs.count * runs.room);
    buffer.fingerprints.clear();
    upload_encoded(buffer.memory.payload<char>(), dtype, values, runs, &buffer.fingerprints);
    return buffer.memory.payload<void>();
  }
  const void* input(const char* name, DType dtype, const std::vector<float>& values) {
    return input(name, dtype, values, all_of(values));
  }
  const float* float_input(const char* name, const std::vector<float>& values) {
    return static_cast<const float*>(input(name, DType::float32, values));
  }
  // [tokens, width], or with `by_time` [width, tokens], in room for as many tokens as there may be.
  const void* token_input(const char* name, DType dtype, const std::vector<float>& values,
                          bool by_time = false) {
    if (values.empty()) return input(name, dtype, values);
    const std::int64_t width = static_cast<std::int64_t>(values.size()) / tokens;
    return input(name, dtype, values, room(by_time).runs(width));
  }
  const float* float_token_input(const char* name, const std::vector<float>& values) {
    return static_cast<const float*>(token_input(name, DType::float32, values));
  }
  const std::int64_t* index_input(const char* name, const std::vector<std::int64_t>& values) {
    // Counted in float32 elements: the bytes are what matters.
    Buffer& buffer =
        add(name, Role::input, DType::float32, 2 * static_cast<std::int64_t>(values.size()));
    buffer.fingerprints.clear();
    const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
    for (std::int64_t at = 0; at < buffer.memory.bytes(); at += kTransferBytes) {
      const std::int64_t n = std::min(kTransferBytes, buffer.memory.bytes() - at);
      device.upload(buffer.memory.payload<char>() + at, bytes + at, n);
      buffer.fingerprints.push_back(fingerprint_of(bytes + at, n, at / 8));
    }
    return buffer.memory.payload<std::int64_t>();
  }
  Buffer& in_place(const char* name, DType dtype, const std::vector<float>& values) {
    Buffer& buffer = add(name, Role::in_place, dtype, static_cast<std::int64_t>(values.size()));
    if (buffer.original.data() == nullptr) {
      buffer.original = device.allocate(buffer.memory.bytes());
    }
    upload_encoded(buffer.original.as<char>(), dtype, values, all_of(values), nullptr);
    return buffer;
  }

  static TokenRoom::Runs all_of(const std::vector<float>& values) {
    const auto count = static_cast<std::int64_t>(values.size());
    return {1, count, count};
  }

  void upload_encoded(char* destination, DType dtype, const std::vector<float>& values,
                      const TokenRoom::Runs& runs, std::vector<std::uint64_t>* fingerprints) {
    const std::int64_t width = static_cast<std::int64_t>(size_of(dtype));
    const std::int64_t block = kTransferBytes / width;
    const std::int64_t count = runs.count * runs.room;
    if (fingerprints != nullptr) {
      fingerprints->resize(static_cast<std::size_t>((count + block - 1) / block));
    }
    for_blocks(count, block, [&](std::int64_t at, std::int64_t n) {
      std::vector<unsigned char> encoded(static_cast<std::size_t>(n * width));
      encode_part(dtype, values.data(), runs, at, n, encoded.data());
      if (fingerprints != nullptr) {
        (*fingerprints)[static_cast<std::size_t>(at / block)] =
            fingerprint_of(encoded.data(), n * width, at * width / 8);
      }
      const std::lock_guard lock(copying);
      device.upload(destination + at * width, encoded.data(), n * width);
    });
  }

  // Elements at .. at + n - 1 of the runs and the NaN behind each.
  static void encode_part(DType dtype, const float* values, const TokenRoom::Runs& runs,
                          std::int64_t at, std::int64_t n, unsigned char* encoded) {
    const std::int64_t width = static_cast<std::int64_t>(size_of(dtype));
    for (const std::int64_t end = at + n; at < end;) {
      const std::int64_t run = at / runs.room;
      const std::int64_t in_run = at % runs.room;
      const bool held = in_run < runs.held;
      const std::int64_t m = std::min(end - at, (held ? runs.held : runs.room) - in_run);
      if (held) {
        encode(dtype, values + run * runs.held + in_run, encoded, m);
      } else {
        std::memset(encoded, kPoisonByte, static_cast<std::size_t>(m * width));
      }
      at += m;
      encoded += m * width;
    }
  }

  std::vector<float> read(const Buffer* buffer) const {
    if (buffer == nullptr) return {};
    const std::int64_t width = static_cast<std::int64_t>(size_of(buffer->dtype));
    std::vector<float> values(static_cast<std::size_t>(buffer->count));
    for_blocks(buffer->count, kTransferBytes / width, [&](std::int64_t at, std::int64_t n) {
      std::vector<unsigned char> encoded(static_cast<std::size_t>(n * width));
      {
        const std::lock_guard lock(copying);
        device.download(encoded.data(), buffer->memory.payload<char>() + at * width, n * width);
      }
      decode(buffer->dtype, encoded.data(), values.data() + at, n);
    });
    return values;
  }
  // The same of an output with a row per token, of the tokens there are.
  std::vector<float> read_tokens(const Buffer* buffer, bool by_time) const {
    std::vector<float> values = read(buffer);
    if (buffer != nullptr) remove_rest(buffer->name.c_str(), room(by_time), values);
    return values;
  }

  void require_unchanged(const Buffer& buffer) const {
    const std::uint64_t uploaded =
        std::accumulate(buffer.fingerprints.begin(), buffer.fingerprints.end(), std::uint64_t{0});
    const auto* const payload = buffer.memory.payload<char>();
    if (device.fingerprint(payload, buffer.memory.bytes()) == uploaded) return;
    // Where? Block by block, on the host.
    std::vector<unsigned char> seen(
        static_cast<std::size_t>(std::min(kTransferBytes, buffer.memory.bytes())));
    std::string where;
    std::size_t block = 0;
    for (std::int64_t at = 0; at < buffer.memory.bytes(); at += kTransferBytes, ++block) {
      const std::int64_t n = std::min(kTransferBytes, buffer.memory.bytes() - at);
      device.download(seen.data(), payload + at, n);
      if (fingerprint_of(seen.data(), n, at / 8) == buffer.fingerprints.at(block)) continue;
      where = " (within bytes " + std::to_string(at) + ".." + std::to_string(at + n - 1) + ")";
      break;
    }
    throw Error(ErrorKind::device_failure,
                "the input '" + buffer.name + "' was written to" + where);
  }

  CausalConv1dArguments conv_arguments(const Case& c) {
    const Problem& p = problem;
    CausalConv1dArguments a;
    a.input = token_input("qkv", p.token_dtype, c.qkv, p.conv_layout == ConvLayout::time);
    a.weight = input("conv_weight", p.token_dtype, c.conv_weight);
    if (p.conv_bias) a.bias = input("conv_bias", p.token_dtype, c.conv_bias);
    if (p.conv_state_in_place) {
      conv_state = &in_place("conv_state", p.state_dtype, c.conv_state);
      a.state_in = conv_state->memory.payload<void>();
    } else {
      a.state_in = input("conv_state (read)", p.state_dtype, c.conv_state);
      // Rows that a sequence writes start as NaN; the others must stay as they are.
      std::vector<float> before = c.conv_state;
      const std::int64_t row = p.conv_channels() * (p.conv_width - 1);
      for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
        const std::int64_t slot =
            c.slot_index.empty() ? n : c.slot_index[static_cast<std::size_t>(n)];
        if (slot < 0) continue;
        std::fill_n(before.begin() + slot * row, row, std::numeric_limits<float>::quiet_NaN());
      }
      conv_state = &in_place("conv_state (written)", p.state_dtype, before);
    }
    a.state_out = conv_state->memory.payload<void>();
    return a;
  }

  GatedDeltaArguments delta_arguments(const Case& c) {
    const Problem& p = problem;
    GatedDeltaArguments a;
    if (p.operation == Operation::gated_delta) {
      a.query = token_input("q", p.token_dtype, c.query);
      a.key = token_input("k", p.token_dtype, c.key);
      a.value = token_input("v", p.token_dtype, c.value);
    }
    switch (c.gate.encoding) {
      case GateEncoding::log_decay:
        a.gate = LogDecay{float_token_input("log_decay", c.gate.values)};
        break;
      case GateEncoding::decay:
        a.gate = Decay{float_token_input("decay", c.gate.values)};
        break;
      case GateEncoding::neg_log_decay:
        a.gate = NegLogDecay{float_token_input("neg_log_decay", c.gate.values)};
        break;
      case GateEncoding::logits:
        a.gate =
            DecayLogits{float_token_input("decay_logit", c.gate.values),
                        float_input("A_log", c.gate.A_log), float_input("dt_bias", c.gate.dt_bias)};
        break;
    }
    if (c.beta.encoding == BetaEncoding::beta) {
      a.beta = BetaDirect{float_token_input("beta", c.beta.values)};
    } else {
      a.beta = BetaLogit{float_token_input("beta_logit", c.beta.values)};
    }
    state_pool = &in_place("state_pool", p.state_dtype, c.state_pool);
    a.state_pool = state_pool->memory.payload<void>();
    output = &add("output", Role::output, p.effective_output_dtype(),
                  p.total_tokens() * p.num_value_heads * p.value_head_dim);
    a.output = output->memory.payload<void>();
    return a;
  }

  // Buffers for all arrays of the case, or other values in those already made.
  void fill(const Case& inputs) {
    const std::int64_t* offsets = index_input("sequence_offsets", inputs.sequence_offsets);
    const std::int64_t* slots =
        inputs.slot_index.empty() ? nullptr : index_input("slot_index", inputs.slot_index);
    const auto indexed = [&](auto of_operation) {
      of_operation.sequence_offsets = offsets;
      of_operation.slot_index = slots;
      return of_operation;
    };
    const Problem& p = problem;
    switch (p.operation) {
      case Operation::gated_delta:
        arguments = indexed(delta_arguments(inputs));
        break;
      case Operation::causal_conv1d: {
        CausalConv1dArguments conv = indexed(conv_arguments(inputs));
        conv_output =
            &add("conv_output", Role::output, p.token_dtype, p.total_tokens() * p.conv_channels());
        conv.output = conv_output->memory.payload<void>();
        arguments = conv;
        break;
      }
      case Operation::gated_delta_layer:
        arguments = GatedDeltaLayerArguments{indexed(conv_arguments(inputs)),
                                             indexed(delta_arguments(inputs))};
        break;
    }
  }
};

namespace {

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
  return {DeviceCase::bytes_needed(problem), workspace_bytes,
          device.backend == "cpu" ? host_bytes_needed(problem) : 0};
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

DeviceCase::DeviceCase(const Case& inputs, Device& device)
    : state_(std::make_unique<State>(device)) {
  validate(inputs);
  require_free(inputs.problem, {bytes_needed(inputs.problem), 0, 0}, device);
  state_->problem = inputs.problem;
  state_->tokens = inputs.problem.total_tokens();
  state_->fill(inputs);
  reset_async();
}

DeviceCase::~DeviceCase() = default;

const Arguments& DeviceCase::arguments() const { return state_->arguments; }

void DeviceCase::refill(const Case& other) {
  const Problem& p = state_->problem;
  const std::int64_t capacity = p.total_tokens();
  const std::int64_t tokens = other.problem.total_tokens();
  if (other.problem.num_sequences() != p.num_sequences() || tokens > capacity ||
      (tokens == 0 && capacity > 0)) {
    throw_bad_input("refill: " + std::to_string(p.num_sequences()) + " sequences of 1 to " +
                    std::to_string(capacity) + " tokens in all are expected");
  }
  state_->tokens = tokens;
  state_->fill(other);
  reset_async();
}

std::int64_t DeviceCase::bytes_needed(const Problem& p) {
  const ElementCounts n = element_counts(p);
  const auto token = static_cast<long double>(size_of(p.token_dtype));
  const auto state = static_cast<long double>(size_of(p.state_dtype));
  // State pools twice: the one in use, and its original for reset_async().
  const long double conv_states = p.conv_state_in_place ? 2 : 3;
  return saturated(token * (n.query_and_key + n.value + n.qkv + n.conv_weights + n.conv_output) +
                   4 * n.gates +
                   static_cast<long double>(size_of(p.effective_output_dtype())) * n.output +
                   state * (2 * n.state_pool + conv_states * n.conv_state) +
                   16 * (static_cast<long double>(p.num_sequences()) + 1));
}

void DeviceCase::reset_async() {
  for (const auto& buffer : state_->buffers) {
    if (buffer->role != State::Role::output) continue;
    state_->device.fill_async(buffer->memory.payload<void>(), kPoisonByte, buffer->memory.bytes());
  }
  restore_state_async();
}

void DeviceCase::restore_state_async() {
  for (const auto& buffer : state_->buffers) {
    if (buffer->role != State::Role::in_place) continue;
    state_->device.copy_async(buffer->memory.payload<void>(), buffer->original.data(),
                              buffer->memory.bytes());
  }
}

Outputs DeviceCase::download() const {
  state_->device.synchronize();
  Outputs outputs;
  outputs.output = state_->read_tokens(state_->output, false);
  outputs.state_pool = state_->read(state_->state_pool);
  outputs.conv_output =
      state_->read_tokens(state_->conv_output, state_->problem.conv_layout == ConvLayout::time);
  outputs.conv_state = state_->read(state_->conv_state);
  return outputs;
}

void DeviceCase::check_guards(CheckInputs inputs) const {
  state_->device.synchronize();
  for (const auto& buffer : state_->buffers) {
    buffer->memory.check(state_->device, buffer->name);
    if (inputs == CheckInputs::later) continue;
    if (buffer->role == State::Role::input) state_->require_unchanged(*buffer);
  }
}

// ---- memory and execution

std::int64_t host_bytes_needed(const Problem& p) {
  const ElementCounts n = element_counts(p);
  const long double outputs = n.output + n.state_pool + n.conv_output + n.conv_state;
  return saturated(4 * (n.inputs() + outputs));
}

void require_host_memory(const Problem& p) {
  const std::string why = exceeds_host(4 * element_counts(p).inputs());
  if (why.empty()) return;
  throw Error(ErrorKind::out_of_memory, p.to_string() + ": its inputs take " + why);
}

void require_memory(const Problem& problem, std::int64_t workspace_bytes, const Device& device) {
  require_free(problem, memory_needed(problem, workspace_bytes, device.info()), device);
}

bool has_memory_of_its_own(const DeviceInfo& device) {
  return device.backend == "cuda" || device.backend == "hip";
}

bool exceeds_memory(const Problem& problem, std::int64_t workspace_bytes,
                    const DeviceInfo& device) {
  return memory_needed(problem, workspace_bytes, device).total() >
         static_cast<long double>(device.memory_bytes);
}

PlannedCase::PlannedCase(const Implementation& implementation, const Case& inputs, Device& device)
    : device_(device), guarded_(device) {
  require_supported(implementation, inputs.problem);
  const Problem& p = inputs.problem;
  require_free(p, {DeviceCase::bytes_needed(p), implementation.workspace_bytes(p), 0}, device);
  on_device_ = std::make_unique<DeviceCase>(inputs, device);
  plan_ = implementation.plan(inputs.problem, on_device_->arguments(), guarded_);
}

bool PlannedCase::capture() {
  replay_ = device_.capture([this] { plan_->run(); });
  return replay_ != nullptr;
}

Outputs PlannedCase::run(CheckInputs inputs) {
  on_device_->reset_async();
  if (replay_ != nullptr) {
    replay_();
  } else {
    plan_->run();
  }
  device_.synchronize();
  guarded_.check_guards();
  on_device_->check_guards(inputs);
  return on_device_->download();
}

Outputs execute(const Implementation& implementation, const Case& inputs, Device& device,
                PlanInfo* plan_info) {
  PlannedCase planned(implementation, inputs, device);
  if (plan_info != nullptr) *plan_info = planned.info();
  return planned.run();
}

}  // namespace gdn
