// What an implementation's description does not name, other operations and fields off their default,
// is refused here, in one place: a kernel written for the gated delta rule need not know that other
// recurrences exist, nor what fields a problem gains later.
#include "interface/channel_quantization.h"
#include "interface/error.h"
#include "interface/implementation.h"

namespace gdn {
namespace {

class DescriptionGuard final : public Implementation {
 public:
  explicit DescriptionGuard(const Implementation& inner) : inner_(inner) {}

  const Description& description() const override { return inner_.description(); }
  Support supports(const Problem& problem) const override {
    const Support described = description_support(description(), problem);
    return described ? inner_.supports(problem) : described;
  }
  int rank(const Problem& problem) const override { return inner_.rank(problem); }
  std::int64_t workspace_bytes(const Problem& problem) const override {
    return inner_.workspace_bytes(problem);
  }
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_supported(*this, problem);
    require_forms(arguments, problem);
    return inner_.plan(problem, arguments, device);
  }

 private:
  void require_forms(const Arguments& arguments, const Problem& problem) const {
    for (const Arguments::Entry& entry : arguments.entries()) {
      if (entry.pointer.rows && !description().tokens_in_rows) {
        throw Error(ErrorKind::unsupported, description().name + ": " + entry.operand +
                                                " has its tokens in rows, expected a dense array");
      }
      if (description().gates_in_any_form) continue;
      const Operand* const operand = problem.operation->find(entry.operand);
      if (operand == nullptr || operand->is_index() || !entry.pointer.form) continue;
      throw Error(ErrorKind::unsupported,
                  description().name + ": " + entry.operand + " is held in a form of its own (" +
                      short_name(entry.pointer.form->type) + "), expected a dense array");
    }
  }

  const Implementation& inner_;
};

}  // namespace

Support description_support(const Description& description, const Problem& problem) {
  if (problem.operation != description.operation) {
    return Support::no("does " + to_string(description.operation) + ", not " +
                       to_string(problem.operation));
  }
  HonouredFields honoured = description.honours;
  if (description.gates_in_any_form) honoured.emplace_back("logits");
  const std::string field = first_not_honoured(problem, honoured);
  if (!field.empty()) return Support::no("does not honour " + field);
  const Operand* const scaled = description.writes_scales ? nullptr : scaled_output(problem);
  return scaled == nullptr ? Support::yes()
                           : Support::no("does not write " + scaled->name + " with scales");
}

std::vector<std::unique_ptr<const Implementation>> guarded_by_description(
    const std::vector<const Implementation*>& implementations) {
  std::vector<std::unique_ptr<const Implementation>> guarded;
  for (const Implementation* implementation : implementations) {
    guarded.push_back(std::make_unique<DescriptionGuard>(*implementation));
  }
  return guarded;
}

}  // namespace gdn
