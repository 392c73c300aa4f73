// What the stages of cuda/chunkwise hand to each other through device memory, and its size. All
// matrices are stored as 16 x 16 blocks in fragment order (fragments.cuh), so that every stage
// stores its results straight from registers and the next loads them without rearranging.
//
// NB = C / 16, Kb = ceil(Dk / 16), Vb = ceil(Dv / 16); leading dimensions [chunk][Hv]. "16-bit"
// stands for the token dtype, float32 with float32 tokens.
#pragma once

#include <cstdint>

#include "cuda/gated_delta/chunk/chunk_gates.cuh"
#include "cuda/gated_delta/chunk/chunk_map.cuh"
#include "cuda/gated_delta/chunk/fragments.cuh"
#include "cuda/gated_delta/chunk/triangular_inverse.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

struct ChunkwiseWorkspace {
  ChunkMap map;
  std::int64_t max_chunks = 0;
  float* query_norm = nullptr;  ///< [T n, Hk] 1 / norm; only with normalize_qk
  float* key_norm = nullptr;
  void* gates = nullptr;     ///< ChunkGates<C>
  float* inverse = nullptr;  ///< T = L^-1, float32, lower blocks [NB (NB + 1) / 2]; delta only
  void* w = nullptr;         ///< W = T diag(beta gamma) K, 16-bit [NB][Kb]; delta only
  void* values = nullptr;    ///< U^T = (T diag(beta) V)^T, then V'^T, 16-bit [Vb][NB]
  void* states = nullptr;    ///< S^T at each chunk's start, 16-bit [Vb][Kb]
};

#ifdef __CUDACC__

/// Index of (chunk, value head), the leading dimensions of every array.
__device__ __forceinline__ std::int64_t chunk_head(const GatedDeltaParams& p, int chunk, int head) {
  return static_cast<std::int64_t>(chunk) * p.num_value_heads + head;
}

/// A chunk's and head's part of each array.
template <int C>
__device__ __forceinline__ ChunkGates<C>* gates_at(const ChunkwiseWorkspace& w,
                                                   std::int64_t index) {
  return static_cast<ChunkGates<C>*>(w.gates) + index;
}
template <int C>
__device__ __forceinline__ float* inverse_at(const ChunkwiseWorkspace& w, std::int64_t index) {
  return w.inverse + index * triangle_blocks(C) * kFragmentElements;
}
template <typename Element, int C>
__device__ __forceinline__ Element* w_at(const ChunkwiseWorkspace& w, const GatedDeltaParams& p,
                                         std::int64_t index) {
  return static_cast<Element*>(w.w) +
         index * (C / 16) * blocks_of_16(p.key_head_dim) * kFragmentElements;
}
template <typename Element, int C>
__device__ __forceinline__ Element* values_at(const ChunkwiseWorkspace& w,
                                              const GatedDeltaParams& p, std::int64_t index) {
  return static_cast<Element*>(w.values) +
         index * (C / 16) * blocks_of_16(p.value_head_dim) * kFragmentElements;
}
template <typename Element>
__device__ __forceinline__ Element* states_at(const ChunkwiseWorkspace& w,
                                              const GatedDeltaParams& p, std::int64_t index) {
  return static_cast<Element*>(w.states) +
         index * blocks_of_16(p.key_head_dim) * blocks_of_16(p.value_head_dim) * kFragmentElements;
}

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
