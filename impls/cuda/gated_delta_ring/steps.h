// What the CUDA forms of gated_delta_ring share on the host: a call is one launch, and nothing is kept.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cuda/gated_delta/params.cuh"
#include "cuda/gated_delta_ring/params.cuh"
#include "cuda/launch_plan.h"
#include "cuda/target.h"
#include "interface/honoured_fields.h"
#include "interface/implementation.h"

namespace gdn::GDN_CUDA_TARGET {

struct RingLaunch {
  LaunchPlan::Enqueue step;
  int block_values;
  int threads;
  int chunk = 0;  ///< tokens that are taken together; 0: one by one
};

/// What is a form's own.
struct RingForm {
  std::string name;  ///< "cuda/chunkwise"
  std::string form;  ///< "chunkwise"
  std::string summary;
  int rank;
  Support (*supports)(const Problem& problem);  ///< no more than supports_rings()
  std::vector<std::string> examples;
  /// Of at least one sequence. Throws Error(unsupported) where a grid does not hold the blocks.
  RingLaunch (*launch)(const Problem& problem, const GatedDeltaParams& params,
                       const RingParams& ring);
};

/// What state tiles are for, with rings whose keys are whole words.
Support supports_rings(const Problem& problem);

class RingImplementation final : public Implementation {
 public:
  explicit RingImplementation(const RingForm& form);
  const Description& description() const override { return description_; }
  Support supports(const Problem& problem) const override { return form_.supports(problem); }
  std::int64_t workspace_bytes(const Problem&) const override { return 0; }
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override;

 private:
  RingForm form_;
  Description description_;
};

}  // namespace gdn::GDN_CUDA_TARGET
