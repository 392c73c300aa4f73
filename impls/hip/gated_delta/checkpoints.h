// How a kernel goes through the tokens of a sequence: from checkpoint to checkpoint, or all in one go.
// Included by .hip files only.
#pragma once

#include "hip/gated_delta/device.h"

namespace gdn::hip {

/// A call without checkpoints.
struct NoCheckpoints {
  static constexpr bool kAny = false;

  struct Walk {
    std::int64_t end;  ///< tokens of the sequence up to the next checkpoint, or all

    /// The token behind those, of a sequence of tokens first .. last_end.
    __device__ __forceinline__ std::int64_t stop(std::int64_t, std::int64_t last_end) const {
      return last_end;
    }
    __device__ __forceinline__ bool next() const { return false; }
    __device__ __forceinline__ int segment() const { return 0; }
    template <typename Store>
    __device__ __forceinline__ void store(const GatedDeltaParams&, Store) const {}
  };
  __device__ __forceinline__ int segments() const { return 1; }
  __device__ __forceinline__ Walk walk(int, std::int64_t length) const { return {length}; }
  template <typename StoreZeros>
  __device__ __forceinline__ void store_absent(const GatedDeltaParams&, int, const Span&,
                                               StoreZeros) const {}
  /// Seeds of final states that are rounded by chance, or none.
  __device__ __forceinline__ IndexArray rounding_seed() const { return {}; }
};

/// A call with `checkpoints`:
///     auto walk = checkpoints.walk(sequence, span.length);
///     do {
///       for (tokens of the sequence up to walk.end) ...
///       walk.store(p, [&](const GatedDeltaParams& states, std::int64_t row) { store the state there });
///     } while (walk.next());
/// `states` is p with the checkpoints for a pool.
struct WithCheckpoints {
  static constexpr bool kAny = true;
  const Checkpoints& checkpoints;

  struct Walk {
    std::int64_t end;
    const Checkpoints& checkpoints;
    std::int64_t length;
    std::int64_t row;       ///< of the checkpoint that the walk comes to
    std::int64_t last_row;  ///< behind the sequence's

    __device__ __forceinline__ void find() {
      for (end = length; row < last_row; ++row) {
        const std::int64_t tokens = checkpoints.tokens[row];
        if (tokens == 0) continue;
        end = tokens;
        return;
      }
    }
    __device__ __forceinline__ std::int64_t stop(std::int64_t first, std::int64_t) const {
      return first + end;
    }
    /// The part of the sequence up to `end`, counted with those that are without tokens.
    __device__ __forceinline__ int segment() const {
      return checkpoints.count - static_cast<int>(last_row - row);
    }
    /// Whether there are tokens left.
    __device__ __forceinline__ bool next() {
      if (end == length) return false;
      ++row;
      find();
      return true;
    }
    template <typename Store>
    __device__ __forceinline__ void store(const GatedDeltaParams& p, Store store) const {
      if (row < last_row) store(states_of(p, checkpoints), row);
    }
  };
  /// Of each sequence.
  __device__ __forceinline__ int segments() const { return checkpoints.count + 1; }
  __device__ __forceinline__ Walk walk(int sequence, std::int64_t length) const {
    const std::int64_t first = static_cast<std::int64_t>(sequence) * checkpoints.count;
    Walk walk{length, checkpoints, length, first, first + checkpoints.count};
    walk.find();
    return walk;
  }
  /// Zeros of those that are not wanted: all of a sequence without tokens or a row.
  template <typename StoreZeros>
  __device__ __forceinline__ void store_absent(const GatedDeltaParams& p, int sequence,
                                               const Span& span, StoreZeros store_zeros) const {
    for (int j = 0; j < checkpoints.count; ++j) {
      const std::int64_t row = static_cast<std::int64_t>(sequence) * checkpoints.count + j;
      if (checkpoints.tokens[row] != 0 && span.length > 0 && span.row >= 0) continue;
      store_zeros(states_of(p, checkpoints), row);
    }
  }

  __device__ __forceinline__ IndexArray rounding_seed() const { return checkpoints.rounding_seed; }

  static __device__ __forceinline__ GatedDeltaParams states_of(const GatedDeltaParams& p,
                                                               const Checkpoints& checkpoints) {
    GatedDeltaParams states = p;
    states.state_pool = checkpoints.states;
    states.state_row_stride = checkpoints.row_stride;
    states.state_element = checkpoints.element;
    states.write_state = 1;
    return states;
  }
};

}  // namespace gdn::hip
