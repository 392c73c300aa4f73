// Conventions: how other systems name, lay out and encode a gated delta rule (and its convolution).
// Eight things differ between them: the gate's encoding, beta's, the l2 norm of q and k, the scale
// of q, the map from value heads to key heads, the state's memory order, where the final state
// goes, and the dtype of the outputs. A Convention is a description of these; convert.h moves cases
// and outputs between it and ours (docs/contract.md, section 1). Nothing else in gdnbench knows
// them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "interface/problem.h"

namespace gdn::conventions {

/// What one extent of an array counts.
enum class Axis {
  one,          ///< always 1
  sequence,     ///< N
  time,         ///< tokens within a sequence; all of equal length
  token,        ///< T: tokens of all sequences
  key_heads,    ///< Hk
  value_heads,  ///< Hv
  key_dim,      ///< Dk
  value_dim,    ///< Dv
  channels,     ///< 2 Hk Dk + Hv Dv, in the order [q | k | v]; of a convolution any
  row,          ///< rows of a state pool (N where there are no slot indices)
  window,       ///< inputs a convolution remembers, oldest first
  tap,          ///< width of a convolution, oldest input first
};
using Axes = std::vector<Axis>;

/// A dataset: its name in that system and its axes, row-major, last fastest (as numpy shows it).
/// Without a name the convention has no such array.
struct Array {
  std::string name;
  Axes axes;
  bool exists() const { return !name.empty(); }
};

enum class BatchKind {
  ragged,         ///< [T, ...] with offsets
  equal_lengths,  ///< [N, time, ...], no offsets
  either,         ///< [N, time, ...]; or [1, T, ...] where the offsets are given
  one_token,      ///< [N, 1, ...]: decode
};
struct Batch {
  BatchKind kind = BatchKind::ragged;
  std::string offsets;  ///< dataset [N + 1], exclusive prefix sums
};

/// How sequences find their rows of the state pool.
struct Slots {
  std::string dataset;  ///< [N]; empty: sequence n has row n and there are no other rows
  bool required = false;
  /// Rows before this one belong to no sequence; an index to them is a padding sequence.
  std::int64_t first_row = 0;
  /// State dtypes with which a padding sequence (our slot -1) is possible; empty: none.
  std::vector<DType> padding;
};

/// Key head of value head h: h / (Hv/Hk), or h % Hk.
enum class HeadMap { grouped, tiled };

enum class NormPlace {
  in_kernel,          ///< always
  in_kernel_by_flag,  ///< attribute 0/1
  /// An operation of its own. The attribute, where given, is its epsilon and says that q and k
  /// stand before it; otherwise they have passed it.
  before,
  before_flag_ignored  ///< the caller's business; the attribute 0/1 is accepted and does nothing
};
enum class NormRule {
  epsilon_added,    ///< x / sqrt(sum x^2 + epsilon): ours
  epsilon_as_floor  ///< x / sqrt(max(sum x^2, epsilon^2))
};
struct Norm {
  NormPlace place = NormPlace::in_kernel_by_flag;
  NormRule rule = NormRule::epsilon_added;
  double epsilon = 1e-6;
  std::string attribute;
  bool on_by_default = false;  ///< what a missing flag means
};

enum class ScaleRule {
  argument,                  ///< attribute "scale"; absent: 1/sqrt(Dk)
  argument_zero_is_default,  ///< the same, and 0 means 1/sqrt(Dk) too
  fixed,                     ///< 1/sqrt(Dk)
  by_caller,                 ///< q arrives scaled
};

enum class ActivationRule { argument, none, silu };

/// causal_conv1d in that system.
struct Convolution {
  std::string source;  ///< the function described
  Batch batch;
  Slots slots;
  std::vector<DType> token_dtypes;
  std::vector<DType> state_dtypes;
  Array input;
  Array weight;      ///< [channels, tap]
  std::string bias;  ///< dataset [channels]; empty: none
  ActivationRule activation = ActivationRule::argument;
  Array window;  ///< before the call; without a name it stands in front of `input`, along time
  Array output;
  Array new_window;
  std::int64_t unused_window = 0;  ///< entries older than width - 1, kept and never read
};

struct Convention {
  std::string name;    ///< as --from and --to take it
  std::string source;  ///< the function described
  std::string remark;  ///< what surprises; empty: nothing
  Batch batch;
  Slots slots;

  std::vector<DType> token_dtypes;  ///< also of the output
  std::vector<DType> state_dtypes;
  bool gates_in_token_dtype = false;  ///< otherwise float32

  /// Either one array of [q | k | v] channels, or three. q and k with an axis of value heads hold
  /// each key head once per value head that reads it.
  Array qkv;
  Array query, key, value;
  HeadMap heads = HeadMap::grouped;
  Norm norm;
  ScaleRule scale = ScaleRule::argument;

  GateEncoding gate_encoding = GateEncoding::log_decay;
  Array gate;
  std::string A_log, dt_bias;  ///< [Hv]; with GateEncoding::logits
  BetaEncoding beta_encoding = BetaEncoding::beta;
  Array beta;

  Array initial_state;
  bool initial_state_required = false;
  bool square_state = false;          ///< Dk = Dv
  bool final_state_optional = false;  ///< attribute "final_state" = 0 leaves it out
  Array output;
  Array final_state;
  /// Dataset that holds `output`, flat, and behind it `final_state`, as rows of Hv * Dv; empty:
  /// they are two datasets.
  std::string packed_outputs;

  std::optional<Convolution> convolution;
};

/// max, huggingface, fla, flashinfer-prefill, flashinfer-decode, ggml, mlx-native, vllm.
const std::vector<Convention>& all_conventions();
/// Throws Error(bad_input) with the nearest name.
const Convention& find_convention(const std::string& name);

/// For people: the meanings, then every dataset with its shape in letters ("[N, time, Hk, Dk]").
std::string describe(const Convention& convention);
std::string axes_text(const Axes& axes);

}  // namespace gdn::conventions
