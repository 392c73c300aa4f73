// The states behind tokens, kept so that any of them can take the place of the one that a sequence began
// with. Each is rounded to the pool's dtype as a final state is, while the tokens behind it go on from the
// float32 state: a kept state has the bits that a call which ended there would have stored.
#pragma once

#include "cuda/gated_delta/state_io.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

/// One row a token, counted over all sequences, without padding: [T, Hv, ..] in dtype and layout of the
/// problem's pool. Where `pool.write` is off nothing is kept.
struct TokenStates {
  StatePool pool;
};

}  // namespace gdn::GDN_CUDA_TARGET
