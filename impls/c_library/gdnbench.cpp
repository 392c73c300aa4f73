// The C library: names and strings into the objects of the interface, exceptions into statuses.
#include "c_library/gdnbench.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "c_library/host_case.h"
#include "interface/error.h"
#include "interface/forwarding_device.h"
#include "interface/implementation.h"
#include "reference/reference.h"
#ifdef GDN_WITH_CUDA
#include "cuda/reference_float64.h"
#endif

namespace gdn::c_library {
namespace {

thread_local std::string last_error;

gdnbench_status status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::bad_input:
      return GDNBENCH_BAD_INPUT;
    case ErrorKind::unsupported:
      return GDNBENCH_UNSUPPORTED;
    case ErrorKind::device_unavailable:
      return GDNBENCH_DEVICE_UNAVAILABLE;
    case ErrorKind::out_of_memory:
      return GDNBENCH_OUT_OF_MEMORY;
    case ErrorKind::device_failure:
      return GDNBENCH_DEVICE_FAILURE;
  }
  return GDNBENCH_DEVICE_FAILURE;
}

template <typename Body>
gdnbench_status guarded(const Body& body) noexcept {
  try {
    body();
    return GDNBENCH_OK;
  } catch (const Error& error) {
    last_error = error.what();
    return status_of(error.kind());
  } catch (const std::bad_alloc&) {
    last_error = "the host has no memory left for this";
    return GDNBENCH_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    last_error = error.what();
    return GDNBENCH_DEVICE_FAILURE;
  } catch (...) {
    last_error = "an error of unknown kind";
    return GDNBENCH_DEVICE_FAILURE;
  }
}

template <typename Pointer>
Pointer required(Pointer pointer, const char* name) {
  if (pointer == nullptr) throw_bad_input(std::string(name) + ": is null");
  return pointer;
}

Problem parse_problem(const char* text, const std::int64_t* offsets, std::int64_t num_sequences) {
  Problem problem = Problem::parse(required(text, "problem"));
  if (problem.operation != Operation::gated_delta) {
    throw_bad_input("problem: operation " + to_string(problem.operation) +
                    ", this library does gated_delta");
  }
  if (offsets != nullptr) {
    if (num_sequences < 0) {
      throw_bad_input("num_sequences: " + std::to_string(num_sequences) + ", expected 0 or more");
    }
    problem.sequences = SequenceLengths::from_offsets({offsets, offsets + num_sequences + 1});
    problem.validate();
  }
  return problem;
}

Gate gate_of(const Problem& problem, const gdnbench_arguments& a) {
  switch (problem.gate_encoding) {
    case GateEncoding::log_decay:
      return LogDecay{a.gate};
    case GateEncoding::decay:
      return Decay{a.gate};
    case GateEncoding::neg_log_decay:
      return NegLogDecay{a.gate};
    case GateEncoding::logits:
      return DecayLogits{a.gate, a.A_log, a.dt_bias};
  }
  throw_bad_input("gate: unknown encoding");
}

GatedDeltaArguments arguments_of(const Problem& problem, const gdnbench_arguments& a) {
  GatedDeltaArguments result;
  result.query = a.query;
  result.key = a.key;
  result.value = a.value;
  result.query_token_stride = a.query_token_stride;
  result.key_token_stride = a.key_token_stride;
  result.value_token_stride = a.value_token_stride;
  result.gate = gate_of(problem, a);
  if (problem.beta_encoding == BetaEncoding::beta) {
    result.beta = BetaDirect{a.beta};
  } else {
    result.beta = BetaLogit{a.beta};
  }
  result.sequence_offsets = a.sequence_offsets;
  result.slot_index = a.slot_index;
  result.state_pool = a.state_pool;
  result.output = a.output;
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
  bool is_cuda() const { return owned_->info().backend == "cuda"; }
  /// Whether the arrays a plan here works on are host memory.
  bool has_host_arrays() const { return !is_cuda() && owned_->info().backend != "hip"; }
  Device& device() { return is_cuda() ? static_cast<Device&>(on_stream_) : *owned_; }
  /// For what planning enqueued; on devices without a caller's stream, for the runs as well.
  void synchronize() { owned_->synchronize(); }

 private:
  std::unique_ptr<Device> owned_;
  OnCallersStream on_stream_;
};

