// StridedCopy: elements from one array to another of the same extents, whatever the strides and the
// element types of the two. What is between a caller's tensors and the dense arrays that a plan computes
// on (held/held_plan.h). A device copies by Device::enqueue_copies().
#pragma once

#include <array>
#include <cstdint>

#include "interface/index_array.h"
#include "interface/storage_type.h"

namespace gdn {

struct StridedCopy {
  static constexpr int kMaxRank = 8;
  using Extents = std::array<std::int64_t, kMaxRank>;

  const void* from = nullptr;
  void* to = nullptr;
  StorageType from_type = StorageType::float32;
  StorageType to_type = StorageType::float32;
  int rank = 0;
  Extents extents{};
  Extents from_strides{};  ///< elements; may be 0 (one element for all), not negative
  Extents to_strides{};
  /// These two are read when the copy is made. Dimension 0 counts the entries of `rows`: entry n stands
  /// for row rows[n] of both arrays. None is copied where that is negative.
  IndexArray rows{};
  /// Only as many are copied as this says, of those that the dimensions bounded_begin .. bounded_end - 1
  /// count together, the last of them fastest: the tokens of a batch, up to its last offset.
  IndexArray bound{};
  int bounded_begin = 0;
  int bounded_end = 0;

  std::int64_t elements() const;
};

/// The same copy in fewer dimensions: those of extent 1 are gone, and neighbours that follow one another
/// in both arrays are one.
StridedCopy merged(const StridedCopy& copy);

/// Makes the copy of arrays in the host's memory.
void copy_on_host(const StridedCopy& copy);

}  // namespace gdn
