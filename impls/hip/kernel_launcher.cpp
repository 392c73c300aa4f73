#include "hip/kernel_launcher.h"

#include <map>
#include <mutex>

#include "interface/error.h"

namespace gdn::hip {
namespace {

// Never destroyed: devices held in statics elsewhere unregister when the process ends.
std::mutex& registry_mutex() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}
std::map<void*, KernelLauncher*>& registry() {
  static auto& launchers = *new std::map<void*, KernelLauncher*>;
  return launchers;
}

}  // namespace

void register_launcher(void* native_stream, KernelLauncher* launcher) {
  const std::scoped_lock lock(registry_mutex());
  registry()[native_stream] = launcher;
}

void unregister_launcher(void* native_stream) {
  const std::scoped_lock lock(registry_mutex());
  registry().erase(native_stream);
}

KernelLauncher& launcher_of(const Device& device) {
  const std::scoped_lock lock(registry_mutex());
  const auto found = registry().find(device.native_stream());
  if (found == registry().end()) {
    throw_bad_input("device " + device.info().name +
                    ": not a HIP device or the gfx906 emulator, which this implementation needs");
  }
  return *found->second;
}

LaunchPlan::LaunchPlan(Device& device, PlanInfo info, std::vector<DeviceBuffer> workspaces,
                       std::vector<Enqueue> phases)
    : launcher_(launcher_of(device)),
      info_(std::move(info)),
      workspaces_(std::move(workspaces)),
      phases_(std::move(phases)) {
  info_.workspace_bytes = 0;
  for (const DeviceBuffer& workspace : workspaces_) {
    info_.workspace_bytes += workspace.bytes();
    device.fill_async(workspace.data(), 0xff, workspace.bytes());
  }
}

void require_runnable(const Implementation& implementation, const Problem& problem,
                      const Device& device) {
  require_supported(implementation, problem);
  const Support support = runs_on(implementation, device.info());
  if (!support) throw Error(ErrorKind::unsupported, support.reason);
}

}  // namespace gdn::hip
