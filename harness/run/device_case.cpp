#include "harness/run/device_case.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "harness/run/encoded_array.h"
#include "harness/run/guarded_device.h"
#include "harness/run/memory_needed.h"
#include "interface/batch_part.h"
#include "interface/error.h"

namespace gdn {
namespace {

bool names(const std::vector<std::string>& operands, const std::string& operand) {
  return std::find(operands.begin(), operands.end(), operand) != operands.end();
}

// A legal value of the index at `place` that is not the right one: the next on the side asked for, or
// on the other. Out of range, at -1, where no other value is legal (an empty sequence has no tokens to
// count) or nothing is known of what is.
std::int64_t wrong_index(const Case& inputs, const Operand& operand, std::int64_t place,
                         HiddenIndices side) {
  const auto& holds = operand.index_rule.holds;
  const std::int64_t right = inputs.indices(operand)[static_cast<std::size_t>(place)];
  const std::int64_t step = side == HiddenIndices::below ? -1 : 1;
  for (const std::int64_t wrong : {right + step, right - step}) {
    if (holds != nullptr && holds(inputs, place, wrong)) return wrong;
  }
  return -1;
}

// What hidden operands are full of, in elements of 16 bits or pairs of them: a signalling NaN. Whatever
// is computed of it has other bits, on a CPU its quiet twin, so that a result is never taken for
// something unwritten.
std::vector<std::uint16_t> hidden_elements(DType dtype, std::int64_t bytes) {
  const std::uint16_t half = dtype == DType::float16 ? 0x7D00 : 0x7FA0;
  return std::vector<std::uint16_t>(static_cast<std::size_t>(bytes) / sizeof(half), half);
}

// What outputs are full of before they are written: NaN of their type.
unsigned char poison_of(DType dtype) { return dtype == DType::int8 ? 0x80 : kPoisonByte; }

// The bits of an element that nothing was written to since reset_async(), decoded.
std::uint32_t unwritten_bits(DType dtype) {
  unsigned char poison[sizeof(float)];
  std::fill(std::begin(poison), std::end(poison), poison_of(dtype));
  float value = 0;
  decode(dtype, poison, &value, 1);
  return std::bit_cast<std::uint32_t>(value);
}

// The values of an array in room for more tokens, `values` of all the room; throws if anything
// behind the tokens has other bits than it was filled with. A NaN computed from what stands behind
// the inputs' last token (kUnreadWord) has others.
void remove_rest(const std::string& name, DType dtype, const Runs& runs, bool tokens_fastest,
                 std::int64_t tokens, std::vector<float>& values) {
  if (values.empty() || runs.held == runs.room) return;
  const std::int64_t width = tokens_fastest ? 1 : runs.held / std::max<std::int64_t>(1, tokens);
  const std::uint32_t unwritten = unwritten_bits(dtype);
  for (std::int64_t run = 0; run < runs.count; ++run) {
    const auto begin = values.begin() + run * runs.room;
    const auto written = std::find_if(begin + runs.held, begin + runs.room, [&](float value) {
      return std::bit_cast<std::uint32_t>(value) != unwritten;
    });
    if (written != begin + runs.room) {
      throw Error(ErrorKind::device_failure,
                  name + ": token " + std::to_string((written - begin) / width) +
                      " was written, past the " + std::to_string(tokens) + " of the sequences");
    }
    if (run > 0) std::copy(begin, begin + runs.held, values.begin() + run * runs.held);
  }
  values.resize(static_cast<std::size_t>(runs.count * runs.held));
}

}  // namespace

struct DeviceCase::State {
  struct Buffer {
    const Operand* operand = nullptr;
    Role role = Role::input;  // of this array: what is updated out of place has an input as well
    std::string name;
    GuardedBuffer memory;
    DeviceBuffer original;                    // in_place: what reset_async() restores
    std::vector<std::uint64_t> fingerprints;  // input: one per transfer block
    bool hidden = false;                      // input, in_place: holds what nobody may read
  };

  Device& device;
  mutable std::mutex copying;  // a device's copies, one thread at a time
  std::vector<std::unique_ptr<Buffer>> buffers;
  Arguments arguments;
  Problem problem;          // whose shapes the buffers have
  std::int64_t tokens = 0;  // of the case they hold now: the rest is NaN
  DeviceCaseOptions options;
  // Of each pool that is an output alone: elements that no sequence of the case may write.
  std::map<const Operand*, std::vector<bool>> owned;

