// The interface every kernel version stands behind.
//
// An Implementation says what it is and which problems it supports; it makes a Plan for a problem,
// whose arguments are pointers on its device. Planning validates, chooses and allocates; running
// only enqueues on the device's stream: no allocation, no synchronisation, no host copies, and it
// can be captured in a graph. Kernels read sequence_offsets and slot_index from device memory at
// run time; a plan stays valid when their contents change, as long as N and the planned token
// capacity T (sequence_offsets[N] <= T) hold.
//
// Adding an implementation: one file that defines
//     namespace gdn { const Implementation& cpu_gated_delta_naive() { ... } }
// and one line in impls/CMakeLists.txt naming that file (cpu/gated_delta/naive.cpp).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "interface/device.h"
#include "interface/problem.h"

namespace gdn {

// ---- typed gates and betas: one cannot be passed where another is meant
// With decay=channel gates are [T, Hv, Dk]; with n steps per token betas are [T, n, Hv].

struct LogDecay {
  const float* values;  ///< g = ln alpha <= 0, [T, Hv]; -inf allowed
};
struct Decay {
  const float* values;  ///< alpha = exp(g) in [0, 1]
};
struct NegLogDecay {
  const float* values;  ///< -g >= 0
};
struct DecayLogits {
  const float* values;   ///< a, [T, Hv]; g = -exp(A_log) * softplus(a + dt_bias)
  const float* A_log;    ///< [Hv]
  const float* dt_bias;  ///< [Hv]; with decay=channel [Hv, Dk]
};
using Gate = std::variant<LogDecay, Decay, NegLogDecay, DecayLogits>;

struct BetaDirect {
  const float* values;  ///< beta, [T, Hv]
};
struct BetaLogit {
  const float* values;  ///< b; beta = sigmoid(b)
};
using Beta = std::variant<BetaDirect, BetaLogit>;

// ---- arguments: pointers on the plan's device, row-major, shapes as in contract section 1

struct GatedDeltaArguments {
  const void* query = nullptr;  ///< [T, Hk, Dk] token dtype
  const void* key = nullptr;    ///< [T, Hk, Dk]; with n steps per token [T, n, Hk, Dk]
  const void* value = nullptr;  ///< [T, Hv, Dv]; with n steps per token [T, n, Hv, Dv]
  /// Elements from one token to the next (steps and heads of a token are contiguous); 0 = dense.
  std::int64_t query_token_stride = 0;
  std::int64_t key_token_stride = 0;
  std::int64_t value_token_stride = 0;
  Gate gate = LogDecay{nullptr};
  Beta beta = BetaDirect{nullptr};
  const std::int64_t* sequence_offsets = nullptr;  ///< [N + 1]
  const std::int64_t* slot_index = nullptr;        ///< [N] or nullptr = identity; -1 = padding
  /// Rows at Problem::state_row_stride(); read if initial_state != absent, written if final_state.
  /// May be nullptr if neither.
  void* state_pool = nullptr;
  void* output = nullptr;  ///< [T, Hv, Dv] output dtype
};

struct CausalConv1dArguments {
  const void* input = nullptr;   ///< [T, channels] or [channels, T], token dtype
  const void* weight = nullptr;  ///< [channels, width], token dtype
  const void* bias = nullptr;    ///< [channels], token dtype, or nullptr
  const std::int64_t* sequence_offsets = nullptr;
  const std::int64_t* slot_index = nullptr;
  const void* state_in = nullptr;  ///< [rows, channels, width - 1], state dtype, oldest first
  void* state_out = nullptr;       ///< the same pointer as state_in when updated in place
  void* output = nullptr;          ///< as input; may be nullptr if `intermediate` is given
  /// Optional: the result before its rounding to the token dtype, [T, channels] in any conv_layout,
  /// for an operation that goes on from it.
  float* intermediate = nullptr;
};

struct GatedDeltaLayerArguments {
  CausalConv1dArguments conv;  ///< conv.output may be nullptr; conv.intermediate is the plan's own
  GatedDeltaArguments delta;   ///< query, key and value are ignored: they come from the convolution
};

using Arguments =
    std::variant<GatedDeltaArguments, CausalConv1dArguments, GatedDeltaLayerArguments>;

// ---- plans

/// What the planner decided: shown in every result row.
struct PlanInfo {
  std::int64_t chunk = 0;            ///< tokens per chunk actually used; 0 = not chunked
  std::int64_t workspace_bytes = 0;  ///< device memory the plan holds
  int launches = 0;                  ///< kernels enqueued per run
  std::string choice;                ///< variant, tile, split: "v_split=2 stages=3"
};

class Plan {
 public:
  virtual ~Plan() = default;
  virtual const PlanInfo& info() const = 0;
  /// Enqueues the operation on the device's stream.
  virtual void run() = 0;
};

// ---- implementations

/// Supported, or the reason in words ("Dk=200 is not a multiple of 16").
struct Support {
  bool ok = true;
  std::string reason;
  explicit operator bool() const { return ok; }
  static Support yes() { return {}; }
  static Support no(std::string why) { return {false, std::move(why)}; }
};

/// Variants of the recurrence (Problem::update, steps, decay) that an implementation computes
/// beside the gated delta rule with one step and one decay per head. supports() is asked only about
/// problems within them; it may still refuse some.
struct Variants {
  bool additive_update = false;
  std::int64_t most_steps = 1;
  bool decay_per_channel = false;

