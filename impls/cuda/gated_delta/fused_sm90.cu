// cuda/fused_sm90: gated_delta forward for Hopper (sm_90a), Dk = Dv = 128, bfloat16 or float16
// tokens.
//
// Two forms with the same bits. Two launches, the second overlapping the first's end: prepare
// (fused_sm90_prepare.cuh) turns every chunk of 64 tokens into the operands of the chain, in
// parallel; the chain (fused_sm90_chain.cuh) walks the chunks of each sequence and value head with
// the state in registers. Where there are few sequences and heads, a launch between them makes what
// the chain needs to start at several places of a sequence at once, unless the chain can make that
// itself; the chain may then be launched twice, for gates that forget and for others, of which
// those of the run choose one on the device (fused_sm90_units.cuh). Or one launch, in whose blocks
// the chain has those operands made beside it (fused_sm90_one_launch.cuh): no records in memory.
// Gates in any encoding, l2 normalisation of q and k, lengths and slots are read where they are
// used: no further pass.
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

#include "cuda/allow_shared_memory.h"
#include "cuda/gated_delta/fused_sm90.h"
#include "cuda/gated_delta/fused_sm90_chain.cuh"
#include "cuda/gated_delta/fused_sm90_prepare.cuh"
#include "cuda/launch_kernel.cuh"
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

// Planning figures, microseconds on an H200, from the measured kernels (fused_sm90.md): they rank
// choices, nothing else.
constexpr double kWholeChunk = 1.85;  // one block, all of V
constexpr double kHalfChunk = 1.15;   // one block, half of V
constexpr double kPieceChunk = 1.17;  // pieces kernel: no Q, no output
constexpr double kBytesPerMicrosecond = 4.2e6;
constexpr double kUnitStart = 4.2;     // of the chain: state, pipeline fill, first chunk's code
constexpr double kPieceStart = 4.0;    // of the pieces kernel
constexpr double kKernelStart = 2.5;   // the pieces kernel, whatever it has to do
constexpr double kWholeCombine = 4.2;  // one transition applied, all of V
constexpr double kHalfCombine = 2.0;
constexpr int kOrdinaryForget = 7;     // chunks that ordinary gates take to forget,
constexpr int kStrongForget = 1;       // strong ones,
constexpr int kNeverForget = 1 << 20;  // none
constexpr double kFirstStart = 3.0;  // of a first piece beside the pieces kernel: two kernels start
constexpr double kHandOn = 1.5;      // its state, to the others
constexpr double kSecondChain = 2.0;  // that leaves at once
constexpr double kDecision = 3.0;     // of sequences whole: the pieces kernel only looks at gates
constexpr double kWorthwhile = 0.97;  // these figures are no better than that
constexpr double kOneLaunchChunk = 2.65;
constexpr double kOneLaunchUnit = 3.0;   // a work item besides
constexpr double kOneLaunchStart = 9.0;  // the kernel
constexpr double kPrepareStart = 7.5;    // what prepare costs beside its work
constexpr double kPrepareBlock = 4.0;    // a block, four of which share a multiprocessor
constexpr double kPrepareHead = 2.3;     // a value head of a block, besides
constexpr double kPrepareSaving = 3.0;   // states are saved first, and a block has to wait for that
constexpr std::int64_t kLongItem = 64;   // chunks from which on neighbours in the cache count more
/// Piece slots times value heads: bounds the workspace.
constexpr std::int64_t kMostPieceHeads = 576;

constexpr std::int64_t kCounterBytes = 16;  // the one-launch form's whole workspace

/// How the chain is divided.
struct ChainChoice {
  int halves = 1;            ///< blocks that share one head's V
  int chunks_per_piece = 0;  ///< 0: sequences whole
  bool first_pieces_beside = false;
  bool operator==(const ChainChoice&) const = default;
};

struct Choice {
  bool one_launch = false;  ///< no records; nothing of the rest applies
  ChainChoice near;         ///< where all its pieces are near (fused_sm90_units.cuh)
  ChainChoice far;          ///< where they are not: the same, or a launch of its own
  int heads_per_block = 1;
  bool two_chains() const { return !(near == far); }
};

