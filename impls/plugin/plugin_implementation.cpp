#include "plugin/plugin_implementation.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <exception>
#include <utility>
#include <vector>

#include "interface/error.h"
#include "plugin/call_mark.h"
#include "plugin/described_problem.h"
#include "plugin/operand_in_c.h"

namespace gdn {
namespace {

const std::array<std::string, 3> kBackends = {"cpu", "cuda", "hip"};

std::string required_text(const char* text, const char* member) {
  if (text == nullptr || *text == '\0') throw_bad_input(std::string(member) + ": is empty");
  return text;
}

// "h0,norm, decay=channel" as entries.
HonouredFields fields_in(const char* list, Operation operation) {
  HonouredFields fields;
  std::string entry;
  for (const char* at = list == nullptr ? "" : list;; ++at) {
    if (*at == ' ') continue;
    if (*at != ',' && *at != '\0') {
      entry += *at;
      continue;
    }
    if (!entry.empty()) {
      const std::string key = problem_field(entry.substr(0, entry.find('='))).key;
      if (!is_common_field(key) && !operation->has_field(key)) {
        throw_bad_input("honours: " + key + " is no field of " + operation->name);
      }
      fields.push_back(std::exchange(entry, {}));
    }
    if (*at == '\0') return fields;
  }
}

// The plug-in's line, ended where its room ends, without line breaks.
std::string line_of(const gdnbench_plugin_message& message) {
  std::string line(message.text, strnlen(message.text, sizeof message.text));
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < ' '; }, ' ');
  return line;
}

const char* name_of(gdnbench_status status) {
  switch (status) {
    case GDNBENCH_OK:
      return "GDNBENCH_OK";
    case GDNBENCH_BAD_INPUT:
      return "GDNBENCH_BAD_INPUT";
    case GDNBENCH_UNSUPPORTED:
      return "GDNBENCH_UNSUPPORTED";
    case GDNBENCH_DEVICE_UNAVAILABLE:
      return "GDNBENCH_DEVICE_UNAVAILABLE";
    case GDNBENCH_OUT_OF_MEMORY:
      return "GDNBENCH_OUT_OF_MEMORY";
    case GDNBENCH_DEVICE_FAILURE:
      return "GDNBENCH_DEVICE_FAILURE";
  }
  return nullptr;
}

std::string told(gdnbench_status status, const gdnbench_plugin_message& message) {
  const char* const name = name_of(status);
  const std::string returned =
      name != nullptr ? name : "the status " + std::to_string(static_cast<int>(status));
  const std::string line = line_of(message);
  return "returned " + returned + (line.empty() ? ", without a message" : ": " + line);
}

// What it throws is told like what it returns.
template <typename Call>
auto called(PluginCall call, const Call& body) {
  const CallMark mark(call);
  try {
    return body();
  } catch (const std::exception& error) {
    throw Error(ErrorKind::device_failure,
                std::string(to_string(call)) + " threw: " + error.what());
  } catch (...) {
    throw Error(ErrorKind::device_failure,
                std::string(to_string(call)) + " threw something that is no std::exception");
  }
}

class PluginPlan final : public Plan {
 public:
  PluginPlan(const gdnbench_plugin_implementation& exported, std::string name,
             const Problem& problem, const Arguments& arguments, Device& device,
             std::int64_t workspace_bytes)
      : exported_(exported),
        name_(std::move(name)),
        problem_(problem),
        stream_(device.native_stream()),
        workspace_(device.allocate(workspace_bytes)) {
    info_.chunk = problem.chunk;
    info_.workspace_bytes = workspace_bytes;
    for (std::int64_t i = 0; i < problem_.in_c().num_operands; ++i) {
      add(problem_.in_c().operands[i], problem, arguments);
    }
  }

  const PlanInfo& info() const override { return info_; }

  void run() override {
    gdnbench_plugin_message message{};
    gdnbench_status status = GDNBENCH_OK;
    try {
      status = called(PluginCall::enqueue, [&] {
        return exported_.enqueue(&problem_.in_c(), arrays_.data(),
                                 static_cast<std::int64_t>(arrays_.size()), workspace_.data(),
                                 stream_, &message);
      });
    } catch (const Error& error) {
      throw Error(ErrorKind::device_failure, name_ + ": " + error.what());
    }
    if (status == GDNBENCH_OK) return;
    throw Error(
        status == GDNBENCH_OUT_OF_MEMORY ? ErrorKind::out_of_memory : ErrorKind::device_failure,
        name_ + ": enqueue() " + told(status, message));
  }

 private:
  // Extents and strides of an array, in elements.
  struct Shape {
    std::array<std::int64_t, GDNBENCH_MAX_RANK> extents{};
    std::array<std::int64_t, GDNBENCH_MAX_RANK> strides{};
  };

