// Problem: everything that identifies one case: operation, shapes, element types, options and the
// input distribution with its seed. A plain value that prints to one canonical string and parses
// back; that string is its identity in rows, baselines, logs, test names and on the command line.
//
//   gated_delta:heads=16/32,dim=128x128,seq=4x8192,dtype=bf16,gates=real,seed=1
//
// Fields at their defaults are left out of the canonical string, except heads, dim, seq and dtype,
// which are always printed; channels=N stands in the place of heads and dim. Fields may be given in
// any order; each at most once.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "interface/dtype.h"
#include "interface/gate_encoding.h"
#include "interface/nearest_name.h"
#include "interface/operation.h"
#include "interface/sequence_lengths.h"

namespace gdn {

/// How a token changes the state S [Dk, Dv], after its decay (both in float32 or wider):
///   delta     r = v - S^T k;  S <- S + beta k r^T     the delta rule (Schlag et al. 2021, arXiv
///             2102.11174; with a decay, Yang et al. 2024, arXiv 2412.06464, eq. 10). Without decay
///             (gates=none) it is DeltaNet.
///   additive  S <- S + beta k v^T                     gated linear attention: with one decay per
///             head Mamba2 (Dao, Gu 2024, arXiv 2405.21060), with one per channel GLA (Yang et al.
///             2023, arXiv 2312.06635, section 4)
enum class UpdateRule { delta, additive };

/// What one log decay g is of:
///   head     one per token and value head, S <- exp(g) S
///   channel  one per key channel too, [Dk] of them, S <- diag(exp(g)) S: row d of S decays by
///            exp(g_d). With the delta rule this is Kimi Delta Attention (Kimi Team 2025, arXiv
///            2510.26692, eq. 1).
enum class DecayPer { head, channel };

/// Memory order of one head's state: kv = [Dk, Dv] (Dv fastest, default), vk = [Dv, Dk].
enum class StateLayout { kv, vk };

/// Distribution of log_decay in generated inputs.
enum class GateDistribution {
  real,      ///< model initialisation: A ~ U(0,16), dt ~ logU(1e-3,0.1), decay_logit ~ N(0,1) * 0.1
  none,      ///< log_decay = 0: DeltaNet
  weak,      ///< logsigmoid(N(3,1))
  near_one,  ///< logsigmoid(N(8,1)): decay close to 1, the longest memory
  strong,    ///< logsigmoid(N(-1,1))
  mid,       ///< alpha ~ U(0.8, 1): shows chunk-boundary faults
  reset,     ///< mid, with log_decay = -inf at about one token in 50
  tiny,      ///< alpha = 1e-12 at about one token in 10, otherwise mid
  masked,    ///< 0 at about every other token, otherwise U(-0.69, -0.31)
  decay_uniform,  ///< alpha ~ U(0, 1)
  edges,          ///< mid, with -inf at tokens 0, 63, 128 (even heads) or 37, 64, 127 (odd heads)
  step,           ///< 0 for 9 tokens, then -5 for 23, and so on: steps inside blocks of 16
  mixture,        ///< heads in turn: none, mid, strong, tiny, near_one, reset, -20
  bounded,  ///< f and dt_bias ~ N(0,1), exp(A_log) ~ logU(0.5, 2), log_decay = -bound sigmoid(exp(A_log) (f + dt_bias))
  far,      ///< A_log up to 100, decay_logit up to +-300: where exp and softplus overflow alone
  uniform,  ///< U(low, high) of Problem::gate_range, written gates=-20..-1e-4, or gates=-5
};

enum class BetaDistribution {
  sigmoid,  ///< sigmoid(N(0,1))
  zero,
  one,
  two,      ///< beta = 2: reflections
  wide,     ///< U(0, 2): negative eigenvalues allowed
  mixture,  ///< 0, 1 or 2, at random
  uniform,  ///< U(low, high) of Problem::beta_range, written betas=0.5..0.73, or betas=0.835
};

/// Distribution of the key vectors in generated inputs. Queries are always unit * N(0,1)
/// directions.
enum class KeyDistribution {
  unit,          ///< unit length, uniform direction
  correlated,    ///< unit length, cosine about 0.9 with one common direction per head
  equal,         ///< every key of a head the same unit vector
  alternating,   ///< +u, -u, +u, ...
  zero,          ///< unit, with an exactly zero row at about one token in 8
  unnormalised,  ///< N(0,1) entries: length about sqrt(Dk); pair it with norm=1
  near_equal,    ///< unit length, cosine about 0.99 with one common direction per head
  lengths,       ///< squared lengths log-uniform in 0.1 .. 10, uniform direction
};

/// How large the rows of the operands of tokens are in generated inputs, a row being what one token has
/// of a head, or of all channels.
enum class Magnitudes {
  ordinary,  ///< as the operation draws them
  edges,  ///< sequences and heads in turn: ordinary, small with rows of zeros, large (draw_edges.h)
};

/// How many draft tokens of a sequence are accepted in generated inputs (gated_delta_verify).
enum class Acceptance {
  mixture,      ///< sequences in turn: a part (all of one token), all, none, any number
  all,          ///< the commit that costs most
  none,         ///< no state moves
  geometric,    ///< each token with probability 0.8, up to the first that is not
  alternating,  ///< sequences in turn: all, none
};

/// How much the rings hold in generated inputs, and which are folded (gated_delta_ring).
enum class RingFill {
  mixture,  ///< sequences in turn: any number, none, as many as fit; folded or not
  none,     ///< empty rings, none folded: the least a call does
  all,      ///< as many as fit beside the call's tokens, all folded: the most
  cycle,    ///< each sequence at another call of a cycle whose tokens all stay; the last one folds
};

enum class InitialState {
  absent,  ///< no initial state: zeros
  normal,  ///< N(0,1) entries / sqrt(Dk)
  large,   ///< N(0,1) entries * 1e3
  huge,    ///< N(0,1) entries * 1e5: beyond float16
};

/// Bounds of a uniform distribution; low = high is a constant.
struct ValueRange {
  double low = 0;
  double high = 0;
  bool operator==(const ValueRange&) const = default;
};

/// How sequences are mapped to rows of the state pool.
enum class SlotMap {
  identity,  ///< no slot_index array: sequence n uses row n
  permuted,  ///< slot_index is a random injection into the pool's rows
  padding,   ///< permuted, and every third sequence has slot -1 (no state; outputs zeros)
};

/// Which row of the state pool a sequence's final state is written to.
enum class StateRounding {
  nearest,
  stochastic,  ///< up or down by chance, by the operand rounding_seed
};

enum class OutputSlots {
  same,   ///< the one that it read
  other,  ///< that of the operand output_slot_index: rows may then be read by several sequences
};

enum class Activation { none, silu };

/// What the gated norm multiplies its rows by, elementwise, of z:
///   silu      z sigmoid(z)     GatedDeltaNet and Mamba2
///   sigmoid   sigmoid(z)       Kimi Delta Attention (Kimi Team 2025, arXiv 2510.26692)
///   sigmoid2  2 sigmoid(z)     1 where z = 0
enum class NormGate { silu, sigmoid, sigmoid2 };

/// Memory order of conv tokens: channels = [T, channels] (default), time = [channels, T].
enum class ConvLayout { channels, time };

/// Memory order of a row of convolution windows: time = [channels, places] (default), channels =
/// [places, channels].
enum class WindowLayout { time, channels };

/// Element type of logits, of gates and of betas.
enum class LogitType {
  float32,
  token,  ///< the tokens': as a model's projections leave them
};

/// Which input of a sequence lies at which place of its window row.
enum class WindowOrder {
  oldest_first,  ///< the new inputs at the end; what stays moves to lower places
  ring,  ///< that of token i at i modulo the places, i counted from the sequence's very first token
};

/// What a call makes of the convolution's window in its pool row.
enum class ConvWindow {
  carried,  ///< read, and written for the next call
  read,     ///< read alone: the row stays as it is
  written,  ///< zeros stand in front of the sequence; the row is written, what it held does not matter
  none,     ///< zeros stand in front of the sequence, and nothing is written: there is no pool
};

/// What the convolution adds behind its activation.
enum class ConvResidual {
  none,
  input,   ///< its own input
  tensor,  ///< the operand residual, of the input's shape
};

struct Problem {
  Operation operation;

