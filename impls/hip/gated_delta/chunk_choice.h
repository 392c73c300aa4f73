// Which chunk and how many state rows the kernels of chunk_tiles.h are instantiated for.
#pragma once

#include <string>

#include "interface/implementation.h"

namespace gdn::hip {

struct ChunkChoice {
  std::int64_t chunk = 32;
  std::int64_t rows = 128;   ///< Dk rounded up to an instantiated size
  bool float16 = false;      ///< rows of q and k stay float16 in LDS
  bool of_channels = false;  ///< one decay for each key channel
  /// <chunk>_<rows>_<tile>, or of channels <rows>
  std::string kernel_part() const {
    if (of_channels) return std::to_string(rows);
    return std::to_string(chunk) + "_" + std::to_string(rows) + (float16 ? "_f16" : "_f32");
  }
};

/// Dk up to 256; chunk 16 or 32 (16 only above Dk = 128, where 32 does not fit in LDS).
inline Support chunk_support(const Problem& problem) {
  if (problem.key_head_dim > 256) {
    return Support::no("Dk=" + std::to_string(problem.key_head_dim) +
                       " is more than the 256 rows a workgroup holds");
  }
  const std::int64_t chunk = problem.chunk;
  if (chunk != 0 && chunk != 16 && chunk != 32) {
    return Support::no("chunk=" + std::to_string(chunk) + "; it is built for 16 and 32");
  }
  if (chunk == 32 && problem.key_head_dim > 128) {
    return Support::no("chunk=32 with Dk=" + std::to_string(problem.key_head_dim) +
                       " needs more than 64 KB of LDS");
  }
  return Support::yes();
}

/// With checkpoints, of a problem that chunk_support() accepts: the chunk that it gets if it asks for none.
inline Support checkpoint_chunk_support(const Problem& problem) {
  const std::int64_t compiled = problem.key_head_dim > 128 ? 16 : 32;
  if (problem.checkpoints == 0 || problem.chunk == 0 || problem.chunk == compiled)
    return Support::yes();
  return Support::no("chunk=" + std::to_string(problem.chunk) +
                     " with checkpoints; at Dk=" + std::to_string(problem.key_head_dim) +
                     " they are compiled for chunk=" + std::to_string(compiled) + " alone");
}

/// For a problem that chunk_support() accepts.
inline ChunkChoice choose_chunk(const Problem& problem) {
  ChunkChoice choice;
  const std::int64_t rows = problem.key_head_dim;
  choice.rows = rows <= 64 ? 64 : rows <= 128 ? 128 : 256;
  choice.chunk = problem.chunk != 0 ? problem.chunk : rows > 128 ? 16 : 32;
  choice.float16 = problem.token_dtype == DType::float16;
  choice.of_channels = problem.decay == DecayPer::channel;
  if (choice.of_channels) choice.chunk = 16;
  return choice;
}

}  // namespace gdn::hip
