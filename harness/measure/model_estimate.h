// An estimate of a whole model's throughput from measured parts: its token mixer and its dense
// products, each timed alone at the model's shapes, added up over the layers. Of the forward pass the
// mixer is one of our implementations of gated_delta_layer. Of a training step it is the five calls of
// a layer's mixer and their gradients: gated_delta_training, and the convolution and the gated norm,
// forward and backward, each by the quickest implementation that there is; and every dense product
// stands there three times, for its result, the gradient of its inputs and that of its weights.
//
// It is an estimate, and a lower bound of the time: norms of the residual stream, residual sums, the
// embedding, the activation of the feed-forward part and everything between kernels are left out; of
// the forward pass the output gate too; of a training step the loss and the optimiser. What a training
// step keeps for its backward pass is not written and read once more.
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

enum class Pass { forward, training };

/// One kind of dense product of the model: what a token's [inner] vector becomes.
struct ModelProduct {
  std::string name;        ///< "query and key projections"
  std::int64_t count = 0;  ///< in the whole model
  std::int64_t columns = 0;
  std::int64_t inner = 0;
  std::int64_t rows = 0;  ///< 0: one for each token
};
/// Mixer projections (query, key; value, output gate; decay and beta; output), the three products
/// of the feed-forward part, logits.
std::vector<ModelProduct> products_of(const ModelShape& model);

/// With y = x W of each: y, d_x = d_y W^T and d_W = x^T d_y, on batches of so many tokens. That their
/// operands lie transposed is left out: a library's product of the same sizes stands for them.
std::vector<ModelProduct> training_products_of(const ModelShape& model, std::int64_t tokens);

/// Parameters of those products alone (embeddings and norms left out).
std::int64_t product_parameters(const ModelShape& model);

/// The mixer of one layer on a batch, as a problem of gated_delta_layer: norms of query and key and
/// gates from logits inside.
Problem mixer_problem(const ModelShape& model, const SequenceLengths& sequences, DType dtype);

/// Of a training step the recurrence of one layer, forward and backward, likewise: norms and gates
/// inside, no states before or behind.
Problem training_problem(const ModelShape& model, const SequenceLengths& sequences, DType dtype);
/// What a layer's mixer has beside it: the convolution and the gated norm, forward and backward.
std::vector<Problem> problems_beside_training(const ModelShape& model,
                                              const SequenceLengths& sequences, DType dtype);

struct TimedProduct {
  ModelProduct product;
  ProductTime time;  ///< of one
};
/// Each product of the pass at `tokens` rows. Throws as time_product does.
std::vector<TimedProduct> time_products(const ModelShape& model, std::int64_t tokens, DType dtype,
                                        Device& device, const MeasureOptions& options,
                                        Pass pass = Pass::forward);

/// Time of the model's pass on one batch.
struct ModelEstimate {
  double mixer_ms = 0;     ///< of all layers: the implementation measured
  double products_ms = 0;  ///< of all layers, and the logits
  std::int64_t tokens = 0;
  double total_ms() const { return mixer_ms + products_ms; }
  double kilo_tokens_per_s() const { return static_cast<double>(tokens) / total_ms(); }
};
/// `mixer`: an ok, timed row of mixer_problem(), or of training_problem(), to which such rows of what
/// stands `beside` it are added. Throws Error(bad_input) if one is not.
ModelEstimate estimate(const ModelShape& model, const Row& mixer,
                       const std::vector<TimedProduct>& products,
                       const std::vector<Row>& beside = {});

/// What an estimate is made of.
struct EstimateParts {
  Pass pass = Pass::forward;
  std::vector<Row> mixers;
  /// By total tokens of the mixers' rows, which must all be there.
  std::map<std::int64_t, std::vector<TimedProduct>> products;
  /// Of a training step by the mixers' sequences ("4x8192"), which must all be there.
  std::map<std::string, std::vector<Row>> beside;
};

/// Throughput by implementation and shape, the share of the mixer in it, and the parts: labelled
/// as estimates, with what is known of the published figure.
std::vector<Table> estimate_tables(const ModelShape& model, const EstimateParts& parts);

}  // namespace gdn