  explicit State(Device& where) : device(where) {}

  // Elements between a token and the next; 0: dense. Tokens of whole 16 bytes stay so, which kernels
  // that load vectors ask for; others lie at odd places. Each operand has a gap of its own: who takes
  // another's stride reads the wrong tokens, though both be as long.
  std::int64_t gap_of(const Operand& operand) const {
    if (!options.slices || !takes_token_stride(operand, problem)) return 0;
    const std::int64_t number = &operand - problem.operation->operands.data();
    const auto element = static_cast<std::int64_t>(size_of(operand.dtype(problem)));
    const bool whole_vectors = elements_per_token(operand, problem) * element % 16 == 0;
    return whole_vectors ? 64 * (1 + number) : 3 + 2 * number;
  }

  // The buffer of that operand and role, made the first time it is asked for.
  Buffer& add(const Operand& operand, Role role, const std::string& name, std::int64_t bytes) {
    for (const auto& made : buffers) {
      if (made->operand == &operand && made->role == role) return *made;
    }
    auto buffer = std::make_unique<Buffer>();
    buffer->operand = &operand;
    buffer->role = role;
    buffer->name = name;
    buffer->memory = GuardedBuffer(device, bytes);
    buffers.push_back(std::move(buffer));
    return *buffers.back();
  }

  // Where the operand's values lie in the room there is for them.
  Runs runs_of(const Operand& operand, std::int64_t elements) const {
    if (cut_of(operand, problem) != Cut::tokens) return whole_array(elements);
    const std::int64_t capacity = problem.total_tokens();
    const std::int64_t width = elements_per_token(operand, problem);
    if (tokens_are_fastest(operand, problem)) return {width, tokens, capacity};
    if (const std::int64_t gap = gap_of(operand)) return {tokens, width, width + gap};
    return {1, tokens * width, capacity * width};
  }

  Buffer& input(const Operand& operand, const std::string& name, const std::vector<float>& values) {
    const DType dtype = operand.dtype(problem);
    const Runs runs = runs_of(operand, static_cast<std::int64_t>(values.size()));
    const auto bytes = runs.count * runs.room * static_cast<std::int64_t>(size_of(dtype));
    Buffer& buffer = add(operand, Role::input, name, bytes);
    upload_encoded(device, copying, buffer.memory.payload<void>(), dtype, values, runs,
                   &buffer.fingerprints);
    return buffer;
  }

  Buffer& index_input(const Operand& operand, const std::vector<std::int64_t>& values) {
    const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(std::int64_t));
    Buffer& buffer = add(operand, Role::input, operand.name, bytes);
    upload_indices(device, buffer.memory.payload<void>(), values, &buffer.fingerprints);
    return buffer;
  }

  Buffer& in_place(const Operand& operand, const std::string& name,
                   const std::vector<float>& values) {
    const DType dtype = operand.dtype(problem);
    const auto count = static_cast<std::int64_t>(values.size());
    Buffer& buffer =
        add(operand, Role::in_place, name, count * static_cast<std::int64_t>(size_of(dtype)));
    if (buffer.original.data() == nullptr) {
      buffer.original = device.allocate(buffer.memory.bytes());
    }
    upload_encoded(device, copying, buffer.original.data(), dtype, values, whole_array(count),
                   nullptr);
    return buffer;
  }

  // Rows that a sequence writes start as NaN; the others must stay as they are.
  static std::vector<float> written_rows_forgotten(const Operand& operand, const Case& c) {
    std::vector<float> before = c[operand.name];
    for (std::int64_t n = 0; n < c.problem.num_sequences(); ++n) {
      written_strips_of(operand, c, {n}).for_each([&](std::int64_t i) {
        before[static_cast<std::size_t>(i)] = std::numeric_limits<float>::quiet_NaN();
      });
    }
    return before;
  }

  void fill_in_place(const Operand& operand, const Case& inputs) {
    const std::vector<float>& values = inputs[operand.name];
    if (operand.pool.out_of_place == nullptr || !operand.pool.out_of_place(problem)) {
      arguments.set_in_place(operand.name,
                             in_place(operand, operand.name, values).memory.payload<void>());
      return;
    }
    const Buffer& read = input(operand, operand.name + " (read)", values);
    const Buffer& written =
        in_place(operand, operand.name + " (written)", written_rows_forgotten(operand, inputs));
    arguments.set(operand.name, {read.memory.payload<void>(), written.memory.payload<void>(), 0});
  }

