// A plan of chunkwise_sm90: of the gradients alone, or of a training step, whose forward call leaves the gradients its
// states.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cuda/target.h"
#include "interface/arguments.h"
#include "interface/device.h"
#include "interface/implementation.h"
#include "interface/problem.h"

namespace gdn::GDN_CUDA_TARGET::backward_sm90 {

/// Of gated_delta_backward.
Support supports_shape(const Problem& problem);
std::int64_t workspace_bytes(const Problem& problem);

/// What a training step writes besides the gradients.
struct ForwardArrays {
  void* output = nullptr;
  void* final_state = nullptr;  ///< with ht=1
};

struct PlanRequest {
  const Problem& problem;        ///< of gated_delta_backward
  const Arguments& arguments;    ///< likewise
  const ForwardArrays* forward;  ///< of a training step; else null
  bool may_cut;                  ///< sequences may be cut into pieces
  std::string name;              ///< of the implementation, for errors
};
std::unique_ptr<Plan> make_plan(const PlanRequest& request, Device& device);

}  // namespace gdn::GDN_CUDA_TARGET::backward_sm90
