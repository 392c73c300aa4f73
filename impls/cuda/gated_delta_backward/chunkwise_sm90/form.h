// The registered forms of chunkwise_sm90, which chunkwise_sm90.cpp makes.
#pragma once

#include "cuda/target.h"
#include "interface/implementation.h"

namespace gdn::GDN_CUDA_TARGET::backward_sm90 {

enum class Form {
  planned,    ///< cuda/chunkwise_sm90: the planner may cut sequences into pieces
  invariant,  ///< sequences are never cut: the same bits alone and in any batch
};
const Implementation& implementation(Form form);

}  // namespace gdn::GDN_CUDA_TARGET::backward_sm90
