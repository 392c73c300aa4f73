// cuda/fused_sm90: gated_delta forward for Hopper (sm_90a), Dk = Dv = 128, bfloat16 or float16
// tokens.
//
// Two launches, the second overlapping the first's end: prepare (fused_sm90_prepare.cuh) turns
// every chunk of 64 tokens into the operands of the chain, in parallel; the chain
// (fused_sm90_chain.cuh) walks the chunks of each sequence and value head with the state in
// registers. Gates in any encoding, l2 normalisation of q and k, lengths and slots are read where
// they are used: no further pass.
//
// Bound by: the chain's dependent matrix groups where there are few heads, the tensor cores at the
// clock they hold under load and the traffic of the records where there are many. Figures, with how
// they were measured: fused_sm90.md.
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <numeric>
#include <queue>
#include <string>

#include "cuda/gated_delta/fused_sm90_chain.cuh"
#include "cuda/gated_delta/fused_sm90_prepare.cuh"
#include "cuda/launch_plan.h"
#include "cuda/require.h"

namespace gdn {
namespace cuda {
namespace {

using namespace fused_sm90;

/// [T, heads, 128] of 16-bit elements as {64, T, 2 panels, heads}, in boxes of 64 tokens and
/// `panels` panels, 128-byte swizzled.
CUtensorMap token_map(const void* base, std::int64_t tokens, std::int64_t token_stride, int heads,
                      int panels, DType dtype, const char* name) {
  static const auto encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    GDN_CUDA_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                    cudaEnableDefault, &found));
    if (found != cudaDriverEntryPointSuccess)
      throw Error(ErrorKind::device_unavailable, "the driver has no cuTensorMapEncodeTiled");
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  CUtensorMap map;
  const cuuint64_t sizes[4] = {64, static_cast<cuuint64_t>(tokens), 2,
                               static_cast<cuuint64_t>(heads)};
  const cuuint64_t strides[3] = {static_cast<cuuint64_t>(token_stride) * 2, 128, 256};
  const cuuint32_t box[4] = {64, 64, static_cast<cuuint32_t>(panels), 1};
  const cuuint32_t element_strides[4] = {1, 1, 1, 1};
  const CUresult status = encode(
      &map,
      dtype == DType::bfloat16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      4, const_cast<void*>(base), sizes, strides, box, element_strides,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS)
    throw Error(ErrorKind::device_failure, std::string(name) +
                                               ": cuTensorMapEncodeTiled failed with CUresult " +
                                               std::to_string(static_cast<int>(status)));
  return map;
}

/// Relative time of one chunk in one block: both halves of V in one block, or one half. From the
/// measured chains (fused_sm90.md).
constexpr double kChunkTimeWhole = 1.5;
constexpr double kChunkTimeHalf = 1.0;

/// Time of the chain when blocks take work items longest first.
double makespan(const Problem& problem, int halves, int multiprocessors) {
  std::vector<std::int64_t> lengths = problem.sequences.lengths;
  std::sort(lengths.rbegin(), lengths.rend());
  std::priority_queue<double, std::vector<double>, std::greater<>> busy_until;
  for (int i = 0; i < multiprocessors; ++i) busy_until.push(0);
  double last = 0;
  for (const std::int64_t length : lengths) {
    const double time = static_cast<double>((length + kChunk - 1) / kChunk) *
                        (halves == 1 ? kChunkTimeWhole : kChunkTimeHalf);
    for (std::int64_t unit = 0; unit < problem.num_value_heads * halves; ++unit) {
      const double end = busy_until.top() + time;
      busy_until.pop();
      busy_until.push(end);
      last = std::max(last, end);
    }
  }
  return last;
}

struct Choice {
  int halves = 1;  ///< blocks that share one head's V
  int heads_per_block = 1;
};

/// From the lengths known at planning time; any lengths give the same bits under any choice.
Choice choose(const Problem& problem, int multiprocessors) {
  Choice choice;
  choice.halves =
      makespan(problem, 2, multiprocessors) < makespan(problem, 1, multiprocessors) ? 2 : 1;
  // prepare: one head a block while all blocks run at once, since a block's latency is what counts
  // then; otherwise share K K^T and Q K^T among as many heads as shared memory holds four blocks of
  const std::int64_t slots = chunk_slots(problem.total_tokens(), problem.num_sequences());
  const auto group = static_cast<int>(problem.value_heads_per_key_head());
  const std::int64_t resident = 4 * std::int64_t{multiprocessors};
  choice.heads_per_block = std::min(group, 4);
  for (const int heads : {1, 2}) {
    if (heads < group &&
        slots * problem.num_key_heads * ((group + heads - 1) / heads) <= resident) {
      choice.heads_per_block = heads;
      break;
    }
  }
  return choice;
}

struct Launch {
  KernelArguments arguments;
  CUtensorMap query, key, value, output;
  unsigned int prepare_blocks = 0;
  unsigned int chain_blocks = 0;

