// The argument block of every gated_delta kernel, shared by host and device code. Plain C++: fixed
// widths, the same layout for both compilers.
#pragma once

#include <cstdint>

#include "hip/element.h"
#include "interface/gate_encoding.h"
#include "interface/index_array.h"

namespace gdn::hip {

struct GatedDeltaParams {
  const void* query;            ///< [T, Hk, Dk], tokens query_token_stride elements apart
  const void* key;              ///< [T, Hk, Dk]
  const void* value;            ///< [T, Hv, Dv]
  void* output;                 ///< [T, Hv, Dv], dense
  const float* gate;            ///< [T, Hv], what it holds is gate_encoding
  const float* A_log;           ///< [Hv], null where the encoding has none
  const float* dt_bias;         ///< [Hv], likewise
  const float* beta;            ///< [T, Hv]
  IndexArray sequence_offsets;  ///< [N + 1]
  IndexArray slot_index;        ///< [N] or none
  void* state_pool;
  float* workspace;  ///< per kernel, float32
  std::int64_t query_token_stride;
  std::int64_t key_token_stride;
  std::int64_t value_token_stride;
  std::int64_t state_row_stride;  ///< elements between pool rows
  std::int32_t state_key_stride;  ///< elements between rows k of one head's state
  std::int32_t state_value_stride;
  std::int32_t num_sequences;
  std::int32_t num_value_heads;
  std::int32_t key_head_dim;
  std::int32_t value_head_dim;
  /// 32 bits, unlike the others: the fused kernels are short of scalar registers.
  std::uint32_t gate_token_stride;
  std::uint32_t beta_token_stride;
  /// ceil(2^32 / (Hv/Hk)), or 0 when Hv = Hk: key head = high half of head * this. Exact while
  /// Hv * (Hv/Hk) < 2^32; no division on the device.
  std::uint32_t group_reciprocal;
  GateEncoding gate_encoding;
  BetaEncoding beta_encoding;
  Element token_element;  ///< of q, k and v, for kernels that are not instantiated per type
  Element state_element;
  Element output_element;
  std::int32_t normalize_qk;
  std::int32_t read_state;
  std::int32_t write_state;
  float scale;
  /// Every array starts at a multiple of 16 bytes, and Dk, Dv and every stride but those of gates and betas are multiples of
  /// 8 elements: 8 neighbouring elements (from a multiple of 8) are one access, all within or all
  /// beyond the array.
  std::int32_t packets;
  float decay_bound;  ///< with GateEncoding::bounded
};
static_assert(sizeof(GatedDeltaParams) == 14 * 8 + 4 * 8 + 20 * 4);

/// States inside the call, which are written as the pool is, to rows of their own. Beside GatedDeltaParams, as
/// kernels that know nothing of them have no more arguments.
struct Checkpoints {
  IndexArray tokens;        ///< [N, count]: after how many; 0, or rising within a sequence
  void* states;             ///< [N, count] rows
  std::int64_t row_stride;  ///< elements
  std::int32_t count;       ///< of each sequence; 0 where the call has none
  Element element;
  IndexArray rounding_seed;  ///< [N], or none: final states are rounded to nearest
};

struct CheckpointParams {
  GatedDeltaParams delta;
  Checkpoints checkpoints;
};

/// Of the chunkwise kernels: chunks of all sequences lie in slots; sequence n's first chunk is in
/// slot offset[n] / C + n, so that no two sequences share one whatever their lengths (C a power of
/// two). The workspace regions hold, for every slot and value head,
struct ChunkwiseParams {
  GatedDeltaParams delta;
  float* carried;  ///< W = L^-1 diag(beta gamma) K: [C, Dk]
  float* update;   ///< U = L^-1 diag(beta) V, then V' = U - W S: [C, Dv]
  float* state;    ///< S before the chunk: for each tile of 128 columns, as its registers hold it
  std::int64_t column_tiles;
};

/// Of the walk that stores states inside the call; `delta` is of segments (chunkwise_walk.h).
struct ChunkwiseCheckpointParams {
  ChunkwiseParams chunkwise;
  Checkpoints checkpoints;
};

constexpr int kSegmentThreads = 64;  ///< of a workgroup, a sequence each
/// Of the kernel that cuts sequences into M segments.
struct SegmentParams {
  GatedDeltaParams delta;
  Checkpoints checkpoints;
  std::int64_t* offsets;     ///< [M + 1]
  std::int64_t* slot_index;  ///< [M], of the segment's sequence
};

}  // namespace gdn::hip
