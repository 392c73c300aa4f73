#include "harness/tests/planted_faults/faulty_implementation.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include "harness/tests/planted_faults/faulty_convolution.h"
#include "harness/tests/planted_faults/faulty_gradients.h"
#include "harness/tests/planted_faults/faulty_head.h"
#include "interface/channel_quantization.h"
#include "interface/error.h"
#include "interface/gate_arithmetic.h"
#include "interface/gate_encoding_table.h"
#include "interface/operations/checkpoint_operands.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::testing {
namespace {

enum class Form { recurrent, chunkwise, convolution, gradients };

struct NamedFault {
  Fault fault;
  const char* name;
  Form form;
};
constexpr NamedFault kFaults[] = {
    {Fault::none_recurrent, "none_recurrent", Form::recurrent},
    {Fault::none_chunkwise, "none_chunkwise", Form::chunkwise},
    {Fault::none_convolution, "none_convolution", Form::convolution},
    {Fault::none_gradients, "none_gradients", Form::gradients},
    {Fault::wrong_w, "wrong_w", Form::chunkwise},
    {Fault::inverted_decay_ratio, "inverted_decay_ratio", Form::chunkwise},
    {Fault::tiled_head_map, "tiled_head_map", Form::recurrent},
    {Fault::state_written_transposed, "state_written_transposed", Form::recurrent},
    {Fault::old_state_readout, "old_state_readout", Form::recurrent},
    {Fault::decay_after_update, "decay_after_update", Form::recurrent},
    {Fault::no_delta_term, "no_delta_term", Form::recurrent},
    {Fault::ignores_norm, "ignores_norm", Form::recurrent},
    {Fault::norm_without_epsilon, "norm_without_epsilon", Form::recurrent},
    {Fault::late_chunk_decay, "late_chunk_decay", Form::chunkwise},
    {Fault::gate_misread, "gate_misread", Form::recurrent},
    {Fault::negated_gate_misread, "negated_gate_misread", Form::recurrent},
    {Fault::dt_bias_ignored, "dt_bias_ignored", Form::recurrent},
    {Fault::beta_logit_raw, "beta_logit_raw", Form::recurrent},
    {Fault::naive_softplus, "naive_softplus", Form::recurrent},
    {Fault::infinite_rate, "infinite_rate", Form::recurrent},
    {Fault::rate_in_bfloat16, "rate_in_bfloat16", Form::recurrent},
    {Fault::prefix_difference, "prefix_difference", Form::chunkwise},
    {Fault::factored_decay, "factored_decay", Form::chunkwise},
    {Fault::mid_chunk_anchor, "mid_chunk_anchor", Form::chunkwise},
    {Fault::masked_by_exponent, "masked_by_exponent", Form::chunkwise},
    {Fault::cumsum_in_bfloat16, "cumsum_in_bfloat16", Form::chunkwise},
    {Fault::small_decay_dropped, "small_decay_dropped", Form::chunkwise},
    {Fault::short_neumann, "short_neumann", Form::chunkwise},
    {Fault::doubling_in_float16, "doubling_in_float16", Form::chunkwise},
    {Fault::doubling_in_bfloat16, "doubling_in_bfloat16", Form::chunkwise},
    {Fault::products_in_bfloat16, "products_in_bfloat16", Form::chunkwise},
    {Fault::products_in_tf32, "products_in_tf32", Form::chunkwise},
    {Fault::readout_in_float16, "readout_in_float16", Form::recurrent},
    {Fault::state_rounded_per_token, "state_rounded_per_token", Form::recurrent},
    {Fault::state_truncated, "state_truncated", Form::recurrent},
    {Fault::float16_read_as_bfloat16, "float16_read_as_bfloat16", Form::recurrent},
    {Fault::checkpoint_scale_of_head, "checkpoint_scale_of_head", Form::recurrent},
    {Fault::checkpoint_cut_off, "checkpoint_cut_off", Form::recurrent},
    {Fault::checkpoint_scale_of_powers, "checkpoint_scale_of_powers", Form::recurrent},
    {Fault::unwritten_element, "unwritten_element", Form::recurrent},
    {Fault::all_nan, "all_nan", Form::recurrent},
    {Fault::dropped_tail_chunk, "dropped_tail_chunk", Form::chunkwise},
    {Fault::tail_of_one, "tail_of_one", Form::chunkwise},
    {Fault::tail_of_five_nan, "tail_of_five_nan", Form::recurrent},
    {Fault::unmasked_tail, "unmasked_tail", Form::chunkwise},
    {Fault::tail_with_next_tokens, "tail_with_next_tokens", Form::chunkwise},
    {Fault::dim_tail_dropped, "dim_tail_dropped", Form::recurrent},
    {Fault::mean_length_bound, "mean_length_bound", Form::recurrent},
    {Fault::short_call_keeps_state, "short_call_keeps_state", Form::recurrent},
    {Fault::window_restart, "window_restart", Form::recurrent},
    {Fault::empty_clears_state, "empty_clears_state", Form::recurrent},
    {Fault::padding_is_row_0, "padding_is_row_0", Form::recurrent},
    {Fault::row_of_sequence, "row_of_sequence", Form::recurrent},
    {Fault::padded_row_kept, "padded_row_kept", Form::recurrent},
    {Fault::rows_of_batch, "rows_of_batch", Form::recurrent},
    {Fault::stride_ignored, "stride_ignored", Form::recurrent},
    {Fault::gate_stride_ignored, "gate_stride_ignored", Form::recurrent},
    {Fault::stride_of_other, "stride_of_other", Form::recurrent},
    {Fault::blocks_beyond_1024, "blocks_beyond_1024", Form::recurrent},
    {Fault::blocks_in_16_bits, "blocks_in_16_bits", Form::recurrent},
    {Fault::conv_taps_reversed, "conv_taps_reversed", Form::convolution},
    {Fault::conv_bias_ignored, "conv_bias_ignored", Form::convolution},
    {Fault::conv_bias_after_activation, "conv_bias_after_activation", Form::convolution},
    {Fault::conv_activation_ignored, "conv_activation_ignored", Form::convolution},
    {Fault::conv_layout_ignored, "conv_layout_ignored", Form::convolution},
    {Fault::conv_window_not_read, "conv_window_not_read", Form::convolution},
    {Fault::conv_window_newest_first, "conv_window_newest_first", Form::convolution},
    {Fault::conv_window_activated, "conv_window_activated", Form::convolution},
    {Fault::conv_reads_previous_sequence, "conv_reads_previous_sequence", Form::convolution},
    {Fault::conv_short_window_kept, "conv_short_window_kept", Form::convolution},
    {Fault::conv_short_window_zeroed, "conv_short_window_zeroed", Form::convolution},
    {Fault::conv_empty_clears_window, "conv_empty_clears_window", Form::convolution},
    {Fault::conv_row_of_sequence, "conv_row_of_sequence", Form::convolution},
    {Fault::conv_padding_is_row_0, "conv_padding_is_row_0", Form::convolution},
    {Fault::conv_padding_computed, "conv_padding_computed", Form::convolution},
    {Fault::conv_stride_ignored, "conv_stride_ignored", Form::convolution},
    {Fault::gradient_gate_without_states, "gradient_gate_without_states", Form::gradients},
    {Fault::gradient_gate_stale_states, "gradient_gate_stale_states", Form::gradients},
    {Fault::gradient_gate_without_system, "gradient_gate_without_system", Form::gradients},
    {Fault::gradient_gate_prefix_inclusive, "gradient_gate_prefix_inclusive", Form::gradients},
    {Fault::gradient_gate_crossing_late, "gradient_gate_crossing_late", Form::gradients},
    {Fault::gradient_gate_transposed_in_bfloat16, "gradient_gate_transposed_in_bfloat16",
     Form::gradients},
    {Fault::gradient_gate_by_identity, "gradient_gate_by_identity", Form::gradients},
    {Fault::gradient_slope_in_float32, "gradient_slope_in_float32", Form::gradients},
    {Fault::gradient_slope_without_bias, "gradient_slope_without_bias", Form::gradients},
    {Fault::gradient_sums_of_last_sequence, "gradient_sums_of_last_sequence", Form::gradients},
    {Fault::gradient_gate_not_negated, "gradient_gate_not_negated", Form::gradients},
    {Fault::gradient_decay_by_quotient, "gradient_decay_by_quotient", Form::gradients},
    {Fault::gradient_absent_gates_unwritten, "gradient_absent_gates_unwritten", Form::gradients},
    {Fault::gradient_factored_decay, "gradient_factored_decay", Form::gradients},
    {Fault::gradient_rho_ignored, "gradient_rho_ignored", Form::gradients},
    {Fault::gradient_gamma_ignored, "gradient_gamma_ignored", Form::gradients},
    {Fault::gradient_d_state_not_decayed, "gradient_d_state_not_decayed", Form::gradients},
    {Fault::gradient_d_state_in_bfloat16, "gradient_d_state_in_bfloat16", Form::gradients},
    {Fault::gradient_d_state_not_cleared, "gradient_d_state_not_cleared", Form::gradients},
    {Fault::gradient_final_state_ignored, "gradient_final_state_ignored", Form::gradients},
    {Fault::gradient_stale_d_state, "gradient_stale_d_state", Form::gradients},
    {Fault::gradient_state_after_chunk, "gradient_state_after_chunk", Form::gradients},
    {Fault::gradient_inverse_not_transposed, "gradient_inverse_not_transposed", Form::gradients},
    {Fault::gradient_half_of_system, "gradient_half_of_system", Form::gradients},
    {Fault::gradient_system_with_diagonal, "gradient_system_with_diagonal", Form::gradients},
    {Fault::gradient_scores_without_diagonal, "gradient_scores_without_diagonal", Form::gradients},
    {Fault::gradient_value_without_beta, "gradient_value_without_beta", Form::gradients},
    {Fault::gradient_beta_not_divided, "gradient_beta_not_divided", Form::gradients},
    {Fault::gradient_beta_by_quotient, "gradient_beta_by_quotient", Form::gradients},
    {Fault::gradient_beta_logit_raw, "gradient_beta_logit_raw", Form::gradients},
    {Fault::gradient_scale_ignored, "gradient_scale_ignored", Form::gradients},
    {Fault::gradient_first_64_columns, "gradient_first_64_columns", Form::gradients},
    {Fault::gradient_last_head_of_group, "gradient_last_head_of_group", Form::gradients},
    {Fault::gradient_query_not_projected, "gradient_query_not_projected", Form::gradients},
    {Fault::gradient_key_not_projected, "gradient_key_not_projected", Form::gradients},
    {Fault::gradient_tail_with_rows_behind, "gradient_tail_with_rows_behind", Form::gradients},
    {Fault::gradient_tail_masked_by_zero, "gradient_tail_masked_by_zero", Form::gradients},
    {Fault::gradient_tail_decay_behind, "gradient_tail_decay_behind", Form::gradients},
    {Fault::gradient_tail_row_twice, "gradient_tail_row_twice", Form::gradients},
    {Fault::gradient_empty_skipped, "gradient_empty_skipped", Form::gradients},
    {Fault::gradient_absent_state_skipped, "gradient_absent_state_skipped", Form::gradients},
    {Fault::gradient_state_transposed, "gradient_state_transposed", Form::gradients},
    {Fault::gradient_row_of_sequence, "gradient_row_of_sequence", Form::gradients},
    {Fault::gradient_padding_computed, "gradient_padding_computed", Form::gradients},
    {Fault::gradient_stride_ignored, "gradient_stride_ignored", Form::gradients},
    {Fault::gradient_order_of_runs, "gradient_order_of_runs", Form::gradients},
    {Fault::order_of_batch, "order_of_batch", Form::recurrent},
    {Fault::order_of_runs, "order_of_runs", Form::recurrent},
    {Fault::stale_offsets, "stale_offsets", Form::recurrent},
    {Fault::stale_slots, "stale_slots", Form::recurrent},
    {Fault::counter_left, "counter_left", Form::recurrent},
    {Fault::computes_capacity, "computes_capacity", Form::recurrent},
    {Fault::shared_arguments, "shared_arguments", Form::recurrent},
    {Fault::slots_reversed, "slots_reversed", Form::recurrent},
};

const NamedFault& entry_of(Fault fault) {
  return *std::find_if(std::begin(kFaults), std::end(kFaults),
                       [fault](const NamedFault& entry) { return entry.fault == fault; });
}

// The decay of one token and head in float64 from its logit, or as the fault has it.
double log_decay_from_logit(const GatedDeltaArguments& a, std::int64_t token, std::int64_t head,
                            Fault fault) {
  const float A_log = value_at(a.A_log, 0, head);
  if (fault == Fault::dt_bias_ignored) {
    return gate_arithmetic::log_decay_from_logit<double>(A_log, value_at(a.gate, token, head));
  }
  const float x = value_at(a.gate, token, head) + value_at(a.dt_bias, 0, head);
  if (fault == Fault::naive_softplus) {
    return -std::exp(static_cast<double>(A_log)) * std::log(1.0f + std::exp(x));
  }
  if (fault == Fault::infinite_rate) {
    const float step = x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
    return -std::exp(A_log) * step;
  }
  const float rate = fault == Fault::rate_in_bfloat16 ? round_to(DType::bfloat16, A_log) : A_log;
  return gate_arithmetic::log_decay_from_logit<double>(
      rate, static_cast<double>(value_at(a.gate, token, head)) +
                static_cast<double>(value_at(a.dt_bias, 0, head)));
}

// From any encoding, or as the fault has it.
double log_decay_of(const Problem& problem, const GatedDeltaArguments& a, std::int64_t token,
                    std::int64_t head, Fault fault) {
  const double value = value_at(a.gate, token, head);
  if (problem.gate_encoding == GateEncoding::logits) {
    return log_decay_from_logit(a, token, head, fault);
  }
  const bool misread =
      (fault == Fault::gate_misread && problem.gate_encoding == GateEncoding::decay) ||
      (fault == Fault::negated_gate_misread &&
       problem.gate_encoding == GateEncoding::neg_log_decay);
  if (misread) return value;
  const bool has_rate_and_bias = entry_of(problem.gate_encoding).has_rate_and_bias;
  return gate_arithmetic::decode_log_decay(
      problem.gate_encoding, value, has_rate_and_bias ? double{value_at(a.A_log, 0, head)} : 0.0,
      has_rate_and_bias ? double{value_at(a.dt_bias, 0, head)} : 0.0, problem.decay_bound);
}

double beta_of(const Problem& problem, const GatedDeltaArguments& a, std::int64_t token,
               std::int64_t head, Fault fault) {
  const double value = value_at(a.beta, token, head);
  const bool direct = problem.beta_encoding == BetaEncoding::beta || fault == Fault::beta_logit_raw;
  return direct ? value : gate_arithmetic::decode_beta(problem.beta_encoding, value);
}

// Rounds towards zero.
float truncated_to(DType dtype, double x) {
  float value = round_to(dtype, static_cast<float>(x));
  if (std::fabs(static_cast<double>(value)) > std::fabs(x)) {
    const float below = static_cast<float>(x) * (1 - static_cast<float>(unit_roundoff(dtype)));
    value = round_to(dtype, below);
  }
  return value;
}

// What all plans of Fault::shared_arguments run on: the one that started last.
std::atomic<const GatedDeltaArguments*> latest_arguments{nullptr};

std::atomic<int> runs_of_all_plans{0};

class FaultyPlan : public Plan {
 public:
  FaultyPlan(const Problem& problem, const GatedDeltaArguments& arguments, float* scales,
             Fault fault)
      : problem_(problem),
        total_tokens_(problem.total_tokens()),
        arguments_(arguments),
        checkpoint_scales_(scales),
        fault_(fault) {
    if (is_chunkwise(fault)) info_.chunk = kFaultyChunk;
    info_.launches = 1;
    if (fault == Fault::stale_offsets) {
      for (std::int64_t n = 0; n <= problem.num_sequences(); ++n) {
        offsets_.push_back(arguments.sequence_offsets[n]);
      }
      arguments_.sequence_offsets = offsets_.data();
    }
    if (fault == Fault::stale_slots && arguments.slot_index) {
      for (std::int64_t n = 0; n < problem.num_sequences(); ++n) {
        slots_.push_back(arguments.slot_index[n]);
      }
      arguments_.slot_index = slots_.data();
    }
    if (fault == Fault::stride_ignored) {
      arguments_.query_token_stride = problem.num_key_heads * problem.key_head_dim;
      arguments_.key_token_stride = problem.keys_per_token();
      arguments_.value_token_stride = problem.values_per_token();
    }
    if (fault == Fault::gate_stride_ignored) {
      arguments_.gate.stride = static_cast<std::int32_t>(problem.num_value_heads);
      arguments_.beta.stride = static_cast<std::int32_t>(problem.num_value_heads);
    }
    if (fault == Fault::stride_of_other) {
      arguments_.key_token_stride = arguments.query_token_stride;
      arguments_.beta.stride = arguments.gate.stride;
    }
  }
  const PlanInfo& info() const override { return info_; }

