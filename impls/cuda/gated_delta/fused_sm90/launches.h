// From what the host knows of a plan to what each kernel takes, and the kernels' launches. Every
// kernel's file defines its two functions: `..._launch`, which makes the parameters, and `enqueue`.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "cuda/gated_delta/fused_sm90/params.cuh"
#include "cuda/gated_delta/fused_sm90/planner.h"
#include "cuda/gated_delta/fused_sm90/tensor_maps.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {

/// What the host knows.
struct LaunchArgs {
  GatedDeltaParams operands;  ///< where tokens have several rows: of rows, but for the maps
  TokenRows rows;
  TensorMaps maps;
  Shape shape;
  Choice choice;
  Costs costs;
  Workspace work;  ///< in device memory
  int multiprocessors = 1;
  std::string name;  ///< of the implementation, for errors
};

struct PrepareLaunch {
  PrepareParams params;
  CUtensorMap query, key;
  unsigned int blocks = 0;
};
PrepareLaunch prepare_launch(const LaunchArgs& args);
void enqueue(const PrepareLaunch& launch, DType token_dtype, cudaStream_t stream);

struct PiecesLaunch {
  PiecesParams params;
  CUtensorMap query, key, value, output;
  unsigned int blocks = 0;
};
PiecesLaunch pieces_launch(const LaunchArgs& args);
void enqueue(const PiecesLaunch& launch, DType token_dtype, cudaStream_t stream);

struct ChainLaunch {
  ChainParams params;
  CUtensorMap query, key, value, output;
  int halves = 1;  ///< blocks that share one head's V
  unsigned int blocks = 0;
};
ChainLaunch chain_launch(const LaunchArgs& args, const ChainDivision& division, Serves serves);
void enqueue(const ChainLaunch& launch, DType token_dtype, cudaStream_t stream);

struct OneLaunch {
  OneLaunchParams params;
  CUtensorMap query, key, value, output;
  unsigned int blocks = 0;
};
/// `next_item`: the kernel's whole workspace, one counter at 0.
OneLaunch one_launch(const LaunchArgs& args, int* next_item);
void enqueue(const OneLaunch& launch, DType token_dtype, cudaStream_t stream);

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
