// The registered forms of the Hopper kernels; what stands behind them: how_it_works.md.
#pragma once

#include "cuda/target.h"
#include "interface/implementation.h"
#include "interface/problem.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {

enum class Form {
  planned,     ///< cuda/fused_sm90: the planner chooses
  invariant,   ///< sequences are never split: the same bits alone and in any batch
  one_launch,  ///< always the one-launch kernel
};
const Implementation& implementation(Form form);

/// Whether the planner chooses the one-launch kernel, for a problem that has tokens.
bool runs_in_one_launch(const Problem& problem, int multiprocessors);

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