  void run() override {
    run_ = ++runs_of_all_plans;
    const GatedDeltaArguments* arguments = &arguments_;
    if (fault_ == Fault::shared_arguments) {
      latest_arguments = &arguments_;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      arguments = latest_arguments;
    }
    std::int64_t pair = 0;
    for (std::int64_t n = 0; n < problem_.num_sequences(); ++n) {
      for (std::int64_t h = 0; h < problem_.num_value_heads; ++h, ++pair) {
        if (fault_ == Fault::blocks_beyond_1024 && pair >= 1024) return;
        if (fault_ == Fault::blocks_in_16_bits && pair >= 65536) return;
        if (fault_ == Fault::counter_left && has_run_ && h + 1 == problem_.num_value_heads)
          continue;
        run_head(*arguments, n, h);
      }
    }
    if (fault_ == Fault::computes_capacity) store_outputs_behind(*arguments);
    has_run_ = true;
  }

 private:
  // Of q, which is NaN there: what a kernel makes that computes whole tiles and stores them.
  void store_outputs_behind(const GatedDeltaArguments& a) const {
    const Problem& p = problem_;
    for (std::int64_t t = a.sequence_offsets[p.num_sequences()]; t < total_tokens_; ++t) {
      const Matrix query = rows(a.query, a.query_token_stride, 0, 1, t, 1);
      store_outputs(a, 1, 0, t, 0, Matrix::Constant(1, p.value_head_dim, query(0, 0) * 2));
    }
  }

