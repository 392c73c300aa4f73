// An implementation with one planted fault: what verification must reject. Without a fault both of
// its forms are right, so that a rejection is the fault's doing. Arithmetic is float64 but where a
// fault says otherwise.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "interface/implementation.h"

namespace gdn::testing {

enum class Fault {
  none_recurrent,    ///< the right token recurrence: the twin of the token faults
  none_chunkwise,    ///< the right chunkwise form: the twin of the chunk faults
  none_convolution,  ///< the right convolution: the twin of its faults
  none_gradients,    ///< the right gradients: the twin of their faults

  // ---- formulas
  wrong_w,               ///< W from the gated L without gamma on the right-hand side (contract 2)
  inverted_decay_ratio,  ///< gamma_j / gamma_i where gamma_i / gamma_j is meant
  tiled_head_map,        ///< key head h % Hk instead of h / (Hv/Hk)
  state_written_transposed,  ///< [Dv, Dk] written where [Dk, Dv] is asked for
  old_state_readout,         ///< o_t from the state before the update
  decay_after_update,        ///< S <- exp(g)(S + beta k r^T)
  no_delta_term,             ///< S <- exp(g) S + beta k v^T
  ignores_norm,              ///< q and k used as they are where norm=1 asks for unit length
  norm_without_epsilon,      ///< x / |x|: 0 / 0 for a zero key
  late_chunk_decay,          ///< the state's decay over a chunk taken one token early

  // ---- gates
  gate_misread,          ///< decay taken for log_decay
  negated_gate_misread,  ///< neg_log_decay taken for log_decay
  dt_bias_ignored,       ///< softplus(a)
  beta_logit_raw,        ///< a logit of beta taken for beta
  naive_softplus,        ///< log(1 + exp(x)) in float32
  infinite_rate,         ///< exp(A_log) * softplus(x) in float32
  rate_in_bfloat16,      ///< A_log rounded to bfloat16
  prefix_difference,     ///< differences of prefix sums that hold -inf
  factored_decay,        ///< exp(G_i) * exp(-G_j) in float32
  mid_chunk_anchor,      ///< exp(G_i - G_m) * exp(G_m - G_j) in float32, m in the middle
  masked_by_exponent,    ///< decays between tokens left out where their exponent is not negative
  cumsum_in_bfloat16,    ///< accumulated log decays rounded to bfloat16
  small_decay_dropped,   ///< a state decayed below exp(-10) in a chunk taken for nothing

  // ---- arithmetic
  short_neumann,             ///< the inverse by doubling, one round short
  doubling_in_float16,       ///< the inverse by doubling, every product rounded to float16
  doubling_in_bfloat16,      ///< as well, to bfloat16
  products_in_bfloat16,      ///< operands of products rounded to bfloat16
  products_in_tf32,          ///< operands of products rounded to 10 bits of mantissa
  readout_in_float16,        ///< S^T q rounded to float16 before the scale
  state_rounded_per_token,   ///< state rounded to bfloat16 after every token
  state_truncated,           ///< 16-bit states rounded towards zero
  float16_read_as_bfloat16,  ///< values' bits taken for the other 16-bit type

  // ---- state checkpoints in int8
  checkpoint_scale_of_head,    ///< one scale for all key channels of a head
  checkpoint_cut_off,          ///< elements rounded towards zero
  checkpoint_scale_of_powers,  ///< the next power of two for the scale, so that no element is 127

