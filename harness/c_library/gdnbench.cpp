// The C library: names and strings into the objects of the interface, statuses by edge.h.
#include "harness/c_library/gdnbench.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "harness/c_library/edge.h"
#include "harness/c_library/host_case.h"
#include "held/dense_inputs.h"
#include "held/held_plan.h"
#include "interface/error.h"
#include "interface/forwarding_device.h"
#include "interface/implementation.h"
#include "interface/select.h"
#include "plugin/operand_in_c.h"
#include "reference/reference.h"
#ifdef GDN_WITH_CUDA
#include "cuda/reference_float64.h"
#endif

namespace gdn::c_library {
namespace {

/// What only the reference writes: doubles, dense, each to its operand.
Arguments with_results(const Arguments& inputs, const std::vector<HeldTensor>& tensors) {
  Arguments result = inputs;
  for (const HeldTensor& tensor : tensors) {
    if (tensor.written == nullptr) continue;
    ArrayPointer pointer = result[tensor.operand];
    pointer.written = tensor.written;
    result.set(tensor.operand, pointer);
  }
  return result;
}

/// A CUDA device whose plans enqueue on a stream of the caller's. What planning itself enqueues
/// (filling workspaces) stays on the inner device's stream: wait for that before the first run.
class OnCallersStream final : public ForwardingDevice {
 public:
  OnCallersStream(Device& inner, void* stream) : ForwardingDevice(inner), stream_(stream) {}
  void* native_stream() const override { return stream_; }

 private:
  void* stream_;
};

/// A device and the stream its user works on.
class Place {
 public:
  Place(const char* device, void* stream)
      : owned_(open_device(required(device, "device"))), on_stream_(*owned_, stream) {
    if (!is_cuda() && stream != nullptr) {
      throw_bad_input("stream: expected NULL with device '" + std::string(device) + "'");
    }
  }
  bool is_cuda() const { return owned_->info().runs == "cuda" && has_own_memory(); }
  bool has_own_memory() const { return owned_->info().has_own_memory; }
  Device& device() const { return is_cuda() ? static_cast<Device&>(on_stream_) : *owned_; }
  /// For what planning enqueued; on devices without a caller's stream, for the runs as well.
  void synchronize() { owned_->synchronize(); }

 private:
  std::unique_ptr<Device> owned_;
  mutable OnCallersStream on_stream_;  // a handle, as owned_ is
};

double* doubles(const Arguments& arguments, const Operand& operand) {
  return static_cast<double*>(arguments.output(operand.name));
}

void evaluate_on_host(const Problem& problem, const Arguments& arguments) {
  const Arrays<double> results = reference::evaluate<double>(host_case(problem, arguments));
  for (const Operand& operand : problem.operation->operands) {
    double* to = doubles(arguments, operand);
    const auto* from = results.find(operand.output_name());
    if (to != nullptr && from != nullptr) std::copy(from->begin(), from->end(), to);
  }
}

/// What may be written is written in float64, to arrays of its own.
void require_apart(const Problem& problem, const std::vector<HeldTensor>& tensors) {
  bool any = false;
  for (const HeldTensor& pointer : tensors) {
    const Operand& operand = problem.operation->at(pointer.operand);
    if (pointer.written == nullptr) continue;
    any = true;
    if (!operand.is_output() || !is_written(operand, problem)) {
      throw_bad_input(operand.name + ": " + problem.to_string() + " does not write it");
    }
    if (pointer.written == pointer.read) {
      throw_bad_input(operand.name +
                      ": the reference writes doubles, expected an array apart from the one read");
    }
  }
  if (!any) throw_bad_input("arrays: expected at least one to write to");
}

}  // namespace
}  // namespace gdn::c_library

struct gdnbench_plan {
  gdn::c_library::Place place;
  gdn::Problem problem;
  const gdn::Implementation* implementation;
  std::string reason;
  std::unique_ptr<gdn::Plan> plan;  // before the device: its workspaces are freed through it
};

struct gdnbench_group {
  std::vector<gdnbench_plan*> plans;
  std::unique_ptr<gdn::PhaseGroup> group;  // its memory is freed through the first plan's device
};

