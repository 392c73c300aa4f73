#include "harness/conventions/layout.h"

#include <algorithm>
#include <functional>

namespace gdn::conventions {

Axes our_tokens(bool with_offsets, const Axes& inner) {
  Axes axes = with_offsets ? Axes{Axis::token} : Axes{Axis::sequence, Axis::time};
  axes.insert(axes.end(), inner.begin(), inner.end());
  return axes;
}

Axes our_states(StateLayout layout) {
  return layout == StateLayout::kv
             ? Axes{Axis::row, Axis::value_heads, Axis::key_dim, Axis::value_dim}
             : Axes{Axis::row, Axis::value_heads, Axis::value_dim, Axis::key_dim};
}

Axes our_channels(ConvLayout layout, bool with_offsets) {
  if (layout == ConvLayout::channels) return our_tokens(with_offsets, {Axis::channels});
  Axes axes = our_tokens(with_offsets, {});
  axes.insert(axes.begin(), Axis::channels);
  return axes;
}

bool with_offsets(const Batch& batch, const Problem& problem) {
  const auto& lengths = problem.sequences.lengths;
  const bool equal =
      std::adjacent_find(lengths.begin(), lengths.end(), std::not_equal_to<>()) == lengths.end();
  return batch.kind == BatchKind::ragged || (batch.kind == BatchKind::either && !equal);
}

Extents extents_of(const Problem& p) {
  Extents extents;
  extents.set(Axis::sequence, p.num_sequences());
  extents.set(Axis::time, p.sequences.lengths.front());
  extents.set(Axis::token, p.total_tokens());
  extents.set(Axis::key_heads, p.num_key_heads);
  extents.set(Axis::value_heads, p.num_value_heads);
  extents.set(Axis::key_dim, p.key_head_dim);
  extents.set(Axis::value_dim, p.value_head_dim);
  extents.set(Axis::channels, p.conv_channels());
  extents.set(Axis::tap, p.conv_width);
  return extents;
}

}  // namespace gdn::conventions