  // ---- lengths and memory
  unwritten_element,       ///< one output element never written
  all_nan,                 ///< every output NaN
  dropped_tail_chunk,      ///< tokens after the last whole chunk left out
  tail_of_one,             ///< the last token left out where length mod 16 is 1
  tail_of_five_nan,        ///< NaN where length mod 64 is 5
  unmasked_tail,           ///< 0 times the tokens behind the sequence added to the state
  tail_with_next_tokens,   ///< values of a partial chunk taken one token on
  dim_tail_dropped,        ///< the last Dk mod 32 elements of keys left out
  mean_length_bound,       ///< at most twice the mean length of a sequence computed
  short_call_keeps_state,  ///< sequences of two tokens write no state
  window_restart,          ///< the state starts over at token 512
  empty_clears_state,      ///< a sequence of length 0 zeroes its row
  padding_is_row_0,        ///< slot -1 reads and writes row 0
  row_of_sequence,         ///< row n of the pool instead of the slot's
  padded_row_kept,         ///< the state not written where rows are padded
  rows_of_batch,           ///< states not written to rows past a pool of N + 3
  stride_ignored,          ///< tokens of q, k and v read as if nothing lay between them
  gate_stride_ignored,     ///< as well, those of gates and betas
  stride_of_other,         ///< keys read at the stride of queries, betas at that of gates
  blocks_beyond_1024,      ///< (sequence, head) pairs from the 1024th on left out
  blocks_in_16_bits,       ///< pair numbers wrapped at 65536

  // ---- causal_conv1d (faulty_convolution.h)
  conv_taps_reversed,            ///< weight[c, width - 1 - j]
  conv_bias_ignored,             ///< as if there were none
  conv_bias_after_activation,    ///< act(sum) + bias
  conv_activation_ignored,       ///< the sum itself
  conv_layout_ignored,           ///< [channels, T] read and written as [T, channels]
  conv_window_not_read,          ///< every sequence starts from zeros
  conv_window_newest_first,      ///< windows read and written in the other order
  conv_window_activated,         ///< windows hold activated inputs
  conv_reads_previous_sequence,  ///< the tokens before a sequence instead of its window
  conv_short_window_kept,        ///< sequences shorter than width - 1 leave their window as it is
  conv_short_window_zeroed,      ///< as well, zeros before their tokens
  conv_empty_clears_window,      ///< a sequence of length 0 zeroes its window
  conv_row_of_sequence,          ///< row n of the pool instead of the slot's
  conv_padding_is_row_0,         ///< slot -1 reads and writes row 0
  conv_padding_computed,         ///< outputs of slot -1 computed from a window of zeros
  conv_stride_ignored,           ///< tokens of qkv read as if nothing lay between them