namespace {

using namespace gdn;             // NOLINT: this file is the library's edge
using namespace gdn::c_library;  // NOLINT

const Implementation& find(const char* name, const Problem& problem) {
  return find_implementation(problem.operation, required(name, "implementation"));
}

thread_local std::string last_reason;

/// What the interface cannot see of plans that are each on a device of their own: whether these devices and
/// their streams are the same.
void require_one_place(const std::vector<gdnbench_plan*>& plans) {
  const gdnbench_plan& first = *plans.front();
  const DeviceInfo& expected = first.place.device().info();
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const gdnbench_plan& plan = *plans[i];
    const DeviceInfo& info = plan.place.device().info();
    const auto refuse = [&](const std::string& has) {
      throw Error(ErrorKind::unsupported,
                  "group: plan " + std::to_string(i) + " " + has + " as plan 0");
    };
    if (plan.implementation != first.implementation) {
      refuse("is of " + plan.implementation->description().name + ", expected " +
             first.implementation->description().name);
    }
    if (info.backend != expected.backend || info.index != expected.index) {
      refuse("is on " + info.backend + ":" + std::to_string(info.index) + ", expected " +
             expected.backend + ":" + std::to_string(expected.index));
    }
    if (plan.place.is_cuda() &&
        plan.place.device().native_stream() != first.place.device().native_stream()) {
      refuse("enqueues on another stream, expected the same");
    }
  }
}

}  // namespace

