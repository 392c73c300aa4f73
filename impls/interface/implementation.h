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
//     namespace gdn::cpu { const Implementation& gated_delta_naive() { ... } }
// and one line in impls/implementations.cmake naming that file (cpu/gated_delta/naive.cpp).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "interface/arguments.h"
#include "interface/device.h"
#include "interface/honoured_fields.h"
#include "interface/problem.h"

namespace gdn {

// ---- plans

/// What the planner decided: shown in every result row.
struct PlanInfo {
  std::int64_t chunk = 0;            ///< tokens per chunk actually used; 0 = not chunked
  std::int64_t workspace_bytes = 0;  ///< device memory the plan holds
  int launches = 0;                  ///< kernels enqueued per run
  std::string choice;  ///< variant, tile, split: "v_split=2 stages=3"; on a CPU also "isa=avx2"
  /// Tensors that are converted before and behind each run (held/held_plan.h), and the workspace that
  /// takes: "v: f32; qkv: strides [1, 128]".
  std::string conversions;
  std::int64_t conversion_bytes = 0;  ///< among workspace_bytes
};

class PhaseGroup;

class Plan {
 public:
  virtual ~Plan() = default;
  virtual const PlanInfo& info() const = 0;
  /// Enqueues the operation on the device's stream: all its phases, in order.
  virtual void run() = 0;
  /// Enqueues one phase of an operation that has several (OperationSchema::phases), by its number.
  /// They come in order, with other work of the stream between them; what a later phase needs of an
  /// earlier one lies in the plan's workspace, in a form that is the plan's own. Throws
  /// Error(unsupported) where the operation has no phases.
  virtual void run_phase(int phase);
  /// What group_phase() (phase_group.h) gives, which alone calls it, of the first of these plans: the phase
  /// of all of them in launches that they share. Null where there are none, as it is here: then they come in
  /// turn.
  virtual std::unique_ptr<PhaseGroup> group(std::span<Plan* const> plans, int phase,
                                            Device& device) const;
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

/// What plan() asks of the addresses of some arrays, and of the distances of their tokens.
struct Alignment {
  std::vector<std::string> operands = {};
  std::int64_t bytes = 1;
};

struct Description {
  std::string name;  ///< "cuda/fused": backend, then form (and variant)
  Operation operation;
  /// Fields of a problem that it honours: any other off its default is refused (description_support)
  /// before supports() is asked, which may still refuse some.
  HonouredFields honours = {};
  /// It reads gates, betas and what belongs to them (Operand::may_have_form) in 16-bit types too, and
  /// with any strides. Every implementation takes indices so.
  bool gates_in_any_form = false;
  /// It reads and writes what has its tokens fastest also with them in rows, as [B, channels, L] has them
  /// (Operand::may_have_rows).
  bool tokens_in_rows = false;
  /// It writes integers and their scales (Operand::scaled) itself. Of any other in the registry a conversion
  /// behind it does (composed/quantized_outputs.h).
  bool writes_scales = false;
  std::string backend;    ///< "cpu", "cuda", "hip"
  std::string form;       ///< "naive", "recurrent", "chunkwise", "fused"
  std::string summary;    ///< one line: what this version does and what bounds it
  std::string resources;  ///< "sm_90a, 227 KB shared memory", "any CPU"; empty = none special
  int min_compute_capability = 0;    ///< CUDA: lowest 10*major+minor its code runs on
  int exact_compute_capability = 0;  ///< CUDA: only this one (90 for sm_90a code); 0 = any above
  bool bitwise_repeatable = true;    ///< two runs of the same inputs give the same bits
  bool batch_invariant = true;       ///< a sequence alone gives the same bits as in a batch
  /// How soon it is chosen of those that do a problem (select.h): the higher, the sooner.
  int rank = 0;
  /// Of these arrays addresses and token strides are multiples of as many bytes.
  Alignment aligned = {};
  /// Small problems that exercise it, its own options and limits among them: what the tests of every
  /// implementation run. At least one.
  std::vector<std::string> examples = {};
};

class Implementation {
 public:
  virtual ~Implementation() = default;
  virtual const Description& description() const = 0;
  /// Device-independent: shapes, dtypes, options. Never throws. Implementations in the registry
  /// need not think of other operations and fields: what their description does not name is
  /// refused before this.
  virtual Support supports(const Problem& problem) const = 0;
  /// Description::rank, or another where the problem decides.
  virtual int rank(const Problem&) const { return description().rank; }
  /// Upper estimate of the device memory a plan allocates, known before allocating anything.
  virtual std::int64_t workspace_bytes(const Problem& problem) const = 0;
  /// Throws Error(unsupported) with the reason of supports(), Error(bad_input) for null or
  /// misaligned pointers, Error(out_of_memory). `problem.operation` must match.
  virtual std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                                     Device& device) const = 0;
};

/// Every implementation in this build, in the order of impls/implementations.cmake.
const std::vector<const Implementation*>& all_implementations();
/// By operation and name; throws Error(bad_input) with the nearest name.
const Implementation& find_implementation(Operation operation, const std::string& name);
/// Whether the device can run it: backend and compute capability; the reason if not.
Support runs_on(const Implementation& implementation, const DeviceInfo& device);

/// Whether the description names the problem's operation, and every field that is off its default;
/// the reason if not.
Support description_support(const Description& description, const Problem& problem);
/// The same implementations, each behind one whose supports() and plan() ask description_support()
/// first. all_implementations() is made of these.
std::vector<std::unique_ptr<const Implementation>> guarded_by_description(
    const std::vector<const Implementation*>& implementations);

/// Throws Error(unsupported) unless `implementation.supports(problem)`. For use inside plan().
void require_supported(const Implementation& implementation, const Problem& problem);

}  // namespace gdn
