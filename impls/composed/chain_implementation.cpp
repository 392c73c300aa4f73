#include "composed/chain_implementation.h"

#include <algorithm>
#include <utility>

#include "interface/error.h"

namespace gdn {
namespace {

using HandOn = ChainMembers::HandOn;

// In float32 where the steps hand on in float32 and the writer can.
bool is_in_float32(const HandedOn& array, HandOn hand_on) {
  return hand_on == HandOn::float32 && !array.in_float32.empty();
}

DType dtype_of(const HandedOn& array, HandOn hand_on, const Problem& whole) {
  return is_in_float32(array, hand_on) ? DType::float32 : whole.token_dtype;
}

const std::string& written_operand(const HandedOn& array, HandOn hand_on) {
  return is_in_float32(array, hand_on) ? array.in_float32 : array.in_token_dtype;
}

Problem problem_of(const Chain& chain, std::size_t step, HandOn hand_on, const Problem& whole) {
  DType dtype = whole.token_dtype;
  for (const HandedOn& array : chain.handed_on) {
    for (const HandedOn::Reader& reader : array.readers) {
      if (reader.step == step) dtype = dtype_of(array, hand_on, whole);
    }
  }
  return chain.steps[step].problem(whole, dtype);
}

// What a plan's steps are, with or without ChainMembers::ahead.
class Steps {
 public:
  Steps(const Chain& chain, const ChainMembers& members, bool ahead)
      : chain_(chain), members_(members), ahead_(ahead && members.ahead.has_value()) {}

  Problem problem(std::size_t step, const Problem& whole) const {
    const Problem problem = problem_of(chain_, step, members_.hand_on, whole);
    return ahead_ && step == members_.ahead->of_step ? members_.ahead->rest(problem) : problem;
  }
  const Implementation& implementation(std::size_t step) const {
    return ahead_ && step == members_.ahead->step ? *members_.ahead->implementation
                                                  : *members_.steps[step];
  }

 private:
  const Chain& chain_;
  const ChainMembers& members_;
  bool ahead_;
};

// Whether a caller sees what the step hands on.
bool is_asked_for(const Chain& chain, std::size_t step, const Arguments& given) {
  for (const HandedOn& array : chain.handed_on) {
    if (array.writer == step && !array.on_request.empty() &&
        given.output(array.on_request) != nullptr)
      return true;
  }
  return false;
}

// Of a problem that has the array.
struct Shape {
  std::int64_t token_stride = 0;  // elements
  std::int64_t bytes = 0;
  DType dtype = DType::float32;
};

Shape shape_of(const Chain& chain, const HandedOn& array, HandOn hand_on, const Problem& whole) {
  const Problem writer = problem_of(chain, array.writer, hand_on, whole);
  const Operand& operand = writer.operation->at(written_operand(array, hand_on));
  Shape shape;
  shape.dtype = dtype_of(array, hand_on, whole);
  shape.token_stride = elements_per_token(operand, writer);
  shape.bytes =
      whole.total_tokens() * shape.token_stride * static_cast<std::int64_t>(size_of(shape.dtype));
  return shape;
}

class ChainPlan final : public Plan {
 public:
  ChainPlan(const Chain& chain, const ChainMembers& members, const Problem& whole,
            const Arguments& arguments, Device& device)
      : chain_(chain),
        members_(members),
        whole_(whole),
        given_(arguments),
        steps_(chain, members,
               members.ahead && !is_asked_for(chain, members.ahead->step, arguments) &&
                   members.ahead->pays(
                       problem_of(chain, members.ahead->step, members.hand_on, whole),
                       problem_of(chain, members.ahead->of_step, members.hand_on, whole),
                       device.info())) {
    arguments_.resize(chain.steps.size());
    for (std::size_t step = 0; step < chain.steps.size(); ++step) take_from_whole(step);
    for (const HandedOn& array : chain.handed_on) {
      if (is_present(array, chain, whole)) connect(array, device);
    }
    for (std::size_t step = 0; step < chain.steps.size(); ++step) {
      if (!is_present(chain.steps[step], whole)) continue;
      plans_.push_back(
          steps_.implementation(step).plan(steps_.problem(step, whole), arguments_[step], device));
      add(plans_.back()->info(), step == members.main_step);
    }
  }

  const PlanInfo& info() const override { return info_; }
  void run() override {
    for (const auto& plan : plans_) plan->run();
  }

 private:
  // The step's operands that are the whole's, but for those that another step writes or reads. What the whole has
  // for other steps alone is not this one's.
  void take_from_whole(std::size_t step) {
    const Problem problem = steps_.problem(step, whole_);
    for (const Operand& operand : chain_.steps[step].operation->operands) {
      if (is_handed_on(step, operand.name) || !is_present(operand, problem)) continue;
      const std::string& name = name_in_whole(chain_.steps[step], operand.name);
      if (!given_.has(name)) continue;
      ArrayPointer pointer = given_[name];
      if (operand.may_have_form && !pointer.form) pointer.form = form_in_whole(name);
      arguments_[step].set(operand.name, pointer);
    }
  }

  // Its type is said: the step, with tokens in float32, may have another one there.
  std::optional<HeldForm> form_in_whole(const std::string& name) const {
    const Operand& operand = whole_.operation->at(name);
    const StorageType type = own_type(operand, whole_);
    if (!is_present(operand, whole_) || type == StorageType::float32) return std::nullopt;
    const bool has_tokens = cut_of(operand, whole_) == Cut::tokens;
    return HeldForm{type, has_tokens ? token_stride_of(name, whole_, given_) : 0, 1};
  }

