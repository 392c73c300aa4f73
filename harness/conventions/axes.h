// Arrays over named axes: their extents, and one array reordered from one memory order to another.
#pragma once

#include <array>
#include <vector>

#include "harness/conventions/convention.h"
#include "harness/files/hdf5_group.h"

namespace gdn::conventions {

/// What each axis counts in one file; kAnyExtent where that is not known yet.
class Extents {
 public:
  Extents();
  std::int64_t of(Axis axis) const { return extents_[static_cast<std::size_t>(axis)]; }
  void set(Axis axis, std::int64_t extent) { extents_[static_cast<std::size_t>(axis)] = extent; }
  Shape shape(const Axes& axes) const;

 private:
  std::array<std::int64_t, static_cast<std::size_t>(Axis::tap) + 1> extents_;
};

/// `axes` as they are where offsets are given: [N, time, ...] becomes [1, T, ...].
Axes ragged(Axes axes);

/// `values`, row-major over `from`, as row-major over `to`: the same axes in another order (extents
/// of 1 may come and go). [N, time] and [T] count the same tokens but are different axes.
std::vector<float> reordered(const std::vector<float>& values, const Axes& from, const Axes& to,
                             const Extents& extents);

}  // namespace gdn::conventions
