// What the CUDA forms of gated_delta_verify share on the host: what a form keeps in one workspace, a kernel
// for each phase, and one for the commit of several drafts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/gated_delta/params.cuh"
#include "cuda/launch_plan.h"
#include "cuda/target.h"
#include "interface/honoured_fields.h"
#include "interface/implementation.h"

namespace gdn::GDN_CUDA_TARGET {

/// A call as its kernels take it. There is at least one sequence.
struct Draft {
  const Problem& problem;
  GatedDeltaParams params;
  IndexArray accepted;  ///< [N], read by commit
  char* kept;           ///< the form's kept_bytes(), aligned to 256
};

/// Each phase is one launch.
struct DraftLaunches {
  LaunchPlan::Enqueue verify;
  LaunchPlan::Enqueue commit;  ///< not called where the problem wants no final state
  int block_values;            ///< of verify, as `threads` is
  int threads;
  int chunk = 0;  ///< tokens that verify takes together; 0: one by one
};

/// What differs between the commits of a group, whose kernel reads one from device memory for each draft.
struct CommitCall {
  IndexArray sequence_offsets;
  IndexArray slot_index;
  IndexArray accepted;
  void* pool = nullptr;
  std::int64_t pool_row_bytes = 0;
  char* kept = nullptr;
};

#ifdef __CUDACC__

/// The parameters of a commit, from those of the group's first one. `State`: the pool's element type.
template <typename State>
__device__ __forceinline__ GatedDeltaParams params_of(const GatedDeltaParams& first,
                                                      const CommitCall& call) {
  GatedDeltaParams p = first;
  p.sequence_offsets = call.sequence_offsets;
  p.slot_index = call.slot_index;
  p.pool.data = call.pool;
  p.pool.row_stride = call.pool_row_bytes / static_cast<std::int64_t>(sizeof(State));
  return p;
}

#endif  // __CUDACC__

/// What is a form's own.
struct DraftForm {
  std::string name;   ///< "cuda/records"
  std::string form;   ///< "chunkwise": how it computes
  std::string keeps;  ///< "records": what is kept of a token
  std::string summary;
  int rank;
  Support (*supports)(const Problem& problem);  ///< no more than supports_tiles()
  HonouredFields honours;
  std::vector<std::string> examples;
  /// Bytes kept of a call; they do not depend on the rows of the pool.
  std::int64_t (*kept_bytes)(const Problem& problem);
  /// Throws Error(unsupported) where a grid does not hold the blocks of a kernel.
  DraftLaunches (*launches)(const Draft& draft);
  /// The commit of `count` drafts by one launch: `first`, and others of the same problem but for its pool's
  /// row padding. `calls` lie on the device. Throws as `launches` does.
  LaunchPlan::Enqueue (*commits)(const Draft& first, const CommitCall* calls, std::int64_t count);
};

/// Of forms that take whatever state tiles are for: every state dtype and layout, pools with padding rows and
/// without, and every variant.
std::vector<std::string> tile_draft_examples();

class DraftImplementation final : public Implementation {
 public:
  explicit DraftImplementation(const DraftForm& form);
  const Description& description() const override { return description_; }
  Support supports(const Problem& problem) const override { return form_.supports(problem); }
  std::int64_t workspace_bytes(const Problem& problem) const override {
    return form_.kept_bytes(problem);
  }
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override;

 private:
  DraftForm form_;
  Description description_;
};

}  // namespace gdn::GDN_CUDA_TARGET
