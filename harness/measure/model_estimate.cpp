#include "harness/measure/model_estimate.h"

#include <fmt/format.h>

#include "harness/tables/pivot.h"
#include "interface/error.h"
#include "interface/operations/causal_conv1d.h"
#include "interface/operations/causal_conv1d_backward.h"
#include "interface/operations/gated_delta_layer.h"
#include "interface/operations/gated_delta_training.h"
#include "interface/operations/gated_rms_norm.h"
#include "interface/operations/gated_rms_norm_backward.h"

namespace gdn {
namespace {

// What Figure 3 of arXiv 2412.06464 gives to compare with.
constexpr const char* kPublished =
    "Published: Figure 3 of arXiv 2412.06464 draws training throughput of 1.3B models on one H100 "
    "at 16x2K, 8x4K, 4x8K and 2x16K; neither the paper nor its code states the values as numbers, "
    "so none are repeated here. In words it says that Gated DeltaNet and DeltaNet are equally fast "
    "and Mamba2 slightly faster";
constexpr const char* kForwardEstimate =
    "ESTIMATE: measured mixer and measured dense products, each timed alone, added up over the "
    "layers; forward pass only. Left out: norms, residual sums, output gate, activations, "
    "embedding, everything between kernels, backward pass and optimiser";
constexpr const char* kTrainingEstimate =
    "ESTIMATE: recurrence, convolution and gated norm of a layer, forward and backward, and every "
    "dense product with its two gradients, each timed alone, added up over the layers. Left out: "
    "norms of the residual stream, residual sums, activations of the feed-forward part, embedding, "
    "loss, optimiser, everything between kernels";

Problem part_of_mixer(Operation operation, const ModelShape& model,
                      const SequenceLengths& sequences, DType dtype) {
  Problem problem;
  problem.operation = operation;
  problem.num_key_heads = problem.num_value_heads = model.num_heads;
  problem.key_head_dim = model.key_head_dim;
  problem.value_head_dim = model.value_head_dim;
  problem.sequences = sequences;
  problem.token_dtype = dtype;
  return problem;
}

// With the norm of queries and keys, and gates and betas from logits, inside.
Problem recurrence_of_mixer(Operation operation, const ModelShape& model,
                            const SequenceLengths& sequences, DType dtype) {
  Problem problem = part_of_mixer(operation, model, sequences, dtype);
  problem.normalize_qk = true;
  problem.gate_encoding = GateEncoding::logits;
  problem.beta_encoding = BetaEncoding::logit;
  return problem;
}

void require_time(const Row& row) {
  if (!row.ok() || !(row.time_ms > 0)) {
    throw_bad_input("estimate: '" + row.key() + "' has no time (" + row.status + ")");
  }
}

std::string sequences_of(const Row& row) {
  return Problem::parse(row.problem).sequences.to_string();
}

}  // namespace

const std::vector<ModelShape>& model_shapes() {
  static const std::vector<ModelShape> shapes = {
      {"paper-1.3b",
       "Gated DeltaNet 1.3B (arXiv 2412.06464) as its code configures it, Llama 2 vocabulary", 16,
       2400, 5888, 9, 200, 400, 32000}};
  return shapes;
}

const ModelShape& find_model_shape(const std::string& name) {
  std::vector<std::string> names;
  for (const ModelShape& model : model_shapes()) {
    if (model.name == name) return model;
    names.push_back(model.name);
  }
  throw_bad_input("model '" + name + "' is unknown (did you mean '" + nearest_name(name, names) +
                  "'?)");
}

std::vector<ModelProduct> products_of(const ModelShape& model) {
  const std::int64_t keys = model.num_heads * model.key_head_dim;
  const std::int64_t values = model.num_heads * model.value_head_dim;
  return {{"query, key", 2 * model.layers, keys, model.width},
          {"value, output gate", 2 * model.layers, values, model.width},
          {"decay, beta", 2 * model.layers, model.num_heads, model.width},
          {"output", model.layers, model.width, values},
          {"feed-forward in", 2 * model.layers, model.feed_forward_width, model.width},
          {"feed-forward out", model.layers, model.width, model.feed_forward_width},
          {"logits", 1, model.vocabulary, model.width}};
}

std::int64_t product_parameters(const ModelShape& model) {
  std::int64_t parameters = 0;
  for (const ModelProduct& product : products_of(model)) {
    parameters += product.count * product.columns * product.inner;
  }
  return parameters;
}

std::vector<ModelProduct> training_products_of(const ModelShape& model, std::int64_t tokens) {
  std::vector<ModelProduct> products;
  for (const ModelProduct& y : products_of(model)) {
    products.push_back(y);
    products.push_back({y.name + ", d_input", y.count, y.inner, y.columns});
    products.push_back({y.name + ", d_weight", y.count, y.columns, tokens, y.inner});
  }
  return products;
}

Problem mixer_problem(const ModelShape& model, const SequenceLengths& sequences, DType dtype) {
  Problem problem = recurrence_of_mixer(gated_delta_layer_operation(), model, sequences, dtype);
  problem.validate();
  return problem;
}

Problem training_problem(const ModelShape& model, const SequenceLengths& sequences, DType dtype) {
  Problem problem = recurrence_of_mixer(gated_delta_training_operation(), model, sequences, dtype);
  problem.final_state = false;
  problem.validate();
  return problem;
}

std::vector<Problem> problems_beside_training(const ModelShape& model,
                                              const SequenceLengths& sequences, DType dtype) {
  std::vector<Problem> problems;
  const Operation operations[] = {causal_conv1d_operation(), causal_conv1d_backward_operation(),
                                  gated_rms_norm_operation(), gated_rms_norm_backward_operation()};
  for (const Operation operation : operations) {
    problems.push_back(part_of_mixer(operation, model, sequences, dtype));
    // Nothing stands before a training batch.
    if (problems.back().operation->has_field("window")) {
      problems.back().conv_window = ConvWindow::none;
    }
    problems.back().validate();
  }
  return problems;
}

std::vector<TimedProduct> time_products(const ModelShape& model, std::int64_t tokens, DType dtype,
                                        Device& device, const MeasureOptions& options, Pass pass) {
  std::vector<TimedProduct> timed;
  for (const ModelProduct& product :
       pass == Pass::forward ? products_of(model) : training_products_of(model, tokens)) {
    const std::int64_t rows = product.rows > 0 ? product.rows : tokens;
    timed.push_back(
        {product, time_product({rows, product.columns, product.inner, dtype}, device, options)});
  }
  return timed;
}

ModelEstimate estimate(const ModelShape& model, const Row& mixer,
                       const std::vector<TimedProduct>& products, const std::vector<Row>& beside) {
  require_time(mixer);
  ModelEstimate result;
  result.tokens = mixer.integer("total_tokens");
  double layer_ms = mixer.time_ms;
  for (const Row& part : beside) {
    require_time(part);
    layer_ms += part.time_ms;
  }
  result.mixer_ms = static_cast<double>(model.layers) * layer_ms;
  for (const TimedProduct& timed : products) {
    result.products_ms += static_cast<double>(timed.product.count) * timed.time.time_ms.median;
  }
  return result;
}

std::vector<Table> estimate_tables(const ModelShape& model, const EstimateParts& parts) {
  const bool training = parts.pass == Pass::training;
  const auto of = [&](const Row& row) {
    return estimate(model, row, parts.products.at(row.integer("total_tokens")),
                    training ? parts.beside.at(sequences_of(row)) : std::vector<Row>{});
  };
  const PivotOptions layout = {"", {"implementation"}, {"shape"}, ""};
  const auto table = [&](const std::string& what, const Quantity& quantity) {
    PivotOptions options = layout;
    options.title =
        fmt::format("Estimate for {}: {}, by batch x sequence length", model.name, what);
    return pivot(parts.mixers, options, quantity);
  };
  std::vector<Table> tables =
      table(training ? "training Kt/s of the whole model" : "forward Kt/s of the whole model",
            {"kilo_tokens_per_s", "Kt/s",
             [&](const Row& row) { return significant(of(row).kilo_tokens_per_s()); }});
  for (Table& one : tables) {
    one.notes.insert(one.notes.begin(),
                     {training ? kTrainingEstimate : kForwardEstimate, kPublished});
    one.notes.push_back(fmt::format(
        "Model: {}; {} layers of width {}, {} heads of {}x{}, feed-forward {}, vocabulary {}",
        model.source, model.layers, model.width, model.num_heads, model.key_head_dim,
        model.value_head_dim, model.feed_forward_width, model.vocabulary));
  }
  const auto shares = table("share of the mixer in its time, %",
                            {"share", "%", [&](const Row& row) {
                               const ModelEstimate whole = of(row);
                               return significant(100 * whole.mixer_ms / whole.total_ms(), 3);
                             }});
  tables.insert(tables.end(), shares.begin(), shares.end());

  for (const auto& [sequences, rows] : parts.beside) {
    Table beside;
    beside.title =
        fmt::format("Measured beside the recurrence of a layer of {}, {}", model.name, sequences);
    beside.header = {"part", "implementation", "ms each"};
    for (const Row& row : rows) {
      beside.rows.push_back({row.operation, row.implementation, significant(row.time_ms)});
    }
    tables.push_back(std::move(beside));
  }
  for (const auto& [tokens, timed] : parts.products) {
    Table dense;
    dense.title = fmt::format("Measured dense products of {} at {} tokens", model.name, tokens);
    dense.header = {"product", "in the model", "rows x inner x columns",
                    "ms each", "TFLOP/s",      "ms in all"};
    for (const TimedProduct& one : timed) {
      const double each_ms = one.time.time_ms.median;
      dense.rows.push_back(
          {one.product.name, std::to_string(one.product.count),
           fmt::format("{}x{}x{}", one.product.rows > 0 ? one.product.rows : tokens,
                       one.product.inner, one.product.columns),
           significant(each_ms), significant(one.time.tflops, 3),
           significant(static_cast<double>(one.product.count) * each_ms)});
    }
    tables.push_back(std::move(dense));
  }
  return tables;
}

}  // namespace gdn