/// Blocks that take work items in order, each as it has done its last.
class Schedule {
 public:
  explicit Schedule(int multiprocessors)
      : busy_until_(std::greater<>(), std::vector<double>(multiprocessors, 0.0)) {}
  /// `copies` items that take `time` and cannot begin before `ready`. Returns the last one's end.
  double add(double time, std::int64_t copies, double ready = 0) {
    double last = 0;
    for (std::int64_t copy = 0; copy < copies; ++copy) {
      const double end = std::max(busy_until_.top(), ready) + time;
      busy_until_.pop();
      busy_until_.push(end);
      last = std::max(last, end);
    }
    end_ = std::max(end_, last);
    return last;
  }
  double end() const { return end_; }

 private:
  std::priority_queue<double, std::vector<double>, std::greater<>> busy_until_;
  double end_ = 0;
};

/// Time until blocks have done `times` of `copies` items each.
double makespan(const std::vector<double>& times, std::int64_t copies, int multiprocessors) {
  const double total =
      std::accumulate(times.begin(), times.end(), 0.0) * static_cast<double>(copies);
  const double longest = times.empty() ? 0 : *std::max_element(times.begin(), times.end());
  if (static_cast<std::int64_t>(times.size()) * copies > 8192)  // many waves: the average will do
    return std::max(longest, total / multiprocessors);
  Schedule schedule(multiprocessors);
  for (const double time : times) schedule.add(time, copies);
  return schedule.end();
}

/// Expected time after the prepare kernel where gates forget within `forget` chunks.
double expected_time(const Problem& problem, const ChainChoice& choice, int forget,
                     int multiprocessors) {
  const std::int64_t piece = choice.chunks_per_piece, heads = problem.num_value_heads;
  std::vector<std::int64_t> lengths = problem.sequences.lengths;
  std::erase(lengths, 0);
  if (piece == 0) std::sort(lengths.rbegin(), lengths.rend());  // pieces are taken as they lie
  std::int64_t chain_units = 0, most_before = 0;
  for (const std::int64_t length : lengths) {
    const std::int64_t chunks = (length + kChunk - 1) / kChunk;
    chain_units += (piece == 0 ? 1 : (chunks + piece - 1) / piece) * heads;
    if (piece > 0) most_before = std::max(most_before, (chunks - 1) / piece * piece);
  }
  // a chunk is as long as its dependent products take, or as its bytes take beside all others: K
  // and Q once per key head, V, O and the record
  const double bytes =
      32768.0 / static_cast<double>(problem.value_heads_per_key_head()) + 32768 + kRecordBytes;
  const double running =
      static_cast<double>(std::min<std::int64_t>(chain_units, multiprocessors / choice.halves));
  const double chunk_time = std::max(choice.halves == 1 ? kWholeChunk : kHalfChunk,
                                     running * bytes / kBytesPerMicrosecond);
  const bool uses_pieces = std::min<std::int64_t>(forget, most_before) > kOwnChunks;
  const double combine = choice.halves == 1 ? kWholeCombine : kHalfCombine;
  if (choice.first_pieces_beside) {  // gates that never forget
    Schedule schedule(multiprocessors);
    const double run = kPieceStart + static_cast<double>(piece) * kPieceChunk;
    for (const std::int64_t length : lengths) {
      const std::int64_t chunks = (length + kChunk - 1) / kChunk;
      for (std::int64_t begin = piece; begin + piece < chunks; begin += piece)
        schedule.add(run, 2 * heads);
    }
    const double pieces_end = schedule.end();
    std::vector<double> first_end;
    for (const std::int64_t length : lengths)
      first_end.push_back(schedule.add(
          kFirstStart + kUnitStart +
              static_cast<double>(std::min(piece, (length + kChunk - 1) / kChunk)) * chunk_time,
          heads * choice.halves));
    for (std::size_t n = 0; n < lengths.size(); ++n) {
      const std::int64_t chunks = (lengths[n] + kChunk - 1) / kChunk;
      for (std::int64_t begin = piece; begin < chunks; begin += piece)
        schedule.add(kUnitStart + static_cast<double>(begin / piece - 1) * combine +
                         static_cast<double>(std::min(piece, chunks - begin)) * chunk_time,
                     heads * choice.halves,
                     std::max(pieces_end + kKernelStart, first_end[n] + kHandOn));
    }
    return schedule.end() + kKernelStart;
  }
  std::vector<double> chain, pieces;
  for (const std::int64_t length : lengths) {
    const std::int64_t chunks = (length + kChunk - 1) / kChunk;
    const std::int64_t each = piece == 0 ? chunks : piece;
    std::int64_t transitions = 0;  // to apply before this piece
    for (std::int64_t begin = 0; begin < chunks; begin += each) {
      const std::int64_t own = std::min<std::int64_t>(forget, begin);
      double time = kUnitStart;
      if (own <= (uses_pieces ? kOwnChunksBesideOthers : kOwnChunks)) {
        time += static_cast<double>(own) * chunk_time;
      } else {
        time += static_cast<double>(transitions) * combine;
      }
      chain.push_back(time + static_cast<double>(std::min(each, chunks - begin)) * chunk_time);
      if (begin > 0 && forget > each) ++transitions;
      if (uses_pieces && begin + each < chunks) {
        const double run =
            kPieceStart + static_cast<double>(std::min<std::int64_t>(forget, each)) * kPieceChunk;
        pieces.push_back(run);
        if (begin > 0 && forget > each) pieces.push_back(run);
      }
    }
  }
  return makespan(chain, heads * choice.halves, multiprocessors) + (piece > 0 ? kKernelStart : 0) +
         makespan(pieces, heads, multiprocessors);
}

