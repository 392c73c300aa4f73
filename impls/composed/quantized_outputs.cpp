#include "composed/quantized_outputs.h"

#include <algorithm>
#include <utility>

#include "interface/channel_quantization.h"
#include "interface/error.h"

namespace gdn {
namespace {

// The same problem with the values themselves in float32.
Problem in_float32(const Problem& problem, const Operand& scaled) {
  Problem values = problem;
  scaled.scaled.make_float32(values);
  return values;
}

std::int64_t bytes_of_values(const Problem& problem, const Operand& scaled) {
  return channel_layout(scaled, problem).elements() * static_cast<std::int64_t>(sizeof(float));
}

class QuantizedOutputPlan final : public Plan {
 public:
  QuantizedOutputPlan(const Implementation& inner, const Problem& problem, const Operand& scaled,
                      const Arguments& given, Device& device)
      : device_(device), values_(device.allocate(bytes_of_values(problem, scaled))) {
    // An element that is converted and was never written shows.
    device.fill_async(values_.data(), 0xff, values_.bytes());
    Arguments arguments;
    for (const Arguments::Entry& entry : given.entries()) {
      if (entry.operand != scaled.scaled.by) arguments.set(entry.operand, entry.pointer);
    }
    arguments.set_output(scaled.name, values_.data());
    inner_ = inner.plan(in_float32(problem, scaled), arguments, device);
    quantization_.layout = channel_layout(scaled, problem);
    quantization_.values = values_.as<float>();
    quantization_.elements = static_cast<std::int8_t*>(given.output(scaled.name));
    quantization_.scales = static_cast<float*>(given.output(scaled.scaled.by));
    info_ = inner_->info();
    info_.workspace_bytes += values_.bytes();
    info_.launches += 1;
  }

  const PlanInfo& info() const override { return info_; }
  void run() override {
    inner_->run();
    device_.enqueue_quantization(quantization_, device_.native_stream());
  }

 private:
  Device& device_;
  DeviceBuffer values_;
  std::unique_ptr<Plan> inner_;
  ChannelQuantization quantization_;
  PlanInfo info_;
};

class QuantizedOutputs final : public Implementation {
 public:
  explicit QuantizedOutputs(std::unique_ptr<const Implementation> inner)
      : inner_(std::move(inner)), description_(inner_->description()) {
    description_.writes_scales = true;
    add_example();
  }

  const Description& description() const override { return description_; }
  int rank(const Problem& problem) const override { return inner_->rank(of_inner(problem)); }
  Support supports(const Problem& problem) const override {
    return inner_->supports(of_inner(problem));
  }
  std::int64_t workspace_bytes(const Problem& problem) const override {
    const Operand* const scaled = scaled_output(problem);
    return inner_->workspace_bytes(of_inner(problem)) +
           (scaled == nullptr ? 0 : bytes_of_values(problem, *scaled));
  }
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    const Operand* const scaled = scaled_output(problem);
    if (scaled == nullptr) return inner_->plan(problem, arguments, device);
    require_supported(*this, problem);
    if (const Support support = runs_on(*this, device.info()); !support) {
      throw Error(ErrorKind::device_unavailable, support.reason);
    }
    require_operands(problem, arguments);
    return std::make_unique<QuantizedOutputPlan>(*inner_, problem, *scaled, arguments, device);
  }

 private:
  static Problem of_inner(const Problem& problem) {
    const Operand* const scaled = scaled_output(problem);
    return scaled == nullptr ? problem : in_float32(problem, *scaled);
  }

  // Of the first one that it does so.
  void add_example() {
    for (const std::string& text : description_.examples) {
      Problem problem = Problem::parse(text);
      problem.checkpoints = std::max<std::int64_t>(problem.checkpoints, 2);
      problem.checkpoint_dtype = DType::int8;
      if (!supports(problem)) continue;
      description_.examples.push_back(problem.to_string());
      return;
    }
  }

  std::unique_ptr<const Implementation> inner_;
  Description description_;
};

}  // namespace

std::vector<std::unique_ptr<const Implementation>> with_quantized_outputs(
    std::vector<std::unique_ptr<const Implementation>> implementations) {
  for (auto& implementation : implementations) {
    const Description& description = implementation->description();
    const auto& operands = description.operation->operands;
    const bool may_have_scales =
        std::any_of(operands.begin(), operands.end(),
                    [](const Operand& operand) { return !operand.scaled.by.empty(); });
    if (may_have_scales && !description.writes_scales)
      implementation = std::make_unique<QuantizedOutputs>(std::move(implementation));
  }
  return implementations;
}

}  // namespace gdn
