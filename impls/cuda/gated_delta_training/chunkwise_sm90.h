// The registered forms of cuda/chunkwise_sm90 of gated_delta_training.
#pragma once

#include "cuda/gated_delta_backward/chunkwise_sm90/form.h"
#include "cuda/target.h"
#include "interface/implementation.h"

namespace gdn::GDN_CUDA_TARGET {

const Implementation& training_sm90(backward_sm90::Form form);

}  // namespace gdn::GDN_CUDA_TARGET
