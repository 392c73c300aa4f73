// The CUDA build of the gfx906 kernels, executed on the host by fibres (cuda/emulated/grid.h) in
// waves of GDN_WAVE lanes, planned as for gfx906: against the float64 reference, in three thread
// orders. Their dynamic shared memory has the bytes that the gfx906 code object says, and a guard
// behind it.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cuda/emulated/emulated_device.h"
#include "cuda/emulated/grid.h"
#include "harness/gfx906/on_cuda/device_as_hip.h"
#include "harness/operations/generate_case.h"
#include "harness/run/execute.h"
#include "hip/causal_conv1d/params.h"
#include "hip/causal_conv1d_backward/params.h"
#include "hip/code_objects.h"
#include "hip/emulator/code_object.h"
#include "hip/gated_delta/params.h"
#include "hip/gated_delta_backward/params.h"
#include "hip/gated_delta_ring/params.h"
#include "hip/gated_delta_verify/params.h"
#include "hip/gated_rms_norm/params.h"
#include "hip/gated_rms_norm_backward/params.h"
#include "interface/error.h"
#include "interface/implementation.h"
#include "interface/operations/causal_conv1d.h"
#include "interface/operations/causal_conv1d_backward.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/gated_delta_backward.h"
#include "interface/operations/gated_delta_layer.h"
#include "interface/operations/gated_delta_ring.h"
#include "interface/operations/gated_delta_verify.h"
#include "interface/operations/gated_rms_norm.h"
#include "interface/operations/gated_rms_norm_backward.h"
#include "reference/errors.h"
#include "reference/reference.h"

void set_grid_extent(unsigned int x, unsigned int y, unsigned int z);

namespace gdn::hip {
namespace {

constexpr double kFloat32Bound = 2e-6;

template <typename Parameters>
void run_kernel(void* kernel, Extent grid, Extent block, const void* arguments, std::size_t lds) {
  set_grid_extent(grid.x, grid.y, grid.z);
  const auto entry = reinterpret_cast<void (*)(Parameters)>(kernel);
  cuda_grid::enqueue_grid(grid.x * grid.y * grid.z, block.x, lds,
                          [&] { entry(*static_cast<const Parameters*>(arguments)); });
}

class OnHostDevice final : public DeviceAsHip {
 public:
  explicit OnHostDevice(int order) : DeviceAsHip(cuda_emulated::open(order), ", gfx906 kernels") {
    register_launcher(native_stream(), this);
  }
  ~OnHostDevice() override { unregister_launcher(native_stream()); }
  void* native_stream() const override { return const_cast<OnHostDevice*>(this); }

