#include "harness/cli/plugin_options.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "harness/cli/number_check.h"
#include "interface/added_implementations.h"
#include "interface/device.h"
#include "interface/error.h"
#include "plugin/plugin_library.h"

namespace gdn::cli {

void PluginOptions::add_here_to(CLI::App& app) {
  app.add_option("--plugin", paths_,
                 "plug-ins (docs/plugins.md), loaded into this very process: a crash ends it")
      ->delimiter(',');
}

void PluginOptions::add_to(CLI::App& app, const std::string& group) {
  app.add_option(
         "--plugin", paths_,
         "plug-ins, as libmine.so (docs/plugins.md): without --impl their implementations alone")
      ->delimiter(',')
      ->group(group);
  app.add_option("--plugin-limit", limit_s_,
                 "seconds after which a call of a plug-in has failed, and its process is ended")
      ->capture_default_str()
      ->check(more_than_zero())
      ->group(group);
}

std::string PluginOptions::as_arguments() const {
  std::string text;
  for (const std::string& path : paths_) text += " --plugin '" + path + "'";
  return text;
}

std::vector<HostedPlugin> PluginOptions::load(const PluginSettings& settings) const {
  std::vector<HostedPlugin> plugins;
  PluginSettings with_limit = settings;
  with_limit.limit_s = limit_s_;
  for (const std::string& path : paths_) plugins.push_back(host_plugin_file(path, with_limit));
  return plugins;
}

void PluginOptions::load_here() const {
  static std::vector<std::unique_ptr<const PluginImplementation>>
      loaded;  // as long as the list has them
  for (const std::string& path : paths_) {
    for (auto& implementation : load_plugin(path)) {
      add_implementation(*loaded.emplace_back(std::move(implementation)));
    }
  }
}

std::vector<std::string> PluginOptions::names_with(const std::vector<std::string>& named,
                                                   const std::string& device,
                                                   bool exact_buffers) const {
  if (!any()) return named;
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const std::string& name : named) add(name);
  const bool all_of_them = named.empty();
  const DeviceInfo info = open_device(device)->info();
  PluginSettings settings;
  settings.device = device;
  settings.exact_buffers = exact_buffers;
  for (const HostedPlugin& plugin : load(settings)) {
    if (!plugin.failure.empty()) {
      for (const Operation operation : operations()) {
        add(add_failed_plugin(plugin, operation, info.runs).description().name);
      }
      continue;
    }
    Support here = Support::no("");
    for (const HostedImplementation* const implementation : plugin.implementations) {
      const Support support = plugin_runs_on(*implementation, info);
      if (support && all_of_them) add(implementation->description().name);
      if (!here) here = support;
    }
    if (!here) {
      throw Error(ErrorKind::unsupported, "plug-in '" + plugin.path + "': " + here.reason);
    }
  }
  return names;
}

}  // namespace gdn::cli
