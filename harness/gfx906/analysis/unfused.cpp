#include "harness/gfx906/analysis/unfused.h"

#include <bit>
#include <limits>
#include <variant>

#include "harness/gfx906/analysis/kernels.h"
#include "harness/gfx906/analysis/unfused_params.h"
#include "hip/gated_delta/arguments.h"
#include "hip/kernel_launcher.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn {
namespace hip {
namespace {

constexpr std::int64_t kChunk = kUnfusedChunk;
constexpr std::int32_t kAllRows = std::numeric_limits<std::int32_t>::max();

struct Step {
  const char* kernel;
  Extent grid;
  Extent block;
  std::variant<ElementwiseParams, ProductParams, ChunkParams> params;
};

MatrixView transposed(MatrixView view) {
  std::swap(view.row_stride, view.column_stride);
  return view;
}
/// One value per row, the same in every column.
MatrixView per_row(MatrixView column) {
  column.column_stride = 0;
  return column;
}
/// One value per column, the same in every row.
MatrixView per_column(MatrixView column) { return transposed(per_row(column)); }
/// The last row's value everywhere.
MatrixView last_of(MatrixView column) {
  column.data += (kChunk - 1) * column.row_stride;
  column.row_stride = column.column_stride = 0;
  return column;
}
/// The matrix of one chunk, for launches over that chunk alone.
MatrixView chunk_of(MatrixView view, std::int64_t chunk) {
  view.data += chunk * view.chunk_stride;
  return view;
}

std::int64_t chunks_of(const Problem& problem) {
  return (problem.total_tokens() + kChunk - 1) / kChunk;
}

/// Builds the chain: hands out workspace and appends steps. With a null workspace it only counts.
class Chain {
 public:
  Chain(const Problem& problem, const GatedDeltaParams& given, float* workspace)
      : problem_(problem), given_(given), workspace_(workspace), chunks_(chunks_of(problem)) {
    build();
  }
  std::int64_t workspace_floats() const { return used_; }
  std::vector<Step> take_steps() { return std::move(steps_); }

 private:
  // ---- tensors
  MatrixView tensor(std::int64_t rows, std::int64_t columns) {
    return allocate(rows, columns, chunks_);
  }
  /// Of the loop over chunks: one matrix per head.
  MatrixView tensor_of_one_chunk(std::int64_t rows, std::int64_t columns) {
    return allocate(rows, columns, 1);
  }
  MatrixView allocate(std::int64_t rows, std::int64_t columns, std::int64_t chunks) {
    const MatrixView view{workspace_ == nullptr ? nullptr : workspace_ + used_,
                          chunks * rows * columns,
                          rows * columns,
                          static_cast<std::int32_t>(columns),
                          1,
                          0,
                          0};
    used_ += problem_.num_value_heads * chunks * rows * columns;
    return view;
  }
  /// A [T, heads, width] array as one matrix per head and chunk.
  MatrixView tokens(const void* data, std::int64_t token_stride, std::int64_t width,
                    std::int32_t head_shift) const {
    return {static_cast<float*>(const_cast<void*>(data)),
            width,
            kChunk * token_stride,
            static_cast<std::int32_t>(token_stride),
            1,
            head_shift,
            0};
  }

  // ---- steps
  ElementwiseParams& elementwise(ElementOp op, const MatrixView& out, const MatrixView& a,
                                 const MatrixView& b, std::int64_t rows, std::int64_t columns,
                                 std::int64_t chunks) {
    ElementwiseParams params{out,
                             a,
                             b,
                             op,
                             1.0f,
                             std::countr_zero(static_cast<std::uint32_t>(columns)),
                             static_cast<std::int32_t>(rows * columns),
                             kAllRows,
                             kAllRows};
    const auto groups = static_cast<std::uint32_t>((rows * columns + 255) / 256);
    steps_.push_back({"unfused_elementwise", grid(groups, chunks), {256, 1, 1}, params});
    return std::get<ElementwiseParams>(steps_.back().params);
  }
  void product(const MatrixView& out, const MatrixView& a, const MatrixView& b, std::int64_t rows,
               std::int64_t columns, std::int64_t depth, std::int64_t chunks) {
    const auto column_tiles = static_cast<std::uint32_t>(columns / 64);
    steps_.push_back({"unfused_product",
                      grid(static_cast<std::uint32_t>(rows / 64) * column_tiles, chunks),
                      {256, 1, 1},
                      ProductParams{out, a, b, static_cast<std::int32_t>(depth),
                                    std::countr_zero(column_tiles)}});
  }
  void chunk_kernel(const char* kernel, const MatrixView& out, const MatrixView& a,
                    const MatrixView& b) {
    steps_.push_back({kernel, grid(1, chunks_), {64, 1, 1}, ChunkParams{out, a, b}});
  }
  Extent grid(std::uint32_t x, std::int64_t chunks) const {
    return {x, static_cast<std::uint32_t>(problem_.num_value_heads),
            static_cast<std::uint32_t>(chunks)};
  }