/// Prepare blocks that have room on the device at the same time.
std::int64_t prepare_blocks_at_once(int multiprocessors) {
  return std::int64_t{PrepareLayout::kBlocksPerMultiprocessor} * multiprocessors;
}

/// Prepare blocks that save initial states, where sequences are in pieces.
std::int64_t saving_blocks(const Problem& problem) {
  return problem.initial_state == InitialState::absent
             ? 0
             : 4 * problem.num_sequences() * problem.num_value_heads;
}

/// Expected time of the prepare kernel and of starting the chain after it.
double prepare_time(const Problem& problem, const Choice& choice, int heads_per_block,
                    int multiprocessors) {
  std::int64_t chunks = 0;
  for (const std::int64_t length : problem.sequences.lengths)
    chunks += (length + kChunk - 1) / kChunk;
  const std::int64_t group = problem.value_heads_per_key_head(),
                     blocks = chunks * problem.num_key_heads *
                              ((group + heads_per_block - 1) / heads_per_block),
                     at_once = prepare_blocks_at_once(multiprocessors),
                     saving = choice.near.chunks_per_piece > 0 ? saving_blocks(problem) : 0;
  const double block_time = kPrepareBlock + kPrepareHead * heads_per_block;
  if (blocks <= at_once)
    return kPrepareStart + block_time + (blocks + saving > at_once ? kPrepareSaving : 0);
  return kPrepareStart +  // the last blocks leave multiprocessors half empty
         block_time * (static_cast<double>(blocks) / static_cast<double>(at_once) + 0.5);
}

/// Whether the one-launch form is to be expected to win, where that has been measured: sequences
/// of some length.
bool one_launch_wins(const Problem& problem, const Choice& two_launches, double chain_time,
                     int multiprocessors) {
  if (problem.num_sequences() > kMostOrderedSequences ||
      problem.total_tokens() < 512 * problem.num_sequences())
    return false;
  std::vector<double> times;
  for (const std::int64_t length : problem.sequences.lengths)
    if (length > 0)
      times.push_back(kOneLaunchUnit +
                      static_cast<double>((length + kChunk - 1) / kChunk) * kOneLaunchChunk);
  std::sort(times.rbegin(), times.rend());
  return kOneLaunchStart + makespan(times, problem.num_value_heads, multiprocessors) <
         chain_time +
             prepare_time(problem, two_launches, two_launches.heads_per_block, multiprocessors);
}

bool pieces_fit(const Problem& problem, int chunks) {
  return piece_slots(problem.total_tokens(), problem.num_sequences(), chunks) *
             problem.num_value_heads <=
         kMostPieceHeads;
}

