// The one exception type of the library. Nothing below the command line prints or exits; it throws
// gdn::Error, whose message is one line that names the thing and what was expected.
#pragma once

#include <stdexcept>
#include <string>

namespace gdn {

enum class ErrorKind {
  bad_input,           ///< a value, flag, file or shape the caller can correct
  unsupported,         ///< a valid problem this implementation does not do; the message says why
  device_unavailable,  ///< the device or backend asked for is not in this build or on this machine
  out_of_memory,       ///< the device (or host) has less memory than the problem needs
  device_failure,      ///< a CUDA/HIP call or kernel failed
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

/// The documented process exit code of an error: 2 for bad_input, unsupported and out_of_memory,
/// 3 for device_unavailable, 1 for device_failure (a check that could not pass).
int exit_code(ErrorKind kind);

[[noreturn]] inline void throw_bad_input(const std::string& message) {
  throw Error(ErrorKind::bad_input, message);
}

}  // namespace gdn
