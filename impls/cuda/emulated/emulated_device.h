// The CPU as a Device for the CUDA kernels: they are compiled by the host's compiler, with the
// headers of include/ in the place of the CUDA Toolkit's and of the primitives (ptx.cuh, hopper/),
// and their threads run as fibres (grid.h). It checks results, with or without a CUDA Toolkit and a
// GPU; it has no clock.
#pragma once

#include <memory>

#include "interface/device.h"
#include "interface/implementation.h"

namespace gdn::cuda_emulated {

constexpr const char* kBackend = "cuda-emulated";

BackendStatus status();
/// Turns of a block's threads: cuda-emulated:0 (the default) first thread first, :1 last thread
/// first, :N random with seed N. Of all launches from now on.
std::unique_ptr<Device> open(int index);

/// One implementation of two builds: `gpu` plans for CUDA devices, `emulated` for this one. What
/// they say of themselves is the same.
class Twin final : public Implementation {
 public:
  Twin(const Implementation& gpu, const Implementation& emulated)
      : gpu_(gpu), emulated_(emulated) {}
  const Description& description() const override { return gpu_.description(); }
  Support supports(const Problem& problem) const override { return gpu_.supports(problem); }
  int rank(const Problem& problem) const override { return gpu_.rank(problem); }
  std::int64_t workspace_bytes(const Problem& problem) const override {
    return gpu_.workspace_bytes(problem);
  }
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    return (device.info().backend == kBackend ? emulated_ : gpu_).plan(problem, arguments, device);
  }

 private:
  const Implementation& gpu_;
  const Implementation& emulated_;
};

using Implementations = const Implementation& (*)();

template <Implementations gpu, Implementations emulated>
const Implementation& twin() {
  static const Twin implementation(gpu(), emulated());
  return implementation;
}

}  // namespace gdn::cuda_emulated
