// An estimate of a whole model's throughput from measured parts: its token mixers and its dense
// products, each timed alone at the model's shapes, added up over the layers. Of the forward pass the
// mixer is one of our implementations of gated_delta_layer. Of a training step it is the five calls of
// a layer's mixer and their gradients: gated_delta_training, and the convolution and the gated norm,
// forward and backward, each by the quickest implementation that there is; and every dense product
// stands there three times, for its result, the gradient of its inputs and that of its weights.
//
// A hybrid has layers of softmax attention beside those of Gated DeltaNet. Their projections are
// dense products like the others. Their attention is not this project's: its times come from a file
// (attention_times.h), and are a part of their own in the sum.
//
// It is an estimate, and a lower bound of the time: norms of the residual stream, residual sums, the
// embedding, the activation of the feed-forward part and everything between kernels are left out; of
// the forward pass the output gate too; of a training step the loss and the optimiser; of attention
// the rotation of queries and keys by their positions. What a training step keeps for its backward
// pass is not written and read once more.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/measure/attention_times.h"
#include "harness/measure/model_shapes.h"
#include "harness/measure/pass.h"
#include "harness/measure/product_time.h"
#include "harness/rows/row.h"
#include "harness/tables/table.h"

namespace gdn {

/// One kind of dense product of the model: what a token's [inner] vector becomes.
struct ModelProduct {
  std::string name;        ///< "query and key projections"
  std::int64_t count = 0;  ///< in the whole model
  std::int64_t columns = 0;
  std::int64_t inner = 0;
  std::int64_t rows = 0;  ///< 0: one for each token
};
/// Projections of the mixers (query, key; value, output gate; decay and beta; output), of attention
/// (query; key, value; output, of layers of the same sizes together), the three products of the
/// feed-forward part of every layer, logits.
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

/// Attention layers of one shape, and the time of the quickest kernel for one of them.
struct TimedAttention {
  AttentionLayers layers;
  std::string kernel;
  double time_ms = 0;  ///< of the pass that the estimate is of
};
/// Of each kind of the model's attention layers, by batch ("4x8192"), what was timed on the device.
/// Throws Error(bad_input) where the times are another device's, or one is missing: with the command
/// that measures all that the batches need.
std::map<std::string, std::vector<TimedAttention>> attention_of(
    const ModelShape& model, const std::vector<SequenceLengths>& batches, DType dtype,
    const std::string& device, Pass pass, const AttentionTimes& times);

/// Time of the model's pass on one batch.
struct ModelEstimate {
  double mixer_ms = 0;      ///< of all layers of Gated DeltaNet: the implementation measured
  double attention_ms = 0;  ///< of all layers of attention, without their projections
  double products_ms = 0;   ///< of all layers, and the logits
  std::int64_t tokens = 0;
  double total_ms() const { return mixer_ms + attention_ms + products_ms; }
  double kilo_tokens_per_s() const { return static_cast<double>(tokens) / total_ms(); }
};
/// `mixer`: an ok, timed row of mixer_problem(), or of training_problem(), to which such rows of what
/// stands `beside` it are added. Throws Error(bad_input) if one is not, or if `attention` does not
/// have a time of every kind of the model's attention layers.
ModelEstimate estimate(const ModelShape& model, const Row& mixer,
                       const std::vector<TimedProduct>& products,
                       const std::vector<Row>& beside = {},
                       const std::vector<TimedAttention>& attention = {});

/// What an estimate is made of.
struct EstimateParts {
  Pass pass = Pass::forward;
  std::vector<Row> mixers;
  /// By total tokens of the mixers' rows, which must all be there.
  std::map<std::int64_t, std::vector<TimedProduct>> products;
  /// Of a training step by the mixers' sequences ("4x8192"), which must all be there.
  std::map<std::string, std::vector<Row>> beside;
  /// Of a hybrid by the mixers' sequences, as attention_of() gives it.
  std::map<std::string, std::vector<TimedAttention>> attention = {};
};

/// Throughput by implementation and shape, the share of the mixer in it (of a hybrid those of
/// attention and of dense products too), and the parts: labelled as estimates, with what is known of
/// a published figure.
std::vector<Table> estimate_tables(const ModelShape& model, const EstimateParts& parts);

}  // namespace gdn