  void build();
  void prepare();
  void walk(std::int64_t chunk);

  const Problem& problem_;
  const GatedDeltaParams& given_;
  float* workspace_;
  std::int64_t chunks_;
  std::int64_t used_ = 0;
  std::vector<Step> steps_;

  MatrixView query_{}, key_{}, decay_{}, cumulative_{}, decay_exp_{}, update_{}, carried_{};
  MatrixView output_{}, state_{};
  // of the loop over chunks
  MatrixView scores_{}, predicted_{}, corrected_{}, query_decayed_{}, from_state_{}, from_chunk_{};
  MatrixView tail_{}, key_tail_{}, state_update_{};
};

/// Everything that does not need the state, over all chunks at once.
void Chain::prepare() {
  const std::int64_t Dk = problem_.key_head_dim, Dv = problem_.value_head_dim;
  const std::int32_t length = static_cast<std::int32_t>(problem_.total_tokens());
  const auto shift =
      std::countr_zero(static_cast<std::uint32_t>(problem_.value_heads_per_key_head()));
  // Repeat q and k over the value heads and bring each head's tokens together; pad with zeros.
  const auto gather = [&](const MatrixView& out, const MatrixView& from, std::int64_t columns,
                          float factor) {
    ElementwiseParams& params =
        elementwise(ElementOp::copy, out, from, from, kChunk, columns, chunks_);
    params.rows_left = length;
    params.factor = factor;
  };
  const MatrixView value = tensor(kChunk, Dv), beta = tensor(kChunk, 1), gate = tensor(kChunk, 1);
  gather(query_, tokens(given_.query, given_.query_token_stride, Dk, shift), Dk, given_.scale);
  gather(key_, tokens(given_.key, given_.key_token_stride, Dk, shift), Dk, 1);
  gather(value, tokens(given_.value, given_.value_token_stride, Dv, 0), Dv, 1);
  gather(beta, tokens(given_.beta, problem_.num_value_heads, 1, 0), 1, 1);
  gather(gate, tokens(given_.gate, problem_.num_value_heads, 1, 0), 1, 1);

  const MatrixView value_beta = tensor(kChunk, Dv), key_beta = tensor(kChunk, Dk);
  const auto over_all = [&](ElementOp op, const MatrixView& out, const MatrixView& a,
                            const MatrixView& b, std::int64_t columns) -> ElementwiseParams& {
    return elementwise(op, out, a, b, kChunk, columns, chunks_);
  };
  over_all(ElementOp::multiply, value_beta, value, per_row(beta), Dv);
  over_all(ElementOp::multiply, key_beta, key_, per_row(beta), Dk);

  // Decays from j to i, masked before and after the exponential.
  chunk_kernel("unfused_running_sum", cumulative_, gate, gate);
  const MatrixView differences = tensor(kChunk, kChunk);
  over_all(ElementOp::subtract, differences, per_row(cumulative_), per_column(cumulative_), kChunk);
  over_all(ElementOp::mask_lower, differences, differences, differences, kChunk);
  over_all(ElementOp::exponential, decay_, differences, differences, kChunk);
  over_all(ElementOp::mask_lower, decay_, decay_, decay_, kChunk);

  // A = -strict_lower(diag(beta) K K^T * D); T = (I - A)^-1, as A + A-solved + I.
  const MatrixView keys = tensor(kChunk, kChunk), attention = tensor(kChunk, kChunk);
  const MatrixView left = tensor(kChunk, kChunk), inverse = tensor(kChunk, kChunk);
  product(keys, key_beta, transposed(key_), kChunk, kChunk, Dk, chunks_);
  over_all(ElementOp::multiply, keys, keys, decay_, kChunk);
  over_all(ElementOp::mask_strict_lower, attention, keys, keys, kChunk).factor = -1;
  over_all(ElementOp::identity_minus, left, attention, attention, kChunk);
  chunk_kernel("unfused_solve", inverse, left, attention);
  over_all(ElementOp::mask_strict_lower, inverse, inverse, inverse, kChunk);
  over_all(ElementOp::add_identity, inverse, inverse, inverse, kChunk);

  // U = T diag(beta) V, W = T diag(beta gamma) K.
  const MatrixView key_beta_decayed = tensor(kChunk, Dk);
  product(update_, inverse, value_beta, kChunk, Dv, kChunk, chunks_);
  over_all(ElementOp::exponential, decay_exp_, cumulative_, cumulative_, 1);
  over_all(ElementOp::multiply, key_beta_decayed, key_beta, per_row(decay_exp_), Dk);
  product(carried_, inverse, key_beta_decayed, kChunk, Dk, kChunk, chunks_);
}

/// One chunk against the state.
void Chain::walk(std::int64_t c) {
  const std::int64_t Dk = problem_.key_head_dim, Dv = problem_.value_head_dim;
  const MatrixView key = chunk_of(key_, c), cumulative = chunk_of(cumulative_, c);
  const MatrixView decay_exp = chunk_of(decay_exp_, c);
  const auto of_chunk = [&](ElementOp op, const MatrixView& out, const MatrixView& a,
                            const MatrixView& b, std::int64_t rows,
                            std::int64_t columns) { elementwise(op, out, a, b, rows, columns, 1); };
  product(scores_, chunk_of(query_, c), transposed(key), kChunk, kChunk, Dk, 1);
  of_chunk(ElementOp::multiply, scores_, scores_, chunk_of(decay_, c), kChunk, kChunk);
  product(predicted_, chunk_of(carried_, c), state_, kChunk, Dv, Dk, 1);
  of_chunk(ElementOp::subtract, corrected_, chunk_of(update_, c), predicted_, kChunk, Dv);
  of_chunk(ElementOp::multiply, query_decayed_, chunk_of(query_, c), per_row(decay_exp), kChunk,
           Dk);
  product(from_state_, query_decayed_, state_, kChunk, Dv, Dk, 1);
  product(from_chunk_, scores_, corrected_, kChunk, Dv, kChunk, 1);
  of_chunk(ElementOp::add, chunk_of(output_, c), from_state_, from_chunk_, kChunk, Dv);

  of_chunk(ElementOp::subtract, tail_, last_of(cumulative), cumulative, kChunk, 1);
  of_chunk(ElementOp::exponential, tail_, tail_, tail_, kChunk, 1);
  of_chunk(ElementOp::multiply, key_tail_, key, per_row(tail_), kChunk, Dk);
  product(state_update_, transposed(key_tail_), corrected_, Dk, Dv, kChunk, 1);
  of_chunk(ElementOp::multiply, state_, state_, last_of(decay_exp), Dk, Dv);
  of_chunk(ElementOp::add, state_, state_, state_update_, Dk, Dv);
}

void Chain::build() {
  const std::int64_t Dk = problem_.key_head_dim, Dv = problem_.value_head_dim;
  query_ = tensor(kChunk, Dk);
  key_ = tensor(kChunk, Dk);
  decay_ = tensor(kChunk, kChunk);
  cumulative_ = tensor(kChunk, 1);
  decay_exp_ = tensor(kChunk, 1);
  update_ = tensor(kChunk, Dv);
  carried_ = tensor(kChunk, Dk);
  output_ = tensor(kChunk, Dv);
  state_ = tensor_of_one_chunk(Dk, Dv);
  scores_ = tensor_of_one_chunk(kChunk, kChunk);
  predicted_ = tensor_of_one_chunk(kChunk, Dv);
  corrected_ = tensor_of_one_chunk(kChunk, Dv);
  query_decayed_ = tensor_of_one_chunk(kChunk, Dk);
  from_state_ = tensor_of_one_chunk(kChunk, Dv);
  from_chunk_ = tensor_of_one_chunk(kChunk, Dv);
  tail_ = tensor_of_one_chunk(kChunk, 1);
  key_tail_ = tensor_of_one_chunk(kChunk, Dk);
  state_update_ = tensor_of_one_chunk(Dk, Dv);

  const MatrixView pool{static_cast<float*>(given_.state_pool),
                        Dk * Dv,
                        0,
                        static_cast<std::int32_t>(given_.state_key_stride),
                        static_cast<std::int32_t>(given_.state_value_stride),
                        0,
                        0};
  // No rows: zeros.
  elementwise(ElementOp::copy, state_, pool, pool, Dk, Dv, 1).rows_left =
      given_.read_state != 0 ? kAllRows : 0;
  prepare();
  for (std::int64_t chunk = 0; chunk < chunks_; ++chunk) walk(chunk);
  const MatrixView output = tokens(given_.output, problem_.num_value_heads * Dv, Dv, 0);
  elementwise(ElementOp::copy, output, output_, output_, kChunk, Dv, chunks_).store_rows_left =
      static_cast<std::int32_t>(problem_.total_tokens());
  if (given_.write_state != 0) elementwise(ElementOp::copy, pool, state_, state_, Dk, Dv, 1);
}

class Unfused final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "hip/unfused",
        .operation = gated_delta_operation(),
        .honours = recurrence_options(),
        .backend = "hip",
        .form = "chunkwise",
        .summary =
            "a launch per product and elementwise step, for comparison; bound by dispatches "
            "and intermediates in memory",
        .resources = "gfx906, 32 KB of LDS"};
    return description;
  }

  Support supports(const Problem& problem) const override {
    const auto tile_multiple = [](std::int64_t dim) { return dim == 64 || dim == 128; };
    if (!tile_multiple(problem.key_head_dim) || !tile_multiple(problem.value_head_dim)) {
      return Support::no("head dims other than 64 and 128");
    }
    if (problem.chunk != 0 && problem.chunk != kChunk) {
      return Support::no("chunk=" + std::to_string(problem.chunk) + "; it is built for 64");
    }
    if (problem.token_dtype != DType::float32 || problem.state_dtype != DType::float32 ||
        problem.effective_output_dtype() != DType::float32) {
      return Support::no("only float32");
    }
    if (problem.num_sequences() != 1 || problem.total_tokens() == 0 ||
        problem.slots != SlotMap::identity) {
      return Support::no("only one sequence, in the pool's first row");
    }
    if (!std::has_single_bit(static_cast<std::uint64_t>(problem.value_heads_per_key_head()))) {
      return Support::no("value heads per key head must be a power of two");
    }
    if (problem.gate_encoding != GateEncoding::log_decay ||
        problem.beta_encoding != BetaEncoding::beta || problem.normalize_qk) {
      return Support::no("only log_decay, beta and q, k as they are");
    }
    if (problem.gates == GateDistribution::reset || problem.gates == GateDistribution::tiny) {
      return Support::no("float32 running sums of the log decays hold no resets");
    }
    return Support::yes();
  }

  std::int64_t workspace_bytes(const Problem& problem) const override {
    return Chain(problem, GatedDeltaParams{}, nullptr).workspace_floats() *
           static_cast<std::int64_t>(sizeof(float));
  }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    add_analysis_kernels();
    std::vector<DeviceBuffer> workspaces;
    workspaces.push_back(device.allocate(workspace_bytes(problem)));
    std::vector<Step> steps =
        Chain(problem, make_params(problem, arguments), workspaces.front().as<float>())
            .take_steps();
    PlanInfo info;
    info.chunk = kChunk;
    info.launches = static_cast<int>(steps.size());
    return std::make_unique<LaunchPlan>(
        device, info, std::move(workspaces), [steps = std::move(steps)](KernelLauncher& launcher) {
          for (const Step& step : steps) {
            std::visit(
                [&](const auto& params) {
                  launcher.launch(step.kernel, step.grid, step.block, &params, sizeof(params));
                },
                step.params);
          }
        });
  }
};

}  // namespace

const Implementation& unfused_chain() {
  static const Unfused implementation;
  return implementation;
}

}  // namespace hip
}  // namespace gdn
