// gdnbench info: this build and this machine.
#include <fmt/format.h>

#include "harness/cli/command.h"
#include "harness/files/json.h"
#include "harness/rows/build_info.h"
#include "interface/device.h"

namespace gdn::cli {
namespace {

class Info : public Command {
 public:
  std::string name() const override { return "info"; }
  std::string help() const override { return "this build, the backends and devices it can use"; }
  std::string example() const override { return "gdnbench info --ceilings"; }
  void add_options(CLI::App& app) override {
    app.add_flag("--ceilings", ceilings_, "measure copy bandwidth and arithmetic rates");
    app.add_flag("--json", json_, "machine-readable output");
  }

  int run() override {
    if (!json_) {
      fmt::print("gdnbench {}, sources {}, commit {}\n", library_version(), source_hash(),
                 source_commit().empty() ? "not known" : source_commit());
    }
    std::string devices;
    for (const Backend& backend : backends()) {
      const BackendStatus status = backend.status();
      if (!json_ && !status.available) {
        fmt::print("{:<16} absent: {}\n", status.backend, status.detail);
      }
      std::vector<std::pair<std::string, std::string>> members = {
          {"backend", json_string(status.backend)},
          {"available", status.available ? "true" : "false"},
          {"detail", json_string(status.detail)}};
      if (status.available) {
        const auto device = open_device(status.backend);
        describe(*device, members);
      }
      devices += (devices.empty() ? "" : ",\n  ") + json_object(members);
    }
    if (json_) {
      fmt::print("{}\n", json_object({{"version", json_string(library_version())},
                                      {"sources", json_string(source_hash())},
                                      {"commit", json_string(source_commit())},
                                      {"backends", "[\n  " + devices + "]"}}));
    }
    return 0;
  }

 private:
  void describe(Device& device, std::vector<std::pair<std::string, std::string>>& members) const {
    const DeviceInfo& info = device.info();
    const double gib = 1024.0 * 1024.0 * 1024.0;
    if (!json_) {
      fmt::print("{:<16} {}\n", info.backend, info.name);
      const std::string cache =
          info.l2_bytes == 0 ? "last-level cache of unknown size"
                             : fmt::format("{:.1f} MiB last-level cache",
                                           static_cast<double>(info.l2_bytes) / (1024.0 * 1024.0));
      fmt::print("{:<16} {} {}, {:.1f} GiB memory, {}\n", "", info.multiprocessors,
                 info.has_own_memory || info.emulated ? "multiprocessors" : "threads",
                 static_cast<double>(info.memory_bytes) / gib, cache);
      if (!info.driver_version.empty()) {
        fmt::print("{:<16} driver {}, toolkit {}\n", "", info.driver_version, info.toolkit_version);
      }
      if (!info.has_time) {
        fmt::print("{:<16} has no clock: it checks results\n", "");
      } else if (info.modelled_time) {
        fmt::print("{:<16} times are modelled, not measured\n", "");
      }
    }
    members.insert(members.end(), {{"device", json_string(info.name)},
                                   {"driver", json_string(info.driver_version)},
                                   {"toolkit", json_string(info.toolkit_version)},
                                   {"multiprocessors", std::to_string(info.multiprocessors)},
                                   {"memory_bytes", std::to_string(info.memory_bytes)},
                                   {"l2_bytes", std::to_string(info.l2_bytes)}});
    if (!ceilings_) return;
    const Device::Ceilings c = device.ceilings();
    if (!json_) {
      fmt::print("{:<16} copy {:.3f} TB/s, matrix {:.1f} TFLOP/s, float32 {:.2f} TFLOP/s\n", "",
                 c.copy_tb_per_s, c.matrix_tflops, c.float32_tflops);
    }
    members.insert(members.end(), {{"copy_tb_per_s", json_number(c.copy_tb_per_s)},
                                   {"matrix_tflops", json_number(c.matrix_tflops)},
                                   {"float32_tflops", json_number(c.float32_tflops)}});
  }

  bool ceilings_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_info() { return std::make_unique<Info>(); }

}  // namespace gdn::cli