  // Rows [first, first + count) of one head; zeros past the last token of the arrays.
  Matrix rows(const void* source, std::int64_t token_stride, std::int64_t head, std::int64_t dim,
              std::int64_t first, std::int64_t count) const {
    const bool misread =
        fault_ == Fault::float16_read_as_bfloat16 && problem_.token_dtype == DType::float16;
    const DType dtype = misread ? DType::bfloat16 : problem_.token_dtype;
    Matrix read = Matrix::Zero(count, dim);
    std::vector<float> row(static_cast<std::size_t>(dim));
    for (std::int64_t t = 0; t < count && first + t < total_tokens_; ++t) {
      const std::int64_t at = (first + t) * token_stride + head * dim;
      decode(dtype,
             static_cast<const char*>(source) + at * static_cast<std::int64_t>(size_of(dtype)),
             row.data(), dim);
      for (std::int64_t i = 0; i < dim; ++i) read(t, i) = row[static_cast<std::size_t>(i)];
    }
    return read;
  }

  void normalise(Matrix& vectors) const {
    if (!problem_.normalize_qk || fault_ == Fault::ignores_norm) return;
    for (Eigen::Index t = 0; t < vectors.rows(); ++t) {
      const double epsilon = fault_ == Fault::norm_without_epsilon ? 0 : 1e-6;
      vectors.row(t) /= std::sqrt(vectors.row(t).squaredNorm() + epsilon);
    }
  }

