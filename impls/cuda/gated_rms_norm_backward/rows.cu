// cuda/rows: gradients of the gated norm (docs/contract.md, section 1.13), in two launches.
//
// A row (a token's value head) by 8, 16 or 32 lanes of a warp, as cuda/rows of the norm itself
// takes it: a lane loads its part of x, z and d_y in vectors of 16 bytes, all of them before it
// uses any, and keeps them in registers. Two sums over the row by shuffles, of the squares and of u
// g, with u = x / n and g = d_y weight gate(z); then
//
//     d_x = (g - u mean(u g)) / n;   d_z = d_y u weight gate'(z)
//     d_weight = sum over rows of d_y u gate(z)
//
// A block goes over rows with a stride. Its sums for d_weight stay in registers, each lane's for
// its columns, until the last row; the lanes of a column are added through shared memory, and a
// second kernel adds the blocks' in a fixed order, in float64. No atomics. Rows that are no whole
// vectors, are longer than 2 KB, or lie in arrays that are not aligned to 16 bytes take a warp
// each, element by element, are read twice, and keep each warp's sums in the workspace. Which of
// the two it is depends on Dv and the pointers alone, so that the bits of a row's gradients do not
// depend on its batch.
//
// Bound by device memory: three arrays read once, two written. Not measured on a card yet.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/activation.cuh"
#include "cuda/element.cuh"
#include "cuda/gated_rms_norm/norm_rows.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/launch_plan.h"
#include "cuda/sum_of_parts.cuh"
#include "cuda/target.h"
#include "interface/operations/gated_rms_norm_backward.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
// More than a card holds at once, few enough for the second kernel to add what each leaves. Of rows
// by elements, whose sums lie in memory, fewer.
constexpr std::int64_t kMostBlocks = 1024;
constexpr std::int64_t kMostElementBlocks = 256;

struct NormGradientParams : NormRows {
  const void* d_y = nullptr;          // [T, Hv, Dv], token dtype
  std::int64_t d_y_token_stride = 0;  // elements
  void* d_x = nullptr;                // [T, Hv, Dv], dense
  void* d_z = nullptr;                // likewise
  float* d_weight = nullptr;          // [Dv]
  float* partial_sums = nullptr;      // [parts, Dv]
  std::int32_t blocks = 1;            // of the grid: rows beyond are strided over
  std::int32_t parts = 1;             // blocks, or warps of blocks where rows go by elements
};

/// gate(z) and its slope.
struct Gate {
  float value, slope;
};
template <typename Rounded>
__device__ __forceinline__ Gate gate_and_slope(NormGate gate, float z) {
  const Sigmoid s = sigmoid_and_slope_for<Rounded>(z);
  if (gate == NormGate::silu) return {z * s.value, silu_slope(z, s)};
  if (gate == NormGate::sigmoid) return {s.value, s.slope};
  return {2.0f * s.value, 2.0f * s.slope};
}

/// Rows of at most Lanes * Vectors vectors.
template <typename Token, int Lanes, int Vectors>
__global__ void __launch_bounds__(kThreads)
    norm_gradient_vectors_kernel(const NormGradientParams p) {
  using Vector = Vector16<Token>;
  constexpr int kCount = Vector::kCount;
  constexpr int kRows = kThreads / Lanes;  // of a block at a time
  constexpr int kColumns = Lanes * Vectors * kCount;
  const int lane = static_cast<int>(threadIdx.x) % Lanes;
  const int group = static_cast<int>(threadIdx.x) / Lanes;
  const auto* const weight = static_cast<const Token*>(p.weight);
  const float per_element = 1.0f / static_cast<float>(p.width);
  float sums[Vectors][kCount] = {};

  const std::int64_t rows = norm_row_count(p);
  // All groups of a block stay together: shuffles are among all lanes of a warp.
  for (std::int64_t base = static_cast<std::int64_t>(blockIdx.x) * kRows; base < rows;
       base += static_cast<std::int64_t>(p.blocks) * kRows) {
    const NormRow row = norm_row(p, base + group);
    const auto* const x = static_cast<const Token*>(p.x) + row.at(p.x_token_stride);
    const auto* const z = static_cast<const Token*>(p.z) + row.at(p.z_token_stride);
    const auto* const d_y = static_cast<const Token*>(p.d_y) + row.at(p.d_y_token_stride);
    Vector xs[Vectors], zs[Vectors], d_ys[Vectors];
#pragma unroll
    for (int i = 0; i < Vectors; ++i) {
      const int at = (i * Lanes + lane) * kCount;
      if (row.exists && at < p.width) {
        xs[i] = *reinterpret_cast<const Vector*>(x + at);
        zs[i] = *reinterpret_cast<const Vector*>(z + at);
        d_ys[i] = *reinterpret_cast<const Vector*>(d_y + at);
      }
    }
    float squares = 0;
#pragma unroll
    for (int i = 0; i < Vectors; ++i) {
      if (!row.exists || (i * Lanes + lane) * kCount >= p.width) continue;
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        const float value = to_float(xs[i].values[j]);
        squares = fmaf(value, value, squares);
      }
    }
    const float scale = row_scale(p, sum_over<Lanes>(squares));
    float g[Vectors][kCount];
    float along = 0;
#pragma unroll
    for (int i = 0; i < Vectors; ++i) {
      const int at = (i * Lanes + lane) * kCount;
      if (!row.exists || at >= p.width) continue;
      const Vector weights = *reinterpret_cast<const Vector*>(weight + at);
      Vector d_z;
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        const Gate gate = gate_and_slope<Token>(p.gate, to_float(zs[i].values[j]));
        const float u = to_float(xs[i].values[j]) * scale, dy = to_float(d_ys[i].values[j]);
        const float of_gate = dy * to_float(weights.values[j]);
        sums[i][j] = fmaf(dy * u, gate.value, sums[i][j]);
        d_z.values[j] = from_float<Token>(of_gate * u * gate.slope);
        g[i][j] = of_gate * gate.value;
        along = fmaf(u, g[i][j], along);
      }
      *reinterpret_cast<Vector*>(static_cast<Token*>(p.d_z) + row.first + at) = d_z;
    }
    const float mean = sum_over<Lanes>(along) * per_element;
