// The instances of cuda/decode (decode.cu) that store states inside the call.
#include "cuda/gated_delta/decode_kernel.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

DecodeLaunch decode_checkpoints_launch(const Problem& problem) {
  return decode_launch<true>(problem);
}

}  // namespace gdn::GDN_CUDA_TARGET