  char* state_row(const GatedDeltaArguments& a, std::int64_t slot, std::int64_t head) const {
    const std::int64_t at =
        slot * problem_.state_row_stride() + head * problem_.key_head_dim * problem_.value_head_dim;
    return static_cast<char*>(a.state_pool) +
           at * static_cast<std::int64_t>(size_of(problem_.state_dtype));
  }

  std::int64_t slot_of(const GatedDeltaArguments& a, std::int64_t n) const {
    if (!a.slot_index || fault_ == Fault::row_of_sequence) return n;
    const std::int64_t slot = a.slot_index[n];
    return slot < 0 && fault_ == Fault::padding_is_row_0 ? 0 : slot;
  }

  void load_state(const GatedDeltaArguments& a, std::int64_t slot, std::int64_t h,
                  Matrix* state) const {
    std::vector<float> values(static_cast<std::size_t>(state->size()));
    decode(problem_.state_dtype, state_row(a, slot, h), values.data(), state->size());
    for (Eigen::Index i = 0; i < state->size(); ++i) {
      state->data()[i] = values[static_cast<std::size_t>(i)];
    }
  }

  void store_state(const GatedDeltaArguments& a, std::int64_t slot, std::int64_t h,
                   const Matrix& state) const {
    const std::int64_t dk = problem_.key_head_dim;
    const std::int64_t dv = problem_.value_head_dim;
    std::vector<float> values;
    for (std::int64_t i = 0; i < dk * dv; ++i) {
      const double value =
          fault_ == Fault::state_written_transposed ? state(i % dk, i / dk) : state(i / dv, i % dv);
      values.push_back(fault_ == Fault::state_truncated ? truncated_to(problem_.state_dtype, value)
                                                        : static_cast<float>(value));
    }
    encode(problem_.state_dtype, values.data(), state_row(a, slot, h), dk * dv);
  }