/// Chunks per piece that are weighed, 0 for whole sequences: a range of them, and the longest
/// sequence in equal parts, of which the last is as long as the others.
std::vector<int> piece_lengths(const Problem& problem) {
  std::vector<int> result{4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 86, 96, 128, 171, 192, 256};
  const auto longest = static_cast<int>((problem.sequences.longest() + kChunk - 1) / kChunk);
  for (int parts = 2; parts <= 12; ++parts) result.push_back((longest + parts - 1) / parts);
  std::erase_if(result, [&](int chunks) { return chunks < 4 || !pieces_fit(problem, chunks); });
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  result.insert(result.begin(), 0);
  return result;
}

/// From the lengths known at planning time; other lengths are as correct. The form, halves and
/// heads per block change no bit; pieces do.
Choice choose(const Problem& problem, int multiprocessors, FusedSm90Kind kind) {
  Choice best;
  if (kind == FusedSm90Kind::one_launch) {
    best.one_launch = true;
    return best;
  }
  const bool allow_pieces = kind == FusedSm90Kind::planned;
  // By the mean over three kinds of gates: one choice for all of them, or two, one of the gates
  // that forget and one of those that do not.
  constexpr double kNone = 1e30;
  double best_time = kNone, near_time = kNone, far_time = kNone;
  ChainChoice near, far;
  for (const int chunks : allow_pieces ? piece_lengths(problem) : std::vector<int>{0}) {
    for (const int halves : {1, 2}) {
      ChainChoice choice;
      choice.halves = halves;
      choice.chunks_per_piece = chunks;
      const auto time_of = [&](int forget) {
        return expected_time(problem, choice, forget, multiprocessors) / 3;
      };
      const double forgetting = time_of(kOrdinaryForget) + time_of(kStrongForget);
      double never = time_of(kNeverForget);
      if (never + forgetting < best_time) {
        best_time = never + forgetting;
        best.near = best.far = choice;
      }
      if (chunks > 0 && forgetting < near_time) {
        near_time = forgetting;
        near = choice;
      }
      if (never < far_time) {
        far_time = never;
        far = choice;
      }
      choice.first_pieces_beside = chunks > 0 && problem.sequences.longest() > chunks * kChunk;
      never = choice.first_pieces_beside ? time_of(kNeverForget) : kNone;
      if (never < far_time) {
        far_time = never;
        far = choice;
      }
    }
  }
  const double two_time =
      near_time + far_time + kSecondChain + (far.chunks_per_piece == 0 ? kDecision / 3 : 0);
  if (two_time < kWorthwhile * best_time) {
    best_time = two_time;
    best.near = near;
    best.far = far;
  }
  // K K^T and Q K^T are shared by the heads of a prepare block, which take their time one after the
  // other: as many as leave room for four blocks, fewer where all blocks run at once
  const auto group = static_cast<int>(problem.value_heads_per_key_head());
  best.heads_per_block = std::min(group, 4);
  for (const int heads : {2, 1})
    if (heads < group && prepare_time(problem, best, heads, multiprocessors) <
                             prepare_time(problem, best, best.heads_per_block, multiprocessors))
      best.heads_per_block = heads;
  best.one_launch = one_launch_wins(problem, best, best_time, multiprocessors);
  return best;
}

/// One launch of the chain, or that of the pieces kernel.
struct ChainLaunch {
  KernelArguments arguments;
  CUtensorMap value;
  int halves = 1;
  unsigned int blocks = 0;  ///< 0: not launched
};

struct Launch {
  KernelArguments arguments;  ///< of the prepare kernel
  CUtensorMap query, key, output;
  unsigned int prepare_blocks = 0;
  ChainLaunch pieces, near, far;

  /// Started as the kernel before it drains.
  template <typename Token, int MathWarpgroups, bool Pieces>
  void enqueue_chain(const ChainLaunch& chain, cudaStream_t stream) const {
    using Layout = ChainLayout<MathWarpgroups>;
    const auto kernel = chain_kernel<Token, MathWarpgroups, Pieces>;
    allow_shared_memory(kernel, Layout::kBytes);
    cudaLaunchAttribute overlap{};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = chain.blocks;
    config.blockDim = Layout::kThreads;
    config.dynamicSmemBytes = Layout::kBytes;
    config.stream = stream;
    config.attrs = &overlap;
    config.numAttrs = 1;
    GDN_CUDA_CHECK(
        cudaLaunchKernelEx(&config, kernel, query, key, chain.value, output, chain.arguments));
  }

