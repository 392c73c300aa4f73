// What is an operation's own in the harness: how its inputs are drawn, how its work is counted, the
// problems that exercise it, the operations whose case files hold it as well. One object an
// operation, in harness/operations/NAME.cpp; everything else walks its operands.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "interface/case.h"
#include "interface/device.h"

namespace gdn {

/// Floating-point operations of a case, of the sequences that are not padding.
struct FlopCount {
  /// C of `chunkwise`: the plan's chunk, or kNominalChunk; 0 where the operation has no chunks.
  std::int64_t chunk = 0;
  double chunkwise = 0;  ///< dense products of the form that kernels take
  double recurrent = 0;  ///< the least arithmetic any form does
};

/// Chunk of the chunkwise count where the plan is not chunked (naive, recurrent): the usual one.
inline constexpr std::int64_t kNominalChunk = 64;

/// A case of another operation that holds one of this: its inner step, as a problem and as a case.
struct InnerStep {
  Operation of;
  Problem (*problem)(const Problem&);
  Case (*convert)(const Case&);
};

/// A check of an operation's own, beside its errors: what must hold between the inputs and outputs of
/// any right call, whatever the reference says (an identity of gradients). Empty, or what is wrong in
/// one line.
struct OwnCheck {
  std::string name;
  std::string (*wrong)(const Case& inputs, const Outputs& outputs) = nullptr;
};

struct OperationHarness {
  Operation operation;
  /// Draws every array of a case whose problem, offsets and slots are there.
  void (*draw)(Case&) = nullptr;
  /// `plan_chunk`: tokens per chunk the plan uses, 0 = not chunked (PlanInfo::chunk).
  FlopCount (*count_flops)(const Case&, std::int64_t plan_chunk) = nullptr;
  /// The count in words, for captions: with the C of a count, or for any (0).
  std::string (*flops_text)(std::int64_t chunk) = nullptr;
  /// Problems of the suites "quick", "grid" (of full and gpu), "gpu" (large) and "sanitizer"; empty
  /// for any other name.
  std::vector<std::string> (*suite)(std::string_view name) = nullptr;
  /// Small problems whose errors are held to a baseline, beside the suites.
  std::vector<std::string> (*baseline)() = nullptr;
  /// Of the first sweep of a newcomer on such a device.
  std::vector<std::string> (*default_sweep)(const DeviceInfo&) = nullptr;
  /// Whether rows of the operand may be of any magnitude (magnitudes=edges); null: those of every
  /// operand of tokens in the token dtype.
  bool (*takes_any_magnitude)(const Problem&, const Operand&) = nullptr;
  std::vector<InnerStep> inner_steps = {};
  std::vector<OwnCheck> checks = {};
};

const OperationHarness& harness_of(Operation operation);
/// Every operation's, in the order of impls/operations.cmake.
const std::vector<const OperationHarness*>& operation_harnesses();
/// One more, of an operation that only a test knows.
void add_operation_harness(const OperationHarness* harness);

}  // namespace gdn