  // The integers of a state and the scales of its key channels, as contract 1.7 says or as the fault has it.
  void store_integers(const Matrix& state, std::int8_t* elements, float* scales) const {
    const Eigen::MatrixXf values = state.cast<float>();
    const float of_head = values.cwiseAbs().maxCoeff();
    for (Eigen::Index i = 0; i < values.rows(); ++i) {
      const float of_channel = values.row(i).cwiseAbs().maxCoeff();
      const float largest = fault_ == Fault::checkpoint_scale_of_head ? of_head : of_channel;
      float scale = largest / static_cast<float>(kLargestInt8);
      if (scale < kSmallestScale) scale = 0;
      if (fault_ == Fault::checkpoint_scale_of_powers && scale > 0)
        scale = std::exp2(std::ceil(std::log2(scale)));
      scales[i] = scale;
      for (Eigen::Index j = 0; j < values.cols(); ++j) {
        const float quotient = scale == 0 ? 0 : values(i, j) / scale;
        const bool is_cut =
            fault_ == Fault::checkpoint_cut_off && std::fabs(values(i, j)) < largest;
        elements[i * values.cols() + j] =
            static_cast<std::int8_t>(is_cut ? std::trunc(quotient) : std::nearbyint(quotient));
      }
    }
  }

  void store_checkpoint(const GatedDeltaArguments& a, std::int64_t at, const Matrix& state) const {
    const DType dtype = problem_.effective_checkpoint_dtype();
    const std::int64_t size = state.size();
    char* const to = static_cast<char*>(a.checkpoint_states) +
                     at * size * static_cast<std::int64_t>(size_of(dtype));
    if (dtype == DType::int8) {
      return store_integers(state, reinterpret_cast<std::int8_t*>(to),
                            checkpoint_scales_ + at * state.rows());
    }
    std::vector<float> values;
    for (std::int64_t i = 0; i < size; ++i) values.push_back(static_cast<float>(state.data()[i]));
    encode(dtype, values.data(), to, size);
  }

