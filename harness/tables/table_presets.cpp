#include "harness/tables/table_presets.h"

#include <algorithm>
#include <iterator>

#include "harness/problems/grid.h"
#include "interface/error.h"

namespace gdn {
namespace {

std::vector<TablePreset> make_presets() {
  std::vector<TablePreset> all;
  all.push_back({"throughput",
                 "Kt/s at constant tokens, batch x sequence length (the form of the Gated DeltaNet "
                 "paper's Figure 3)",
                 "throughput",
                 {{"heads", {"16/32"}},
                  {"dim", {"128x128"}},
                  {"seq", {"16x2048", "8x4096", "4x8192", "2x16384"}},
                  {"dtype", {"bf16"}}},
                 {{"heads", {"2/4"}},
                  {"dim", {"64x64"}},
                  {"seq", {"8x128", "4x256", "2x512", "1x1024"}},
                  {"dtype", {"f32"}}},
                 {"recurrent", "chunkwise", "fused"}});
  all.push_back({"speedup",
                 "chunkwise over recurrent, by length and head dim at constant tokens (the form of "
                 "the DeltaNet paper's Figure 1)",
                 "speedup",
                 {{"heads", {"16/16"}},
                  {"dim", {"64x64", "128x128", "256x256"}},
                  {"seq", {"64x512", "32x1024", "16x2048", "8x4096", "4x8192", "2x16384"}},
                  {"dtype", {"bf16"}}},
                 {{"heads", {"2/2"}},
                  {"dim", {"32x32", "64x64", "128x128"}},
                  {"seq", {"8x128", "4x256", "2x512", "1x1024"}},
                  {"dtype", {"f32"}}},
                 {"recurrent", "chunkwise", "fused"}});
  all.push_back(
      {"chunk",
       "time, workspace and peak memory by chunk size (the form of the tiled flash linear "
       "attention paper's chunk-size figure)",
       "chunk",
       {{"heads", {"16/32"}},
        {"dim", {"128x128"}},
        {"seq", {"4x8192"}},
        {"dtype", {"bf16"}},
        {"chunk", {"16", "32", "64", "128"}}},
       {{"heads", {"2/4"}},
        {"dim", {"64x64"}},
        {"seq", {"2x512"}},
        {"dtype", {"f32"}},
        {"chunk", {"16", "32", "64", "128", "256"}}},
       {"chunkwise", "fused"}});
  all.push_back({"updates",
                 "Gated DeltaNet, DeltaNet, linear and gated linear attention: what the delta rule "
                 "and the decay cost",
                 "updates",
                 {{"heads", {"16/32"}},
                  {"dim", {"128x128"}},
                  {"seq", {"16x2048", "4x8192"}},
                  {"dtype", {"bf16"}},
                  {"gates", {"real", "none"}},
                  {"update", {"delta", "additive"}}},
                 {{"heads", {"2/4"}},
                  {"dim", {"64x64"}},
                  {"seq", {"4x256", "1x1024"}},
                  {"dtype", {"f32"}},
                  {"gates", {"real", "none"}},
                  {"update", {"delta", "additive"}}},
                 {"recurrent", "chunkwise", "fused"}});
  all.push_back({"steps",
                 "DeltaProduct: what n Householder steps per token cost",
                 "steps",
                 {{"heads", {"16/16"}},
                  {"dim", {"128x128"}},
                  {"seq", {"16x2048", "4x8192"}},
                  {"dtype", {"bf16"}},
                  {"steps", {"1", "2", "3", "4"}}},
                 {{"heads", {"2/2"}},
                  {"dim", {"64x64"}},
                  {"seq", {"4x128", "1x512"}},
                  {"dtype", {"f32"}},
                  {"steps", {"1", "2", "3", "4"}}},
                 {"recurrent", "chunkwise", "fused"}});
  all.push_back({"errors",
                 "numeric error in units of the rounding floor, by dtype, gates and length",
                 "errors",
                 {{"heads", {"4/8"}},
                  {"dim", {"128x128"}},
                  {"seq", {"1x64", "1x512", "1x4096"}},
                  {"dtype", {"f32", "bf16", "f16"}},
                  {"h0", {"normal"}},
                  {"gates", {"none", "near_one", "weak", "real", "mid", "strong"}}},
                 {{"heads", {"1/2"}},
                  {"dim", {"64x64"}},
                  {"seq", {"1x64", "1x512", "1x2048"}},
                  {"dtype", {"f32", "bf16", "f16"}},
                  {"h0", {"normal"}},
                  {"gates", {"none", "near_one", "weak", "real", "mid", "strong"}}},
                 {},
                 false});
  return all;
}

}  // namespace

const std::vector<TablePreset>& table_presets() {
  static const std::vector<TablePreset> all = make_presets();
  return all;
}

const TablePreset& find_table_preset(const std::string& name) {
  std::vector<std::string> names;
  for (const TablePreset& preset : table_presets()) {
    if (preset.name == name) return preset;
    names.push_back(preset.name);
  }
  throw_bad_input("table preset '" + name + "' is unknown (did you mean '" +
                  nearest_name(name, names) + "'?)");
}

std::vector<Problem> table_problems(const TablePreset& preset, const DeviceInfo& device,
                                    const TableAxes& overrides) {
  const bool gpu = device.has_own_memory;
  GridSpec spec;
  spec.axes = gpu ? preset.gpu : preset.cpu;
  for (const auto& [axis, values] : overrides) spec.axes[axis] = values;
  return expand(spec);
}

std::vector<const Implementation*> implementations_of(
    const TablePreset& preset, const std::vector<const Implementation*>& implementations) {
  if (preset.forms.empty()) return implementations;
  std::vector<const Implementation*> chosen;
  std::copy_if(implementations.begin(), implementations.end(), std::back_inserter(chosen),
               [&](const Implementation* implementation) {
                 const std::string& form = implementation->description().form;
                 return std::find(preset.forms.begin(), preset.forms.end(), form) !=
                        preset.forms.end();
               });
  return chosen;
}

}  // namespace gdn
