#include "hip/emulator_device.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <thread>

#include "hip/code_objects.h"
#include "hip/emulator/modelled_card.h"
#include "hip/kernel_launcher.h"
#include "hip/quantization.h"
#include "hip/row_copies.h"
#include "interface/error.h"

namespace gdn::hip {
namespace {

constexpr std::int64_t kMemoryBytes = std::int64_t{16} << 30;  // of the card emulated: MI50, 16 GB
constexpr std::int64_t kL2Bytes = std::int64_t{4} << 20;
constexpr std::size_t kAlignment = 256;

/// Of all devices of the process: a listing takes long to read.
const gfx906::CodeObject& loaded_code_object(const std::string& kernel) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<gfx906::CodeObject>> loaded;
  const EmbeddedCodeObject& object = code_object_of(kernel);
  const std::scoped_lock lock(mutex);
  auto& code = loaded[object.name];
  if (!code) code = std::make_unique<gfx906::CodeObject>(object.elf, object.listing());
  return *code;
}

class EmulatorDevice final : public Device, public KernelLauncher {
 public:
  EmulatorDevice(const gfx906::LaunchOptions& options, const gfx906::CardModel& card)
      : options_(options), card_(card) {
    info_.backend = "gfx906-emulator";
    info_.runs = "hip";
    info_.emulated = info_.flush_is_certain = true;
    info_.name = "gfx906 emulator (MI50 model)";
    info_.toolkit_version = code_object_compiler();
    info_.multiprocessors = card.compute_units;
    info_.memory_bytes = kMemoryBytes;
    info_.l2_bytes = kL2Bytes;
    info_.modelled_time = true;
    register_launcher(native_stream(), this);
  }
  ~EmulatorDevice() override { unregister_launcher(native_stream()); }

  const DeviceInfo& info() const override { return info_; }

