#include "cuda/gated_delta_ring/steps.h"

#include <utility>

#include "cuda/gated_delta/arguments.cuh"
#include "cuda/gated_delta/tile/launch.cuh"
#include "cuda/require.h"
#include "interface/operations/gated_delta_ring.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

RingParams ring_params(const Problem& problem, const GatedDeltaRingArguments& a) {
  return {.first = a.ring_first,
          .length = a.ring_length,
          .fold = a.ring_fold,
          .key = a.ring_key,
          .update = a.ring_update,
          .decay = a.ring_decay,
          .key_row_stride = a.key_row_stride,
          .update_row_stride = a.update_row_stride,
          .decay_row_stride = a.decay_row_stride,
          .places = static_cast<std::int32_t>(ring_places(problem))};
}

}  // namespace

Support supports_rings(const Problem& problem) {
  const Support tiles = supports_tiles(problem);
  if (!tiles.ok) return tiles;
  const auto words = static_cast<std::int64_t>(16 / size_of(problem.token_dtype));
  if (row_stride(problem.operation->at("ring_key"), problem) % words != 0) {
    return Support::no("rows of ring_key are not whole 16-byte words");
  }
  return Support::yes();
}

RingImplementation::RingImplementation(const RingForm& form) : form_(form) {
  Alignment alignment = tile_alignment();
  for (const char* ring : {"ring_key", "ring_update"}) alignment.operands.emplace_back(ring);
  description_ = {.name = form.name,
                  .operation = gated_delta_ring_operation(),
                  .honours = recurrence_options() + HonouredFields{"ring"},
                  .gates_in_any_form = true,
                  .backend = "cuda",
                  .form = form.form,
                  .summary = form.summary,
                  .resources = "",
                  .min_compute_capability = 80,
                  .rank = form.rank,
                  .aligned = std::move(alignment),
                  .examples = form.examples};
}

std::unique_ptr<Plan> RingImplementation::plan(const Problem& problem, const Arguments& arguments,
                                               Device& device) const {
  require_runnable(*this, problem, device);
  const GatedDeltaRingArguments a = gated_delta_ring_arguments(problem, arguments);
  const GatedDeltaParams params = make_params(problem, a.tokens);
  require_tile_alignment(params, problem);
  require_pointer(a.ring_key, 16, "ring_key");
  require_pointer(a.ring_update, 16, "ring_update");

  PlanInfo info;
  if (problem.num_sequences() == 0) {
    return std::make_unique<LaunchPlan>(device, info, std::vector<DeviceBuffer>{},
                                        [](cudaStream_t) {});
  }
  RingLaunch launch = form_.launch(problem, params, ring_params(problem, a));
  info.launches = 1;
  info.choice = "values=" + std::to_string(launch.block_values) +
                " threads=" + std::to_string(launch.threads);
  if (launch.chunk > 0) info.choice += " chunk=" + std::to_string(launch.chunk);
  return std::make_unique<LaunchPlan>(device, info, std::vector<DeviceBuffer>{},
                                      std::move(launch.step));
}

}  // namespace gdn::GDN_CUDA_TARGET
