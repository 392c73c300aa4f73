#include "harness/execute.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "interface/error.h"

namespace gdn {
namespace {

// Guard bands: this many bytes before and after every buffer, all 0x7FFF in 16-bit words: a NaN in
// float32, bfloat16 and float16, so that a value read from a band shows in the outputs too.
constexpr std::int64_t kGuardBytes = 4096;
constexpr std::uint16_t kGuardWord = 0x7FFF;
constexpr std::int64_t kTransferBytes = std::int64_t{16} << 20;
constexpr unsigned char kPoisonByte = 0xFF;

std::vector<std::uint16_t> guard_pattern(std::int64_t bytes) {
  return std::vector<std::uint16_t>(static_cast<std::size_t>(bytes / 2), kGuardWord);
}

std::int64_t rounded_up(std::int64_t bytes, std::int64_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

// Guard, payload, then guard up to the end: the second band starts right behind the last byte.
struct GuardedBuffer {
  DeviceBuffer memory;
  std::int64_t bytes = 0;

  GuardedBuffer() = default;
  GuardedBuffer(Device& device, std::int64_t payload_bytes) : bytes(payload_bytes) {
    memory = device.allocate(rounded_up(bytes, 2) + 2 * kGuardBytes);
    const auto pattern = guard_pattern(kGuardBytes);
    device.upload(memory.data(), pattern.data(), kGuardBytes);
    const std::int64_t behind = memory.bytes() - kGuardBytes - bytes;
    auto last = guard_pattern(rounded_up(behind, 2));
    device.upload(payload<char>() + bytes, last.data(), behind);
  }
  template <typename T>
  T* payload() const {
    return reinterpret_cast<T*>(memory.as<char>() + kGuardBytes);
  }
  // The offset in bytes, relative to the payload, of the first band byte that changed.
  bool find_change(Device& device, std::int64_t* offset) const {
    const std::int64_t behind = memory.bytes() - kGuardBytes - bytes;
    const auto pattern = guard_pattern(rounded_up(std::max(behind, kGuardBytes), 2));
    std::vector<char> seen(static_cast<std::size_t>(std::max(behind, kGuardBytes)));
    for (const bool before : {true, false}) {
      const std::int64_t count = before ? kGuardBytes : behind;
      const std::int64_t start = before ? -kGuardBytes : bytes;
      device.download(seen.data(), payload<char>() + start, count);
      const auto* expected = reinterpret_cast<const char*>(pattern.data());
      const auto at = std::mismatch(seen.begin(), seen.begin() + count, expected).first;
      if (at != seen.begin() + count) {
        *offset = start + (at - seen.begin());
        return true;
      }
    }
    return false;
  }
};

[[noreturn]] void throw_guard_changed(const std::string& name, std::int64_t offset,
                                      std::int64_t bytes) {
  throw Error(ErrorKind::device_failure,
              "write out of bounds: " + std::to_string(offset < 0 ? -offset : offset - bytes + 1) +
                  " bytes " + (offset < 0 ? "before the start" : "past the end") + " of '" + name +
                  "' (" + std::to_string(bytes) + " bytes)");
}

// 64 bits of everything in a block, to see whether an input changed.
std::uint64_t fingerprint(const unsigned char* data, std::int64_t bytes) {
  std::uint64_t lanes[4] = {1, 2, 3, 4};
  const auto step = [](std::uint64_t lane, std::uint64_t word) {
    lane = (lane ^ word) * 0x9E3779B97F4A7C15ull;
    return lane ^ (lane >> 29);
  };
  std::int64_t at = 0;
  for (; at + 32 <= bytes; at += 32) {
    for (int i = 0; i < 4; ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, data + at + 8 * i, 8);
      lanes[i] = step(lanes[i], word);
    }
  }
  for (; at < bytes; ++at) lanes[0] = step(lanes[0], data[at]);
  return step(step(step(lanes[0], lanes[1]), lanes[2]), lanes[3]);
}

std::int64_t saturated(long double value) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return value >= static_cast<long double>(kMost) ? kMost : static_cast<std::int64_t>(value);
}

std::string in_gib(std::int64_t bytes) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.2f GiB", static_cast<double>(bytes) / (1 << 30));
  return text;
}

// Element counts of a problem's arrays, in a type that no valid problem overflows.
struct ElementCounts {
  long double query_and_key = 0, value = 0, gates = 0, state_pool = 0, qkv = 0, conv_weights = 0,
              conv_state = 0, output = 0, conv_output = 0;
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
    n.state_pool = rows * static_cast<long double>(p.state_row_stride());
    n.output = tokens * static_cast<long double>(p.num_value_heads * p.value_head_dim);
  }
  return n;
}