#pragma unroll
    for (int i = 0; i < Vectors; ++i) {
      const int at = (i * Lanes + lane) * kCount;
      if (!row.exists || at >= p.width) continue;
      Vector d_x;
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        const float u = to_float(xs[i].values[j]) * scale;
        d_x.values[j] = from_float<Token>(fmaf(-u, mean, g[i][j]) * scale);
      }
      *reinterpret_cast<Vector*>(static_cast<Token*>(p.d_x) + row.first + at) = d_x;
    }
  }

  // [rows of a block, columns]: 32 KB at most.
  __shared__ float shared[kRows * kColumns];
#pragma unroll
  for (int i = 0; i < Vectors; ++i) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      shared[group * kColumns + (i * Lanes + lane) * kCount + j] = sums[i][j];
    }
  }
  __syncthreads();
  for (int column = static_cast<int>(threadIdx.x); column < p.width; column += kThreads) {
    float sum = 0;
    for (int i = 0; i < kRows; ++i) sum += shared[i * kColumns + column];
    p.partial_sums[static_cast<std::int64_t>(blockIdx.x) * p.width + column] = sum;
  }
}

/// Any row: a warp, element by element.
template <typename Token>
__global__ void __launch_bounds__(kThreads)
    norm_gradient_elements_kernel(const NormGradientParams p) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t warp =
      static_cast<std::int64_t>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / kWarp;
  const auto* const weight = static_cast<const Token*>(p.weight);
  const float per_element = 1.0f / static_cast<float>(p.width);
  // Each lane's columns are its own.
  float* const sums = p.partial_sums + warp * p.width;
  for (int at = lane; at < p.width; at += kWarp) sums[at] = 0;

  const std::int64_t rows = norm_row_count(p);
  for (std::int64_t index = warp; index < rows; index += p.parts) {  // the whole warp
    const NormRow row = norm_row(p, index);
    const auto* const x = static_cast<const Token*>(p.x) + row.at(p.x_token_stride);
    const auto* const z = static_cast<const Token*>(p.z) + row.at(p.z_token_stride);
    const auto* const d_y = static_cast<const Token*>(p.d_y) + row.at(p.d_y_token_stride);
    float squares = 0;
    for (int at = lane; at < p.width; at += kWarp) {
      const float value = to_float(x[at]);
      squares = fmaf(value, value, squares);
    }
    const float scale = row_scale(p, sum_over<kWarp>(squares));
    float along = 0;
    for (int at = lane; at < p.width; at += kWarp) {
      const Gate gate = gate_and_slope<Token>(p.gate, to_float(z[at]));
      const float u = to_float(x[at]) * scale, dy = to_float(d_y[at]);
      const float of_gate = dy * to_float(weight[at]);
      sums[at] = fmaf(dy * u, gate.value, sums[at]);
      static_cast<Token*>(p.d_z)[row.first + at] = from_float<Token>(of_gate * u * gate.slope);
      along = fmaf(u, of_gate * gate.value, along);
    }
    const float mean = sum_over<kWarp>(along) * per_element;
    for (int at = lane; at < p.width; at += kWarp) {
      const Gate gate = gate_and_slope<Token>(p.gate, to_float(z[at]));
      const float u = to_float(x[at]) * scale;
      const float g = to_float(d_y[at]) * to_float(weight[at]) * gate.value;
      static_cast<Token*>(p.d_x)[row.first + at] = from_float<Token>(fmaf(-u, mean, g) * scale);
    }
  }
}

/// A block for kSumColumns of d_weight.
__global__ void __launch_bounds__(kSumThreads)
    norm_gradient_sums_kernel(const NormGradientParams p) {
  double sum;
  std::int64_t column;
  if (!sum_of_parts(p.partial_sums, p.parts, p.width, column, sum)) return;
  p.d_weight[column] = static_cast<float>(sum);
}

// ---- host

/// What a plan launches.
struct Launch {
  void (*kernel)(NormGradientParams) = nullptr;
  int lanes = kWarp;  ///< of a row
  int vectors = 0;    ///< of a lane; 0: element by element
};

