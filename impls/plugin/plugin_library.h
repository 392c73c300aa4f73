// A plug-in's shared library: loaded into this process, its table judged before anything is believed of it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plugin/plugin_implementation.h"

namespace gdn {

/// The implementations of the file, which stays loaded until the process ends. Code of the library runs
/// in this process, now already: what it may do to it, whoever calls accepts. Throws Error(bad_input),
/// naming the file and what was expected, where it cannot be read or loaded, has no entry or one of
/// another version, or a table that says of an implementation what cannot be.
std::vector<std::unique_ptr<const PluginImplementation>> load_plugin(const std::string& path);

}  // namespace gdn