// A Device whose allocations are filled with NaN and guarded: what plans allocate their workspaces
// from in a verified run.
class GuardedDevice final : public Device {
 public:
  explicit GuardedDevice(Device& inner) : inner_(inner) {}

  DeviceBuffer allocate(std::int64_t bytes) override {
    GuardedBuffer buffer(inner_, bytes);
    void* data = buffer.payload<void>();
    inner_.fill_async(data, kPoisonByte, bytes);
    buffers_.emplace(data, std::move(buffer));
    return DeviceBuffer(this, data, bytes);
  }
  void check_guards() {
    for (const auto& [data, buffer] : buffers_) {
      std::int64_t offset = 0;
      if (buffer.find_change(inner_, &offset)) {
        throw_guard_changed("workspace", offset, buffer.bytes);
      }
    }
  }
  const DeviceInfo& info() const override { return inner_.info(); }
  std::int64_t free_memory_bytes() const override { return inner_.free_memory_bytes(); }
  void upload(void* destination, const void* source, std::int64_t bytes) override {
    inner_.upload(destination, source, bytes);
  }
  void download(void* destination, const void* source, std::int64_t bytes) override {
    inner_.download(destination, source, bytes);
  }
  void copy_async(void* destination, const void* source, std::int64_t bytes) override {
    inner_.copy_async(destination, source, bytes);
  }
  void fill_async(void* destination, unsigned char byte, std::int64_t bytes) override {
    inner_.fill_async(destination, byte, bytes);
  }
  void synchronize() override { inner_.synchronize(); }
  void flush_cache_async() override { inner_.flush_cache_async(); }
  TimeSample time_launch(const std::function<void()>& prepare,
                         const std::function<void()>& launch) override {
    return inner_.time_launch(prepare, launch);
  }
  std::function<void()> capture(const std::function<void()>& launch) override {
    return inner_.capture(launch);
  }
  void* native_stream() const override { return inner_.native_stream(); }
  Ceilings ceilings() override { return inner_.ceilings(); }

 protected:
  void release(void* data) noexcept override { buffers_.erase(data); }

 private:
  Device& inner_;
  std::map<void*, GuardedBuffer> buffers_;
};

}  // namespace

