// What is asked of a process that hosts a plug-in, and how it answers.
//
//     open              path of the file, PluginSettings -> the implementations (put_described)
//     supports          which, problem                   -> whether, the reason
//     workspace_bytes   which, problem                   -> bytes
//     verify            which, problem, VerifyOptions    -> coverage, the result
//     row               which, problem, SweepOptions     -> the row and its samples
//
// Every answer begins with an Answered; after `error` come its kind and its line.
#pragma once

#include <string>
#include <vector>

#include "harness/plugin/message.h"
#include "interface/implementation.h"

namespace gdn {

enum class Request { open, supports, workspace_bytes, verify, row };
enum class Answered { result, error };

/// The descriptors that the process is started with.
inline constexpr int kSocketOfHost = 3;
inline constexpr int kCallPageOfHost = 4;  ///< of shared memory that holds a CallPage
/// What the program is started with, in the place of a command.
inline constexpr const char* kHostCommand = "host-of-a-plugin";

struct PluginSettings {
  std::string device = "best";
  bool exact_buffers = false;  ///< use_exact_buffers()
  double limit_s = 60;         ///< that a call of the plug-in, or the device behind it, may take
};

/// What a description of a plug-in's says (plugin/plugin_implementation.h).
void put_described(Message& message, const Description& description);
Description get_described(Message& message);

}  // namespace gdn
