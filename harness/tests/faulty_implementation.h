// A gated_delta implementation with one planted fault: what verification must reject. Without a
// fault both of its forms are right, so that a rejection is the fault's doing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "interface/implementation.h"

namespace gdn::testing {

enum class Fault {
  none_recurrent,        ///< the right token recurrence: the twin of the token faults
  none_chunkwise,        ///< the right chunkwise form: the twin of the chunk faults
  wrong_w,               ///< W from the gated L without gamma on the right-hand side (contract 2)
  inverted_decay_ratio,  ///< gamma_j / gamma_i where gamma_i / gamma_j is meant
  tiled_head_map,        ///< key head h % Hk instead of h / (Hv/Hk)
  state_written_transposed,  ///< [Dv, Dk] written where [Dk, Dv] is asked for
  old_state_readout,         ///< o_t from the state before the update
  unwritten_element,         ///< one output element never written
  all_nan,                   ///< every output NaN
  dropped_tail_chunk,        ///< tokens after the last whole chunk left out
  decay_after_update,        ///< S <- exp(g)(S + beta k r^T)
  state_rounded_per_token,   ///< state rounded to bfloat16 after every token
};

std::string name_of(Fault fault);
/// The faults, without the two faultless forms.
std::vector<Fault> all_faults();
/// The faultless implementation of the same form.
Fault twin_of(Fault fault);

/// float32 tokens, log_decay and beta, identity slots, [Dk, Dv] state; chunk 16.
std::unique_ptr<Implementation> make_faulty(Fault fault);

}  // namespace gdn::testing
