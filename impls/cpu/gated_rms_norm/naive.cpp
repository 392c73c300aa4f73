// cpu/naive: the gated norm as its definition says, row by row (a row is a token's value head):
// the sum of the squares, then every element. Threads over blocks of rows. Bound by the exponential
// of the gate.
#include <algorithm>
#include <cmath>
#include <functional>

#include "cpu/element.h"
#include "cpu/parallel.h"
#include "interface/error.h"
#include "interface/implementation.h"
#include "interface/operations/gated_rms_norm.h"

namespace gdn {
namespace {

constexpr std::int64_t kRowsPerItem = 64;

// Without infinity over infinity where exp(z) overflows.
float sigmoid(float z) {
  const float e = std::exp(-std::fabs(z));  // at most 1
  return (z >= 0 ? 1.0f : e) / (1.0f + e);
}

float gate_of(NormGate gate, float z) {
  switch (gate) {
    case NormGate::silu:
      return z * sigmoid(z);
    case NormGate::sigmoid:
      return sigmoid(z);
    case NormGate::sigmoid2:
      break;
  }
  return 2 * sigmoid(z);
}

// A worker's floats: a row of x, of z, and the weights.
std::int64_t worker_floats(const Problem& problem) { return 3 * problem.value_head_dim; }

class NaivePlan final : public Plan {
 public:
  NaivePlan(const Problem& problem, const GatedRmsNormArguments& arguments, Device& device)
      : problem_(problem),
        arguments_(arguments),
        workers_(static_cast<int>(
            std::clamp<std::int64_t>(items_of(problem.total_tokens()), 1, cpu::thread_count()))) {
    info_.workspace_bytes =
        worker_floats(problem) * workers_ * static_cast<std::int64_t>(sizeof(float));
    info_.launches = 1;
    info_.choice = "threads=" + std::to_string(workers_);
    workspace_ = device.allocate(info_.workspace_bytes);
    body_ = [this](std::int64_t item, int worker) { run_item(item, worker); };
  }

  const PlanInfo& info() const override { return info_; }
  void run() override { cpu::parallel_for(items_of(tokens()), workers_, body_); }

 private:
  std::int64_t items_of(std::int64_t tokens) const {
    return (tokens * problem_.num_value_heads + kRowsPerItem - 1) / kRowsPerItem;
  }
  // Of all sequences, as the offsets have it now.
  std::int64_t tokens() const { return arguments_.sequence_offsets[problem_.num_sequences()]; }

  void run_item(std::int64_t item, int worker) const {
    const std::int64_t width = problem_.value_head_dim;
    float* const x = workspace_.as<float>() + worker * worker_floats(problem_);
    float* const z = x + width;
    float* const weight = z + width;
    decode(problem_.token_dtype, cpu::element(arguments_.weight, 0, problem_.token_dtype), weight,
           width);
    const std::int64_t end =
        std::min((item + 1) * kRowsPerItem, tokens() * problem_.num_value_heads);
    for (std::int64_t row = item * kRowsPerItem; row < end; ++row) {
      run_row(row * width, weight, x, z);
    }
  }

  void run_row(std::int64_t first, const float* weight, float* x, float* z) const {
    const std::int64_t width = problem_.value_head_dim;
    const DType token = problem_.token_dtype;
    const DType output = problem_.effective_output_dtype();
    decode(token, cpu::element(arguments_.x, first, token), x, width);
    decode(token, cpu::element(arguments_.z, first, token), z, width);
    float squares = 0;
    for (std::int64_t j = 0; j < width; ++j) squares += x[j] * x[j];
    const float mean = squares / static_cast<float>(width);
    const float scale = 1 / std::sqrt(mean + static_cast<float>(problem_.norm_eps));
    for (std::int64_t j = 0; j < width; ++j) {
      x[j] = x[j] * scale * weight[j] * gate_of(problem_.norm_gate, z[j]);
    }
    encode(output, x, cpu::element(arguments_.y, first, output), width);
  }

  Problem problem_;
  GatedRmsNormArguments arguments_;
  int workers_;
  PlanInfo info_;
  DeviceBuffer workspace_;
  std::function<void(std::int64_t, int)> body_;  // made once: run() allocates nothing
};

class Naive final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "cpu/naive",
        .operation = gated_rms_norm_operation(),
        .backend = "cpu",
        .form = "naive",
        .summary = "row by row, the squares and then every element; bound by exp",
        .resources = "any CPU",
        .rank = 10,
        .examples = {"gated_rms_norm:heads=2/4,dim=64,seq=20+3,dtype=f32",
                     "gated_rms_norm:heads=1/5,dim=16x20,seq=9+1,dtype=bf16,norm_gate=sigmoid,"
                     "out=f32"}};
    return description;
  }
  Support supports(const Problem&) const override { return Support::yes(); }
  std::int64_t workspace_bytes(const Problem& problem) const override {
    return worker_floats(problem) * cpu::thread_count() * static_cast<std::int64_t>(sizeof(float));
  }
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_supported(*this, problem);
    if (const Support support = runs_on(*this, device.info()); !support) {
      throw Error(ErrorKind::device_unavailable, support.reason);
    }
    return std::make_unique<NaivePlan>(problem, gated_rms_norm_arguments(problem, arguments),
                                       device);
  }
};

}  // namespace

const Implementation& cpu_gated_rms_norm_naive() {
  static const Naive implementation;
  return implementation;
}

}  // namespace gdn