  DeviceBuffer allocate(std::int64_t bytes) override {
    if (bytes > free_memory_bytes()) {
      throw Error(ErrorKind::out_of_memory, "gfx906-emulator: " + std::to_string(bytes) +
                                                " bytes asked for, " +
                                                std::to_string(free_memory_bytes()) + " free");
    }
    void* data = ::operator new (static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)),
                                 std::align_val_t{kAlignment}, std::nothrow);
    if (data == nullptr) {
      throw Error(ErrorKind::out_of_memory,
                  "gfx906-emulator: the host has no " + std::to_string(bytes) + " bytes");
    }
    buffers_[reinterpret_cast<std::uint64_t>(data)] = bytes;
    used_bytes_ += bytes;
    return DeviceBuffer(this, data, bytes);
  }
  std::int64_t free_memory_bytes() const override { return kMemoryBytes - used_bytes_; }

  void upload(void* destination, const void* source, std::int64_t bytes) override {
    std::memcpy(destination, source, static_cast<std::size_t>(bytes));
  }
  void download(void* destination, const void* source, std::int64_t bytes) override {
    std::memcpy(destination, source, static_cast<std::size_t>(bytes));
  }
  void copy_async(void* destination, const void* source, std::int64_t bytes) override {
    std::memmove(destination, source, static_cast<std::size_t>(bytes));
    if (timing_) card_.transfer(bytes, bytes);
  }
  void fill_async(void* destination, unsigned char byte, std::int64_t bytes) override {
    std::memset(destination, byte, static_cast<std::size_t>(bytes));
    if (timing_) card_.transfer(0, bytes);
  }
  void enqueue_copies(std::span<const StridedCopy> copies, void* stream) override {
    for (const StridedCopy& copy : copies) {
      // A kernel may touch what was allocated here; a caller's own memory is the host's.
      const bool is_ours =
          owns(copy.from) && owns(copy.to) && (!copy.rows || owns(copy.rows.word(0)));
      if (!is_ours || !launch_row_copy(*this, copy)) Device::enqueue_copies({&copy, 1}, stream);
    }
  }
  void enqueue_quantization(const ChannelQuantization& quantization, void* stream) override {
    const bool is_ours =
        owns(quantization.values) && owns(quantization.elements) && owns(quantization.scales);
    if (is_ours) {
      launch_quantization(*this, quantization);
    } else {
      Device::enqueue_quantization(quantization, stream);
    }
  }
  void synchronize() override {}        // launches run at once
  void flush_cache_async() override {}  // every modelled time starts with an empty cache

  TimeSample time_launch(const std::function<void()>& prepare,
                         const std::function<void()>& launch) override {
    if (prepare) prepare();
    card_.clear();
    timing_ = true;
    try {
      launch();
    } catch (...) {
      timing_ = false;
      throw;
    }
    timing_ = false;
    return {card_.total_us() / 1000, card_.model().clock_mhz};
  }
  std::function<void()> capture(const std::function<void()>&) override { return nullptr; }
  void* native_stream() const override { return const_cast<EmulatorDevice*>(this); }
  Ceilings ceilings() override { return {}; }  // nothing is measured here

  void launch(const std::string& kernel, Extent grid, Extent block, const void* arguments,
              std::size_t argument_bytes) override {
    const gfx906::CodeObject& code = loaded_code_object(kernel);
    std::vector<gfx906::MemoryRange> ranges;
    for (const auto& [first, bytes] : buffers_) {
      ranges.push_back({first, first + static_cast<std::uint64_t>(bytes)});
    }
    const gfx906::Extent groups{grid.x, grid.y, grid.z}, items{block.x, block.y, block.z};
    const std::string_view block_of_arguments{static_cast<const char*>(arguments), argument_bytes};
    const gfx906::LaunchResult result =
        timing_
            ? card_.launch(code, kernel, groups, items, block_of_arguments, 0, ranges, options_)
            : gfx906::launch(code, kernel, groups, items, block_of_arguments, 0, ranges, options_);
    if (result.num_faults > 0) {
      throw Error(ErrorKind::device_failure, "gfx906-emulator: " + result.faults.front().text +
                                                 " (the first of " +
                                                 std::to_string(result.num_faults) + " faults)");
    }
    counters_.add(result.counters);
  }

  const gfx906::Counters& counters() const { return counters_; }
  const gfx906::ModelledCard& card() const { return card_; }

 protected:
  void release(void* data) noexcept override {
    const auto buffer = buffers_.find(reinterpret_cast<std::uint64_t>(data));
    used_bytes_ -= buffer->second;
    buffers_.erase(buffer);
    ::operator delete (data, std::align_val_t{kAlignment});
  }

 private:
  bool owns(const void* place) const {
    const auto address = reinterpret_cast<std::uint64_t>(place);
    auto buffer = buffers_.upper_bound(address);
    if (buffer == buffers_.begin()) return false;
    --buffer;
    return address < buffer->first + static_cast<std::uint64_t>(buffer->second);
  }

  gfx906::LaunchOptions options_;
  DeviceInfo info_;
  std::map<std::uint64_t, std::int64_t> buffers_;
  std::int64_t used_bytes_ = 0;
  gfx906::Counters counters_;
  bool timing_ = false;
  gfx906::ModelledCard card_;
};

}  // namespace

BackendStatus emulator_status() {
  return {"gfx906-emulator", true,
          std::string("executes the gfx906 code objects (") + code_object_compiler() +
              ") on the host; times are modelled"};
}

std::unique_ptr<Device> open_emulator(const gfx906::LaunchOptions& options,
                                      const gfx906::CardModel& card) {
  return std::make_unique<EmulatorDevice>(options, card);
}

namespace {

const EmulatorDevice& require_emulator(const Device& device) {
  const auto* emulator = dynamic_cast<const EmulatorDevice*>(&device);
  if (emulator == nullptr) throw_bad_input("device " + device.info().name + ": not the emulator");
  return *emulator;
}

}  // namespace

const gfx906::Counters& emulator_counters(const Device& device) {
  return require_emulator(device).counters();
}

const std::vector<gfx906::ModelledLaunch>& modelled_launches(const Device& device) {
  return require_emulator(device).card().launches();
}

}  // namespace gdn::hip
