// cuda/rows: the gated norm, a row (a token's value head) by 8, 16 or 32 lanes of a warp.
//
// A lane loads its part of x and of z in vectors of 16 bytes, all of them before it uses any, and
// keeps them in registers: every element is read once and written once. The squares are summed by
// shuffles among the row's lanes. Rows that are no whole vectors, are longer than 2 KB, or lie in
// arrays that are not aligned to 16 bytes take a warp each, element by element, and are read twice.
// Which of the two it is, and by how many lanes, depends on Dv and the pointers alone, so a row's
// bits do not depend on its batch. How many rows there are is read on the device.
//
// Behind a recurrence of few tokens (gated_delta_layer/decode.cpp) it is launched to overlap it, where the card can
// (hopper/overlap.cuh): z is asked for before the recurrence is waited for, whose output x is.
//
// Bound by device memory, once the arithmetic is short: 5 operations and a gate for every 6 bytes of
// 16-bit tokens. With an exact exponential and a division in the gate it was bound by instructions.
// The weights come from the cache. Reached, 32 heads of 128, 4x8192 bfloat16 tokens on an H200:
// 0.194 ms, 4.14 TB/s (data/measured/h200-2026-11-25).
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/element.cuh"
#include "cuda/gated_rms_norm/norm_rows.cuh"
#include "cuda/hopper/overlap.cuh"
#include "cuda/launch_plan.h"
#include "cuda/target.h"
#include "interface/operations/gated_rms_norm.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

constexpr int kThreads = 256;

struct NormParams : NormRows {
  void* y = nullptr;
  DType output_dtype = DType::float32;
};

/// The row of this group of `Lanes` lanes.
template <int Lanes>
__device__ __forceinline__ std::int64_t row_index() {
  return (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) / Lanes;
}

/// 16 bytes of tokens as they lie in memory. In words: compiled for sm_90a, elements of 16 bits would take a register
/// each as soon as they have come.
template <typename Token>
struct alignas(16) LoadedVector {
  static constexpr int kCount = Vector16<Token>::kCount;
  std::uint32_t words[4];

  __device__ __forceinline__ float operator[](int i) const {
    if constexpr (sizeof(Token) == sizeof(float)) {
      return __uint_as_float(words[i]);
    } else {
      return widen_half_word<Token>(words[i / 2], i % 2);
    }
  }
};

/// Stores 16 bytes' worth of tokens; as float32 twice that.
template <typename Output, int Count>
__device__ __forceinline__ void store_vector(Output* to, const float (&values)[Count]) {
  using Vector = Vector16<Output>;
#pragma unroll
  for (int i = 0; i < Count; i += Vector::kCount) {
    Vector vector;
#pragma unroll
    for (int j = 0; j < Vector::kCount; ++j) vector.values[j] = from_float<Output>(values[i + j]);
    *reinterpret_cast<Vector*>(to + i) = vector;
  }
}

/// Rows of at most Lanes * Vectors vectors.
template <typename Token, typename Output, int Lanes, int Vectors>
__global__ void __launch_bounds__(kThreads) norm_vectors_kernel(const NormParams p) {
  using Vector = LoadedVector<Token>;
  const NormRow row = norm_row(p, row_index<Lanes>());
  const int lane = static_cast<int>(threadIdx.x) % Lanes;
  const auto* const x = static_cast<const Token*>(p.x) + row.at(p.x_token_stride);
  const auto* const z = static_cast<const Token*>(p.z) + row.at(p.z_token_stride);
  const auto* const weight = static_cast<const Token*>(p.weight);
  auto* const y = static_cast<Output*>(p.y) + row.first;

  Vector xs[Vectors], zs[Vectors];
  const auto load = [&](Vector(&to)[Vectors], const Token* from) {
#pragma unroll
    for (int i = 0; i < Vectors; ++i) {
      const int at = (i * Lanes + lane) * Vector::kCount;
      if (row.exists && at < p.width) to[i] = *reinterpret_cast<const Vector*>(from + at);
    }
  };
  load(zs, z);
  hopper::end_overlap();  // of what writes x
  load(xs, x);
  float squares = 0;
#pragma unroll
  for (int i = 0; i < Vectors; ++i) {
    const int at = (i * Lanes + lane) * Vector::kCount;
    if (!row.exists || at >= p.width) continue;
#pragma unroll
    for (int j = 0; j < Vector::kCount; ++j) {
      const float value = xs[i][j];
      squares = fmaf(value, value, squares);
    }
  }
  const float scale = row_scale(p, sum_over<Lanes>(squares));
#pragma unroll
  for (int i = 0; i < Vectors; ++i) {
    const int at = (i * Lanes + lane) * Vector::kCount;
    if (!row.exists || at >= p.width) continue;
    const Vector weights = *reinterpret_cast<const Vector*>(weight + at);
    float values[Vector::kCount];
#pragma unroll
    for (int j = 0; j < Vector::kCount; ++j) {
      values[j] = xs[i][j] * scale * weights[j] * gate_of<Output>(p.gate, zs[i][j]);
    }
    store_vector<Output>(y + at, values);
  }
}