  std::int64_t num_key_heads = 1;     ///< Hk
  std::int64_t num_value_heads = 1;   ///< Hv, a multiple of Hk; key head of h is h / (Hv/Hk)
  std::int64_t key_head_dim = 128;    ///< Dk
  std::int64_t value_head_dim = 128;  ///< Dv
  /// causal_conv1d: channels that belong to no heads; 0: those that heads and dims say.
  std::int64_t channels = 0;
  SequenceLengths sequences;

  // ---- variants of the recurrence; the defaults are the gated delta rule
  UpdateRule update = UpdateRule::delta;
  /// Householder steps n per token: DeltaProduct, state transition exp(g) prod_j (I - beta_j k_j
  /// k_j^T) (Siems et al. 2025, arXiv 2502.10297, section 3). A token has n keys, values and betas;
  /// its one decay comes before the first step, its output is read after the last.
  std::int64_t steps = 1;
  DecayPer decay = DecayPer::head;

  DType token_dtype = DType::float32;
  std::optional<DType> output_dtype;  ///< absent: the token dtype
  DType state_dtype = DType::float32;
  StateLayout state_layout = StateLayout::kv;
  InitialState initial_state = InitialState::absent;
  bool final_state = true;
  SlotMap slots = SlotMap::identity;
  OutputSlots output_slots = OutputSlots::same;
  /// How final states are rounded to a pool of 16 bits.
  StateRounding state_rounding = StateRounding::nearest;
  /// gated_delta: states inside the call that are handed out, of each sequence.
  std::int64_t checkpoints = 0;
  std::optional<DType> checkpoint_dtype;  ///< absent: the state dtype
  std::int64_t ring = 16;  ///< gated_delta_ring: tokens that a row of a ring has places for
  std::int64_t pool_row_padding = 0;  ///< unused elements after each pool row
  /// Rows of every pool; 0: as many as sequences, and three more with slots; with output slots twice as
  /// many as sequences, and three more. A kernel must not need
  /// it: slots on the device say which rows there are.
  std::int64_t pool_rows = 0;
  bool normalize_qk = false;
  std::optional<double> scale;  ///< absent: 1/sqrt(Dk)
  GateEncoding gate_encoding = GateEncoding::log_decay;
  double decay_bound = 5;  ///< with GateEncoding::bounded: log decays lie in -decay_bound..0
  BetaEncoding beta_encoding = BetaEncoding::beta;
  LogitType logit_type =
      LogitType::float32;  ///< of gate=logits, gate=bounded, beta=logit, beta=logit2