  // Buffers for all arrays of the case, or other values in those already made.
  void fill(const Case& inputs) {
    for (const Operand& operand : problem.operation->operands) {
      const bool asked =
          options.on_request && operand.hand_over.on_request && is_present(operand, problem);
      if (is_handed_over(operand, problem) || asked) fill(operand, inputs);
    }
    for (const auto& buffer : buffers) buffer->hidden = false;
  }

  void fill(const Operand& operand, const Case& inputs) {
    if (operand.is_index()) {
      arguments.set_input(operand.name,
                          index_input(operand, inputs.indices(operand)).memory.payload<void>());
    } else if (operand.role == Role::input) {
      const std::int64_t gap = gap_of(operand);
      arguments.set_input(operand.name,
                          input(operand, operand.name, inputs[operand.name]).memory.payload<void>(),
                          gap == 0 ? 0 : elements_per_token(operand, problem) + gap);
    } else if (operand.role == Role::in_place) {
      fill_in_place(operand, inputs);
    } else {
      const auto bytes = static_cast<std::int64_t>(element_count(operand, problem)) *
                         static_cast<std::int64_t>(size_of(operand.dtype(problem)));
      arguments.set_output(operand.name,
                           add(operand, Role::output, operand.name, bytes).memory.payload<void>());
      if (cut_of(operand, problem) == Cut::pool_rows)
        owned[&operand] = owned_elements(operand, inputs);
    }
  }

  void poison_async(const Buffer& buffer) const {
    device.fill_async(buffer.memory.payload<void>(), poison_of(buffer.operand->dtype(problem)),
                      buffer.memory.bytes());
  }
  void restore_async(const Buffer& buffer) const {
    device.copy_async(buffer.memory.payload<void>(), buffer.original.data(), buffer.memory.bytes());
  }

  // Of a pool's elements, those in rows that the case's sequences write.
  static std::vector<bool> owned_elements(const Operand& operand, const Case& c) {
    std::vector<bool> elements(static_cast<std::size_t>(element_count(operand, c.problem)), false);
    for (std::int64_t n = 0; n < c.problem.num_sequences(); ++n) {
      if (!writes_row(operand, c, n)) continue;
      written_strips_of(operand, c, {n}).for_each([&](std::int64_t i) {
        elements[static_cast<std::size_t>(i)] = true;
      });
    }
    return elements;
  }

  // Throws if a row that nobody owns has other bits than it was filled with.
  void require_unowned_rows_unwritten(const Operand& operand, const std::string& name, DType dtype,
                                      const std::vector<float>& values) const {
    const std::vector<bool>& of_sequences = owned.at(&operand);
    const std::uint32_t unwritten = unwritten_bits(dtype);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (of_sequences[i] || std::bit_cast<std::uint32_t>(values[i]) == unwritten) continue;
      throw Error(ErrorKind::device_failure,
                  name + ": row " +
                      std::to_string(static_cast<std::int64_t>(i) / row_stride(operand, problem)) +
                      " was written, which no sequence may write");
    }
  }

  std::vector<float> read_back(const Buffer& buffer) const {
    const Operand& operand = *buffer.operand;
    const DType dtype = operand.dtype(problem);
    const std::int64_t count = buffer.memory.bytes() / static_cast<std::int64_t>(size_of(dtype));
    std::vector<float> values =
        download_decoded(device, copying, buffer.memory.payload<void>(), dtype, count);
    if (cut_of(operand, problem) == Cut::tokens) {
      remove_rest(buffer.name, dtype, runs_of(operand, count), tokens_are_fastest(operand, problem),
                  tokens, values);
    }
    if (owned.count(&operand) > 0) {
      require_unowned_rows_unwritten(operand, buffer.name, dtype, values);
    }
    return values;
  }
};

DeviceCase::DeviceCase(const Case& inputs, Device& device, const DeviceCaseOptions& options)
    : state_(std::make_unique<State>(device)) {
  state_->options = options;
  validate(inputs);
  require_device_memory(inputs.problem, 0, device);
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
  if (state_->options.slices) throw_bad_input("refill: not of a case in slices");
  if (other.problem.num_sequences() != p.num_sequences() || tokens > capacity ||
      (tokens == 0 && capacity > 0)) {
    throw_bad_input("refill: " + std::to_string(p.num_sequences()) + " sequences of 1 to " +
                    std::to_string(capacity) + " tokens in all are expected");
  }
  state_->tokens = tokens;
  state_->fill(other);
  reset_async();
}

