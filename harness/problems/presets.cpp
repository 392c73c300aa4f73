#include "harness/problems/presets.h"

#include "interface/error.h"
#include "interface/problem.h"

namespace gdn {
namespace {

using Axes = std::vector<std::pair<std::string, std::vector<std::string>>>;

// Heads of a model whose value heads are split over tensor-parallel ranks: TP n divides both.
Preset model(const std::string& name, const std::string& help, const std::string& heads,
             const std::string& dim, Axes more = {}) {
  Axes axes = {{"heads", {heads}}, {"dim", {dim}}, {"dtype", {"bf16"}}};
  axes.insert(axes.end(), more.begin(), more.end());
  return {name, help, axes};
}

std::vector<Preset> make_presets() {
  std::vector<Preset> all;
  // ---- models: heads per layer as the published configurations give them
  all.push_back(model("qwen3-next", "Qwen3-Next-80B-A3B", "16/32", "128x128"));
  all.push_back(model("qwen3-next-tp2", "Qwen3-Next-80B-A3B, 2 ranks", "8/16", "128x128"));
  all.push_back(model("qwen3-next-tp4", "Qwen3-Next-80B-A3B, 4 ranks", "4/8", "128x128"));
  all.push_back(model("qwen3-next-tp8", "Qwen3-Next-80B-A3B, 8 ranks", "2/4", "128x128"));
  for (const char* size : {"0.8b", "2b"}) {
    all.push_back(model(std::string("qwen3.5-") + size, "Qwen3.5 0.8B and 2B", "16/16", "128x128"));
    all.push_back(model(std::string("qwen3.5-") + size + "-tp2", "Qwen3.5 0.8B and 2B, 2 ranks",
                        "8/8", "128x128"));
  }
  for (const char* size : {"4b", "9b", "35b-a3b"}) {
    const std::string name = std::string("qwen3.5-") + size;
    const std::string help = "Qwen3.5 4B, 9B and 35B-A3B";
    all.push_back(model(name, help, "16/32", "128x128"));
    all.push_back(model(name + "-tp2", help + ", 2 ranks", "8/16", "128x128"));
    all.push_back(model(name + "-tp4", help + ", 4 ranks", "4/8", "128x128"));
    all.push_back(model(name + "-tp8", help + ", 8 ranks", "2/4", "128x128"));
  }
  all.push_back(model("qwen3.5-27b", "Qwen3.5 27B", "16/48", "128x128"));
  all.push_back(model("qwen3.5-27b-tp2", "Qwen3.5 27B, 2 ranks", "8/24", "128x128"));
  all.push_back(model("qwen3.5-27b-tp4", "Qwen3.5 27B, 4 ranks", "4/12", "128x128"));
  all.push_back(model("qwen3.5-27b-tp8", "Qwen3.5 27B, 8 ranks", "2/6", "128x128"));
  for (const char* size : {"122b-a10b", "397b-a17b"}) {
    const std::string name = std::string("qwen3.5-") + size;
    const std::string help = "Qwen3.5 122B-A10B and 397B-A17B";
    all.push_back(model(name, help, "16/64", "128x128"));
    all.push_back(model(name + "-tp2", help + ", 2 ranks", "8/32", "128x128"));
    all.push_back(model(name + "-tp4", help + ", 4 ranks", "4/16", "128x128"));
    all.push_back(model(name + "-tp8", help + ", 8 ranks", "2/8", "128x128"));
  }
  all.push_back(model("olmo-hybrid", "OLMo-Hybrid-7B: negative eigenvalues, beta in 0..2", "30/30",
                      "96x192", {{"betas", {"wide"}}}));
  all.push_back(model("paper-1.3b",
                      "Gated DeltaNet 1.3B (arXiv 2412.06464), as its code configures it", "9/9",
                      "200x400"));
  all.push_back(model("paper-h1-1.3b", "Gated DeltaNet-H1 1.3B", "9/9", "192x384"));
  all.push_back(model("paper-0.4b", "Gated DeltaNet 0.4B", "9/9", "128x256"));

  // ---- sequences
  all.push_back({"figure3",
                 "32K tokens as batch x sequence length, the form of the paper's Figure 3",
                 {{"seq", {"16x2048", "8x4096", "4x8192", "2x16384"}}}});
  all.push_back({"prefill",
                 "single prompts and serving batches",
                 {{"seq", {"1x2048", "1x8192", "1x32768", "8x1024", "4x8192", "16x2048"}}}});
  all.push_back({"decode",
                 "every sequence one token",
                 {{"seq", {"1x1", "16x1", "128x1", "512x1"}}, {"h0", {"normal"}}}});
  // ---- axes of interest
  all.push_back({"chunk",
                 "chunk-size curve at 32K tokens",
                 {{"chunk", {"16", "32", "64", "128"}}, {"seq", {"4x8192"}}}});
  all.push_back(
      {"heads",
       "few to many heads at one prompt of 8K tokens",
       {{"heads", {"1/1", "2/8", "4/16", "8/32", "16/32", "16/64"}}, {"seq", {"1x8192"}}}});
  all.push_back(
      {"gates", "no decay, weak and strong gates", {{"gates", {"none", "weak", "strong"}}}});
  // ---- grids
  all.push_back(
      {"forward",
       "what a forward kernel is judged by: few, ordinary and many heads, from one prompt "
       "to a batch, in 3 gate regimes",
       {{"heads", {"2/8", "16/32", "16/64"}},
        {"dim", {"128x128"}},
        {"seq", {"1x32768", "4x8192", "1x8192", "8x1024", "16x2048"}},
        {"dtype", {"bf16"}},
        {"h0", {"normal"}},
        {"gates", {"none", "weak", "strong"}}}});
  all.push_back(
      {"flashqla-grid",
       "9 head configurations x 19 length sets x 3 gate regimes: the head configurations and "
       "length "
       "sets of FlashQLA's published forward table (32/32 added to its heads)",
       {{"heads", {"2/8", "4/16", "8/24", "8/32", "16/16", "16/32", "16/48", "16/64", "32/32"}},
        {"dim", {"128x128"}},
        {"seq",
         {"1x32768", "1x16384", "1x8192", "1x4096", "1x2048", "1x28672+1x4096", "1x24576+1x8192",
          "2x16384", "1x8192+1x24576", "1x4096+1x28672", "1x12288+1x4096", "1x6144+1x2048",
          "2x4096", "1x2048+1x6144", "1x1024+1x7168", "4x8192", "8x4096", "4x2048", "8x1024"}},
        {"dtype", {"bf16"}},
        {"h0", {"normal"}},
        {"gates", {"none", "weak", "strong"}}}});
  all.push_back(
      {"training",
       "a training step (--op gated_delta_training) at 32K tokens, from the 16 sequences of the "
       "paper's Figure 3 to one, all heads of a model and those of one of 8 ranks",
       {{"heads", {"16/32", "2/4"}},
        {"dim", {"128x128"}},
        {"seq", {"16x2048", "8x4096", "4x8192", "2x16384", "1x32768"}},
        {"dtype", {"bf16"}},
        {"h0", {"absent"}},
        {"ht", {"0"}},
        {"norm", {"1"}},
        {"gates", {"weak"}}}});
  // Lengths of the last two sets: numpy.random.default_rng(2026).lognormal(ln(median), 1, count), rounded.
  all.push_back(
      {"serving-grid",
       "what a server sends: short prompts, one long one among short ones, decodes beside "
       "prompts, few heads, and 48 and 16 log-normal lengths with medians of 200 and 1000",
       {{"heads", {"1/1", "2/8", "4/8", "16/32", "24/48"}},
        {"dim", {"128x128"}},
        {"seq",
         {"512x17", "256x50", "256x100", "128x200", "64x333", "32x777", "1x1500", "3x5000",
          "1x8000+31x100", "1x4000+20x300+40x90", "1x16000+8x500", "64x1+1x4096", "128x1+2x1000",
          "16x1+1x777",
          "90+254+30+808+379+149+146+271+153+160+411+335+188+184+235+108+134+346+176+51+124+386+"
          "159+172+380+1240+98+770+58+238+62+773+460+624+82+397+119+127+332+481+245+107+88+848+362+"
          "411+1775+88",
          "452+1272+150+4038+1893+747+732+1355+765+798+2055+1673+938+918+1175+541"}},
        {"dtype", {"bf16"}},
        {"h0", {"normal"}},
        {"gates", {"none", "weak", "strong"}}}});
  all.push_back({"uneven-grid",
                 "what divides badly among 132 multiprocessors: 34 to 45, 45 to 65 and 67 to 91 "
                 "sequence-heads, and one long sequence among short ones",
                 {{"heads", {"9/36", "10/40", "12/48", "14/56", "18/72", "20/80", "22/88"}},
                  {"dim", {"128x128"}},
                  {"seq", {"1x8192", "1x32768", "1x16384+15x512"}},
                  {"dtype", {"bf16"}},
                  {"h0", {"normal"}},
                  {"gates", {"none", "weak", "strong"}}}});
  return all;
}

}  // namespace

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = make_presets();
  return all;
}

const Preset& find_preset(const std::string& name) {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) {
    if (preset.name == name) return preset;
    names.push_back(preset.name);
  }
  throw_bad_input("preset '" + name + "' is unknown (did you mean '" + nearest_name(name, names) +
                  "'?)");
}

}  // namespace gdn