  // The states after so many tokens, each from the sequence's first token on; zeros where nothing is wanted, or
  // there is no head.
  void store_checkpoints(const GatedDeltaArguments& a, std::int64_t n, std::int64_t h,
                         const FaultyHead* whole) const {
    for (std::int64_t j = 0; j < problem_.checkpoints; ++j) {
      const std::int64_t row = n * problem_.checkpoints + j;
      const std::int64_t count = a.checkpoint_tokens[row];
      FaultyHead part;
      part.state = Matrix::Zero(problem_.key_head_dim, problem_.value_head_dim);
      if (whole != nullptr && count > 0) {
        part = *whole;
        for (Matrix* tokens : {&part.query, &part.key, &part.value, &part.output}) {
          tokens->conservativeResize(count, Eigen::NoChange);
        }
        part.log_decay.conservativeResize(count);
        part.beta.conservativeResize(count);
        run_faulty_head(part, fault_);
      }
      store_checkpoint(a, row * problem_.num_value_heads + h, part.state);
    }
  }

  // A nudge of one rounding, far below every limit, where the fault orders its sums otherwise.
  bool rounds_otherwise(std::int64_t slot) const {
    if (fault_ == Fault::order_of_batch) return problem_.num_sequences() == 1;
    if (fault_ == Fault::order_of_runs) return run_ % 2 == 0;
    return fault_ == Fault::slots_reversed && 2 * slot > problem_.num_pool_rows();
  }

