// What the steps of fused_sm90 cost on a card, as the planner weighs them. Plain data: a card is a
// table. The figures rank choices and are good for nothing else; how they were measured, and what
// the planner loses by them, stands in log.md.
#pragma once

#include <cstdint>

#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {

struct Costs {
  // ---- a chunk of 64 tokens and a value head, in microseconds
  double whole_chunk_us;       ///< of the chain, one block for all of V
  double half_chunk_us;        ///< of the chain, one block for half of V
  double piece_chunk_us;       ///< of the pieces kernel: no Q, no output
  double one_launch_chunk_us;  ///< of the one-launch kernel
  double bytes_per_us;         ///< what the chains of all blocks together read and write

  // ---- a work item besides its chunks
  double item_start_us;       ///< of the chain: state, pipeline fill, the first chunk's code
  double piece_start_us;      ///< of the pieces kernel
  double one_launch_item_us;  ///< of the one-launch kernel
  double whole_combine_us;    ///< one transition applied to a state, all of V
  double half_combine_us;     ///< the same, half of V
  double first_start_us;      ///< of a first piece beside the pieces kernel: two kernels start
  double hand_on_us;          ///< its state, to the pieces that wait for it

  // ---- a kernel besides its items
  double pieces_kernel_us;      ///< the pieces kernel, whatever it has to do
  double decision_us;           ///< the same before sequences whole: it only looks at the gates
  double second_chain_us;       ///< a launch of the chain that leaves at once
  double one_launch_kernel_us;  ///< the one-launch kernel
  double prepare_kernel_us;     ///< the prepare kernel, beside its blocks

  // ---- a block of the prepare kernel
  double prepare_block_us;   ///< four of which share a multiprocessor
  double prepare_head_us;    ///< each value head of it, besides
  double prepare_saving_us;  ///< where states are saved first, and a block has to wait for that

  // ---- what is assumed of a run, which a plan does not know
  int ordinary_forget_chunks;  ///< that ordinary gates take to forget
  int strong_forget_chunks;    ///< that strong gates take

  // ---- what is asked of the figures
  double worthwhile;              ///< two chains are taken below this part of one chain's time
  std::int64_t long_item_chunks;  ///< from which on neighbours in the cache count more than a start
  std::int64_t one_launch_tokens;  ///< mean length from which on the one-launch kernel was timed
};

/// One NVIDIA H200, kernels and measurements of 2026-11-21 to 23.
inline constexpr Costs costs_h200{
    .whole_chunk_us = 1.85,
    .half_chunk_us = 1.15,
    .piece_chunk_us = 1.17,
    .one_launch_chunk_us = 2.65,
    .bytes_per_us = 4.2e6,

    .item_start_us = 4.2,
    .piece_start_us = 4.0,
    .one_launch_item_us = 3.0,
    .whole_combine_us = 4.2,
    .half_combine_us = 2.0,
    .first_start_us = 3.0,
    .hand_on_us = 1.5,

    .pieces_kernel_us = 2.5,
    .decision_us = 3.0,
    .second_chain_us = 2.0,
    .one_launch_kernel_us = 9.0,
    .prepare_kernel_us = 7.5,

    .prepare_block_us = 4.0,
    .prepare_head_us = 2.3,
    .prepare_saving_us = 3.0,

    .ordinary_forget_chunks = 7,
    .strong_forget_chunks = 1,

    .worthwhile = 0.97,
    .long_item_chunks = 64,
    .one_launch_tokens = 512,
};

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
