#include "harness/conventions/axes.h"

#include "interface/error.h"

namespace gdn::conventions {
namespace {

const char* letter(Axis axis) {
  switch (axis) {
    case Axis::one:
      return "1";
    case Axis::sequence:
      return "N";
    case Axis::time:
      return "time";
    case Axis::token:
      return "T";
    case Axis::key_heads:
      return "Hk";
    case Axis::value_heads:
      return "Hv";
    case Axis::key_dim:
      return "Dk";
    case Axis::value_dim:
      return "Dv";
    case Axis::channels:
      return "channels";
    case Axis::row:
      return "rows";
    case Axis::window:
      return "window";
    case Axis::tap:
      return "width";
  }
  throw_bad_input("Axis holds a value without a name");
}

}  // namespace

std::string axes_text(const Axes& axes) {
  std::string text = "[";
  for (const Axis axis : axes) text += (text.size() > 1 ? ", " : "") + std::string(letter(axis));
  return text + "]";
}

Extents::Extents() {
  extents_.fill(kAnyExtent);
  set(Axis::one, 1);
}

Shape Extents::shape(const Axes& axes) const {
  Shape shape;
  for (const Axis axis : axes) shape.push_back(of(axis));
  return shape;
}

Axes ragged(Axes axes) {
  for (Axis& axis : axes) {
    if (axis == Axis::sequence) axis = Axis::one;
    if (axis == Axis::time) axis = Axis::token;
  }
  return axes;
}

std::vector<float> reordered(const std::vector<float>& values, const Axes& from, const Axes& to,
                             const Extents& extents) {
  // Distance in `values` between neighbours along each axis of `to`.
  std::vector<std::int64_t> strides;
  for (const Axis axis : to) {
    std::int64_t stride = 0;
    std::int64_t inner = 1;
    for (auto at = from.rbegin(); at != from.rend(); ++at) {
      if (*at == axis && axis != Axis::one) stride = inner;
      inner *= extents.of(*at);
    }
    if (stride == 0 && axis != Axis::one) {
      throw_bad_input("axes " + axes_text(from) + " cannot be reordered to " + axes_text(to));
    }
    strides.push_back(stride);
  }
  std::int64_t count = 1;
  for (const std::int64_t extent : extents.shape(to)) count *= extent;
  if (count != static_cast<std::int64_t>(values.size())) {
    throw_bad_input("axes " + axes_text(from) + ": " + std::to_string(values.size()) +
                    " values cannot be reordered to " + axes_text(to) + ", which holds " +
                    std::to_string(count));
  }
  std::vector<float> result(values.size());
  std::vector<std::int64_t> index(to.size(), 0);
  std::int64_t source = 0;
  for (float& value : result) {
    value = values[static_cast<std::size_t>(source)];
    for (std::size_t axis = to.size(); axis-- > 0;) {  // the last axis turns fastest
      source += strides[axis];
      if (++index[axis] < extents.of(to[axis])) break;
      source -= strides[axis] * index[axis];
      index[axis] = 0;
    }
  }
  return result;
}

}  // namespace gdn::conventions
