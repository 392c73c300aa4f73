// cpu/naive: gradients of the gated norm as contract 1.13 says them, row by row (a row is a token's
// value head), each vectorised along its elements (row_kernel.cpp). Bound by the exponential of the
// gate.
//
// The rows are in at most 64 parts of consecutive ones, each with float64 sums of its own for
// d_weight, which are added in the order of the parts: the bits do not depend on the number of
// threads.
#include <algorithm>
#include <functional>

#include "cpu/element.h"
#include "cpu/gated_rms_norm_backward/row_kernel.h"
#include "cpu/parallel.h"
#include "interface/error.h"
#include "interface/implementation.h"
#include "interface/operations/gated_rms_norm_backward.h"

namespace gdn::cpu {
namespace {

constexpr std::int64_t kMostParts = 64;
constexpr std::int64_t kLeastRows = 16;  // of a part

std::int64_t num_parts(const Problem& p) {
  const std::int64_t rows = p.total_tokens() * p.num_value_heads;
  return std::clamp<std::int64_t>((rows + kLeastRows - 1) / kLeastRows, 1, kMostParts);
}

// Elements of a row of the workspace: each starts on a cache line.
std::int64_t row_stride(const Problem& p) { return (p.value_head_dim + 15) / 16 * 16; }

// A worker's rows of x, z, d_y, d_x, d_z and the weights.
constexpr std::int64_t kWorkerRows = 6;

std::int64_t bytes_for(const Problem& p, std::int64_t workers) {
  const auto doubles = static_cast<std::int64_t>(sizeof(double));
  const auto floats = static_cast<std::int64_t>(sizeof(float));
  return row_stride(p) * (num_parts(p) * doubles + workers * kWorkerRows * floats);
}

class NaivePlan final : public Plan {
 public:
  NaivePlan(const Problem& problem, const GatedRmsNormBackwardArguments& arguments, Device& device)
      : problem_(problem),
        a_(arguments),
        parts_(num_parts(problem)),
        workers_(static_cast<int>(std::min<std::int64_t>(parts_, thread_count()))),
        gradients_(version_for(instruction_set(), GDN_CPU_VERSIONS(norm_row_gradients))) {
    info_.workspace_bytes = bytes_for(problem, workers_);
    info_.launches = 1;
    info_.choice = "isa=" + to_string(instruction_set()) + " threads=" + std::to_string(workers_);
    workspace_ = device.allocate(info_.workspace_bytes);
    sums_ = workspace_.as<double>();
    worker_rows_ = reinterpret_cast<float*>(sums_ + parts_ * row_stride(problem));
    body_ = [this](std::int64_t part, int worker) { run_part(part, worker); };
  }

  const PlanInfo& info() const override { return info_; }

  void run() override {
    parallel_for(parts_, workers_, body_);
    for (std::int64_t j = 0; j < problem_.value_head_dim; ++j) {
      double sum = 0;
      for (std::int64_t part = 0; part < parts_; ++part) {
        sum += sums_[part * row_stride(problem_) + j];
      }
      a_.d_weight[j] = static_cast<float>(sum);
    }
  }

 private:
  void run_part(std::int64_t part, int worker) const {
    const std::int64_t width = problem_.value_head_dim, stride = row_stride(problem_);
    const std::int64_t heads = problem_.num_value_heads;
    const DType token = problem_.token_dtype;
    float* const x = worker_rows_ + worker * kWorkerRows * stride;
    float *const z = x + stride, *const d_y = z + stride, *const d_x = d_y + stride;
    float *const d_z = d_x + stride, *const weight = d_z + stride;
    double* const d_weight = sums_ + part * stride;
    decode(token, element(a_.forward.weight, 0, token), weight, width);
    std::fill_n(d_weight, width, 0.0);
    // Of all sequences, as the offsets have it now.
    const std::int64_t tokens = a_.forward.sequence_offsets[problem_.num_sequences()];
    const std::int64_t rows = tokens * heads;
    const std::int64_t rows_per_part = (problem_.total_tokens() * heads + parts_ - 1) / parts_;
    const std::int64_t end = std::min((part + 1) * rows_per_part, rows);
    for (std::int64_t row = part * rows_per_part; row < end; ++row) {
      const std::int64_t t = row / heads, in_token = row % heads * width;
      const auto load = [&](const void* array, std::int64_t token_stride, float* to) {
        decode(token, element(array, t * token_stride + in_token, token), to, width);
      };
      load(a_.forward.x, a_.forward.x_token_stride, x);
      load(a_.forward.z, a_.forward.z_token_stride, z);
      load(a_.d_y, a_.d_y_token_stride, d_y);
      gradients_(x, z, weight, d_y, width, static_cast<float>(problem_.norm_eps),
                 problem_.norm_gate, d_x, d_z, d_weight);
      encode(token, d_x, element(a_.d_x, row * width, token), width);
      encode(token, d_z, element(a_.d_z, row * width, token), width);
    }
  }

  Problem problem_;
  GatedRmsNormBackwardArguments a_;
  std::int64_t parts_;
  int workers_;
  decltype(&baseline::norm_row_gradients) gradients_;
  PlanInfo info_;
  DeviceBuffer workspace_;
  double* sums_ = nullptr;                       // [parts, Dv rounded up]
  float* worker_rows_ = nullptr;                 // [workers, kWorkerRows, Dv rounded up]
  std::function<void(std::int64_t, int)> body_;  // made once: run() allocates nothing
};

class Naive final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "cpu/naive",
        .operation = gated_rms_norm_backward_operation(),
        .honours = {"norm_gate", "norm_eps"},
        .backend = "cpu",
        .form = "naive",
        .summary = "row by row, vectorised along the row; bound by exp",
        .resources = "any CPU",
        .rank = 10,
        .examples = {"gated_rms_norm_backward:heads=2/4,dim=64,seq=20+3,dtype=f32",
                     "gated_rms_norm_backward:heads=1/5,dim=16x20,seq=9+1,dtype=bf16,"
                     "norm_gate=sigmoid"}};
    return description;
  }
  Support supports(const Problem&) const override { return Support::yes(); }
  std::int64_t workspace_bytes(const Problem& problem) const override {
    return bytes_for(problem, thread_count());
  }
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_supported(*this, problem);
    if (const Support support = runs_on(*this, device.info()); !support) {
      throw Error(ErrorKind::device_unavailable, support.reason);
    }
    return std::make_unique<NaivePlan>(
        problem, gated_rms_norm_backward_arguments(problem, arguments), device);
  }
};

}  // namespace

const Implementation& gated_rms_norm_backward_naive() {
  static const Naive implementation;
  return implementation;
}

}  // namespace gdn::cpu