// ---- the case on the device
// -----------------------------------------------------------------------

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
  std::vector<std::unique_ptr<Buffer>> buffers;
  Buffer* output = nullptr;
  Buffer* state_pool = nullptr;
  Buffer* conv_output = nullptr;
  Buffer* conv_state = nullptr;
  Arguments arguments;

  explicit State(Device& where) : device(where) {}

  Buffer& add(const char* name, Role role, DType dtype, std::int64_t count) {
    auto buffer = std::make_unique<Buffer>();
    buffer->name = name;
    buffer->role = role;
    buffer->dtype = dtype;
    buffer->count = count;
    buffer->memory = GuardedBuffer(device, count * static_cast<std::int64_t>(size_of(dtype)));
    buffers.push_back(std::move(buffer));
    return *buffers.back();
  }

  // Encodes and uploads block by block, and remembers what each block held.
  const void* input(const char* name, DType dtype, const std::vector<float>& values) {
    Buffer& buffer = add(name, Role::input, dtype, static_cast<std::int64_t>(values.size()));
    upload_encoded(buffer.memory.payload<char>(), dtype, values, &buffer.fingerprints);
    return buffer.memory.payload<void>();
  }
  const float* float_input(const char* name, const std::vector<float>& values) {
    return static_cast<const float*>(input(name, DType::float32, values));
  }
  const std::int64_t* index_input(const char* name, const std::vector<std::int64_t>& values) {
    // Counted in float32 elements: the bytes are what matters.
    Buffer& buffer =
        add(name, Role::input, DType::float32, 2 * static_cast<std::int64_t>(values.size()));
    const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
    for (std::int64_t at = 0; at < buffer.memory.bytes; at += kTransferBytes) {
      const std::int64_t n = std::min(kTransferBytes, buffer.memory.bytes - at);
      device.upload(buffer.memory.payload<char>() + at, bytes + at, n);
      buffer.fingerprints.push_back(fingerprint(bytes + at, n));
    }
    return buffer.memory.payload<std::int64_t>();
  }
  Buffer& in_place(const char* name, DType dtype, const std::vector<float>& values) {
    Buffer& buffer = add(name, Role::in_place, dtype, static_cast<std::int64_t>(values.size()));
    buffer.original = device.allocate(buffer.memory.bytes);
    upload_encoded(buffer.original.as<char>(), dtype, values, nullptr);
    return buffer;
  }

  void upload_encoded(char* destination, DType dtype, const std::vector<float>& values,
                      std::vector<std::uint64_t>* fingerprints) {
    const std::int64_t width = static_cast<std::int64_t>(size_of(dtype));
    const std::int64_t block = kTransferBytes / width;
    const std::int64_t count = static_cast<std::int64_t>(values.size());
    std::vector<unsigned char> encoded(static_cast<std::size_t>(std::min(block, count) * width));
    for (std::int64_t at = 0; at < count; at += block) {
      const std::int64_t n = std::min(block, count - at);
      encode(dtype, values.data() + at, encoded.data(), n);
      device.upload(destination + at * width, encoded.data(), n * width);
      if (fingerprints != nullptr) fingerprints->push_back(fingerprint(encoded.data(), n * width));
    }
  }

  std::vector<float> read(const Buffer* buffer) const {
    if (buffer == nullptr) return {};
    const std::int64_t width = static_cast<std::int64_t>(size_of(buffer->dtype));
    const std::int64_t block = kTransferBytes / width;
    std::vector<float> values(static_cast<std::size_t>(buffer->count));
    std::vector<unsigned char> encoded(
        static_cast<std::size_t>(std::min(block, buffer->count) * width));
    for (std::int64_t at = 0; at < buffer->count; at += block) {
      const std::int64_t n = std::min(block, buffer->count - at);
      device.download(encoded.data(), buffer->memory.payload<char>() + at * width, n * width);
      decode(buffer->dtype, encoded.data(), values.data() + at, n);
    }
    return values;
  }

  void require_unchanged(const Buffer& buffer) const {
    std::vector<unsigned char> seen(
        static_cast<std::size_t>(std::min(kTransferBytes, buffer.memory.bytes)));
    std::size_t block = 0;
    for (std::int64_t at = 0; at < buffer.memory.bytes; at += kTransferBytes, ++block) {
      const std::int64_t n = std::min(kTransferBytes, buffer.memory.bytes - at);
      device.download(seen.data(), buffer.memory.payload<char>() + at, n);
      if (fingerprint(seen.data(), n) != buffer.fingerprints.at(block)) {
        throw Error(ErrorKind::device_failure,
                    "the input '" + buffer.name + "' was written to (within bytes " +
                        std::to_string(at) + ".." + std::to_string(at + n - 1) + ")");
      }
    }
  }

  CausalConv1dArguments conv_arguments(const Case& c) {
    const Problem& p = c.problem;
    CausalConv1dArguments a;
    a.input = input("qkv", p.token_dtype, c.qkv);
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
    const Problem& p = c.problem;
    GatedDeltaArguments a;
    if (p.operation == Operation::gated_delta) {
      a.query = input("q", p.token_dtype, c.query);
      a.key = input("k", p.token_dtype, c.key);
      a.value = input("v", p.token_dtype, c.value);
    }
    switch (c.gate.encoding) {
      case GateEncoding::log_decay:
        a.gate = LogDecay{float_input("log_decay", c.gate.values)};
        break;
      case GateEncoding::decay:
        a.gate = Decay{float_input("decay", c.gate.values)};
        break;
      case GateEncoding::neg_log_decay:
        a.gate = NegLogDecay{float_input("neg_log_decay", c.gate.values)};
        break;
      case GateEncoding::logits:
        a.gate =
            DecayLogits{float_input("decay_logit", c.gate.values),
                        float_input("A_log", c.gate.A_log), float_input("dt_bias", c.gate.dt_bias)};
        break;
    }
    if (c.beta.encoding == BetaEncoding::beta) {
      a.beta = BetaDirect{float_input("beta", c.beta.values)};
    } else {
      a.beta = BetaLogit{float_input("beta_logit", c.beta.values)};
    }
    state_pool = &in_place("state_pool", p.state_dtype, c.state_pool);
    a.state_pool = state_pool->memory.payload<void>();
    output = &add("output", Role::output, p.effective_output_dtype(),
                  p.total_tokens() * p.num_value_heads * p.value_head_dim);
    a.output = output->memory.payload<void>();
    return a;
  }
};