  template <typename Token>
  void enqueue(cudaStream_t stream) const {
    const std::size_t prepare_bytes = PrepareLayout::bytes(arguments.heads_per_block);
    allow_shared_memory(prepare_kernel<Token>, prepare_bytes);
    GDN_CUDA_CHECK(cudaFuncSetAttribute(prepare_kernel<Token>,
                                        cudaFuncAttributePreferredSharedMemoryCarveout, 100));
    launch_kernel(prepare_kernel<Token>, prepare_blocks, PrepareLayout::kThreads, prepare_bytes,
                  stream, query, key, arguments);
    if (pieces.blocks > 0) enqueue_chain<Token, 2, true>(pieces, stream);
    for (const ChainLaunch* chain : {&near, &far}) {
      if (chain->blocks == 0) continue;
      chain->halves == 1 ? enqueue_chain<Token, 2, false>(*chain, stream)
                         : enqueue_chain<Token, 1, false>(*chain, stream);
    }
  }
};

/// Device memory of a plan, in the order of its allocation.
struct Workspace {
  std::int64_t records = 0, order = 0, bounds = 0, flags = 0, states = 0, saved = 0,
               transitions = 0;
  std::int64_t total() const {
    return records + order + bounds + flags + states + saved + transitions;
  }
};

/// `in_pieces`: sequences are split. `piece_heads`: slots of far pieces times value heads.
Workspace workspace_of(const Problem& problem, bool in_pieces, std::int64_t piece_heads) {
  Workspace bytes;
  const std::int64_t heads = problem.num_sequences() * problem.num_value_heads;
  const std::int64_t chunk_heads =
      chunk_slots(problem.total_tokens(), problem.num_sequences()) * problem.num_value_heads;
  bytes.records = chunk_heads * kRecordBytes;
  bytes.order = (problem.num_sequences() + 2) * 4;
  if (in_pieces) {
    bytes.bounds = chunk_heads * 4;
    bytes.flags = (1 + 2 * heads + piece_heads) * 4;
    bytes.states = piece_heads * kDim * kDim * 4;
    bytes.saved = problem.initial_state == InitialState::absent ? 0 : heads * kDim * kDim * 4;
    bytes.transitions = piece_heads * kTransitionBytes;
  }
  return bytes;
}

class FusedSm90 final : public Implementation {
 public:
  explicit FusedSm90(FusedSm90Kind kind) : kind_(kind) {
    description_.operation = Operation::gated_delta;
    description_.backend = "cuda";
    description_.form = "fused";
    switch (kind) {
      case FusedSm90Kind::planned:
        description_.name = "cuda/fused_sm90";
        description_.summary =
            "wgmma and TMA, state in registers: one persistent launch where there are many heads; "
            "else chunk operands in parallel, then the chain, long sequences split";
        break;
      case FusedSm90Kind::invariant:
        description_.name = "cuda/fused_sm90_invariant";
        description_.summary =
            "as cuda/fused_sm90, sequences never split: same bits alone and in a batch";
        break;
      case FusedSm90Kind::one_launch:
        description_.name = "cuda/fused_sm90_one_launch";
        description_.summary = "as cuda/fused_sm90, always in one persistent launch";
        break;
    }
    description_.resources = "sm_90a, 227 KB shared memory";
    description_.min_compute_capability = 90;
    description_.exact_compute_capability = 90;
    // where sequences are split depends on how many there are beside
    description_.batch_invariant = kind != FusedSm90Kind::planned;
  }

