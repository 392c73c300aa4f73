// An Implementation made of what a plug-in exports. It runs the plug-in's code in this process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "interface/implementation.h"
#include "plugin/from_file.h"
#include "plugin/gdnbench_plugin.h"

namespace gdn {

/// What a plug-in says of itself. Throws Error(bad_input) where it cannot be.
Description described(const gdnbench_plugin_implementation& exported);

/// Whether the device runs what a plug-in enqueues: as runs_on(), and a stand-in for a card runs nothing that
/// was compiled for the card.
Support plugin_runs_on(const Implementation& plugin, const DeviceInfo& device);

/// Refuses by itself what its description does not name, so that it needs no guard around it. Whatever a
/// function of the plug-in throws or returns becomes a reason or an Error.
class PluginImplementation final : public Implementation, public FromFile {
 public:
  /// `exported` stays where it is. Throws Error(bad_input).
  PluginImplementation(const gdnbench_plugin_implementation& exported, std::string file_hash);

  const Description& description() const override { return description_; }
  const std::string& file_hash() const override { return file_hash_; }
  Support supports(const Problem& problem) const override;
  std::int64_t workspace_bytes(const Problem& problem) const override;
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override;

 private:
  const gdnbench_plugin_implementation* exported_;
  Description description_;
  std::string file_hash_;
};

}  // namespace gdn