  // ---- gated_delta_backward (faulty_gradients.h); letters as in faulty_gradient_head.cpp
  gradient_gate_without_states,          ///< d_log_decay without gamma_C <D, S>
  gradient_gate_stale_states,            ///< that term of the chunk that was done before
  gradient_gate_without_system,          ///< d_log_decay without the products of L and dL
  gradient_gate_prefix_inclusive,        ///< its sum over keys before t takes the key at t too
  gradient_gate_crossing_late,           ///< its sum over pairs i >= t > j leaves out i = t
  gradient_gate_transposed_in_bfloat16,  ///< sums of rows less sums of columns of a bfloat16 copy
  gradient_gate_by_identity,    ///< d_log_decay as the sum of o . d_o - v . d_v from t on, float32
  gradient_slope_in_float32,    ///< exp(A_log) * sigmoid(x) in float32, times a d_log_decay of 0
  gradient_slope_without_bias,  ///< sigmoid(a) in the slope of a logit where sigmoid(a + b) is meant
  gradient_sums_of_last_sequence,    ///< d_A_log and d_dt_bias of the last sequence alone
  gradient_gate_not_negated,         ///< d_log_decay where d_neg_log_decay is asked for
  gradient_decay_by_quotient,        ///< d_decay = d_log_decay / decay: 0 / 0 where it is 0
  gradient_absent_gates_unwritten,   ///< decays of 1 read from memory that nobody wrote
  gradient_factored_decay,           ///< decays to a chunk's end as exp(G_C) * exp(-G_i) in float32
  gradient_rho_ignored,              ///< no decay from a token to its chunk's end
  gradient_gamma_ignored,            ///< Y not decayed on its way to the chunk's start
  gradient_d_state_not_decayed,      ///< D not decayed from chunk to chunk
  gradient_d_state_in_bfloat16,      ///< D rounded to bfloat16 after every chunk
  gradient_d_state_not_cleared,      ///< D of the sequence before added to d_final_state
  gradient_final_state_ignored,      ///< D starts as zeros
  gradient_stale_d_state,            ///< d_k from D of the chunk that was done before
  gradient_state_after_chunk,        ///< Y S^T with the state after the chunk
  gradient_inverse_not_transposed,   ///< L^-1 where its transpose is meant
  gradient_half_of_system,           ///< N K without N^T K
  gradient_system_with_diagonal,     ///< dL with its diagonal
  gradient_scores_without_diagonal,  ///< dP without its diagonal
  gradient_value_without_beta,       ///< d_v = Y
  gradient_beta_not_divided,         ///< d_beta = Y . V'
  gradient_beta_by_quotient,         ///< d_beta = Y . V' / beta: 0 / 0 where beta is 0
  gradient_beta_logit_raw,           ///< d_beta where d_beta_logit is asked for
  gradient_scale_ignored,            ///< as if the scale were 1
  gradient_first_64_columns,         ///< d_k and d_beta of the first 64 elements of values
  gradient_last_head_of_group,       ///< d_q and d_k of the last value head of a key head
  gradient_query_not_projected,      ///< the norm's projection left out of d_q
  gradient_key_not_projected,        ///< as well, of d_k
  gradient_tail_with_rows_behind,    ///< a partial chunk takes q and d_o behind the sequence into D
  gradient_tail_masked_by_zero,      ///< as well, 0 times what they make
  gradient_tail_decay_behind,  ///< a partial chunk decays by the gates behind the sequence too
  gradient_tail_row_twice,  ///< a partial chunk's term of the states added to its last token again
  gradient_empty_skipped,   ///< a sequence of length 0 has no d_initial_state
  gradient_absent_state_skipped,  ///< no d_initial_state where there is no initial state
  gradient_state_transposed,      ///< d_initial_state as [Dv, Dk] where [Dk, Dv] is asked for
  gradient_row_of_sequence,       ///< d_initial_state in row n of the pool instead of the slot's
  gradient_padding_computed,      ///< gradients of slot -1 computed from zeros
  gradient_stride_ignored,        ///< tokens of d_output read as if nothing lay between them
  gradient_order_of_runs,         ///< d_q rounded otherwise in every second run

  // ---- from run to run
  order_of_batch,  ///< outputs rounded otherwise for one sequence than for several
  order_of_runs,   ///< outputs rounded otherwise in every second run
  stale_offsets,   ///< sequence offsets copied when planning
  stale_slots,     ///< slots copied when planning
  counter_left,  ///< a counter that a run does not put back: the plan's next runs leave a head out
  computes_capacity,  ///< outputs of all tokens planned for, those behind the last offset from NaN
  shared_arguments,   ///< arguments in memory that all plans share
  slots_reversed,     ///< outputs rounded otherwise by the row of the pool
};

std::string name_of(Fault fault);
/// Throws Error(bad_input) for an unknown name.
Fault fault_named(const std::string& name);
/// The faults, without the faultless forms.
std::vector<Fault> all_faults();
/// The faultless implementation of the same form.
Fault twin_of(Fault fault);
bool is_chunkwise(Fault fault);
bool is_convolution(Fault fault);
bool is_gradients(Fault fault);

/// gated_delta: any token, state and output dtype, slots, gate and beta encodings; [Dk, Dv] state;
/// chunk 16; token by token also checkpoints in any dtype. causal_conv1d: everything. gated_delta_backward: faulty_gradients.h.
std::unique_ptr<Implementation> make_faulty(Fault fault);

}  // namespace gdn::testing
