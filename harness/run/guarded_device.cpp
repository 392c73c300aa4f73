#include "harness/run/guarded_device.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "interface/error.h"

namespace gdn {
namespace {

constexpr std::int64_t kGuardBytes = 4096;
constexpr std::uint16_t kGuardWord = 0x7FFF;
std::atomic<bool> exact_buffers{false};

std::vector<std::uint16_t> guard_pattern(std::int64_t bytes) {
  return std::vector<std::uint16_t>(static_cast<std::size_t>((bytes + 1) / 2), kGuardWord);
}

}  // namespace

void use_exact_buffers(bool exact) { exact_buffers = exact; }

GuardedBuffer::GuardedBuffer(Device& device, std::int64_t payload_bytes)
    : bytes_(payload_bytes), guard_bytes_(exact_buffers ? 0 : kGuardBytes) {
  if (guard_bytes_ == 0) {
    memory_ = device.allocate(bytes_);
    return;
  }
  memory_ = device.allocate((bytes_ + 1) / 2 * 2 + 2 * kGuardBytes);
  const auto pattern = guard_pattern(kGuardBytes);
  device.upload(memory_.data(), pattern.data(), kGuardBytes);
  const std::int64_t behind = memory_.bytes() - kGuardBytes - bytes_;
  const auto last = guard_pattern(behind);
  device.upload(payload<char>() + bytes_, last.data(), behind);
}

void* GuardedBuffer::data() const { return memory_.as<char>() + guard_bytes_; }

void GuardedBuffer::check(Device& device, const std::string& name) const {
  if (guard_bytes_ == 0) return;
  const std::int64_t behind = memory_.bytes() - kGuardBytes - bytes_;
  const std::int64_t most = std::max(behind, kGuardBytes);
  const auto pattern = guard_pattern(most);
  const auto* expected = reinterpret_cast<const char*>(pattern.data());
  std::vector<char> seen(static_cast<std::size_t>(most));
  for (const bool before : {true, false}) {
    const std::int64_t count = before ? kGuardBytes : behind;
    const std::int64_t start = before ? -kGuardBytes : bytes_;
    device.download(seen.data(), payload<char>() + start, count);
    const auto at = std::mismatch(seen.begin(), seen.begin() + count, expected).first;
    if (at == seen.begin() + count) continue;
    const std::int64_t offset = start + (at - seen.begin());
    throw Error(ErrorKind::device_failure,
                "write out of bounds: " + std::to_string(before ? -offset : offset - bytes_ + 1) +
                    " bytes " + (before ? "before the start" : "past the end") + " of '" + name +
                    "' (" + std::to_string(bytes_) + " bytes)");
  }
}

void GuardedDevice::refuse_while_running(const std::string& what) const {
  if (!running_) return;
  throw Error(ErrorKind::device_failure, "the plan's run " + what + "; a run only enqueues");
}

void GuardedDevice::enqueue_only(const std::function<void()>& body) {
  struct Running {
    explicit Running(bool& running) : flag(running) { flag = true; }
    ~Running() { flag = false; }
    bool& flag;
  };
  freed_while_running_ = false;
  {
    const Running running(running_);
    body();
  }
  if (freed_while_running_) {
    throw Error(ErrorKind::device_failure, "the plan's run freed memory; a run only enqueues");
  }
}

void GuardedDevice::upload(void* destination, const void* source, std::int64_t bytes) {
  refuse_while_running("copied " + std::to_string(bytes) + " bytes from the host");
  inner_.upload(destination, source, bytes);
}

void GuardedDevice::download(void* destination, const void* source, std::int64_t bytes) {
  refuse_while_running("copied " + std::to_string(bytes) + " bytes to the host");
  inner_.download(destination, source, bytes);
}

std::uint64_t GuardedDevice::fingerprint(const void* data, std::int64_t bytes) {
  refuse_while_running("waited for the device");
  return inner_.fingerprint(data, bytes);
}

void GuardedDevice::synchronize() {
  refuse_while_running("waited for the device");
  inner_.synchronize();
}

void GuardedDevice::release(void* data) noexcept {
  freed_while_running_ = freed_while_running_ || running_;
  buffers_.erase(data);
}

DeviceBuffer GuardedDevice::allocate(std::int64_t bytes) {
  refuse_while_running("allocated " + std::to_string(bytes) + " bytes");
  GuardedBuffer buffer(inner_, bytes);
  void* data = buffer.data();
  inner_.fill_async(data, kPoisonByte, bytes);
  buffers_.emplace(data, std::move(buffer));
  return DeviceBuffer(this, data, bytes);
}

void GuardedDevice::check_guards() {
  for (const auto& [data, buffer] : buffers_) buffer.check(inner_, "workspace");
}

}  // namespace gdn
