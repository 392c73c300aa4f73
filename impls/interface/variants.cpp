// Variants of the recurrence that an implementation does not name are refused here, in one place: a
// kernel written for the gated delta rule need not know that others exist.
#include <limits>

#include "interface/error.h"
#include "interface/implementation.h"

namespace gdn {
namespace {

class VariantGuard final : public Implementation {
 public:
  explicit VariantGuard(const Implementation& inner) : inner_(inner) {}

  const Description& description() const override { return inner_.description(); }
  Support supports(const Problem& problem) const override {
    const Support variant = variant_support(description(), problem);
    return variant ? inner_.supports(problem) : variant;
  }
  std::int64_t workspace_bytes(const Problem& problem) const override {
    return inner_.workspace_bytes(problem);
  }
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_supported(*this, problem);
    return inner_.plan(problem, arguments, device);
  }

 private:
  const Implementation& inner_;
};

}  // namespace

Variants Variants::all() { return {true, std::numeric_limits<std::int64_t>::max(), true}; }

Support variant_support(const Description& description, const Problem& problem) {
  const Variants& variants = description.variants;
  if (problem.update == UpdateRule::additive && !variants.additive_update) {
    return Support::no("does the delta rule only, not update=additive");
  }
  if (problem.steps > variants.most_steps) {
    return Support::no("does at most " + std::to_string(variants.most_steps) + " Householder step" +
                       (variants.most_steps == 1 ? "" : "s") +
                       " per token, not steps=" + std::to_string(problem.steps));
  }
  if (problem.decay == DecayPer::channel && !variants.decay_per_channel) {
    return Support::no("does one decay per value head only, not decay=channel");
  }
  return Support::yes();
}

std::vector<std::unique_ptr<const Implementation>> refusing_other_variants(
    const std::vector<const Implementation*>& implementations) {
  std::vector<std::unique_ptr<const Implementation>> guarded;
  for (const Implementation* implementation : implementations) {
    guarded.push_back(std::make_unique<VariantGuard>(*implementation));
  }
  return guarded;
}

}  // namespace gdn