template <typename Token>
Launch vectors_launch(std::int64_t width) {
  const std::int64_t vectors = width / Vector16<Token>::kCount;
  if (vectors <= 8) return {norm_gradient_vectors_kernel<Token, 8, 1>, 8, 1};
  if (vectors <= 16) return {norm_gradient_vectors_kernel<Token, 16, 1>, 16, 1};
  if (vectors <= 32) return {norm_gradient_vectors_kernel<Token, 32, 1>, 32, 1};
  if (vectors <= 64) return {norm_gradient_vectors_kernel<Token, 32, 2>, 32, 2};
  return {norm_gradient_vectors_kernel<Token, 32, 4>, 32, 4};
}

template <typename Token>
Launch choose(const NormGradientParams& p) {
  constexpr std::int64_t kCount = Vector16<Token>::kCount;
  constexpr std::int64_t kMostVectors = 128;
  bool whole = p.width % kCount == 0 && p.width <= kMostVectors * kCount;
  for (const std::int64_t stride : {p.x_token_stride, p.z_token_stride, p.d_y_token_stride}) {
    whole = whole && stride % kCount == 0;
  }
  const void* const written[] = {p.d_x, p.d_z};
  for (const void* pointer : {p.x, p.z, p.weight, p.d_y, written[0], written[1]}) {
    whole = whole && reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
  }
  if (!whole) return {norm_gradient_elements_kernel<Token>, kWarp, 0};
  return vectors_launch<Token>(p.width);
}

std::int64_t blocks_for(const Problem& problem, int lanes, std::int64_t most) {
  const std::int64_t rows = problem.total_tokens() * problem.num_value_heads;
  const std::int64_t rows_per_block = kThreads / lanes;
  return std::clamp<std::int64_t>((rows + rows_per_block - 1) / rows_per_block, 1, most);
}

class Rows final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "cuda/rows",
        .operation = gated_rms_norm_backward_operation(),
        .honours = {"norm_gate", "norm_eps"},
        .backend = "cuda",
        .form = "rows",
        .summary =
            "8 to 32 lanes per row, 16 bytes at a time, d_weight by a second launch; bound "
            "by device memory",
        .resources = "",
        .min_compute_capability = 80,
        .rank = 10,
        .examples = {"gated_rms_norm_backward:heads=2/4,dim=64,seq=20+3,dtype=f32",
                     "gated_rms_norm_backward:heads=1/3,dim=16x256,seq=9+1,dtype=f16,"
                     "norm_gate=sigmoid2",
                     "gated_rms_norm_backward:heads=1/5,dim=16x20,seq=9+1,dtype=bf16,"
                     "norm_gate=sigmoid"}};
    return description;
  }

  Support supports(const Problem&) const override { return Support::yes(); }

  // Of rows by elements at most: a warp has sums of its own there.
  std::int64_t workspace_bytes(const Problem& problem) const override {
    const std::int64_t parts = std::max(blocks_for(problem, kWarp, kMostBlocks),
                                        blocks_for(problem, kWarp, kMostElementBlocks) * kWarps);
    return parts * problem.value_head_dim * static_cast<std::int64_t>(sizeof(float));
  }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    const GatedRmsNormBackwardArguments given =
        gated_rms_norm_backward_arguments(problem, arguments);
    NormGradientParams params{norm_rows(problem, given.forward)};
    params.d_y = given.d_y;
    params.d_y_token_stride = given.d_y_token_stride;
    params.d_x = given.d_x;
    params.d_z = given.d_z;
    params.d_weight = given.d_weight;
    const Launch launch = with_element_type(
        problem.token_dtype, [&](auto token) { return choose<decltype(token)>(params); });
    const bool by_elements = launch.vectors == 0;
    params.blocks = static_cast<std::int32_t>(
        blocks_for(problem, launch.lanes, by_elements ? kMostElementBlocks : kMostBlocks));
    params.parts = by_elements ? params.blocks * kWarps : params.blocks;
    std::vector<DeviceBuffer> workspaces;
    workspaces.push_back(device.allocate(params.parts * problem.value_head_dim *
                                         static_cast<std::int64_t>(sizeof(float))));
    params.partial_sums = workspaces.back().as<float>();
    PlanInfo info;
    info.launches = 2;
    info.choice = by_elements ? std::string("lanes=32 elements")
                              : "lanes=" + std::to_string(launch.lanes) +
                                    " vectors=" + std::to_string(launch.vectors);
    return std::make_unique<LaunchPlan>(
        device, info, std::move(workspaces), [params, launch](cudaStream_t stream) {
          launch_kernel(launch.kernel, static_cast<unsigned int>(params.blocks), kThreads, 0,
                        stream, params);
          const unsigned int sum_blocks =
              grid_blocks((params.width + kSumColumns - 1) / kSumColumns, "sums over a batch");
          launch_kernel(norm_gradient_sums_kernel, sum_blocks, kSumThreads, 0, stream, params);
        });
  }
};

}  // namespace

const Implementation& gated_rms_norm_backward_rows() {
  static const Rows implementation;
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
