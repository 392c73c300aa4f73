// The models whose throughput can be estimated: how many layers they have, and how wide these are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/measure/attention_times.h"

namespace gdn {

/// Layers of a hybrid whose mixer is attention of one shape.
struct AttentionLayers {
  std::int64_t count = 0;
  AttentionShape shape;
};

/// A stack of layers, each a mixer and a gated feed-forward part, and logits. The mixer of a layer is
/// Gated DeltaNet or attention; their order in the stack makes no difference to a sum.
struct ModelShape {
  std::string name;
  std::string source;  ///< where the numbers come from, and what of the model is not timed
  std::int64_t delta_layers = 0;  ///< whose mixer is Gated DeltaNet
  std::int64_t width = 0;         ///< of the residual stream
  std::int64_t feed_forward_width = 0;
  std::int64_t num_heads = 0;  ///< key heads = value heads
  std::int64_t key_head_dim = 0;
  std::int64_t value_head_dim = 0;
  std::int64_t vocabulary = 0;
  std::vector<AttentionLayers> attention = {};  ///< empty: no hybrid
  std::string published = {};  ///< what is known of a published throughput; empty: nothing

  bool is_hybrid() const { return !attention.empty(); }
  std::int64_t layers() const;
};

const std::vector<ModelShape>& model_shapes();
/// Throws Error(bad_input) with the nearest name.
const ModelShape& find_model_shape(const std::string& name);

}  // namespace gdn