  template <typename Token, int MathWarpgroups>
  void enqueue(cudaStream_t stream) const {
    const int prepare_bytes = static_cast<int>(PrepareLayout::bytes(arguments.heads_per_block));
    GDN_CUDA_CHECK(cudaFuncSetAttribute(
        prepare_kernel<Token>, cudaFuncAttributeMaxDynamicSharedMemorySize, prepare_bytes));
    GDN_CUDA_CHECK(cudaFuncSetAttribute(prepare_kernel<Token>,
                                        cudaFuncAttributePreferredSharedMemoryCarveout, 100));
    prepare_kernel<Token><<<prepare_blocks, 128, prepare_bytes, stream>>>(query, key, arguments);
    GDN_CUDA_CHECK(cudaGetLastError());

    using Layout = ChainLayout<MathWarpgroups>;
    const auto chain = chain_kernel<Token, MathWarpgroups>;
    GDN_CUDA_CHECK(cudaFuncSetAttribute(chain, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(Layout::kBytes)));
    cudaLaunchAttribute overlap{};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = chain_blocks;
    config.blockDim = Layout::kThreads;
    config.dynamicSmemBytes = Layout::kBytes;
    config.stream = stream;
    config.attrs = &overlap;
    config.numAttrs = 1;
    GDN_CUDA_CHECK(cudaLaunchKernelEx(&config, chain, query, key, value, output, arguments));
  }
};

class FusedSm90 final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "cuda/fused_sm90",
        .operation = Operation::gated_delta,
        .backend = "cuda",
        .form = "fused",
        .summary =
            "wgmma and TMA: chunk operands in parallel, then a persistent chain with the "
            "state in registers",
        .resources = "sm_90a, 227 KB shared memory",
        .min_compute_capability = 90,
        .exact_compute_capability = 90};
    return description;
  }

  Support supports(const Problem& problem) const override {
    if (problem.operation != Operation::gated_delta) return Support::no("only gated_delta");
    if (problem.key_head_dim != kDim || problem.value_head_dim != kDim)
      return Support::no("head dims " + std::to_string(problem.key_head_dim) + "x" +
                         std::to_string(problem.value_head_dim) + ": only 128x128");
    if (problem.token_dtype == DType::float32)
      return Support::no("float32 tokens: only bfloat16 and float16");
    if (problem.effective_output_dtype() != problem.token_dtype)
      return Support::no("output in another dtype than the tokens'");
    if (problem.chunk != 0 && problem.chunk != kChunk)
      return Support::no("chunk " + std::to_string(problem.chunk) + ": only 64");
    if (problem.total_tokens() > 2147483647 - kChunk) return Support::no("more than 2^31 tokens");
    return Support::yes();
  }

  std::int64_t workspace_bytes(const Problem& problem) const override {
    return record_bytes(problem) + order_bytes(problem);
  }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    const GatedDeltaParams params = make_params(problem, arguments);
    require_token_alignment(params, problem.token_dtype, 16);
    PlanInfo info;
    info.chunk = kChunk;
    if (problem.total_tokens() == 0) {
      info.choice = "no tokens";
      return std::make_unique<LaunchPlan>(device, info, std::vector<DeviceBuffer>{},
                                          [](cudaStream_t) {});
    }
    require_pointer(params.output, 16, "output");

    const int multiprocessors = device.info().multiprocessors;
    const Choice choice = choose(problem, multiprocessors);
    std::vector<DeviceBuffer> workspaces;
    workspaces.push_back(device.allocate(record_bytes(problem)));
    workspaces.push_back(device.allocate(order_bytes(problem)));

    Launch launch;
    KernelArguments& a = launch.arguments;
    a.p = params;
    a.heads_per_block = choice.heads_per_block;
    a.records = workspaces[0].as<std::uint8_t>();
    a.order = workspaces[1].as<int>();
    a.next_unit = a.order + params.num_sequences;
    const std::int64_t units = problem.num_sequences() * problem.num_value_heads * choice.halves;
    a.units = static_cast<int>(grid_blocks(units, description().name));
    const std::int64_t tokens = problem.total_tokens();
    const DType dtype = problem.token_dtype;
    launch.query = token_map(params.query, tokens, params.query_token_stride, params.num_key_heads,
                             2, dtype, "q");
    launch.key =
        token_map(params.key, tokens, params.key_token_stride, params.num_key_heads, 2, dtype, "k");
    launch.value = token_map(params.value, tokens, params.value_token_stride,
                             params.num_value_heads, choice.halves == 1 ? 2 : 1, dtype, "v");
    launch.output = token_map(params.output, tokens, problem.num_value_heads * kDim,
                              params.num_value_heads, 1, dtype, "output");
    const std::int64_t group = problem.value_heads_per_key_head();
    launch.prepare_blocks =
        grid_blocks((problem.num_sequences() + 127) / 128 +
                        chunk_slots(tokens, problem.num_sequences()) * problem.num_key_heads *
                            ((group + choice.heads_per_block - 1) / choice.heads_per_block),
                    description().name);
    launch.chain_blocks = static_cast<unsigned int>(std::min<std::int64_t>(units, multiprocessors));

    info.launches = 2;
    info.choice = "v_split=" + std::to_string(choice.halves) +
                  " prepare_heads=" + std::to_string(choice.heads_per_block) +
                  " blocks=" + std::to_string(launch.chain_blocks);
    return std::make_unique<LaunchPlan>(
        device, info, std::move(workspaces),
        [launch, dtype, halves = choice.halves](cudaStream_t stream) {
          if (dtype == DType::bfloat16) {
            halves == 1 ? launch.enqueue<__nv_bfloat16, 2>(stream)
                        : launch.enqueue<__nv_bfloat16, 1>(stream);
          } else {
            halves == 1 ? launch.enqueue<__half, 2>(stream) : launch.enqueue<__half, 1>(stream);
          }
        });
  }

 private:
  static std::int64_t record_bytes(const Problem& problem) {
    return chunk_slots(problem.total_tokens(), problem.num_sequences()) * problem.num_value_heads *
           kRecordBytes;
  }
  static std::int64_t order_bytes(const Problem& problem) {
    return (problem.num_sequences() + 1) * static_cast<std::int64_t>(sizeof(int));
  }
};

}  // namespace
}  // namespace cuda

const Implementation& cuda_gated_delta_fused_sm90() {
  static const cuda::FusedSm90 implementation;
  return implementation;
}

}  // namespace gdn
