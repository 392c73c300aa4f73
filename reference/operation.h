// What the reference knows of each operation: how it is evaluated, how much work that is, how far
// its inputs amplify rounding errors, and the limits that follow. One object an operation, in
// reference/operations/NAME.cpp.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "interface/honoured_fields.h"
#include "reference/conditioning.h"
#include "reference/limits.h"
#include "reference/reference.h"

namespace gdn::reference {

struct ReferenceOperation {
  Operation operation;
  /// Fields of a problem that it honours: any other off its default is refused (reference.cpp).
  HonouredFields honours;
  // The outputs by name, as Outputs in a wider scalar: values of units that were not evaluated are
  // NaN, pools hold the case's values where nothing is written.
  Arrays<float> (*evaluate_float)(const Case&, const EvaluationOptions&);
  Arrays<double> (*evaluate_double)(const Case&, const EvaluationOptions&);
  Arrays<long double> (*evaluate_long_double)(const Case&, const EvaluationOptions&);
  /// Two operations for every multiply-add of evaluating the whole problem.
  double (*flops)(const Problem&);
  /// Measured from the inputs and their reference; null: nothing is amplified.
  Conditioning (*conditioning)(const Case&, const Arrays<double>&, const EvaluationOptions&);
  /// The same in words, for who reads a verdict; null where there is none.
  std::string (*conditioning_text)(const Conditioning&) = nullptr;
  /// Of every output that is computed (an output that is a copy has its rounding as its limit).
  ErrorLimits (*limits)(const Problem&, const Conditioning&);
  /// The same, widened by `roundings` more roundings of the carried state on the way, of which no
  /// more stand together than the problem remembers; null: nothing is carried.
  void (*widen)(ErrorLimits& limits, const Problem&, const Conditioning&, double roundings);
};

const ReferenceOperation& reference_of(Operation operation);
/// Every operation's, in the order of impls/operations.cmake.
const std::vector<const ReferenceOperation*>& reference_operations();
/// One more, of an operation that only a test knows.
void add_reference(const ReferenceOperation* reference);

}  // namespace gdn::reference
