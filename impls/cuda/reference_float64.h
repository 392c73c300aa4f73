// The token recurrence of docs/contract.md, section 1.1, in float64 on a CUDA device: the oracle
// for whole problems that are too large for the CPU's. It knows no chunks and shares no code with
// the kernels it judges; it is itself checked against the Eigen reference. Plain C++: includes no
// CUDA header, and takes the gates already decoded to float64, so that it depends on nothing of the
// reference library.
#pragma once

#include <vector>

#include "interface/arguments.h"
#include "interface/case.h"
#include "interface/device.h"

namespace gdn::cuda {

/// `log_decay` and `beta`: [T, Hv], as reference::decode_gates<double> makes them. `conv_output`:
/// for gated_delta_layer, the convolution's result in float64, [T, channels] whatever the problem's
/// conv_layout; must be empty for gated_delta, whose q, k and v are the case's. Gives "output" and
/// "final_state" as reference::evaluate does.
/// Throws Error(bad_input) for arrays of other sizes or another operation, Error(out_of_memory).
Arrays<double> evaluate_gated_delta_float64(const Case& inputs,
                                            const std::vector<double>& log_decay,
                                            const std::vector<double>& beta,
                                            const std::vector<double>& conv_output, Device& device);

/// The same of arrays that are on the device already, gated_delta alone: what the arguments write,
/// "output" and "initial_state" (either may be absent), are device arrays of doubles, of the
/// operand's shape and apart from what is read. Waits for the device's stream before it returns.
/// Throws Error(unsupported) unless gate=log_decay, beta=beta, state=f32, slots=identity and the
/// recurrence is the plain one; Error(bad_input) as require_operands; Error(out_of_memory).
void evaluate_gated_delta_float64_on_device(const Problem& problem, const Arguments& arguments,
                                            Device& device);

}  // namespace gdn::cuda