  /// Tokens per chunk for chunkwise forms; Householder steps where a token has several (forms may
  /// round those down to whole tokens). 0 = the implementation's choice.
  std::int64_t chunk = 0;

  std::int64_t conv_width = 4;  ///< causal_conv1d and gated_delta_layer
  bool conv_bias = false;
  /// Of the convolution's weights and bias: float32, beside tokens of another type; absent: the token
  /// dtype.
  std::optional<DType> conv_weight_dtype;
  Activation activation = Activation::silu;
  ConvLayout conv_layout = ConvLayout::channels;
  bool conv_state_in_place = true;  ///< of a window that is carried
  ConvWindow conv_window = ConvWindow::carried;
  WindowLayout window_layout = WindowLayout::time;
  /// Inputs of a channel that a row of windows holds, at least conv_width - 1; 0: as many.
  std::int64_t window_length = 0;
  WindowOrder window_order = WindowOrder::oldest_first;  ///< causal_conv1d; ring: window_position
  /// Whether the call says of each sequence if it reads its window (the operand has_window).
  bool fresh_windows = false;
  ConvResidual conv_residual = ConvResidual::none;  ///< causal_conv1d

  bool gated_norm = false;  ///< gated_delta_layer: whether gated_rms_norm is its last step
  NormGate norm_gate = NormGate::silu;  ///< gated_rms_norm, and a layer that ends in it
  double norm_eps = 1e-6;  ///< added to the mean of the squares; neither 0 nor inf in float32

  GateDistribution gates = GateDistribution::real;
  ValueRange gate_range;  ///< of log_decay, at most 0; with GateDistribution::uniform
  BetaDistribution betas = BetaDistribution::sigmoid;
  ValueRange beta_range;  ///< within 0..2; with BetaDistribution::uniform
  KeyDistribution keys = KeyDistribution::unit;
  Magnitudes magnitudes = Magnitudes::ordinary;
  Acceptance accepted = Acceptance::mixture;
  RingFill ring_fill = RingFill::mixture;
  std::uint64_t seed = 1;
  /// Inputs read from a case file "FILE.h5:/group" instead of generated; empty = generated.
  std::string case_file;