  const Description& description() const override { return description_; }

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
    if (kind_ == FusedSm90Kind::one_launch && problem.num_sequences() > kMostOrderedSequences)
      return Support::no(std::to_string(problem.num_sequences()) + " sequences: at most " +
                         std::to_string(kMostOrderedSequences));
    return Support::yes();
  }

  std::int64_t workspace_bytes(const Problem& problem) const override {
    if (problem.total_tokens() == 0) return 0;
    if (kind_ == FusedSm90Kind::one_launch) return kCounterBytes;
    const bool pieces = kind_ == FusedSm90Kind::planned &&
                        problem.num_sequences() * problem.num_value_heads <= kMostPieceHeads;
    return workspace_of(problem, pieces, pieces ? kMostPieceHeads : 0).total();
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
    const Choice choice = choose(problem, multiprocessors, kind_);
    const std::int64_t tokens = problem.total_tokens(), sequences = problem.num_sequences(),
                       heads = problem.num_value_heads;
    const DType dtype = problem.token_dtype;
    KernelArguments a;
    a.p = params;
    const auto value_map = [&](int panels) {
      return token_map(params.value, tokens, params.value_token_stride, params.num_value_heads,
                       panels, dtype, "v");
    };
    const CUtensorMap query = token_map(params.query, tokens, params.query_token_stride,
                                        params.num_key_heads, 2, dtype, "q"),
                      key = token_map(params.key, tokens, params.key_token_stride,
                                      params.num_key_heads, 2, dtype, "k"),
                      output = token_map(params.output, tokens, heads * kDim,
                                         params.num_value_heads, 1, dtype, "output");
    std::vector<DeviceBuffer> workspaces;
    const auto allocate = [&](std::int64_t bytes) {
      if (bytes == 0) return static_cast<void*>(nullptr);
      workspaces.push_back(device.allocate(bytes));
      return workspaces.back().data();
    };
    /// Blocks of a launch of this many work items.
    const auto blocks_of = [&](std::int64_t units) {
      return static_cast<unsigned int>(std::min<std::int64_t>(units, multiprocessors));
    };
    if (choice.one_launch) {
      a.units = static_cast<int>(grid_blocks(sequences * heads, description_.name));
      a.next_unit = static_cast<int*>(allocate(kCounterBytes));
      const OneLaunch one{a, query, key, value_map(1), output, blocks_of(a.units)};
      info.launches = 1;
      info.choice = "one_launch blocks=" + std::to_string(one.blocks);
      auto plan = std::make_unique<LaunchPlan>(
          device, info, std::move(workspaces),
          [one, dtype](cudaStream_t stream) { enqueue_one_launch(one, dtype, stream); });
      device.fill_async(a.next_unit, 0, kCounterBytes);  // every run leaves it at 0
      return plan;
    }
    const auto piece_heads_of = [&](const ChainChoice& chain) {
      return chain.chunks_per_piece == 0
                 ? 0
                 : piece_slots(tokens, sequences, chain.chunks_per_piece) * heads;
    };
    const bool in_pieces = choice.near.chunks_per_piece > 0;
    const std::int64_t far_heads = piece_heads_of(choice.far);
    const Workspace bytes = workspace_of(problem, in_pieces, far_heads);
    a.records = static_cast<std::uint8_t*>(allocate(bytes.records));
    a.order = static_cast<int*>(allocate(bytes.order));
    a.next_unit = a.order + sequences;
    a.transition_bound = static_cast<float*>(allocate(bytes.bounds));
    if (in_pieces) {
      a.decision = static_cast<int*>(allocate(bytes.flags));
      a.first_state_ready = a.decision + 1;
      a.needs_transition = a.first_state_ready + 2 * sequences * heads;
    }
    a.piece_states = static_cast<float*>(allocate(bytes.states));
    a.saved_states = static_cast<float*>(allocate(bytes.saved));
    a.transitions = static_cast<std::uint8_t*>(allocate(bytes.transitions));

    Launch launch;
    launch.query = query;
    launch.key = key;
    launch.output = output;
    launch.arguments = a;
    launch.arguments.heads_per_block = choice.heads_per_block;
    if (in_pieces && params.pool.read) {
      launch.arguments.saved_quarters = static_cast<int>(saving_blocks(problem));
      launch.arguments.saved_chunks =
          choice.far.chunks_per_piece == 0
              ? choice.near.chunks_per_piece
              : std::min(choice.near.chunks_per_piece, choice.far.chunks_per_piece);
    }
    const std::int64_t group = problem.value_heads_per_key_head(),
                       blocks_per_chunk =
                           problem.num_key_heads *
                           ((group + choice.heads_per_block - 1) / choice.heads_per_block);
    launch.prepare_blocks = grid_blocks(
        (sequences + PrepareLayout::kThreads - 1) / PrepareLayout::kThreads +
            launch.arguments.saved_quarters + chunk_slots(tokens, sequences) * blocks_per_chunk,
        description_.name);
    launch.arguments.prefetch_chunks = static_cast<int>(
        (prepare_blocks_at_once(multiprocessors) + blocks_per_chunk - 1) / blocks_per_chunk);

    const auto chain_of = [&](const ChainChoice& chain, Serves serves) {
      ChainLaunch result;
      result.arguments = a;
      result.value = value_map(chain.halves == 1 ? 2 : 1);
      result.halves = chain.halves;
      KernelArguments& of = result.arguments;
      of.chunks_per_piece = chain.chunks_per_piece;
      of.serves = serves;
      of.first_pieces_beside = chain.first_pieces_beside;
      const std::int64_t whole = sequences * heads,
                         items =
                             chain.chunks_per_piece == 0
                                 ? whole
                                 : piece_heads_of(chain) + (chain.first_pieces_beside ? whole : 0);
      of.units = static_cast<int>(grid_blocks(items * chain.halves, description_.name));
      of.items_by_arrival = chain.first_pieces_beside ||
                            (chain.chunks_per_piece > 0 ? chain.chunks_per_piece
                                                        : tokens / kChunk / sequences) >= kLongItem;
      result.blocks = blocks_of(of.units);
      return result;
    };
    if (choice.two_chains()) {
      launch.near = chain_of(choice.near, Serves::near_gates);
      launch.far = chain_of(choice.far, Serves::far_gates);
    } else {
      launch.near = chain_of(choice.near, Serves::any_gates);
    }
    if (in_pieces) {
      launch.pieces.arguments = a;
      launch.pieces.value = value_map(2);
      KernelArguments& of = launch.pieces.arguments;
      of.chunks_per_piece = choice.far.chunks_per_piece;
      of.first_pieces_beside = choice.far.first_pieces_beside;
      of.piece_units = static_cast<int>(2 * far_heads);
      of.two_chains = choice.two_chains();
      of.near_chunks = choice.near.chunks_per_piece;
      of.near_piece_heads = static_cast<int>(piece_heads_of(choice.near));
      launch.pieces.blocks = blocks_of(std::max(1, of.piece_units));
    }

    info.launches = 2 + (in_pieces ? 1 : 0) + (choice.two_chains() ? 1 : 0);
    info.choice = "v_split=" + std::to_string(choice.near.halves) +
                  " piece_chunks=" + std::to_string(choice.near.chunks_per_piece);
    if (choice.two_chains())
      info.choice += " far_v_split=" + std::to_string(choice.far.halves) +
                     " far_pieces=" + std::to_string(choice.far.chunks_per_piece) +
                     " firsts_beside=" + std::to_string(choice.far.first_pieces_beside ? 1 : 0);
    info.choice += " prepare_heads=" + std::to_string(choice.heads_per_block) +
                   " blocks=" + std::to_string(launch.near.blocks);
    return std::make_unique<LaunchPlan>(
        device, info, std::move(workspaces), [launch, dtype](cudaStream_t stream) {
          dtype == DType::bfloat16 ? launch.enqueue<__nv_bfloat16>(stream)
                                   : launch.enqueue<__half>(stream);
        });
  }

 private:
  FusedSm90Kind kind_;
  Description description_;
};

}  // namespace

const Implementation& fused_sm90_implementation(FusedSm90Kind kind) {
  static const FusedSm90 planned(FusedSm90Kind::planned), invariant(FusedSm90Kind::invariant),
      one_launch(FusedSm90Kind::one_launch);
  switch (kind) {
    case FusedSm90Kind::invariant:
      return invariant;
    case FusedSm90Kind::one_launch:
      return one_launch;
    case FusedSm90Kind::planned:
      break;
  }
  return planned;
}

}  // namespace cuda

const Implementation& cuda_gated_delta_fused_sm90() {
  return cuda::fused_sm90_implementation(cuda::FusedSm90Kind::planned);
}

}  // namespace gdn