extern "C" {

int gdnbench_abi_version(void) { return GDNBENCH_ABI_VERSION; }

const char* gdnbench_last_error(void) { return last_error().c_str(); }

const char* gdnbench_operation_name(int index) {
  const char* name = nullptr;
  guarded([&] {
    const auto& all = operations();
    if (index >= 0 && index < static_cast<int>(all.size())) {
      name = all[static_cast<std::size_t>(index)]->name.c_str();
    }
  });
  return name;
}

const char* gdnbench_phase_name(const char* operation, int index) {
  const char* name = nullptr;
  guarded([&] {
    const auto& phases = parse_operation(required(operation, "operation"))->phases;
    if (index < 0 || index >= static_cast<int>(phases.size())) return;
    name = phases[static_cast<std::size_t>(index)].name.c_str();
  });
  return name;
}

const char* gdnbench_implementation_name(const char* operation, int index) {
  const char* name = nullptr;
  guarded([&] {
    const Operation wanted = parse_operation(required(operation, "operation"));
    int place = 0;
    for (const Implementation* implementation : all_implementations()) {
      const Description& description = implementation->description();
      if (description.operation == wanted && place++ == index) name = description.name.c_str();
    }
  });
  return name;
}

gdnbench_status gdnbench_supports(const char* implementation, const char* problem) {
  return guarded([&] {
    const Problem parsed = parse_problem(problem, nullptr, 0);
    require_supported(find(implementation, parsed), parsed);
  });
}

gdnbench_status gdnbench_select(const char* problem, const char* device,
                                const char** implementation, const char** reason) {
  return guarded([&] {
    const Problem parsed = parse_problem(problem, nullptr, 0);
    const Selection chosen = select(parsed, Place(device, nullptr).device().info());
    last_reason = chosen.reason;
    if (implementation != nullptr) {
      *implementation = chosen.implementation->description().name.c_str();
    }
    if (reason != nullptr) *reason = last_reason.c_str();
  });
}

gdnbench_status gdnbench_operand_of(const char* problem, const int64_t* sequence_offsets,
                                    int64_t num_sequences, int index, gdnbench_operand* operand) {
  return guarded([&] {
    *required(operand, "operand") =
        operand_in_c(parse_problem(problem, sequence_offsets, num_sequences), index);
  });
}

gdnbench_status gdnbench_plan_create(const char* implementation, const char* problem,
                                     const int64_t* sequence_offsets, int64_t num_sequences,
                                     const char* device, void* stream, const gdnbench_array* arrays,
                                     int64_t num_arrays, int32_t flags, gdnbench_plan** plan) {
  return guarded([&] {
    *required(plan, "plan") = nullptr;
    if ((flags & ~GDNBENCH_REFUSE_CONVERSIONS) != 0) {
      throw_bad_input("flags: " + std::to_string(flags) +
                      ", expected 0 or GDNBENCH_REFUSE_CONVERSIONS");
    }
    const std::vector<HeldTensor> given = tensors_of(arrays, num_arrays);
    const Problem parsed =
        fitted_to(given, parse_problem(problem, sequence_offsets, num_sequences));
    if (implementation != nullptr) require_supported(find(implementation, parsed), parsed);
    std::unique_ptr<gdnbench_plan> made(
        new gdnbench_plan{Place(device, stream), parsed, nullptr, "", nullptr});
    const DeviceInfo& info = made->place.device().info();
    const Implementation* chosen = nullptr;
    if (implementation == nullptr) {
      Selection selection = select(parsed, info);
      chosen = selection.implementation;
      made->reason = std::move(selection.reason);
    } else {
      chosen = &find(implementation, parsed);
      const Support here = runs_on(*chosen, info);
      if (!here) throw Error(ErrorKind::unsupported, here.reason);
    }
    made->implementation = chosen;
    made->plan = plan_on_held(*chosen, parsed, given, made->place.device(),
                              flags == 0 ? Conversions::allowed : Conversions::refused);
    made->place.synchronize();
    *plan = made.release();
  });
}

gdnbench_status gdnbench_plan_info(const gdnbench_plan* plan, gdnbench_plan_details* details) {
  return guarded([&] {
    const PlanInfo& info = required(plan, "plan")->plan->info();
    *required(details, "details") = {info.chunk,
                                     info.workspace_bytes,
                                     info.launches,
                                     info.choice.c_str(),
                                     plan->implementation->description().name.c_str(),
                                     plan->reason.c_str(),
                                     info.conversions.c_str(),
                                     info.conversion_bytes};
  });
}

gdnbench_status gdnbench_plan_run(gdnbench_plan* plan) {
  return guarded([&] {
    required(plan, "plan")->plan->run();
    if (!plan->place.is_cuda()) plan->place.synchronize();
  });
}

gdnbench_status gdnbench_plan_run_phase(gdnbench_plan* plan, int phase) {
  return guarded([&] {
    required(plan, "plan")->plan->run_phase(phase);
    if (!plan->place.is_cuda()) plan->place.synchronize();
  });
}

void gdnbench_plan_destroy(gdnbench_plan* plan) { delete plan; }

gdnbench_status gdnbench_group_create(gdnbench_plan* const* plans, int64_t num_plans, int phase,
                                      gdnbench_group** group) {
  return guarded([&] {
    *required(group, "group") = nullptr;
    if (num_plans < 1) {
      throw_bad_input("num_plans: " + std::to_string(num_plans) + ", expected 1 or more");
    }
    required(plans, "plans");
    std::unique_ptr<gdnbench_group> made(new gdnbench_group{{plans, plans + num_plans}, nullptr});
    std::vector<PlannedProblem> planned;
    for (gdnbench_plan* const plan : made->plans) {
      required(plan, ("plans: number " + std::to_string(planned.size())).c_str());
      planned.push_back({&plan->problem, plan->plan.get()});
    }
    require_one_place(made->plans);
    gdnbench_plan& first = *made->plans.front();
    made->group = group_held(*first.implementation, planned, phase, first.place.device());
    first.place.synchronize();
    *group = made.release();
  });
}

gdnbench_status gdnbench_group_info(const gdnbench_group* group, gdnbench_group_details* details) {
  return guarded([&] {
    const PhaseGroup::Info& info = required(group, "group")->group->info();
    *required(details, "details") = {info.launches, info.workspace_bytes};
  });
}

gdnbench_status gdnbench_group_run(gdnbench_group* group) {
  return guarded([&] {
    required(group, "group")->group->run();
    for (gdnbench_plan* const plan : group->plans) {
      if (!plan->place.is_cuda()) plan->place.synchronize();
    }
  });
}

void gdnbench_group_destroy(gdnbench_group* group) { delete group; }

gdnbench_status gdnbench_reference_float64(const char* problem, const int64_t* sequence_offsets,
                                           int64_t num_sequences, const char* device, void* stream,
                                           const gdnbench_array* arrays, int64_t num_arrays) {
  return guarded([&] {
    const std::vector<HeldTensor> tensors = tensors_of(arrays, num_arrays);
    std::vector<HeldTensor> inputs = tensors;
    for (HeldTensor& input : inputs) input.written = nullptr;
    const Problem parsed =
        fitted_to(inputs, parse_problem(problem, sequence_offsets, num_sequences));
    require_apart(parsed, tensors);
    Place place(device, stream);
    const DenseInputs dense(parsed, inputs, place.device());
    const Arguments given = with_results(dense.arguments(), tensors);
    if (!place.has_own_memory()) {
      evaluate_on_host(parsed, given);
      return;
    }
#ifdef GDN_WITH_CUDA
    if (place.is_cuda()) {
      cuda::evaluate_gated_delta_float64_on_device(parsed, given, place.device());
      return;
    }
#endif
    throw Error(ErrorKind::unsupported,
                "float64 reference: not done on device '" + std::string(device) + "'");
  });
}

}  // extern "C"