  void launch(const std::string& name, Extent grid, Extent block, const void* arguments,
              std::size_t argument_bytes) override {
    void* const kernel = dlsym(RTLD_DEFAULT, name.c_str());
    if (kernel == nullptr) throw_bad_input("no kernel '" + name + "' in this program");
    std::size_t lds = 0;
    for (const auto& resources : gfx906::read_resources(code_object_of(name).elf)) {
      if (resources.name == name) lds = static_cast<std::size_t>(resources.lds_bytes);
    }
    if (name.starts_with("conv_gradient")) {
      ASSERT_EQ(argument_bytes, sizeof(ConvGradientParams));
      run_kernel<ConvGradientParams>(kernel, grid, block, arguments, lds);
    } else if (name.starts_with("conv_")) {
      ASSERT_EQ(argument_bytes, sizeof(ConvParams));
      run_kernel<ConvParams>(kernel, grid, block, arguments, lds);
    } else if (name.starts_with("norm_gradients_")) {
      ASSERT_EQ(argument_bytes, sizeof(NormGradientParams));
      run_kernel<NormGradientParams>(kernel, grid, block, arguments, lds);
    } else if (name.starts_with("norm_")) {
      ASSERT_EQ(argument_bytes, sizeof(NormParams));
      run_kernel<NormParams>(kernel, grid, block, arguments, lds);
    } else if (name.starts_with("chunkwise_")) {
      ASSERT_EQ(argument_bytes, sizeof(ChunkwiseParams));
      run_kernel<ChunkwiseParams>(kernel, grid, block, arguments, lds);
    } else if (name.starts_with("verify_") || name.starts_with("commit_")) {
      ASSERT_EQ(argument_bytes, sizeof(DraftParams));
      run_kernel<DraftParams>(kernel, grid, block, arguments, lds);
    } else if (name.starts_with("ring_")) {
      ASSERT_EQ(argument_bytes, sizeof(RingParams));
      run_kernel<RingParams>(kernel, grid, block, arguments, lds);
    } else if (name.starts_with("backward_prepare_") || name.starts_with("backward_chains_") ||
               name.starts_with("backward_gradients_")) {
      ASSERT_EQ(argument_bytes, sizeof(BackwardChunkParams));
      run_kernel<BackwardChunkParams>(kernel, grid, block, arguments, lds);
    } else if (name.starts_with("backward_")) {
      ASSERT_EQ(argument_bytes, sizeof(BackwardParams));
      run_kernel<BackwardParams>(kernel, grid, block, arguments, lds);
    } else if (name == "checkpoints_segments") {
      ASSERT_EQ(argument_bytes, sizeof(SegmentParams));
      run_kernel<SegmentParams>(kernel, grid, block, arguments, lds);
    } else if (name.starts_with("checkpoints_walk_")) {
      ASSERT_EQ(argument_bytes, sizeof(ChunkwiseCheckpointParams));
      run_kernel<ChunkwiseCheckpointParams>(kernel, grid, block, arguments, lds);
    } else if (name.starts_with("checkpoints_")) {
      ASSERT_EQ(argument_bytes, sizeof(CheckpointParams));
      run_kernel<CheckpointParams>(kernel, grid, block, arguments, lds);
    } else {
      ASSERT_EQ(argument_bytes, sizeof(GatedDeltaParams));
      run_kernel<GatedDeltaParams>(kernel, grid, block, arguments, lds);
    }
  }
};

void expect_agree(Operation operation, const std::vector<std::string>& problems) {
  for (int order = 0; order < 3; ++order) {  // first thread first, last first, random
    OnHostDevice device(order);
    for (const std::string& text : problems) {
      const Case inputs = generate_case(Problem::parse(to_string(operation) + ":" + text));
      const auto reference = reference::evaluate<double>(inputs);
      int run = 0;
      for (const Implementation* implementation : all_implementations()) {
        const Description& description = implementation->description();
        if (description.backend != "hip" || description.operation != operation ||
            !implementation->supports(inputs.problem)) {
          continue;
        }
        ++run;
        SCOPED_TRACE(description.name + " on " + text + ", order " + std::to_string(order));
        const auto report =
            reference::compare(inputs, reference, execute(*implementation, inputs, device));
        EXPECT_EQ(reference::violation(report, report.limits), "");
        if (inputs.problem.token_dtype == DType::float32) {
          for (const reference::OutputErrors& output : report.outputs) {
            EXPECT_LE(output.worst().error.relative_l2, kFloat32Bound) << output.name();
          }
        }
      }
      EXPECT_GT(run, 0) << text;
    }
  }
}

TEST(KernelsOnCuda, TheConvolutionAgreesWithTheReference) {
  expect_agree(causal_conv1d_operation(), {"heads=1,dim=24,seq=70+0+2,dtype=f16,bias=1"});
}

TEST(KernelsOnCuda, GradientsOfTheConvolutionAgreeWithTheReference) {
  expect_agree(causal_conv1d_backward_operation(),
               {"channels=70,seq=70+0+2,dtype=f16,bias=1", "channels=5,seq=9+3,dtype=f32,width=9"});
}

TEST(KernelsOnCuda, TheNormAgreesWithTheReference) {
  expect_agree(gated_rms_norm_operation(),
               {"heads=1/4,dim=8x64,seq=5+0+2,dtype=f16", "heads=1/3,dim=33,seq=3,dtype=f32"});
}

TEST(KernelsOnCuda, TheNormsGradientsAgreeWithTheReference) {
  expect_agree(gated_rms_norm_backward_operation(),
               {"heads=1/4,dim=8x64,seq=5+0+2,dtype=f16", "heads=1/3,dim=33,seq=9,dtype=f32"});
}

TEST(KernelsOnCuda, DraftsAgreeWithTheReference) {
  expect_agree(gated_delta_verify_operation(),
               {"heads=1/2,dim=40x24,seq=5+0+3,h0=normal,dtype=f32",
                "heads=1/2,dim=20x9,seq=4+2,h0=normal,dtype=f32,steps=2,decay=channel"});
}

TEST(KernelsOnCuda, RingsAgreeWithTheReference) {
  expect_agree(gated_delta_ring_operation(),
               {"heads=1/2,dim=40x24,seq=5+0+3,h0=normal,dtype=f32",
                "heads=1/2,dim=20x9,seq=4+2,h0=normal,dtype=f32,norm=1",
                "heads=1/2,dim=40x24,seq=4+2,h0=normal,dtype=bf16,state=bf16,norm=1"});
}

TEST(KernelsOnCuda, GradientsAgreeWithTheReference) {
  expect_agree(gated_delta_backward_operation(),
               {"heads=1/2,dim=40x24,seq=9+0+3,h0=normal,dtype=f32,gate=logits,norm=1",
                "heads=1/2,dim=20x9,seq=4+2,h0=normal,dtype=f32,slots=padding",
                "heads=1/1,dim=20x9,seq=37,h0=normal,dtype=f32,gate=decay,gates=reset,chunk=16"});
}

TEST(KernelsOnCuda, StatesInsideACallAgreeWithTheReference) {
  expect_agree(gated_delta_operation(),
               {"heads=1/2,dim=40x8,seq=75+3+0+2,h0=normal,dtype=f32,slots=padding,checkpoints=3"});
}

// Every form of gated_delta that a layer has.
TEST(KernelsOnCuda, TheLayerAgreesWithTheReference) {
  expect_agree(gated_delta_layer_operation(),
               {"heads=1/2,dim=40x8,seq=35+3,gate=logits,beta=logit,h0=normal,dtype=f32"});
}

}  // namespace
}  // namespace gdn::hip
