#include "harness/measure/model_shapes.h"

#include <numeric>

#include "interface/enum_names.h"
#include "interface/error.h"

namespace gdn {
namespace {

// What Figure 3 of arXiv 2412.06464 gives to compare with.
constexpr const char* kPublished =
    "Published: Figure 3 of arXiv 2412.06464 draws training throughput of 1.3B models on one H100 "
    "at 16x2K, 8x4K, 4x8K and 2x16K; neither the paper nor its code states the values as numbers, "
    "so none are repeated here. In words it says that Gated DeltaNet and DeltaNet are equally fast "
    "and Mamba2 slightly faster";

std::string of_paper(const std::string& name) {
  return name + " (arXiv 2412.06464) as its code configures it, Llama 2 vocabulary";
}

std::string of_jet_nemotron(const std::string& size) {
  return "Jet-Nemotron " + size + " as the file jetlm_" + size +
         ".json of NVlabs/Jet-Nemotron configures it. Its Jet layers are timed as Gated DeltaNet: "
         "they convolve values alone, by weights that they make of each token, where the layer "
         "that is timed convolves queries, keys and values by fixed ones; the products that make "
         "these weights are not counted";
}

ModelShape paper_0_4b() {
  return {.name = "paper-0.4b",
          .source = of_paper("Gated DeltaNet 0.4B"),
          .delta_layers = 11,
          .width = 1536,
          .feed_forward_width = 6144,
          .num_heads = 9,
          .key_head_dim = 128,
          .value_head_dim = 256,
          .vocabulary = 32000};
}

ModelShape paper_1_3b() {
  return {.name = "paper-1.3b",
          .source = of_paper("Gated DeltaNet 1.3B"),
          .delta_layers = 16,
          .width = 2400,
          .feed_forward_width = 5888,
          .num_heads = 9,
          .key_head_dim = 200,
          .value_head_dim = 400,
          .vocabulary = 32000,
          .published = kPublished};
}

ModelShape paper_h1_0_4b() {
  return {.name = "paper-h1-0.4b",
          .source = of_paper("Gated DeltaNet-H1 0.4B"),
          .delta_layers = 6,
          .width = 1536,
          .feed_forward_width = 6144,
          .num_heads = 9,
          .key_head_dim = 128,
          .value_head_dim = 256,
          .vocabulary = 32000,
          .attention = {{6, {12, 12, 128, 2048}}}};
}

ModelShape paper_h1_1_3b() {
  return {.name = "paper-h1-1.3b",
          .source = of_paper("Gated DeltaNet-H1 1.3B"),
          .delta_layers = 9,
          .width = 2304,
          .feed_forward_width = 6144,
          .num_heads = 9,
          .key_head_dim = 192,
          .value_head_dim = 384,
          .vocabulary = 32000,
          .attention = {{9, {18, 18, 128, 2048}}}};
}

ModelShape jet_nemotron_2b() {
  return {.name = "jet-nemotron-2b",
          .source = of_jet_nemotron("2B"),
          .delta_layers = 24,
          .width = 1536,
          .feed_forward_width = 8960,
          .num_heads = 12,
          .key_head_dim = 96,
          .value_head_dim = 256,
          .vocabulary = 151936,
          .attention = {{2, {12, 2, 128, 0}}, {2, {12, 2, 128, 1152}}}};
}

ModelShape jet_nemotron_4b() {
  return {.name = "jet-nemotron-4b",
          .source = of_jet_nemotron("4B"),
          .delta_layers = 26,
          .width = 2048,
          .feed_forward_width = 11008,
          .num_heads = 16,
          .key_head_dim = 128,
          .value_head_dim = 256,
          .vocabulary = 151936,
          .attention = {{3, {16, 2, 128, 0}}, {7, {16, 2, 128, 2048}}}};
}

}  // namespace

std::int64_t ModelShape::layers() const {
  return std::accumulate(
      attention.begin(), attention.end(), delta_layers,
      [](std::int64_t sum, const AttentionLayers& one) { return sum + one.count; });
}

const std::vector<ModelShape>& model_shapes() {
  static const std::vector<ModelShape> shapes = {paper_1_3b(),      paper_0_4b(),
                                                 paper_h1_0_4b(),   paper_h1_1_3b(),
                                                 jet_nemotron_2b(), jet_nemotron_4b()};
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

}  // namespace gdn
