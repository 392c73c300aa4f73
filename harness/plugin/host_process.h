// The other end of host.h: a process of this program that hosts one plug-in, started when it is first asked
// for something and again after it has ended.
#pragma once

#include <sys/types.h>

#include <mutex>
#include <string>
#include <vector>

#include "harness/plugin/requests.h"
#include "plugin/call_mark.h"

namespace gdn {

class HostProcess {
 public:
  HostProcess(std::string path, PluginSettings settings);
  ~HostProcess();
  HostProcess(const HostProcess&) = delete;
  HostProcess& operator=(const HostProcess&) = delete;

  /// What the file exports. Throws as ask().
  std::vector<Description> describe();
  /// The answer behind its Answered. Throws the Error that the process answered with; Error(device_failure)
  /// where it ended (in which call of the plug-in, and how), or where a call took longer than the limit and
  /// the process was ended. After kMostHangs such calls nothing is asked any more.
  Message ask(const Message& request);
  /// Ends the process: what is asked next is asked of another one. After a failure, which may have left
  /// memory or device in no state for others.
  void restart();

 private:
  static constexpr int kMostHangs = 3;

  void start();
  Message open();
  Message exchange(const Message& request);
  /// True once an answer, or the end of the process, can be received; false at the limit.
  bool wait_for_answer() const;
  [[noreturn]] void throw_ended();
  [[noreturn]] void throw_hung();
  void end();

  std::string path_;
  PluginSettings settings_;
  std::mutex mutex_;
  pid_t process_ = 0;  ///< 0: none
  int socket_ = -1;
  CallPage* page_ = nullptr;
  int hangs_ = 0;
};

}  // namespace gdn
