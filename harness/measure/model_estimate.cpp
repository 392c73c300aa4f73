#include "harness/measure/model_estimate.h"

#include <fmt/format.h>

#include "harness/tables/pivot.h"
#include "interface/error.h"
#include "interface/operations/gated_delta_layer.h"

namespace gdn {
namespace {

// What Figure 3 of arXiv 2412.06464 gives to compare with.
constexpr const char* kPublished =
    "Published: Figure 3 of arXiv 2412.06464 draws training throughput of 1.3B models on one H100 "
    "at 16x2K, 8x4K, 4x8K and 2x16K; neither the paper nor its code states the values as numbers, "
    "so none are repeated here. In words it says that Gated DeltaNet and DeltaNet are equally fast "
    "and Mamba2 slightly faster";
constexpr const char* kEstimate =
    "ESTIMATE: measured mixer and measured dense products, each timed alone, added up over the "
    "layers; forward pass only. Left out: norms, residual sums, output gate, activations, "
    "embedding, everything between kernels, backward pass and optimiser";

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

Problem mixer_problem(const ModelShape& model, const SequenceLengths& sequences, DType dtype) {
  Problem problem;
  problem.operation = gated_delta_layer_operation();
  problem.num_key_heads = problem.num_value_heads = model.num_heads;
  problem.key_head_dim = model.key_head_dim;
  problem.value_head_dim = model.value_head_dim;
  problem.sequences = sequences;
  problem.token_dtype = dtype;
  problem.normalize_qk = true;
  problem.gate_encoding = GateEncoding::logits;
  problem.beta_encoding = BetaEncoding::logit;
  problem.validate();
  return problem;
}

std::vector<TimedProduct> time_products(const ModelShape& model, std::int64_t tokens, DType dtype,
                                        Device& device, const MeasureOptions& options) {
  std::vector<TimedProduct> timed;
  for (const ModelProduct& product : products_of(model)) {
    timed.push_back(
        {product, time_product({tokens, product.columns, product.inner, dtype}, device, options)});
  }
  return timed;
}

ModelEstimate estimate(const ModelShape& model, const Row& mixer,
                       const std::vector<TimedProduct>& products) {
  if (!mixer.ok() || !(mixer.time_ms > 0)) {
    throw_bad_input("estimate: '" + mixer.key() + "' has no time (" + mixer.status + ")");
  }
  ModelEstimate result;
  result.tokens = mixer.integer("total_tokens");
  result.mixer_ms = static_cast<double>(model.layers) * mixer.time_ms;
  for (const TimedProduct& timed : products) {
    result.products_ms += static_cast<double>(timed.product.count) * timed.time.time_ms.median;
  }
  return result;
}

std::vector<Table> estimate_tables(
    const ModelShape& model, const std::vector<Row>& mixers,
    const std::map<std::int64_t, std::vector<TimedProduct>>& products) {
  const auto of = [&](const Row& row) {
    return estimate(model, row, products.at(row.integer("total_tokens")));
  };
  const PivotOptions layout = {"", {"implementation"}, {"shape"}, ""};
  const auto table = [&](const std::string& what, const Quantity& quantity) {
    PivotOptions options = layout;
    options.title =
        fmt::format("Estimate for {}: {}, by batch x sequence length", model.name, what);
    return pivot(mixers, options, quantity);
  };
  std::vector<Table> tables =
      table("forward Kt/s of the whole model", {"kilo_tokens_per_s", "Kt/s", [&](const Row& row) {
                                                  return significant(of(row).kilo_tokens_per_s());
                                                }});
  for (Table& one : tables) {
    one.notes.insert(one.notes.begin(), {kEstimate, kPublished});
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

  for (const auto& [tokens, timed] : products) {
    Table parts;
    parts.title = fmt::format("Measured dense products of {} at {} tokens", model.name, tokens);
    parts.header = {"product", "in the model", "inner x columns",
                    "ms each", "TFLOP/s",      "ms in all"};
    for (const TimedProduct& one : timed) {
      const double each_ms = one.time.time_ms.median;
      parts.rows.push_back({one.product.name, std::to_string(one.product.count),
                            fmt::format("{}x{}", one.product.inner, one.product.columns),
                            significant(each_ms), significant(one.time.tflops, 3),
                            significant(static_cast<double>(one.product.count) * each_ms)});
    }
    tables.push_back(std::move(parts));
  }
  return tables;
}

}  // namespace gdn
