#include "plugin/call_mark.h"

namespace gdn {
namespace {

CallPage g_unwatched;
CallPage* g_page = &g_unwatched;

// Two stores in the order of the reader's loads: a mark costs a timed run nanoseconds.
PluginCall exchange(PluginCall call) {
  const PluginCall before = g_page->call.exchange(call, std::memory_order_relaxed);
  g_page->changes.fetch_add(1, std::memory_order_release);
  return before;
}

}  // namespace

const char* to_string(PluginCall call) {
  switch (call) {
    case PluginCall::none:
      return "";
    case PluginCall::load:
      return "loading";
    case PluginCall::supports:
      return "supports()";
    case PluginCall::workspace_bytes:
      return "workspace_bytes()";
    case PluginCall::enqueue:
      return "enqueue()";
    case PluginCall::wait:
      return "the wait for what enqueue() left on the device";
  }
  return "";
}

void mark_calls_in(CallPage& page) { g_page = &page; }

CallMark::CallMark(PluginCall call) : before_(exchange(call)) {}
CallMark::~CallMark() { exchange(before_); }

}  // namespace gdn