  void add(const gdnbench_operand& described, const Problem& problem, const Arguments& arguments) {
    const Operand& operand = problem.operation->at(described.name);
    if (!arguments.has(operand.name)) return;
    const ArrayPointer pointer = arguments[operand.name];
    Shape& shape = shapes_.emplace_back();
    gdnbench_array array{};
    array.operand = described.name;
    array.read = described.is_read ? pointer.read : nullptr;
    array.written = described.is_written ? pointer.written : nullptr;
    array.dtype = described.dtype;
    array.rank = described.rank;
    std::int64_t stride = 1;
    for (auto i = static_cast<std::size_t>(described.rank); i-- > 0;) {
      shape.extents[i] = described.extents[i];
      shape.strides[i] = stride;
      stride *= described.extents[i];
    }
    const Cut cut = cut_of(operand, problem);
    if (cut == Cut::pool_rows) shape.strides[0] = row_stride(operand, problem);
    if (takes_token_stride(operand, problem) && pointer.token_stride != 0) {
      shape.strides[0] = pointer.token_stride;
    }
    if (pointer.form) {
      array.dtype = short_name(pointer.form->type).c_str();
      shape.strides[0] = pointer.form->stride;
    }
    array.extents = shape.extents.data();
    array.strides = shape.strides.data();
    arrays_.push_back(array);
  }

  const gdnbench_plugin_implementation& exported_;
  std::string name_;
  DescribedProblem problem_;
  void* stream_;
  DeviceBuffer workspace_;
  PlanInfo info_;
  std::deque<Shape> shapes_;  // they stay where they are
  std::vector<gdnbench_array> arrays_;
};

// A form of its own is taken of indices alone, as of every implementation.
void require_plain_forms(const std::string& name, const Problem& problem,
                         const Arguments& arguments) {
  for (const Arguments::Entry& entry : arguments.entries()) {
    const Operand* const operand = problem.operation->find(entry.operand);
    const bool in_form = operand != nullptr && !operand->is_index() && entry.pointer.form;
    if (!in_form && !entry.pointer.rows) continue;
    throw Error(
        ErrorKind::unsupported,
        name + ": " + entry.operand + " is held in a form of its own, expected a dense array");
  }
}

}  // namespace

Description described(const gdnbench_plugin_implementation& exported) {
  Description description;
  description.name = required_text(exported.name, "name");
  description.operation = parse_operation(required_text(exported.operation, "operation"));
  description.backend = required_text(exported.backend, "backend");
  if (std::find(kBackends.begin(), kBackends.end(), description.backend) == kBackends.end()) {
    throw_bad_input("backend: '" + description.backend + "', expected cpu, cuda or hip");
  }
  const std::string start = description.backend + "/";
  if (description.name.rfind(start, 0) != 0 || description.name == start ||
      description.name.find_first_of(" ,:\t\n") != std::string::npos) {
    throw_bad_input("name: '" + description.name + "', expected '" + start +
                    "NAME' without spaces, commas and colons");
  }
  if (exported.enqueue == nullptr) throw_bad_input("enqueue: is NULL");
  description.honours = fields_in(exported.honours, description.operation);
  description.form = "plugin";
  description.summary = exported.summary == nullptr ? "" : exported.summary;
  description.bitwise_repeatable = exported.is_repeatable != 0;
  description.batch_invariant = exported.is_batch_invariant != 0;
  return description;
}

Support plugin_runs_on(const Implementation& plugin, const DeviceInfo& device) {
  const Support support = runs_on(plugin, device);
  if (!support || !device.emulated) return support;
  return Support::no(plugin.description().name + " is compiled for a card, which " +
                     device.backend + " is not");
}

PluginImplementation::PluginImplementation(const gdnbench_plugin_implementation& exported,
                                           std::string file_hash)
    : exported_(&exported), description_(described(exported)), file_hash_(std::move(file_hash)) {}

Support PluginImplementation::supports(const Problem& problem) const {
  if (Support named = description_support(description_, problem); !named) return named;
  if (exported_->supports == nullptr) return Support::yes();
  try {
    const DescribedProblem described(problem);
    gdnbench_plugin_message message{};
    const gdnbench_status status = called(
        PluginCall::supports, [&] { return exported_->supports(&described.in_c(), &message); });
    if (status == GDNBENCH_OK) return Support::yes();
    const std::string line = line_of(message);
    const bool is_reason = status == GDNBENCH_UNSUPPORTED && !line.empty();
    return Support::no(is_reason ? line : "supports() " + told(status, message));
  } catch (const Error& error) {
    return Support::no(error.what());
  }
}

std::int64_t PluginImplementation::workspace_bytes(const Problem& problem) const {
  if (exported_->workspace_bytes == nullptr) return 0;
  const DescribedProblem described(problem);
  const std::int64_t bytes = called(PluginCall::workspace_bytes,
                                    [&] { return exported_->workspace_bytes(&described.in_c()); });
  if (bytes < 0) {
    throw Error(ErrorKind::device_failure, description_.name + ": workspace_bytes() returned " +
                                               std::to_string(bytes) + ", expected 0 or more");
  }
  return bytes;
}

std::unique_ptr<Plan> PluginImplementation::plan(const Problem& problem, const Arguments& arguments,
                                                 Device& device) const {
  require_supported(*this, problem);
  if (const Support here = plugin_runs_on(*this, device.info()); !here) {
    throw Error(ErrorKind::unsupported, here.reason);
  }
  require_operands(problem, arguments);
  require_plain_forms(description_.name, problem, arguments);
  return std::make_unique<PluginPlan>(*exported_, description_.name, problem, arguments, device,
                                      workspace_bytes(problem));
}

}  // namespace gdn
