// An estimate of a whole model's forward throughput from measured parts: its token mixer (one of
// our implementations of gated_delta_layer) and its dense products, each timed alone at the model's
// shapes, added up over the layers.
//
// It is an estimate, and a lower bound of the time: norms, residual sums, the output gate, the
// embedding, the activation of the feed-forward part and everything between kernels are left out;
// so are the backward pass and the optimiser, which a training throughput contains.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/measure/product_time.h"
#include "harness/rows/row.h"
#include "harness/tables/table.h"

namespace gdn {

/// A stack of equal layers, each a Gated DeltaNet mixer and a gated feed-forward part, and logits.
struct ModelShape {
  std::string name;
  std::string source;  ///< where the numbers come from
  std::int64_t layers = 0;
  std::int64_t width = 0;  ///< of the residual stream
  std::int64_t feed_forward_width = 0;
  std::int64_t num_heads = 0;  ///< key heads = value heads
  std::int64_t key_head_dim = 0;
  std::int64_t value_head_dim = 0;
  std::int64_t vocabulary = 0;
};

const std::vector<ModelShape>& model_shapes();
/// Throws Error(bad_input) with the nearest name.
const ModelShape& find_model_shape(const std::string& name);

/// One kind of dense product of the model: what a token's [inner] vector becomes.
struct ModelProduct {
  std::string name;        ///< "query and key projections"
  std::int64_t count = 0;  ///< in the whole model
  std::int64_t columns = 0;
  std::int64_t inner = 0;
};
/// Mixer projections (query, key; value, output gate; decay and beta; output), the three products
/// of the feed-forward part, logits.
std::vector<ModelProduct> products_of(const ModelShape& model);

/// Parameters of those products alone (embeddings and norms left out).
std::int64_t product_parameters(const ModelShape& model);

/// The mixer of one layer on a batch, as a problem of gated_delta_layer: norms of query and key and
/// gates from logits inside.
Problem mixer_problem(const ModelShape& model, const SequenceLengths& sequences, DType dtype);

struct TimedProduct {
  ModelProduct product;
  ProductTime time;  ///< of one
};
/// Each product of the model at `tokens` rows. Throws as time_product does.
std::vector<TimedProduct> time_products(const ModelShape& model, std::int64_t tokens, DType dtype,
                                        Device& device, const MeasureOptions& options);

/// Time of the model's forward pass on one batch.
struct ModelEstimate {
  double mixer_ms = 0;     ///< of all layers: the implementation measured
  double products_ms = 0;  ///< of all layers, and the logits
  std::int64_t tokens = 0;
  double total_ms() const { return mixer_ms + products_ms; }
  double kilo_tokens_per_s() const { return static_cast<double>(tokens) / total_ms(); }
};
/// `mixer`: an ok, timed row of mixer_problem(). Throws Error(bad_input) if it is not.
ModelEstimate estimate(const ModelShape& model, const Row& mixer,
                       const std::vector<TimedProduct>& products);

/// Throughput by implementation and shape, the share of the mixer in it, and the products: labelled
/// as estimates, with what is known of the published figure. `products`: by total tokens of the
/// rows, which must all be there.
std::vector<Table> estimate_tables(
    const ModelShape& model, const std::vector<Row>& mixers,
    const std::map<std::int64_t, std::vector<TimedProduct>>& products);

}  // namespace gdn
