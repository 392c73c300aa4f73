// gdnbench list: every implementation, whether it runs here, and why not.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "harness/cli/command.h"
#include "harness/cli/plugin_options.h"
#include "harness/files/json.h"
#include "harness/problems/presets.h"
#include "harness/tables/table_presets.h"
#include "interface/device.h"
#include "interface/error.h"
#include "interface/implementation.h"
#include "plugin/plugin_implementation.h"

namespace gdn::cli {
namespace {

class List : public Command {
 public:
  std::string name() const override { return "list"; }
  std::string help() const override { return "implementations, and whether each runs here"; }
  std::string example() const override {
    return "gdnbench list --op gated_delta\n  gdnbench list --presets";
  }
  void add_options(CLI::App& app) override {
    app.add_option("--op", operation_, "only this operation");
    plugins_.add_to(app, "Plug-ins");
    app.add_flag("--presets", presets_, "presets instead, of sweeps and of tables");
    app.add_flag("--json", json_, "machine-readable output");
  }

  int run() override {
    if (presets_) return list_presets();
    if (!operation_.empty()) parse_operation(operation_);
    const std::vector<HostedPlugin> plugins = plugins_.load({});
    if (json_) fmt::print("[\n");
    bool first = true;
    for (const Implementation* implementation : all_implementations()) {
      const Description& d = implementation->description();
      if (plugins_.any() && !is_of(plugins, *implementation)) continue;
      if (!operation_.empty() && to_string(d.operation) != operation_) continue;
      const std::string reason = why_not_here(*implementation);
      if (json_) {
        fmt::print("{}{}", first ? "" : ",\n",
                   json_object({{"name", json_string(d.name)},
                                {"operation", json_string(to_string(d.operation))},
                                {"backend", json_string(d.backend)},
                                {"form", json_string(d.form)},
                                {"summary", json_string(d.summary)},
                                {"resources", json_string(d.resources)},
                                {"runs_here", reason.empty() ? "true" : "false"},
                                {"reason", json_string(reason)},
                                {"bitwise_repeatable", d.bitwise_repeatable ? "true" : "false"},
                                {"batch_invariant", d.batch_invariant ? "true" : "false"}}));
      } else {
        fmt::print("{:<18} {:<24} {}\n", to_string(d.operation), d.name, d.summary);
        if (!d.resources.empty()) fmt::print("{:<43} needs: {}\n", "", d.resources);
        if (!reason.empty()) fmt::print("{:<43} not here: {}\n", "", reason);
      }
      first = false;
    }
    if (json_) fmt::print("\n]\n");
    int code = 0;
    for (const HostedPlugin& plugin : plugins) {
      if (plugin.failure.empty()) continue;
      fmt::print(stderr, "gdnbench: list: {}\n", plugin.failure);
      code = 1;
    }
    return code;
  }

 private:
  static bool is_of(const std::vector<HostedPlugin>& plugins,
                    const Implementation& implementation) {
    for (const HostedPlugin& plugin : plugins) {
      const auto& all = plugin.implementations;
      if (std::find(all.begin(), all.end(), &implementation) != all.end()) return true;
    }
    return false;
  }

  int list_presets() const {
    std::string entries;
    const auto add = [&](const char* of, const std::string& name, const std::string& help,
                         const std::string& axes) {
      if (json_) {
        entries += (entries.empty() ? "" : ",\n") + json_object({{"of", json_string(of)},
                                                                 {"name", json_string(name)},
                                                                 {"help", json_string(help)},
                                                                 {"axes", axes}});
      } else {
        fmt::print("{:<6} {:<22} {}\n", of, name, help);
      }
    };
    for (const TablePreset& preset : table_presets())
      add("table", preset.name, preset.help, "null");
    for (const Preset& preset : presets()) {
      add("sweep", preset.name, preset.help, json_axes(preset));
    }
    if (json_) fmt::print("[\n{}\n]\n", entries);
    return 0;
  }

  // Axis -> its values, for a program that goes over the same grid.
  static std::string json_axes(const Preset& preset) {
    std::vector<std::pair<std::string, std::string>> members;
    for (const auto& [axis, values] : preset.axes) {
      std::string list;
      for (const std::string& value : values) {
        list += (list.empty() ? "" : ", ") + json_string(value);
      }
      members.emplace_back(axis, "[" + list + "]");
    }
    return json_object(members);
  }

  // Empty if the implementation runs on some device of this machine.
  std::string why_not_here(const Implementation& implementation) {
    const std::string& backend = implementation.description().backend;
    std::string reason = "no " + backend + " device";
    for (const Backend& candidate : backends()) {
      if (candidate.runs != backend) continue;
      const BackendStatus status = candidate.status();
      if (!status.available) {
        if (status.backend == backend) reason = status.detail;
        continue;
      }
      const DeviceInfo& info = device_info(status.backend);
      const bool of_plugin = dynamic_cast<const FromFile*>(&implementation) != nullptr;
      if (of_plugin && info.emulated) continue;  // why there is no card says more
      const Support support =
          of_plugin ? plugin_runs_on(implementation, info) : runs_on(implementation, info);
      if (support) return "";
      reason = support.reason;
    }
    return reason;
  }

  const DeviceInfo& device_info(const std::string& backend) {
    const auto found = infos_.find(backend);
    if (found != infos_.end()) return found->second;
    return infos_[backend] = open_device(backend)->info();
  }

  std::string operation_;
  PluginOptions plugins_;
  bool presets_ = false;
  bool json_ = false;
  std::map<std::string, DeviceInfo> infos_;
};

}  // namespace

std::unique_ptr<Command> make_list() { return std::make_unique<List>(); }

}  // namespace gdn::cli
