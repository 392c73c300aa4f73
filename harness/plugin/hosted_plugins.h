// Plug-ins that run in processes of their own, among the implementations of this process.
#pragma once

#include <string>
#include <vector>

#include "harness/plugin/requests.h"
#include "harness/verify/implementation_apart.h"
#include "plugin/from_file.h"

namespace gdn {

/// An implementation of a plug-in, or what stands for a file that is none.
class HostedImplementation : public ImplementationApart, public FromFile {};

struct HostedPlugin {
  std::string path;
  std::vector<const HostedImplementation*> implementations;
  /// Why it could not be loaded, in a process of its own; else empty.
  std::string failure;
};

/// Loads the file in a process of its own, and adds what it exports to all_implementations(), for as long
/// as this process lives. Throws Error(bad_input) where the file cannot be read, or one of its
/// implementations has the name of another one here; a file that is no plug-in is told in `failure`.
HostedPlugin host_plugin_file(const std::string& path, const PluginSettings& settings);

/// Adds an implementation of the operation and the backend for a plug-in that could not be loaded: on every
/// problem it has failed, with this as the reason.
const HostedImplementation& add_failed_plugin(const HostedPlugin& plugin, Operation operation,
                                              const std::string& backend);

}  // namespace gdn