void DeviceCase::reset_async() {
  for (const auto& buffer : state_->buffers) {
    if (buffer->role == Role::output) state_->poison_async(*buffer);
  }
  restore_state_async();
}

void DeviceCase::restore_state_async() {
  for (const auto& buffer : state_->buffers) {
    if (buffer->role == Role::in_place) state_->restore_async(*buffer);
  }
}

void DeviceCase::hide(const Case& inputs, const std::vector<std::string>& operands,
                      HiddenIndices indices) {
  state_->device.synchronize();
  for (const auto& buffer : state_->buffers) {
    const Operand& operand = *buffer->operand;
    if (buffer->role == Role::output || !names(operands, operand.name)) continue;
    buffer->hidden = true;
    if (!operand.is_index()) {
      const std::int64_t bytes = buffer->memory.bytes();
      const auto hidden = hidden_elements(operand.dtype(state_->problem), bytes);
      state_->device.upload(buffer->memory.payload<void>(), hidden.data(), bytes);
      continue;
    }
    std::vector<std::int64_t> wrong(inputs.indices(operand).size());
    for (std::size_t i = 0; i < wrong.size(); ++i) {
      wrong[i] = wrong_index(inputs, operand, static_cast<std::int64_t>(i), indices);
    }
    state_->index_input(operand, wrong);
  }
}

void DeviceCase::show(const Case& inputs, const std::vector<std::string>& operands) {
  for (const auto& buffer : state_->buffers) {
    if (!buffer->hidden || !names(operands, buffer->operand->name)) continue;
    state_->fill(*buffer->operand, inputs);
    if (buffer->role == Role::in_place) state_->restore_async(*buffer);
    buffer->hidden = false;
  }
  state_->device.synchronize();
}

std::string DeviceCase::first_written(const std::vector<std::string>& operands) const {
  state_->device.synchronize();
  for (const auto& buffer : state_->buffers) {
    const std::string& name = buffer->operand->name;
    if (!names(operands, name) || buffer->role == Role::input) continue;
    const std::int64_t bytes = buffer->memory.bytes();
    if (buffer->hidden) {
      std::vector<std::uint16_t> seen(static_cast<std::size_t>(bytes) / sizeof(std::uint16_t));
      state_->device.download(seen.data(), buffer->memory.payload<void>(), bytes);
      if (seen != hidden_elements(buffer->operand->dtype(state_->problem), bytes)) return name;
    } else if (buffer->role == Role::in_place) {
      Device& device = state_->device;
      const bool same = device.fingerprint(buffer->memory.payload<void>(), bytes) ==
                        device.fingerprint(buffer->original.data(), bytes);
      if (!same) return name;
    } else {
      std::vector<unsigned char> seen(static_cast<std::size_t>(bytes));
      state_->device.download(seen.data(), buffer->memory.payload<void>(), bytes);
      const unsigned char poison = poison_of(buffer->operand->dtype(state_->problem));
      if (!std::all_of(seen.begin(), seen.end(),
                       [poison](unsigned char byte) { return byte == poison; }))
        return name;
    }
  }
  return "";
}

Outputs DeviceCase::download() const {
  state_->device.synchronize();
  Outputs outputs;
  for (const auto& buffer : state_->buffers) {
    if (buffer->role == Role::input) continue;
    outputs[buffer->operand->output_name()] = state_->read_back(*buffer);
  }
  return outputs;
}

void DeviceCase::check_guards(CheckInputs inputs) const {
  state_->device.synchronize();
  for (const auto& buffer : state_->buffers) {
    buffer->memory.check(state_->device, buffer->name);
    if (inputs == CheckInputs::later || buffer->role != Role::input || buffer->hidden) continue;
    const std::string where = where_changed(state_->device, buffer->memory.payload<void>(),
                                            buffer->memory.bytes(), buffer->fingerprints);
    if (where.empty()) continue;
    throw Error(ErrorKind::device_failure,
                "the input '" + buffer->name + "' was written to (" + where + ")");
  }
}

}  // namespace gdn