  void store_outputs(const GatedDeltaArguments& a, std::int64_t n, std::int64_t h,
                     std::int64_t first, std::int64_t slot, const Matrix& output) const {
    const DType dtype = problem_.effective_output_dtype();
    const std::int64_t dv = problem_.value_head_dim;
    const bool nudged = rounds_otherwise(slot);
    for (Eigen::Index t = 0; t < output.rows(); ++t) {
      for (std::int64_t i = 0; i < dv; ++i) {
        const bool last = n == 0 && h == 0 && t == output.rows() - 1;
        if (fault_ == Fault::unwritten_element && last && i == dv / 2) continue;
        auto value = static_cast<float>(output(t, i));
        const bool nan = fault_ == Fault::all_nan ||
                         (fault_ == Fault::tail_of_five_nan && output.rows() % 64 == 5 && last);
        if (nan) value = std::numeric_limits<float>::quiet_NaN();
        if (nudged) value *= 1 + 2 * static_cast<float>(unit_roundoff(dtype));
        const std::int64_t at = ((first + t) * problem_.num_value_heads + h) * dv + i;
        encode(dtype, &value,
               static_cast<char*>(a.output) + at * static_cast<std::int64_t>(size_of(dtype)), 1);
      }
    }
  }

  void run_head(const GatedDeltaArguments& a, std::int64_t n, std::int64_t h) const {
    const Problem& p = problem_;
    const std::int64_t first = a.sequence_offsets[n];
    std::int64_t length = a.sequence_offsets[n + 1] - first;
    const std::int64_t slot = slot_of(a, n);
    const std::int64_t dk = p.key_head_dim;
    const std::int64_t dv = p.value_head_dim;
    if (length == 0 || slot < 0) store_checkpoints(a, n, h, nullptr);
    if (length == 0) {
      if (fault_ == Fault::empty_clears_state && slot >= 0) {
        store_state(a, slot, h, Matrix::Zero(dk, dv));
      }
      return;
    }
    if (slot < 0) return store_outputs(a, n, h, first, slot, Matrix::Zero(length, dv));
    if (fault_ == Fault::mean_length_bound) {
      length = std::min(length, 2 * (p.total_tokens() / p.num_sequences() + 1));
    }
    const std::int64_t key_head =
        fault_ == Fault::tiled_head_map ? h % p.num_key_heads : h / p.value_heads_per_key_head();
    FaultyHead head;
    head.scale = p.effective_scale();
    head.query = rows(a.query, a.query_token_stride, key_head, dk, first, length);
    head.key = rows(a.key, a.key_token_stride, key_head, dk, first, length);
    head.value = rows(a.value, a.value_token_stride, h, dv, first, length);
    const std::int64_t behind = (kFaultyChunk - length % kFaultyChunk) % kFaultyChunk;
    head.key_behind = rows(a.key, a.key_token_stride, key_head, dk, first + length, behind);
    head.value_behind = rows(a.value, a.value_token_stride, h, dv, first + length, behind);
    normalise(head.query);
    normalise(head.key);
    if (fault_ == Fault::dim_tail_dropped) head.key.rightCols(dk % 32).setZero();
    head.log_decay.resize(length);
    head.beta.resize(length);
    for (std::int64_t t = 0; t < length; ++t) {
      head.log_decay(t) = log_decay_of(p, a, first + t, h, fault_);
      head.beta(t) = beta_of(p, a, first + t, h, fault_);
    }
    head.output = Matrix::Zero(length, dv);
    head.state = Matrix::Zero(dk, dv);
    if (p.initial_state != InitialState::absent) load_state(a, slot, h, &head.state);
    store_checkpoints(a, n, h, &head);
    run_faulty_head(head, fault_);
    store_outputs(a, n, h, first, slot, head.output);
    const bool kept = (fault_ == Fault::short_call_keeps_state && length == 2) ||
                      (fault_ == Fault::padded_row_kept && p.pool_row_padding > 0) ||
                      (fault_ == Fault::rows_of_batch && slot >= p.num_sequences() + 3);
    if (p.final_state && !kept) store_state(a, slot, h, head.state);
  }

