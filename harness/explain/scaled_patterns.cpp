#include "harness/explain/scaled_patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "interface/channel_quantization.h"
#include "reference/errors.h"

namespace gdn {
namespace {

// A rounding to the nearest is off by no more than half a step; beside it the value's own error.
constexpr double kMoreThanHalf = 0.55;
constexpr double kWholeStep = 1.05;

class ScaledPatterns {
 public:
  ScaledPatterns(const CheckedReference& reference, const Outputs& outputs, const Anatomy& anatomy,
                 const Operand& elements)
      : reference_(reference),
        outputs_(outputs),
        anatomy_(anatomy),
        elements_(elements),
        scales_(scales_of(elements, *reference.inputs().problem.operation)),
        layout_(channel_layout(elements, reference.inputs().problem)) {}

  std::vector<FaultPattern> find() {
    if (!is_wrong(elements_) && !is_wrong(scales_)) return {};
    const double limit =
        reference::limit_of(anatomy_.report.limits, scales_.output_name()).relative_l2;
    std::int64_t wrong = 0, larger = 0, filled = 0;
    for (std::int64_t c = 0; c < layout_.channels(); ++c) {
      const double right = right_scale(c), actual = scale(c);
      // Beside sqrt(extent) times its own size at most, as it is judged.
      if (right == 0 || std::abs(actual - right) <=
                            limit * right * std::sqrt(static_cast<double>(layout_.extent)))
        continue;
      ++wrong;
      larger += actual > right;
      filled += largest_of(c) == kLargestInt8;
    }
    if (wrong > 0) {
      return {pattern("channel scales", "scales that are not the largest of their channel over 127",
                      {fmt::format("{} of {} scales are wrong, {} of them too large", wrong,
                                   layout_.channels(), larger),
                       fmt::format("{} of their channels have an element of 127", filled)})};
    }
    return rounding();
  }

 private:
  bool is_wrong(const Operand& operand) const {
    return std::any_of(anatomy_.outputs.begin(), anatomy_.outputs.end(),
                       [&](const WrongOutput& output) { return output.operand == &operand; });
  }
  double right_scale(std::int64_t channel) const {
    return reference_.wide()[scales_.name][static_cast<std::size_t>(channel)];
  }
  double scale(std::int64_t channel) const {
    return outputs_[scales_.name][static_cast<std::size_t>(channel)];
  }
  float largest_of(std::int64_t channel) const {
    float largest = 0;
    for (std::int64_t i = 0; i < layout_.extent; ++i) {
      const auto at = static_cast<std::size_t>(layout_.place(channel, i));
      largest = std::max(largest, std::abs(outputs_[elements_.name][at]));
    }
    return largest;
  }

  std::vector<FaultPattern> rounding() const {
    std::int64_t off = 0, towards_zero = 0, beyond = 0;
    for (std::int64_t c = 0; c < layout_.channels(); ++c) {
      if (right_scale(c) == 0) continue;
      for (std::int64_t i = 0; i < layout_.extent; ++i) {
        const auto at = static_cast<std::size_t>(layout_.place(c, i));
        const double expected = reference_.wide()[elements_.name][at];
        const double actual = outputs_[elements_.name][at];
        const double steps = std::abs(actual - expected);
        if (!(steps > kMoreThanHalf)) continue;
        ++off;
        towards_zero += std::abs(actual) < std::abs(expected);
        beyond += steps > kWholeStep;
      }
    }
    if (off == 0 || beyond > 0) return {};
    const char* const way = towards_zero == off ? "towards zero"
                            : towards_zero == 0 ? "away from zero"
                                                : "in one direction";
    return {pattern("channel rounding", fmt::format("elements rounded {}, not to the nearest", way),
                    {"every scale is right",
                     fmt::format("{} elements are off by more than half a step and none by more "
                                 "than one, {} of them towards zero",
                                 off, towards_zero)})};
  }

  FaultPattern pattern(const std::string& place, const std::string& text,
                       const std::vector<std::string>& evidence) const {
    return {place, text, evidence, {elements_.output_name(), scales_.output_name()}};
  }

  const CheckedReference& reference_;
  const Outputs& outputs_;
  const Anatomy& anatomy_;
  const Operand& elements_;
  const Operand& scales_;
  ChannelLayout layout_;
};

}  // namespace

std::vector<FaultPattern> find_scaled_patterns(const CheckedReference& reference,
                                               const Outputs& outputs, const Anatomy& anatomy) {
  const Operand* const scaled = scaled_output(reference.inputs().problem);
  if (scaled == nullptr) return {};
  return ScaledPatterns(reference, outputs, anatomy, *scaled).find();
}

}  // namespace gdn