void evaluate_on_host(const Problem& problem, const GatedDeltaArguments& arguments, double* output,
                      double* final_state) {
  const auto result = reference::evaluate<double>(host_case(problem, arguments));
  std::copy(result.output.begin(), result.output.end(), output);
  if (final_state == nullptr) return;
  const std::int64_t Dk = problem.key_head_dim;
  const std::int64_t Dv = problem.value_head_dim;
  const bool rows_are_keys = problem.state_layout == StateLayout::kv;
  for (std::int64_t n = 0; n < problem.num_sequences(); ++n) {
    for (std::int64_t head = 0; head < problem.num_value_heads; ++head) {
      const double* from =
          result.state_pool.data() + n * problem.state_row_stride() + head * Dk * Dv;
      double* to = final_state + (n * problem.num_value_heads + head) * Dk * Dv;
      for (std::int64_t k = 0; k < Dk; ++k) {
        for (std::int64_t v = 0; v < Dv; ++v) {
          to[k * Dv + v] = from[rows_are_keys ? k * Dv + v : v * Dk + k];
        }
      }
    }
  }
}

}  // namespace
}  // namespace gdn::c_library

struct gdnbench_plan {
  gdn::c_library::Place place;
  std::unique_ptr<gdn::Plan> plan;  // before the device: its workspaces are freed through it
};

namespace {

using namespace gdn;             // NOLINT: this file is the library's edge
using namespace gdn::c_library;  // NOLINT

const std::vector<const Implementation*>& gated_delta_implementations() {
  static const std::vector<const Implementation*> all = [] {
    std::vector<const Implementation*> found;
    for (const Implementation* implementation : all_implementations()) {
      if (implementation->description().operation == Operation::gated_delta) {
        found.push_back(implementation);
      }
    }
    return found;
  }();
  return all;
}

const Implementation& find(const char* name) {
  return find_implementation(Operation::gated_delta, required(name, "implementation"));
}

}  // namespace

extern "C" {

int gdnbench_abi_version(void) { return GDNBENCH_ABI_VERSION; }

const char* gdnbench_last_error(void) { return last_error.c_str(); }

const char* gdnbench_implementation_name(int index) {
  const char* name = nullptr;
  guarded([&] {
    const auto& all = gated_delta_implementations();
    if (index >= 0 && index < static_cast<int>(all.size())) {
      name = all[static_cast<std::size_t>(index)]->description().name.c_str();
    }
  });
  return name;
}

gdnbench_status gdnbench_supports(const char* implementation, const char* problem) {
  return guarded(
      [&] { require_supported(find(implementation), parse_problem(problem, nullptr, 0)); });
}

gdnbench_status gdnbench_plan_create(const char* implementation, const char* problem,
                                     const int64_t* sequence_offsets, int64_t num_sequences,
                                     const char* device, void* stream,
                                     const gdnbench_arguments* arguments, gdnbench_plan** plan) {
  return guarded([&] {
    *required(plan, "plan") = nullptr;
    const Implementation& chosen = find(implementation);
    const Problem parsed = parse_problem(problem, sequence_offsets, num_sequences);
    const Arguments given = arguments_of(parsed, *required(arguments, "arguments"));
    require_supported(chosen, parsed);
    std::unique_ptr<gdnbench_plan> made(new gdnbench_plan{Place(device, stream), nullptr});
    const Support here = runs_on(chosen, made->place.device().info());
    if (!here) throw Error(ErrorKind::unsupported, here.reason);
    made->plan = chosen.plan(parsed, given, made->place.device());
    made->place.synchronize();
    *plan = made.release();
  });
}

gdnbench_status gdnbench_plan_info(const gdnbench_plan* plan, gdnbench_plan_details* details) {
  return guarded([&] {
    const PlanInfo& info = required(plan, "plan")->plan->info();
    *required(details, "details") = {info.chunk, info.workspace_bytes, info.launches,
                                     info.choice.c_str()};
  });
}

gdnbench_status gdnbench_plan_run(gdnbench_plan* plan) {
  return guarded([&] {
    required(plan, "plan")->plan->run();
    if (!plan->place.is_cuda()) plan->place.synchronize();
  });
}

void gdnbench_plan_destroy(gdnbench_plan* plan) { delete plan; }

gdnbench_status gdnbench_reference_float64(const char* problem, const int64_t* sequence_offsets,
                                           int64_t num_sequences, const char* device, void* stream,
                                           const gdnbench_arguments* arguments, double* output,
                                           double* final_state) {
  return guarded([&] {
    const Problem parsed = parse_problem(problem, sequence_offsets, num_sequences);
    const GatedDeltaArguments given = arguments_of(parsed, *required(arguments, "arguments"));
    required(output, "output");
    Place place(device, stream);
    if (place.has_host_arrays()) {
      evaluate_on_host(parsed, given, output, final_state);
      return;
    }
#ifdef GDN_WITH_CUDA
    if (place.is_cuda()) {
      cuda::evaluate_gated_delta_float64_on_device(parsed, given, output, final_state,
                                                   place.device());
      return;
    }
#endif
    throw Error(ErrorKind::unsupported,
                "float64 reference: not done on device '" + std::string(device) + "'");
  });
}

}  // extern "C"