/// Any row: a warp, element by element.
template <typename Token>
__global__ void __launch_bounds__(kThreads) norm_elements_kernel(const NormParams p) {
  hopper::end_overlap();  // of what writes x
  const NormRow row = norm_row(p, row_index<kWarp>());
  if (!row.exists) return;  // the whole warp
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const auto* const x = static_cast<const Token*>(p.x) + row.at(p.x_token_stride);
  const auto* const z = static_cast<const Token*>(p.z) + row.at(p.z_token_stride);
  const auto* const weight = static_cast<const Token*>(p.weight);
  float squares = 0;
  for (int at = lane; at < p.width; at += kWarp) {
    const float value = to_float(x[at]);
    squares = fmaf(value, value, squares);
  }
  const float scale = row_scale(p, sum_over<kWarp>(squares));
  for (int at = lane; at < p.width; at += kWarp) {
    const float value =
        to_float(x[at]) * scale * to_float(weight[at]) * gate_of<float>(p.gate, to_float(z[at]));
    store_element(p.y, row.first + at, p.output_dtype, value);
  }
}

// ---- host

/// What a plan launches.
struct Launch {
  void (*kernel)(NormParams) = nullptr;
  int lanes = kWarp;  ///< of a row
  int vectors = 0;    ///< of a lane; 0: element by element
};

template <typename Token, typename Output>
Launch vectors_launch(std::int64_t width) {
  const std::int64_t vectors = width / Vector16<Token>::kCount;
  if (vectors <= 8) return {norm_vectors_kernel<Token, Output, 8, 1>, 8, 1};
  if (vectors <= 16) return {norm_vectors_kernel<Token, Output, 16, 1>, 16, 1};
  if (vectors <= 32) return {norm_vectors_kernel<Token, Output, 32, 1>, 32, 1};
  if (vectors <= 64) return {norm_vectors_kernel<Token, Output, 32, 2>, 32, 2};
  return {norm_vectors_kernel<Token, Output, 32, 4>, 32, 4};
}

template <typename Token>
Launch choose(const Problem& problem, const GatedRmsNormArguments& arguments) {
  constexpr std::int64_t kCount = Vector16<Token>::kCount;
  constexpr std::int64_t kMostVectors = 128;
  const std::int64_t width = problem.value_head_dim;
  bool whole = width % kCount == 0 && width <= kMostVectors * kCount &&
               arguments.x_token_stride % kCount == 0 && arguments.z_token_stride % kCount == 0;
  for (const void* pointer :
       {arguments.x, arguments.z, arguments.weight, static_cast<const void*>(arguments.y)}) {
    whole = whole && reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
  }
  if (!whole) return {norm_elements_kernel<Token>, kWarp, 0};
  return problem.effective_output_dtype() == problem.token_dtype
             ? vectors_launch<Token, Token>(width)
             : vectors_launch<Token, float>(width);
}

class Rows final : public Implementation {
 public:
  /// `behind`: its plans run behind another one that enqueues kernels, on one stream with nothing in between.
  explicit Rows(bool behind) : behind_(behind) {}

  const Description& description() const override {
    static const Description description = {
        .name = "cuda/rows",
        .operation = gated_rms_norm_operation(),
        .honours = {"out", "norm_gate", "norm_eps"},
        .backend = "cuda",
        .form = "rows",
        .summary = "8 to 32 lanes per row, 16 bytes at a time; bound by device memory",
        .resources = "",
        .min_compute_capability = 80,
        .rank = 10,
        .examples = {"gated_rms_norm:heads=2/4,dim=64,seq=20+3,dtype=f32",
                     "gated_rms_norm:heads=1/3,dim=16x256,seq=9+1,dtype=f16,norm_gate=sigmoid2",
                     "gated_rms_norm:heads=1/5,dim=16x20,seq=9+1,dtype=bf16,norm_gate=sigmoid,"
                     "out=f32"}};
    return description;
  }

  Support supports(const Problem&) const override { return Support::yes(); }
  std::int64_t workspace_bytes(const Problem&) const override { return 0; }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    const GatedRmsNormArguments given = gated_rms_norm_arguments(problem, arguments);
    NormParams params{norm_rows(problem, given)};
    params.y = given.y;
    params.output_dtype = problem.effective_output_dtype();
    const Launch launch = with_element_type(
        problem.token_dtype, [&](auto token) { return choose<decltype(token)>(problem, given); });

    const std::int64_t rows_per_block = kThreads / launch.lanes;
    const std::int64_t rows = problem.total_tokens() * problem.num_value_heads;
    const unsigned int blocks = grid_blocks(
        std::max<std::int64_t>(1, (rows + rows_per_block - 1) / rows_per_block), "gated_rms_norm");
    PlanInfo info;
    info.launches = 1;
    info.choice = launch.vectors == 0 ? std::string("lanes=32 elements")
                                      : "lanes=" + std::to_string(launch.lanes) +
                                            " vectors=" + std::to_string(launch.vectors);
    // Without tokens the plan before may enqueue nothing.
    const bool overlaps = behind_ && rows > 0 && hopper::can_overlap(device.info());
    return std::make_unique<LaunchPlan>(
        device, info, std::vector<DeviceBuffer>{},
        [params, kernel = launch.kernel, blocks, overlaps](cudaStream_t stream) {
          hopper::launch_behind(overlaps, kernel, blocks, kThreads, stream, params);
        });
  }

 private:
  bool behind_;
};

}  // namespace

const Implementation& gated_rms_norm_rows() {
  static const Rows implementation(false);
  return implementation;
}

const Implementation& gated_rms_norm_rows_behind() {
  static const Rows implementation(true);
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