namespace {

void require_free(const Problem& problem, std::int64_t workspace_bytes, std::int64_t host_bytes,
                  const Device& device) {
  const std::int64_t arrays = DeviceCase::bytes_needed(problem);
  const auto needed = static_cast<long double>(arrays) + static_cast<long double>(workspace_bytes) +
                      static_cast<long double>(host_bytes);
  const std::int64_t available = device.free_memory_bytes();
  if (needed <= static_cast<long double>(available)) return;
  throw Error(ErrorKind::out_of_memory,
              problem.to_string() + ": needs " + in_gib(saturated(needed)) + " on " +
                  device.info().name + " (" + std::to_string(arrays) +
                  " bytes of inputs and outputs, " + std::to_string(workspace_bytes) +
                  " of workspace, " + std::to_string(host_bytes) + " on the host's side), " +
                  in_gib(available) + " are free");
}

}  // namespace

DeviceCase::DeviceCase(const Case& inputs, Device& device)
    : state_(std::make_unique<State>(device)) {
  validate(inputs);
  const Problem& p = inputs.problem;
  require_free(p, 0, 0, device);
  State& s = *state_;
  const std::int64_t* offsets = s.index_input("sequence_offsets", inputs.sequence_offsets);
  const std::int64_t* slots =
      inputs.slot_index.empty() ? nullptr : s.index_input("slot_index", inputs.slot_index);
  const auto indexed = [&](auto arguments) {
    arguments.sequence_offsets = offsets;
    arguments.slot_index = slots;
    return arguments;
  };
  switch (p.operation) {
    case Operation::gated_delta:
      s.arguments = indexed(s.delta_arguments(inputs));
      break;
    case Operation::causal_conv1d: {
      CausalConv1dArguments conv = indexed(s.conv_arguments(inputs));
      s.conv_output = &s.add("conv_output", State::Role::output, p.token_dtype,
                             p.total_tokens() * p.conv_channels());
      conv.output = s.conv_output->memory.payload<void>();
      s.arguments = conv;
      break;
    }
    case Operation::gated_delta_layer:
      s.arguments = GatedDeltaLayerArguments{indexed(s.conv_arguments(inputs)),
                                             indexed(s.delta_arguments(inputs))};
      break;
  }
  reset_async();
}

DeviceCase::~DeviceCase() = default;

const Arguments& DeviceCase::arguments() const { return state_->arguments; }

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
    state_->device.fill_async(buffer->memory.payload<void>(), kPoisonByte, buffer->memory.bytes);
  }
  restore_state_async();
}

void DeviceCase::restore_state_async() {
  for (const auto& buffer : state_->buffers) {
    if (buffer->role != State::Role::in_place) continue;
    state_->device.copy_async(buffer->memory.payload<void>(), buffer->original.data(),
                              buffer->memory.bytes);
  }
}

Outputs DeviceCase::download() const {
  state_->device.synchronize();
  Outputs outputs;
  outputs.output = state_->read(state_->output);
  outputs.state_pool = state_->read(state_->state_pool);
  outputs.conv_output = state_->read(state_->conv_output);
  outputs.conv_state = state_->read(state_->conv_state);
  return outputs;
}

void DeviceCase::check_guards() const {
  state_->device.synchronize();
  for (const auto& buffer : state_->buffers) {
    std::int64_t offset = 0;
    if (buffer->memory.find_change(state_->device, &offset)) {
      throw_guard_changed(buffer->name, offset, buffer->memory.bytes);
    }
    if (buffer->role == State::Role::input) state_->require_unchanged(*buffer);
  }
}

// ---- memory and execution
// -------------------------------------------------------------------------

std::int64_t host_bytes_needed(const Problem& p) {
  const ElementCounts n = element_counts(p);
  const long double inputs =
      n.query_and_key + n.value + n.gates + n.state_pool + n.qkv + n.conv_weights + n.conv_state;
  const long double outputs = n.output + n.state_pool + n.conv_output + n.conv_state;
  return saturated(4 * (inputs + outputs));
}

void require_memory(const Problem& problem, std::int64_t workspace_bytes, const Device& device) {
  // A CPU's memory holds the host's side of the case as well.
  const bool shared = device.info().backend == "cpu";
  require_free(problem, workspace_bytes, shared ? host_bytes_needed(problem) : 0, device);
}

Outputs execute(const Implementation& implementation, const Case& inputs, Device& device,
                PlanInfo* plan_info) {
  require_supported(implementation, inputs.problem);
  require_free(inputs.problem, implementation.workspace_bytes(inputs.problem), 0, device);
  DeviceCase on_device(inputs, device);
  GuardedDevice guarded(device);
  const std::unique_ptr<Plan> plan =
      implementation.plan(inputs.problem, on_device.arguments(), guarded);
  if (plan_info != nullptr) *plan_info = plan->info();
  plan->run();
  device.synchronize();
  guarded.check_guards();
  on_device.check_guards();
  return on_device.download();
}

}  // namespace gdn