  /// Gates of another encoding; a bound that it does not have goes back to its default.
  void set_gate_encoding(GateEncoding encoding);
  double effective_scale() const;
  DType effective_output_dtype() const { return output_dtype.value_or(token_dtype); }
  DType effective_checkpoint_dtype() const { return checkpoint_dtype.value_or(state_dtype); }
  DType effective_conv_weight_dtype() const { return conv_weight_dtype.value_or(token_dtype); }
  std::int64_t value_heads_per_key_head() const { return num_value_heads / num_key_heads; }
  std::int64_t num_sequences() const { return sequences.num_sequences(); }
  std::int64_t total_tokens() const { return sequences.total_tokens(); }
  /// Values per token of the arrays whose shape depends on the variant.
  std::int64_t keys_per_token() const { return steps * num_key_heads * key_head_dim; }
  std::int64_t values_per_token() const { return steps * num_value_heads * value_head_dim; }
  std::int64_t betas_per_token() const { return steps * num_value_heads; }
  std::int64_t gates_per_token() const { return num_value_heads * gates_per_head(); }
  std::int64_t gates_per_head() const { return decay == DecayPer::channel ? key_head_dim : 1; }
  /// Channels of qkv for gated_delta_layer and causal_conv1d: `channels`, or 2 * Hk * Dk + Hv * Dv.
  std::int64_t conv_channels() const;
  /// Inputs of a channel that a row of windows holds: window_length, or conv_width - 1. The last
  /// conv_width - 1 of them stand before the sequence.
  std::int64_t window_places() const;
  bool reads_conv_window() const;
  bool writes_conv_window() const;
  /// Elements from one state-pool row to the next: Hv * Dk * Dv + pool_row_padding.
  std::int64_t state_row_stride() const;
  /// Rows of every pool: pool_rows, or what stands in its place.
  std::int64_t num_pool_rows() const;
  /// Makes it the rows, written only where the sequences do not say as many.
  void set_pool_rows(std::int64_t rows);
  /// Rows that a caller's pool surely has, whatever its slots hold.
  std::int64_t least_pool_rows() const;

  /// Canonical form; parse(to_string()) == *this for every valid Problem.
  std::string to_string() const;
  /// Throws Error(bad_input) naming the field and what was expected (with the nearest field name
  /// for an unknown one). The result is validated.
  static Problem parse(std::string_view text);
  /// Throws Error(bad_input) for impossible shapes or option combinations.
  void validate() const;

  bool operator==(const Problem&) const = default;
};

/// A value of a field where it is not a problem string: a case file's attribute, a row's column.
using FieldValue = std::variant<std::int64_t, double, std::string>;

/// A column of result rows: part of what a field says, or all of it.
struct FieldColumn {
  std::string name;
  std::string help;
  std::function<FieldValue(const Problem&)> get;
};

/// An attribute of case files.
struct FieldAttribute {
  enum class Written { always, unless_default };
  std::string name;
  Written written = Written::unless_default;
  bool required = false;      ///< of a file
  std::int64_t lowest = 0;    ///< of an integer
  std::string expected = {};  ///< of a text: "delta | additive"
  std::function<FieldValue(const Problem&)> get;
  /// False where it is not what is expected. The value is of the kind that `get` returns.
  std::function<bool(Problem&, const FieldValue&)> set;
};

/// One field of Problem: the single table behind parse, to_string, command-line axes, the
/// attributes of case files and the columns of rows.
struct ProblemField {
  std::string key;  ///< "heads", "seq", ...: in Problem strings, and as --heads on the command line
  std::string help;  ///< one line, with the accepted values
  bool always_printed = false;
  /// It says how inputs are drawn and nothing of what is computed from them.
  bool of_inputs = false;
  /// Key of a field that, off its default, leaves this one nothing to say; empty: none. This one is
  /// then refused off its default, and neither printed nor written.
  std::string replaced_by = {};
  std::function<void(Problem&, std::string_view)> set;  ///< throws Error(bad_input)
  std::function<std::string(const Problem&)> get;
  std::vector<FieldColumn> columns = {};
  std::vector<FieldAttribute> attributes = {};
};
const std::vector<ProblemField>& problem_fields();
/// Throws Error(bad_input) with the nearest key.
const ProblemField& problem_field(std::string_view key);
/// Whether the field that may replace this one does so in the problem.
bool is_replaced(const ProblemField& field, const Problem& problem);

}  // namespace gdn
