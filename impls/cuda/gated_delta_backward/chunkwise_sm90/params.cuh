// What the kernels of chunkwise_sm90 take: the arguments of the call, the plan's device memory and its cuts.
#pragma once

#include <cstdint>

#include "cuda/gated_delta/chunk_sm90/pieces.h"
#include "cuda/gated_delta_backward/arguments.cuh"
#include "cuda/gated_delta_backward/chunkwise_sm90/record.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::backward_sm90 {

/// Device memory of a plan.
struct Workspace {
  std::uint8_t* records = nullptr;  ///< [chunk slots, Hv] of kRecordBytes
  std::uint8_t* states =
      nullptr;  ///< [chunk slots, Hv, slices] of kStateBytes: S at the chunk's start, bfloat16
  std::uint8_t* d_states = nullptr;  ///< likewise: D at the chunk's end
  std::uint8_t* updates = nullptr;   ///< [chunk slots, Hv, slices] of kTileBytes: V', bfloat16
  float* d_gates = nullptr;          ///< GradientParts::gates, a part a slice
};

/// What the forward call of a training step leaves besides.
struct ForwardOutputs {
  void* output = nullptr;  ///< [T, Hv, Dv]
  StatePool final_states;  ///< written with ht=1
};

struct KernelParams {
  BackwardParams backward;
  ForwardOutputs forward;  ///< of a training step only
  Workspace work;
  int piece_chunks = kWhole;  ///< of the chains: chunks of a piece
  int piece_slots = 0;        ///< chunk_sm90/pieces.h
  int slices = 1;             ///< value_slices(Dv)
  int head_slices = 1;        ///< of a key head's value heads
  std::int64_t tokens = 0;    ///< T that the plan was made for

#ifdef __CUDACC__
  /// Of a chunk and value head in Workspace::records, and of a slice of it in the other arrays.
  __device__ __forceinline__ std::int64_t record_index(std::int64_t slot, int head) const {
    return slot * backward.forward.num_value_heads + head;
  }
  __device__ __forceinline__ std::int64_t slice_index(std::int64_t slot, int head,
                                                      int slice) const {
    return record_index(slot, head) * slices + slice;
  }
  /// The gradients of a token's log decay and beta, of one slice.
  __device__ __forceinline__ float* gate_gradients(std::int64_t token, int head, int slice) const {
    return work.d_gates + 2 * ((slice * tokens + token) * backward.forward.num_value_heads + head);
  }
#endif
};

}  // namespace gdn::GDN_CUDA_TARGET::backward_sm90
