// A gated_rms_norm implementation with one planted fault, as harness/tests/planted_faults/faulty_implementation.h
// has them for gated_delta. Arithmetic is float64 but where a fault says otherwise.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "interface/implementation.h"

namespace gdn::testing {

enum class NormFault {
  none,
  eps_dropped,          ///< x / sqrt(mean): 0 / 0 for a row of zeros
  eps_dropped_clamped,  ///< as well, a root of zero taken for 1
  eps_outside_root,     ///< x / (sqrt(mean) + eps)
  eps_of_layer_norm,    ///< 1e-5 whatever the problem says
  eps_in_sum,           ///< added to the sum of squares, not to their mean
  sum_for_mean,         ///< not divided by the count
  mean_over_dk,         ///< divided by Dk
  mean_over_token,      ///< one mean for all heads of a token
  mean_subtracted,      ///< x - mean(x): a layer norm
  norm_after_gate,      ///< of x gate(z)
  weight_ignored,       ///< as if it were 1
  weight_plus_one,      ///< stored around 0, as other norms have it
  weight_of_head,       ///< row h of a weight [Hv, Dv]: wraps around what is there
  gate_ignored,         ///< as if it were 1
  gate_silu,            ///< SiLU where sigmoid is asked for, sigmoid where SiLU is
  gate_not_doubled,     ///< sigmoid for 2 sigmoid, and the reverse
  gate_of_x,            ///< gate(x)
  gate_overflows,       ///< exp(z) / (1 + exp(z)) in float32
  squares_in_float16,   ///< overflow, and underflow, as float16 does
  x_rounded,            ///< normalised rows rounded to bfloat16 before the weight
  last_rows_left_out,   ///< rows of the last token, where T is odd
};

const std::vector<NormFault>& norm_faults();  ///< without `none`
std::string name_of(NormFault fault);
inline void PrintTo(NormFault fault, std::ostream* out) { *out << name_of(fault); }
std::unique_ptr<Implementation> make_faulty_norm(NormFault fault);

}  // namespace gdn::testing
