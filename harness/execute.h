// Runs an implementation on a case, on a device, the way every verified run is made: inputs
// uploaded, outputs and workspaces filled with NaN beforehand, guard bands around every buffer
// checked after.
#pragma once

#include <functional>
#include <memory>

#include "harness/guarded_device.h"
#include "harness/host_memory.h"
#include "interface/case.h"
#include "interface/implementation.h"

namespace gdn {

/// Whether an input was written to is looked at now, or after a later run of the same contents:
/// they stay as they were uploaded, so that nothing is missed.
enum class CheckInputs { now, later };

/// A case uploaded to a device, with the arguments a plan takes.
class DeviceCase {
 public:
  DeviceCase(const Case& inputs, Device& device);
  ~DeviceCase();
  DeviceCase(const DeviceCase&) = delete;
  DeviceCase& operator=(const DeviceCase&) = delete;

  const Arguments& arguments() const;
  /// Another case's values in the same buffers, whose arguments stay valid: as many sequences, no
  /// more tokens; everything else of the problem as it was. Behind its tokens inputs are NaN, and
  /// outputs must stay unwritten. `other` is not validated (it may hold NaN).
  void refill(const Case& other);
  /// Device bytes of all inputs and outputs of a problem (without guard bands): known before
  /// allocating.
  static std::int64_t bytes_needed(const Problem& problem);

  /// Outputs to NaN (all bits set), state pools back to their inputs; asynchronous on the stream.
  void reset_async();
  /// State pools back to their inputs only: between timed runs of in-place kernels.
  void restore_state_async();
  /// Waits, downloads what the operation wrote. Throws Error(device_failure) if outputs behind the
  /// last token were written.
  Outputs download() const;
  /// Throws Error(device_failure) naming the buffer if a guard band or an input array changed.
  void check_guards(CheckInputs inputs = CheckInputs::now) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Host bytes of a Case of the problem and of its Outputs (float32 throughout).
std::int64_t host_bytes_needed(const Problem& problem);

/// Throws Error(out_of_memory), naming the problem, when this machine cannot hold a Case of it:
/// more bytes than it has memory, or than an index counts. Whatever makes or reads a Case asks
/// first: its products of sizes do not wrap then.
void require_host_memory(const Problem& problem);

/// Throws Error(out_of_memory), naming the bytes needed and free, when the case's arrays and the
/// workspace (and, on the CPU, the Case and its Outputs) do not fit the device. Allocates nothing;
/// ask before generating the inputs.
void require_memory(const Problem& problem, std::int64_t workspace_bytes, const Device& device);

/// Whether they are more than the device has in all: then no process can run the problem, whatever
/// is free when it asks.
bool exceeds_memory(const Problem& problem, std::int64_t workspace_bytes, const DeviceInfo& device);

/// Whether the device's memory is not the host's.
bool has_memory_of_its_own(const DeviceInfo& device);

/// One plan over one case's buffers, with guarded workspaces, run as often as wanted: what a server
/// does with a plan.
class PlannedCase {
 public:
  /// Throws what require_memory and Implementation::plan throw.
  PlannedCase(const Implementation& implementation, const Case& inputs, Device& device);

  const PlanInfo& info() const { return plan_->info(); }
  /// As DeviceCase::refill: the plan is not told.
  void refill(const Case& other) { on_device_->refill(other); }
  /// From now on run() replays a graph captured here. False where the device has no graphs.
  bool capture();
  /// One run on NaN-filled outputs and restored states; guards and inputs checked; downloaded.
  Outputs run(CheckInputs inputs = CheckInputs::now);

 private:
  Device& device_;
  GuardedDevice guarded_;
  std::unique_ptr<DeviceCase> on_device_;
  std::unique_ptr<Plan> plan_;
  std::function<void()> replay_;
};

/// Plan, run once on NaN-filled outputs and workspaces, check guards, download. What the planner
/// chose goes to `plan_info` if given.
Outputs execute(const Implementation& implementation, const Case& inputs, Device& device,
                PlanInfo* plan_info = nullptr);

}  // namespace gdn