  bool is_handed_on(std::size_t step, const std::string& operand) const {
    for (const HandedOn& array : chain_.handed_on) {
      if (!is_present(array, chain_, whole_)) continue;
      if (array.writer == step && (operand == array.in_token_dtype || operand == array.in_float32))
        return true;
      for (const HandedOn::Reader& reader : array.readers) {
        if (reader.step == step && reader.operand == operand) return true;
      }
    }
    return false;
  }

  void connect(const HandedOn& array, Device& device) {
    const Shape shape = shape_of(chain_, array, members_.hand_on, whole_);
    const bool in_float32 = is_in_float32(array, members_.hand_on);
    void* const asked_for = array.on_request.empty() ? nullptr : given_.output(array.on_request);
    void* data = in_float32 ? nullptr : asked_for;
    if (data == nullptr) {
      intermediates_.push_back(device.allocate(shape.bytes));
      data = intermediates_.back().data();
      // A step that reads what the one before never wrote shows.
      device.fill_async(data, 0xff, shape.bytes);
      info_.workspace_bytes += intermediates_.back().bytes();
    }
    Arguments& writer = arguments_[array.writer];
    writer.set_output(written_operand(array, members_.hand_on), data);
    if (in_float32 && asked_for != nullptr) writer.set_output(array.in_token_dtype, asked_for);
    for (const HandedOn::Reader& reader : array.readers) {
      if (!is_present(chain_.steps[reader.step], whole_)) continue;
      const std::int64_t first = reader.first_element == nullptr ? 0 : reader.first_element(whole_);
      const char* begin =
          static_cast<const char*>(data) + first * static_cast<std::int64_t>(size_of(shape.dtype));
      arguments_[reader.step].set_input(reader.operand, begin, shape.token_stride);
    }
  }

  void add(const PlanInfo& step, bool is_main) {
    info_.workspace_bytes += step.workspace_bytes;
    info_.launches += step.launches;
    if (!is_main) return;
    info_.chunk = step.chunk;
    info_.choice = step.choice;
  }

  const Chain& chain_;
  const ChainMembers& members_;
  Problem whole_;
  Arguments given_;
  Steps steps_;
  std::vector<Arguments> arguments_;         // by step
  std::vector<DeviceBuffer> intermediates_;  // none where what a caller asked for is one
  std::vector<std::unique_ptr<Plan>> plans_;
  PlanInfo info_;
};

}  // namespace

ChainImplementation::ChainImplementation(const Chain& chain, ChainMembers members)
    : chain_(chain),
      members_(std::move(members)),
      description_(members_.steps[members_.main_step]->description()) {
  const std::string form = description_.name;
  description_.operation = chain.operation;
  description_.examples = members_.examples;
  description_.summary.clear();
  for (std::size_t step = 0; step < chain.steps.size(); ++step) {
    const Implementation* implementation = members_.steps[step];
    if (implementation == nullptr) continue;
    const Description& of_step = implementation->description();
    description_.honours = description_.honours + of_step.honours;
    if (!chain.steps[step].asked_for_by.empty()) {
      description_.honours = description_.honours + HonouredFields{chain.steps[step].asked_for_by};
    }
    if (step == members_.main_step || chain.steps[step].present != nullptr) continue;
    description_.summary += to_string(of_step.operation) + " " + of_step.name + ", then ";
  }
  description_.summary += to_string(chain.steps[members_.main_step].operation) + " " + form +
                          " on views into its result, in " +
                          (members_.hand_on == HandOn::float32 ? "float32" : "the token dtype");
}

int ChainImplementation::rank(const Problem& problem) const {
  const std::size_t step = members_.main_step;
  return members_.steps[step]->rank(problem_of(chain_, step, members_.hand_on, problem));
}

Support ChainImplementation::supports(const Problem& problem) const {
  for (std::size_t step = 0; step < chain_.steps.size(); ++step) {
    if (!is_present(chain_.steps[step], problem)) continue;
    const Problem of_step = problem_of(chain_, step, members_.hand_on, problem);
    // A field may be another step's that honours it, and this one's that does not.
    Support support = description_support(members_.steps[step]->description(), of_step);
    if (support) support = members_.steps[step]->supports(of_step);
    if (!support) return support;
  }
  for (const HandedOn& array : chain_.handed_on) {
    if (!is_present(array, chain_, problem)) continue;
    const Problem writer = problem_of(chain_, array.writer, members_.hand_on, problem);
    const Operand& operand = writer.operation->at(written_operand(array, members_.hand_on));
    if (tokens_are_fastest(operand, writer)) {
      return Support::no(operand.name + " has tokens fastest; what is handed on in the " +
                         "token dtype has them outermost");
    }
  }
  return Support::yes();
}

std::int64_t ChainImplementation::workspace_bytes(const Problem& problem) const {
  std::int64_t bytes = 0;
  for (const HandedOn& array : chain_.handed_on) {
    if (is_present(array, chain_, problem)) {
      bytes += shape_of(chain_, array, members_.hand_on, problem).bytes;
    }
  }
  for (std::size_t step = 0; step < chain_.steps.size(); ++step) {
    if (!is_present(chain_.steps[step], problem)) continue;
    bytes +=
        members_.steps[step]->workspace_bytes(problem_of(chain_, step, members_.hand_on, problem));
  }
  return bytes;
}

std::unique_ptr<Plan> ChainImplementation::plan(const Problem& problem, const Arguments& arguments,
                                                Device& device) const {
  require_supported(*this, problem);
  if (const Support support = runs_on(*this, device.info()); !support) {
    throw Error(ErrorKind::device_unavailable, support.reason);
  }
  require_operands(problem, arguments);
  return std::make_unique<ChainPlan>(chain_, members_, problem, arguments, device);
}

}  // namespace gdn
