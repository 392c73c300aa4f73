#include "plugin/plugin_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <set>
#include <utility>

#include "interface/error.h"
#include "plugin/call_mark.h"
#include "plugin/file_hash.h"

namespace gdn {
namespace {

constexpr int kLatestVersionLookedFor = 99;

using Entry = const gdnbench_plugin* (*)();

std::string entry_of(int version) { return "gdnbench_plugin_v" + std::to_string(version); }

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw_bad_input("plug-in '" + path + "': " + why);
}

void* opened(const std::string& path) {
  // Without a slash the loader would look along its own search path, for another file perhaps.
  const std::string whole = std::filesystem::absolute(path).string();
  const CallMark mark(PluginCall::load);
  void* library = nullptr;
  try {
    library = dlopen(whole.c_str(), RTLD_NOW | RTLD_LOCAL);
  } catch (const std::exception& error) {
    refuse(path, std::string("threw while it was loaded: ") + error.what());
  }
  if (library == nullptr) refuse(path, std::string("cannot be loaded: ") + dlerror());
  return library;
}

Entry entry_in(void* library, const std::string& path) {
  const std::string expected = entry_of(GDNBENCH_PLUGIN_VERSION);
  if (void* const found = dlsym(library, expected.c_str())) return reinterpret_cast<Entry>(found);
  for (int version = 1; version <= kLatestVersionLookedFor; ++version) {
    if (dlsym(library, entry_of(version).c_str()) == nullptr) continue;
    refuse(path, "has the entry " + entry_of(version) +
                     ", of another version of the interface; expected " + expected);
  }
  refuse(path, "has no entry, expected the function " + expected + "() of gdnbench_plugin.h");
}

const gdnbench_plugin* table_of(Entry entry, const std::string& path) {
  const CallMark mark(PluginCall::load);
  try {
    return entry();
  } catch (const std::exception& error) {
    refuse(path, std::string("its entry threw: ") + error.what());
  } catch (...) {
    refuse(path, "its entry threw something that is no std::exception");
  }
}

void require_of_this_version(const gdnbench_plugin* table, const std::string& path) {
  if (table == nullptr) refuse(path, "its entry returned NULL, expected a table");
  if (table->version != GDNBENCH_PLUGIN_VERSION) {
    refuse(path, "its table says version " + std::to_string(table->version) + ", expected " +
                     std::to_string(GDNBENCH_PLUGIN_VERSION) + ", that of its entry");
  }
  constexpr auto bytes = static_cast<std::int32_t>(sizeof(gdnbench_plugin_implementation));
  if (table->implementation_bytes != bytes) {
    refuse(path, "its table says that an implementation is " +
                     std::to_string(table->implementation_bytes) + " bytes, expected " +
                     std::to_string(bytes) + " of version " + std::to_string(table->version));
  }
  if (table->num_implementations < 1 || table->implementations == nullptr) {
    refuse(path, "its table has no implementations, expected at least one");
  }
}

}  // namespace

std::vector<std::unique_ptr<const PluginImplementation>> load_plugin(const std::string& path) {
  const std::string hash = file_hash(path);
  const gdnbench_plugin* const table = table_of(entry_in(opened(path), path), path);
  require_of_this_version(table, path);
  std::vector<std::unique_ptr<const PluginImplementation>> implementations;
  std::set<std::pair<std::string, std::string>> names;  // and operations
  for (std::int64_t i = 0; i < table->num_implementations; ++i) {
    try {
      auto made = std::make_unique<const PluginImplementation>(table->implementations[i], hash);
      const Description& description = made->description();
      if (!names.emplace(description.name, to_string(description.operation)).second) {
        throw_bad_input(description.name + " is listed twice");
      }
      implementations.push_back(std::move(made));
    } catch (const Error& error) {
      refuse(path, "implementation " + std::to_string(i) + ": " + error.what());
    }
  }
  return implementations;
}

}  // namespace gdn
