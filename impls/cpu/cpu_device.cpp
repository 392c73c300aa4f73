#include "cpu/cpu_device.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <string>

#include "cpu/ceilings.h"
#include "cpu/parallel.h"
#include "interface/error.h"
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace gdn::cpu {
namespace {

constexpr std::int64_t kAlignment = 64;  // a cache line, and the widest vector register
constexpr std::int64_t kNoLimit = INT64_MAX;

/// The first integer of a one-line file such as those of cgroups; `absent` if there is none
/// ("max").
std::int64_t read_integer_file(const char* path, std::int64_t absent) {
  std::ifstream file(path);
  std::int64_t value = 0;
  return file >> value ? value : absent;
}

/// "KEY: value" lines of /proc/meminfo and /proc/cpuinfo; empty if the key is absent.
std::string read_proc_field(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const auto first = line.find_first_not_of(" \t", colon + 1);
    return first == std::string::npos ? "" : line.substr(first);
  }
  return "";
}

std::int64_t installed_memory_bytes() {
  const std::int64_t installed =
      static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  return std::min(installed, read_integer_file("/sys/fs/cgroup/memory.max", kNoLimit));
}

/// Freed memory that the C library keeps for the next allocation. Asked by one thread at a time:
/// where another allocator stands in for the C library's (AddressSanitizer's, a preloaded one), the
/// first question sets up the C library's own, and two threads that do so at once wreck it.
std::int64_t kept_memory_bytes() {
#ifdef __GLIBC_PREREQ
#if __GLIBC_PREREQ(2, 33)
  static std::mutex mutex;
  const std::lock_guard<std::mutex> one_at_a_time(mutex);
  return static_cast<std::int64_t>(mallinfo2().fordblks);
#endif
#endif
  return 0;
}

/// What the kernel can hand out without swapping, within the container's limit if there is one, and
/// what this process holds free already.
std::int64_t available_memory_bytes() {
  const std::string text = read_proc_field("/proc/meminfo", "MemAvailable");
  const std::int64_t available =
      text.empty() ? installed_memory_bytes() : std::strtoll(text.c_str(), nullptr, 10) * 1024;
  const std::int64_t limit = read_integer_file("/sys/fs/cgroup/memory.max", kNoLimit);
  const std::int64_t kept = kept_memory_bytes();
  if (limit == kNoLimit) return available + kept;
  const std::int64_t used = read_integer_file("/sys/fs/cgroup/memory.current", 0);
  return std::clamp<std::int64_t>(limit - used, 0, available) + kept;
}

/// Size of the largest data cache as the system files give it ("32768K"); 0 if unknown.
std::int64_t last_level_cache_bytes() {
  std::int64_t largest = 0;
  for (int index = 0; index < 8; ++index) {
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) +
                       "/size");
    std::int64_t size = 0;
    char unit = 0;
    if (!(file >> size)) continue;
    if (file >> unit) size *= unit == 'K' ? 1024 : unit == 'M' ? 1024 * 1024 : 1;
    largest = std::max(largest, size);
  }
  return largest;
}

std::string compiler_version() {
#if defined(__clang__)
  return std::string("clang ") + __clang_version__;
#elif defined(__GNUC__)
  return std::string("gcc ") + __VERSION__;
#else
  return "";
#endif
}

DeviceInfo make_info() {
  DeviceInfo info;
  info.backend = info.runs = "cpu";
  info.name = read_proc_field("/proc/cpuinfo", "model name");
  if (info.name.empty()) info.name = "CPU";
  info.toolkit_version = compiler_version();
  info.multiprocessors = thread_count();
  info.memory_bytes = installed_memory_bytes();
  info.l2_bytes = last_level_cache_bytes();
  return info;
}

class CpuDevice final : public Device {
 public:
  ~CpuDevice() override {
    if (flush_buffer_ != nullptr) std::free(flush_buffer_);
  }

  const DeviceInfo& info() const override { return info_; }
  std::int64_t free_memory_bytes() const override { return available_memory_bytes(); }

