// Arguments of gated_delta as kernels take them: from what the caller gave, validated.
#pragma once

#include <cstdint>

#include "cuda/gated_delta/params.cuh"
#include "cuda/target.h"
#include "interface/arguments.h"
#include "interface/dtype.h"
#include "interface/implementation.h"
#include "interface/problem.h"

namespace gdn {
struct GatedDeltaArguments;
}

namespace gdn::GDN_CUDA_TARGET {

/// The gated delta rule itself, which kernels are compiled for beside its variants: one step per
/// token, one decay per head.
inline bool is_gated_delta_rule(const Problem& problem) {
  return problem.update == UpdateRule::delta && problem.steps == 1 &&
         problem.decay == DecayPer::head;
}

/// Throws Error(bad_input) for a null pointer, one not aligned to its element, or a token stride
/// smaller than a token. Also of the wrong kind of Arguments.
GatedDeltaParams make_params(const Problem& problem, const Arguments& arguments);
/// Of arguments that are checked already: those of a forward call inside another operation's.
GatedDeltaParams make_params(const Problem& problem, const GatedDeltaArguments& given);

/// Of kernels that load tokens in vectors of 16 bytes.
Alignment token_alignment();
/// Throws Error(bad_input) unless query, key and value and their token strides allow loads of
/// `bytes` bytes at every head: for kernels that load vectors.
void require_token_alignment(const GatedDeltaParams& params, DType token_dtype, std::int64_t bytes);

}  // namespace gdn::GDN_CUDA_TARGET
