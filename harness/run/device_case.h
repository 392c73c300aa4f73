// A case on a device: every operand in guarded memory, outputs NaN before each run, inputs checked
// after it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "interface/arguments.h"
#include "interface/case.h"
#include "interface/device.h"

namespace gdn {

/// Whether an input was written to is looked at now, or after a later run of the same contents:
/// they stay as they were uploaded, so that nothing is missed.
enum class CheckInputs { now, later };

/// Which legal values stand for those of hidden indices (DeviceCase::hide): of each the next one below
/// the right value or above it, and on its other side where there is none.
enum class HiddenIndices { below, above };

/// How a case is handed over.
struct DeviceCaseOptions {
  /// Every operand that takes a token stride lies in a wider array, as the slices of a projection do,
  /// with NaN between its tokens.
  bool slices = false;
  /// Outputs that nobody must ask for are asked for (HandedOver::on_request).
  bool on_request = false;
};

/// A case uploaded to a device, with the arguments a plan takes.
class DeviceCase {
 public:
  DeviceCase(const Case& inputs, Device& device, const DeviceCaseOptions& options = {});
  ~DeviceCase();
  DeviceCase(const DeviceCase&) = delete;
  DeviceCase& operator=(const DeviceCase&) = delete;

  const Arguments& arguments() const;
  /// Another case's values in the same buffers, whose arguments stay valid: as many sequences, no
  /// more tokens; everything else of the problem as it was. Behind its tokens inputs are NaN, and
  /// outputs must stay unwritten. `other` is not validated (it may hold NaN). Not of slices.
  void refill(const Case& other);

  /// Outputs to NaN (all bits set), pools back to their inputs; asynchronous on the stream.
  void reset_async();
  /// Pools back to their inputs only: between timed runs of in-place kernels.
  void restore_state_async();
  /// Of these operands, what goes in holds until show() or refill() what nobody may read: NaN, and for
  /// indices that have a rule legal values that are wrong, so that whoever reads them is found and
  /// does not go astray. `inputs` is the case that the buffers hold.
  void hide(const Case& inputs, const std::vector<std::string>& operands, HiddenIndices indices);
  /// Those of them that are hidden hold the values of `inputs` again.
  void show(const Case& inputs, const std::vector<std::string>& operands);
  /// Waits; the first of these outputs that is not as reset_async() or hide() left it, or empty.
  std::string first_written(const std::vector<std::string>& operands) const;

  /// Waits, downloads what the operation wrote. Throws Error(device_failure) if outputs behind the
  /// last token were written, or rows of a pool that is no input which no sequence owns.
  Outputs download() const;
  /// Throws Error(device_failure) naming the buffer if a guard band or an input array changed, hidden
  /// ones aside.
  void check_guards(CheckInputs inputs = CheckInputs::now) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gdn