  DeviceBuffer allocate(std::int64_t bytes) override {
    if (bytes < 0) throw_bad_input("allocate: " + std::to_string(bytes) + " bytes");
    // Linux hands out address space it cannot back and kills the process on touching it: ask first.
    const std::int64_t available = available_memory_bytes();
    void* data = nullptr;
    if (bytes <= available) {
      const std::int64_t rounded =
          (std::max<std::int64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
      data = std::aligned_alloc(kAlignment, static_cast<std::size_t>(rounded));
    }
    if (data == nullptr) {
      throw Error(ErrorKind::out_of_memory, "cpu: " + std::to_string(bytes) + " bytes asked for, " +
                                                std::to_string(available) +
                                                " bytes of memory available");
    }
    return DeviceBuffer(this, data, bytes);
  }

  void upload(void* destination, const void* source, std::int64_t bytes) override {
    copy(destination, source, bytes);
  }
  void download(void* destination, const void* source, std::int64_t bytes) override {
    copy(destination, source, bytes);
  }
  void copy_async(void* destination, const void* source, std::int64_t bytes) override {
    copy(destination, source, bytes);
  }
  void fill_async(void* destination, unsigned char byte, std::int64_t bytes) override {
    if (bytes > 0) std::memset(destination, byte, static_cast<std::size_t>(bytes));
  }
  void synchronize() override {}

  void flush_cache_async() override {
    constexpr std::int64_t kUnknownCache = std::int64_t{64} << 20;
    if (flush_buffer_ == nullptr) {
      flush_bytes_ = info_.l2_bytes > 0 ? info_.l2_bytes : kUnknownCache;
      if (flush_bytes_ > available_memory_bytes()) {
        throw Error(ErrorKind::out_of_memory,
                    "cpu: flushing the last-level cache needs " + std::to_string(flush_bytes_) +
                        " bytes, " + std::to_string(available_memory_bytes()) + " available");
      }
      flush_buffer_ = static_cast<unsigned char*>(
          std::aligned_alloc(kAlignment, static_cast<std::size_t>(flush_bytes_)));
      if (flush_buffer_ == nullptr) throw Error(ErrorKind::out_of_memory, "cpu: flush buffer");
    }
    // Every processor writes a part, so that private caches are emptied as well.
    const int workers = thread_count();
    const int value = ++flush_value_ & 0xff;
    parallel_for(workers, workers, [&](std::int64_t part, int) {
      const std::int64_t first = flush_bytes_ * part / workers;
      const std::int64_t last = flush_bytes_ * (part + 1) / workers;
      std::memset(flush_buffer_ + first, value, static_cast<std::size_t>(last - first));
    });
  }

  TimeSample time_launch(const std::function<void()>& prepare,
                         const std::function<void()>& launch) override {
    if (prepare) prepare();
    const auto begin = std::chrono::steady_clock::now();
    launch();
    const auto end = std::chrono::steady_clock::now();
    return {std::chrono::duration<double, std::milli>(end - begin).count(), 0};
  }

  std::function<void()> capture(const std::function<void()>&) override { return nullptr; }
  void* native_stream() const override { return nullptr; }
  Ceilings ceilings() override { return measured_ceilings(info_.l2_bytes, free_memory_bytes()); }

 protected:
  void release(void* data) noexcept override { std::free(data); }

 private:
  static void copy(void* destination, const void* source, std::int64_t bytes) {
    if (bytes > 0) std::memcpy(destination, source, static_cast<std::size_t>(bytes));
  }

  DeviceInfo info_ = make_info();
  unsigned char* flush_buffer_ = nullptr;
  std::int64_t flush_bytes_ = 0;
  int flush_value_ = 0;
};

}  // namespace

BackendStatus status() { return {"cpu", true, make_info().name}; }

std::unique_ptr<Device> open() { return std::make_unique<CpuDevice>(); }

}  // namespace gdn::cpu
