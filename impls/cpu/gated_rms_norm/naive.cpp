// cpu/naive: the gated norm as its definition says, row by row (a row is a token's value head), each
// vectorised along its elements (row_kernel.cpp). Threads over blocks of rows. Bound by the
// exponential of the gate.
#include <algorithm>
#include <functional>

#include "cpu/element.h"
#include "cpu/gated_rms_norm/row_kernel.h"
#include "cpu/parallel.h"
#include "interface/error.h"
#include "interface/implementation.h"
#include "interface/operations/gated_rms_norm.h"

namespace gdn::cpu {
namespace {

constexpr std::int64_t kRowsPerItem = 64;

// Floats of a row of the workspace: each starts on a cache line.
std::int64_t row_floats(const Problem& problem) { return (problem.value_head_dim + 15) / 16 * 16; }

// A worker's floats: a row of x, of z, of y, and the weights.
std::int64_t worker_floats(const Problem& problem) { return 4 * row_floats(problem); }

class NaivePlan final : public Plan {
 public:
  NaivePlan(const Problem& problem, const GatedRmsNormArguments& arguments, Device& device)
      : problem_(problem),
        arguments_(arguments),
        workers_(static_cast<int>(
            std::clamp<std::int64_t>(items_of(problem.total_tokens()), 1, thread_count()))),
        norm_row_(version_for(instruction_set(), GDN_CPU_VERSIONS(norm_row))) {
    info_.workspace_bytes =
        worker_floats(problem) * workers_ * static_cast<std::int64_t>(sizeof(float));
    info_.launches = 1;
    info_.choice = "isa=" + to_string(instruction_set()) + " threads=" + std::to_string(workers_);
    workspace_ = device.allocate(info_.workspace_bytes);
    body_ = [this](std::int64_t item, int worker) { run_item(item, worker); };
  }

  const PlanInfo& info() const override { return info_; }
  void run() override { parallel_for(items_of(tokens()), workers_, body_); }

 private:
  std::int64_t items_of(std::int64_t tokens) const {
    return (tokens * problem_.num_value_heads + kRowsPerItem - 1) / kRowsPerItem;
  }
  // Of all sequences, as the offsets have it now.
  std::int64_t tokens() const { return arguments_.sequence_offsets[problem_.num_sequences()]; }

  void run_item(std::int64_t item, int worker) const {
    const std::int64_t width = problem_.value_head_dim;
    const DType token = problem_.token_dtype;
    const DType output = problem_.effective_output_dtype();
    float* const x = workspace_.as<float>() + worker * worker_floats(problem_);
    float* const z = x + row_floats(problem_);
    float* const y = z + row_floats(problem_);
    float* const weight = y + row_floats(problem_);
    decode(token, element(arguments_.weight, 0, token), weight, width);
    const std::int64_t end =
        std::min((item + 1) * kRowsPerItem, tokens() * problem_.num_value_heads);
    for (std::int64_t row = item * kRowsPerItem; row < end; ++row) {
      const std::int64_t t = row / problem_.num_value_heads;
      const std::int64_t in_token = row % problem_.num_value_heads * width;
      const std::int64_t x_at = t * arguments_.x_token_stride + in_token;
      const std::int64_t z_at = t * arguments_.z_token_stride + in_token;
      decode(token, element(arguments_.x, x_at, token), x, width);
      decode(token, element(arguments_.z, z_at, token), z, width);
      norm_row_(x, z, weight, width, static_cast<float>(problem_.norm_eps), problem_.norm_gate, y);
      encode(output, y, element(arguments_.y, row * width, output), width);
    }
  }

  Problem problem_;
  GatedRmsNormArguments arguments_;
  int workers_;
  decltype(&baseline::norm_row) norm_row_;
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
        .honours = {"out", "norm_gate", "norm_eps"},
        .backend = "cpu",
        .form = "naive",
        .summary = "row by row, vectorised along the row; bound by exp",
        .resources = "any CPU",
        .rank = 10,
        .examples = {"gated_rms_norm:heads=2/4,dim=64,seq=20+3,dtype=f32",
                     "gated_rms_norm:heads=1/5,dim=16x20,seq=9+1,dtype=bf16,norm_gate=sigmoid,"
                     "out=f32"}};
    return description;
  }
  Support supports(const Problem&) const override { return Support::yes(); }
  std::int64_t workspace_bytes(const Problem& problem) const override {
    return worker_floats(problem) * thread_count() * static_cast<std::int64_t>(sizeof(float));
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

const Implementation& gated_rms_norm_naive() {
  static const Naive implementation;
  return implementation;
}

}  // namespace gdn::cpu