  static Variants all();
};

struct Description {
  std::string name;  ///< "cuda/fused": backend, then form (and variant)
  Operation operation = Operation::gated_delta;
  std::string backend;    ///< "cpu", "cuda", "hip"
  std::string form;       ///< "naive", "recurrent", "chunkwise", "fused"
  std::string summary;    ///< one line: what this version does and what bounds it
  std::string resources;  ///< "sm_90a, 227 KB shared memory", "any CPU"; empty = none special
  int min_compute_capability = 0;    ///< CUDA: lowest 10*major+minor its code runs on
  int exact_compute_capability = 0;  ///< CUDA: only this one (90 for sm_90a code); 0 = any above
  bool bitwise_repeatable = true;    ///< two runs of the same inputs give the same bits
  bool batch_invariant = true;       ///< a sequence alone gives the same bits as in a batch
  Variants variants = {};            ///< what is not named here is refused (variant_support)
};

class Implementation {
 public:
  virtual ~Implementation() = default;
  virtual const Description& description() const = 0;
  /// Device-independent: shapes, dtypes, options. Never throws. Implementations in the registry
  /// need not think of variants: those their description does not name are refused before this.
  virtual Support supports(const Problem& problem) const = 0;
  /// Upper estimate of the device memory a plan allocates, known before allocating anything.
  virtual std::int64_t workspace_bytes(const Problem& problem) const = 0;
  /// Throws Error(unsupported) with the reason of supports(), Error(bad_input) for null or
  /// misaligned pointers, Error(out_of_memory). `problem.operation` must match.
  virtual std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                                     Device& device) const = 0;
};

/// Every implementation in this build, in the order of impls/CMakeLists.txt.
const std::vector<const Implementation*>& all_implementations();
/// By operation and name; throws Error(bad_input) with the nearest name.
const Implementation& find_implementation(Operation operation, const std::string& name);
/// Whether a device of `device_backend` runs implementations of `backend`: the same, or its
/// emulator.
bool does_backend(const std::string& device_backend, const std::string& backend);
/// Whether the device can run it: backend and compute capability; the reason if not.
Support runs_on(const Implementation& implementation, const DeviceInfo& device);

/// Whether the description names the problem's variant; the reason if not.
Support variant_support(const Description& description, const Problem& problem);
/// The same implementations, each behind one whose supports() and plan() ask variant_support()
/// first. all_implementations() is made of these.
std::vector<std::unique_ptr<const Implementation>> refusing_other_variants(
    const std::vector<const Implementation*>& implementations);

/// Throws Error(unsupported) unless `implementation.supports(problem)`. For use inside plan().
void require_supported(const Implementation& implementation, const Problem& problem);

}  // namespace gdn
