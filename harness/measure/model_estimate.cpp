#include "harness/measure/model_estimate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

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

constexpr const char* kAttention =
    "Attention: the quickest of the kernels that scripts/peers/time_attention.py timed on this "
    "device, none of which is this project's; its projections are counted among the dense "
    "products, and the rotation of queries and keys by their positions is left out";
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

// Products of the same name and sizes stand in one line, whatever layers they belong to.
void add_product(std::vector<ModelProduct>& products, const ModelProduct& product) {
  const auto same = std::find_if(products.begin(), products.end(), [&](const ModelProduct& one) {
    return one.name == product.name && one.columns == product.columns &&
           one.inner == product.inner && one.rows == product.rows;
  });
  if (same == products.end()) {
    products.push_back(product);
  } else {
    same->count += product.count;
  }
}

// What time_attention.py is asked for a shape and a batch.
std::string request(const AttentionShape& shape, const SequenceLengths& sequences) {
  return shape.to_string() + ":" + sequences.to_string();
}

std::string measuring_command(const ModelShape& model,
                              const std::vector<SequenceLengths>& batches) {
  std::string shapes;
  for (const AttentionLayers& layers : model.attention) {
    for (const SequenceLengths& sequences : batches) {
      shapes += (shapes.empty() ? "" : ",") + request(layers.shape, sequences);
    }
  }
  return "scripts/peers/time_attention.py --shapes " + shapes + " --out FILE.csv";
}

std::string attention_in_words(const AttentionShape& shape) {
  return fmt::format("attention of {}/{} heads of {}, {}", shape.query_heads, shape.key_value_heads,
                     shape.head_dim,
                     shape.window > 0 ? fmt::format("window {}", shape.window) : "all tokens");
}

// With what separates them from the words behind.
std::string layers_in_words(const ModelShape& model) {
  if (!model.is_hybrid()) {
    return fmt::format("{} layers of width {}, {} heads of {}x{}, ", model.delta_layers,
                       model.width, model.num_heads, model.key_head_dim, model.value_head_dim);
  }
  std::string words = fmt::format("{} layers of width {}: {} of Gated DeltaNet, {} heads of {}x{}",
                                  model.layers(), model.width, model.delta_layers, model.num_heads,
                                  model.key_head_dim, model.value_head_dim);
  for (const AttentionLayers& layers : model.attention) {
    words += fmt::format("; {} of {}", layers.count, attention_in_words(layers.shape));
  }
  return words + "; ";
}

}  // namespace