  Problem problem_;
  std::int64_t total_tokens_;  // a sum over all sequences
  GatedDeltaArguments arguments_;
  float* checkpoint_scales_;
  Fault fault_;
  PlanInfo info_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::int64_t> slots_;
  bool has_run_ = false;
  int run_ = 0;
};

class FaultyImplementation : public Implementation {
 public:
  explicit FaultyImplementation(Fault fault) : fault_(fault) {
    description_.name = "cpu/faulty_" + name_of(fault);
    description_.operation = gated_delta_operation();
    description_.honours = recurrence_options();
    if (!is_chunkwise(fault)) {
      description_.honours =
          description_.honours + HonouredFields{"checkpoints", "checkpoint_dtype"};
      description_.writes_scales = true;
    }
    description_.backend = "cpu";
    description_.form = is_chunkwise(fault) ? "chunkwise" : "recurrent";
    description_.summary = "planted fault for tests: " + name_of(fault);
  }
  const Description& description() const override { return description_; }
  Support supports(const Problem& p) const override {
    return p.state_layout == StateLayout::kv ? Support::yes()
                                             : Support::no("the planted faults hold [Dk, Dv]");
  }
  std::int64_t workspace_bytes(const Problem&) const override { return 0; }
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device&) const override {
    require_supported(*this, problem);
    return std::make_unique<FaultyPlan>(problem, gated_delta_arguments(problem, arguments),
                                        static_cast<float*>(arguments.output(kCheckpointScales)),
                                        fault_);
  }

 private:
  Fault fault_;
  Description description_;
};

}  // namespace

std::string name_of(Fault fault) { return entry_of(fault).name; }

Fault fault_named(const std::string& name) {
  for (const NamedFault& entry : kFaults) {
    if (entry.name == name) return entry.fault;
  }
  throw_bad_input("fault '" + name + "' is unknown");
}

std::vector<Fault> all_faults() {
  std::vector<Fault> faults;
  for (const NamedFault& entry : kFaults) {
    if (entry.fault != twin_of(entry.fault)) faults.push_back(entry.fault);
  }
  return faults;
}

bool is_chunkwise(Fault fault) { return entry_of(fault).form == Form::chunkwise; }
bool is_convolution(Fault fault) { return entry_of(fault).form == Form::convolution; }
bool is_gradients(Fault fault) { return entry_of(fault).form == Form::gradients; }

Fault twin_of(Fault fault) {
  if (is_convolution(fault)) return Fault::none_convolution;
  if (is_gradients(fault)) return Fault::none_gradients;
  return is_chunkwise(fault) ? Fault::none_chunkwise : Fault::none_recurrent;
}

std::unique_ptr<Implementation> make_faulty(Fault fault) {
  if (is_convolution(fault)) return make_faulty_convolution(fault);
  if (is_gradients(fault)) return make_faulty_gradients(fault);
  return std::make_unique<FaultyImplementation>(fault);
}

}  // namespace gdn::testing
