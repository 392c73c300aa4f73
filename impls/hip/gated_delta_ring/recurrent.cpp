// hip/recurrent of gated_delta_ring: see recurrent.hip.
#include "hip/gated_delta/recurrent_plan.h"
#include "hip/gated_delta_ring/params.h"
#include "interface/operations/gated_delta_ring.h"

namespace gdn::hip {
namespace {

RingParams make_ring_params(const Problem& problem, const Arguments& arguments) {
  const GatedDeltaRingArguments given = gated_delta_ring_arguments(problem, arguments);
  RingParams d{};
  d.delta = make_params(problem, arguments);
  d.first = given.ring_first;
  d.length = given.ring_length;
  d.fold = given.ring_fold;
  d.key = given.ring_key;
  d.update = given.ring_update;
  d.decay = given.ring_decay;
  d.key_row_stride = given.key_row_stride;
  d.update_row_stride = given.update_row_stride;
  d.decay_row_stride = given.decay_row_stride;
  d.places = static_cast<std::int32_t>(ring_places(problem));
  d.num_key_heads = static_cast<std::int32_t>(problem.num_key_heads);
  d.value_heads_per_key_head = static_cast<std::int32_t>(problem.value_heads_per_key_head());
  for (const void* ring : {given.ring_key, given.ring_update}) {
    if (reinterpret_cast<std::uintptr_t>(ring) % 16 != 0) d.delta.packets = 0;
  }
  for (const std::int64_t stride : {d.key_row_stride, d.update_row_stride}) {
    if (stride % 8 != 0) d.delta.packets = 0;
  }
  return d;
}

class RingRecurrent final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "hip/recurrent",
        .operation = gated_delta_ring_operation(),
        .honours = recurrence_options() + HonouredFields{"ring"},
        .backend = "hip",
        .form = "recurrent",
        .summary =
            "the ring's records, then the tokens, done to the state in registers; bound by "
            "state traffic, with many records by VALU issue",
        .resources = "gfx906",
        .rank = 20,
        .examples = {
            "gated_delta_ring:heads=1/2,dim=64,seq=4+3,h0=normal,dtype=f32",
            "gated_delta_ring:heads=1/2,dim=128x48,seq=5+0+2,h0=normal,dtype=f16,norm=1,"
            "slots=padding",
            "gated_delta_ring:heads=1/2,dim=132x20,seq=3+4,h0=normal,dtype=bf16,state=bf16,"
            "layout=vk,norm=1",
            "gated_delta_ring:heads=1/2,dim=16x24,seq=2+19+1,h0=normal,dtype=bf16,state=bf16,"
            "ring=32,gate=logits,beta=logit"}};
    return description;
  }

  Support supports(const Problem& problem) const override { return Recurrent::rows_fit(problem); }

  std::int64_t workspace_bytes(const Problem&) const override { return 0; }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    const RingParams params = make_ring_params(problem, arguments);
    const Recurrent::Launch launch =
        Recurrent::launch_of(Recurrent::columns_version(), problem, params.delta);
    const std::string kernel = "ring_" + launch.version.name + "_" + std::to_string(launch.rows) +
                               "_" + kernel_suffix(problem.token_dtype) + "_" +
                               kernel_suffix(ring_update_dtype(problem));
    PlanInfo info;
    info.launches = 1;
    info.choice = "columns_per_wave=" + std::to_string(launch.version.columns_per_wave);
    return std::make_unique<LaunchPlan>(device, info, std::vector<DeviceBuffer>{},
                                        [params, launch, kernel](KernelLauncher& launcher) {
                                          launcher.launch(kernel, launch.grid, launch.block,
                                                          &params, sizeof(params));
                                        });
  }
};

}  // namespace

const Implementation& gated_delta_ring_recurrent() {
  static const RingRecurrent implementation;
  return implementation;
}

}  // namespace gdn::hip
