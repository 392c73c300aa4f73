// What of a plug-in this process is in: the mark that another process reads, which waits for this one,
// when nothing comes any more, or when it has ended.
#pragma once

#include <atomic>
#include <cstdint>

namespace gdn {

/// Where a process may hang, or be ended, through a plug-in's fault.
enum class PluginCall : std::int32_t {
  none,  ///< in code of this project
  load,
  supports,
  workspace_bytes,
  enqueue,
  wait,  ///< for what was enqueued on the device
};
/// "enqueue"; "" for none.
const char* to_string(PluginCall call);

/// In memory that both processes see.
struct CallPage {
  std::atomic<std::uint64_t> changes{0};
  std::atomic<PluginCall> call{PluginCall::none};
};

/// Marks are written there from now on. Without a page, in a process of its own that nobody watches, they
/// go nowhere.
void mark_calls_in(CallPage& page);

/// The process is in this call as long as the object lives, and in the one before it afterwards.
class CallMark {
 public:
  explicit CallMark(PluginCall call);
  ~CallMark();
  CallMark(const CallMark&) = delete;
  CallMark& operator=(const CallMark&) = delete;

 private:
  PluginCall before_;
};

}  // namespace gdn
