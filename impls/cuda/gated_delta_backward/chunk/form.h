// The registered forms of chunk/, which chunkwise.cpp makes.
#pragma once

#include "cuda/target.h"
#include "interface/implementation.h"

namespace gdn::GDN_CUDA_TARGET::chunk_gradients {

enum class Form {
  one_level,  ///< cuda/chunkwise: the states of every chunk are kept
  two_level,  ///< cuda/chunkwise_two_level: those of every tile of 256 tokens, made again inside
};
const Implementation& implementation(Form form);

}  // namespace gdn::GDN_CUDA_TARGET::chunk_gradients