std::vector<ModelProduct> products_of(const ModelShape& model) {
  const std::int64_t keys = model.num_heads * model.key_head_dim;
  const std::int64_t values = model.num_heads * model.value_head_dim;
  std::vector<ModelProduct> products = {
      {"query, key", 2 * model.delta_layers, keys, model.width},
      {"value, output gate", 2 * model.delta_layers, values, model.width},
      {"decay, beta", 2 * model.delta_layers, model.num_heads, model.width},
      {"output", model.delta_layers, model.width, values}};
  for (const auto& [count, shape] : model.attention) {
    const std::int64_t queries = shape.query_heads * shape.head_dim;
    const std::int64_t attended = shape.key_value_heads * shape.head_dim;
    add_product(products, {"attention query", count, queries, model.width});
    add_product(products, {"attention key, value", 2 * count, attended, model.width});
    add_product(products, {"attention output", count, model.width, queries});
  }
  products.push_back(
      {"feed-forward in", 2 * model.layers(), model.feed_forward_width, model.width});
  products.push_back({"feed-forward out", model.layers(), model.width, model.feed_forward_width});
  products.push_back({"logits", 1, model.vocabulary, model.width});
  return products;
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

std::map<std::string, std::vector<TimedAttention>> attention_of(
    const ModelShape& model, const std::vector<SequenceLengths>& batches, DType dtype,
    const std::string& device, Pass pass, const AttentionTimes& times) {
  const std::vector<std::string> devices = times.devices();
  if (std::find(devices.begin(), devices.end(), device) == devices.end()) {
    throw_bad_input(fmt::format(
        "{}: times of attention on '{}', expected on '{}', this device; {} "
        "measures them",
        times.name(), fmt::join(devices, "', '"), device, measuring_command(model, batches)));
  }
  std::map<std::string, std::vector<TimedAttention>> found;
  for (const SequenceLengths& sequences : batches) {
    std::vector<TimedAttention>& of_batch = found[sequences.to_string()];
    if (!of_batch.empty()) continue;
    for (const AttentionLayers& layers : model.attention) {
      const AttentionTime* time = times.quickest(device, layers.shape, sequences, dtype, pass);
      if (!time) {
        throw_bad_input(
            fmt::format("{}: no time of attention {} in {} on '{}'; {} measures what {} "
                        "needs",
                        times.name(), request(layers.shape, sequences), short_name(dtype), device,
                        measuring_command(model, batches), model.name));
      }
      of_batch.push_back({layers, time->kernel, time->time_ms(pass)});
    }
  }
  return found;
}

ModelEstimate estimate(const ModelShape& model, const Row& mixer,
                       const std::vector<TimedProduct>& products, const std::vector<Row>& beside,
                       const std::vector<TimedAttention>& attention) {
  if (attention.size() != model.attention.size()) {
    throw_bad_input(fmt::format("estimate: times of {} kinds of attention, {} has {}",
                                attention.size(), model.name, model.attention.size()));
  }
  require_time(mixer);
  ModelEstimate result;
  result.tokens = mixer.integer("total_tokens");
  double layer_ms = mixer.time_ms;
  for (const Row& part : beside) {
    require_time(part);
    layer_ms += part.time_ms;
  }
  result.mixer_ms = static_cast<double>(model.delta_layers) * layer_ms;
  for (const TimedAttention& timed : attention) {
    result.attention_ms += static_cast<double>(timed.layers.count) * timed.time_ms;
  }
  for (const TimedProduct& timed : products) {
    result.products_ms += static_cast<double>(timed.product.count) * timed.time.time_ms.median;
  }
  return result;
}

std::vector<Table> estimate_tables(const ModelShape& model, const EstimateParts& parts) {
  const bool training = parts.pass == Pass::training;
  const auto of = [&](const Row& row) {
    return estimate(
        model, row, parts.products.at(row.integer("total_tokens")),
        training ? parts.beside.at(sequences_of(row)) : std::vector<Row>{},
        model.is_hybrid() ? parts.attention.at(sequences_of(row)) : std::vector<TimedAttention>{});
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
    std::vector<std::string> head = {training ? kTrainingEstimate : kForwardEstimate};
    if (model.is_hybrid()) head.push_back(kAttention);
    if (!model.published.empty()) head.push_back(model.published);
    one.notes.insert(one.notes.begin(), head.begin(), head.end());
    one.notes.push_back(fmt::format("Model: {}; {}feed-forward {}, vocabulary {}", model.source,
                                    layers_in_words(model), model.feed_forward_width,
                                    model.vocabulary));
  }
  const auto add_shares = [&](const std::string& what, double ModelEstimate::*part_ms) {
    const auto shares = table(fmt::format("share of {} in its time, %", what),
                              {"share", "%", [&, part_ms](const Row& row) {
                                 const ModelEstimate whole = of(row);
                                 return significant(100 * (whole.*part_ms) / whole.total_ms(), 3);
                               }});
    tables.insert(tables.end(), shares.begin(), shares.end());
  };
  add_shares(model.is_hybrid() ? "the mixers of Gated DeltaNet" : "the mixer",
             &ModelEstimate::mixer_ms);
  if (model.is_hybrid()) {
    add_shares("attention", &ModelEstimate::attention_ms);
    add_shares("dense products", &ModelEstimate::products_ms);
  }

  for (const auto& [sequences, timed] : parts.attention) {
    Table attention;
    attention.title = fmt::format("Measured attention of {}, {}", model.name, sequences);
    attention.header = {"attention", "layers", "kernel", "ms each", "ms in all"};
    for (const TimedAttention& one : timed) {
      attention.rows.push_back({one.layers.shape.to_string(), std::to_string(one.layers.count),
                                one.kernel, significant(one.time_ms),
                                significant(static_cast<double>(one.layers.count) * one.time_ms)});
    }
    tables.push_back(std::move(attention));
  }

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
