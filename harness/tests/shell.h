// Runs a command as a user would, for tests of the built binary.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace gdn {

struct Finished {
  int code = -1;     ///< exit code; -1: ended by a signal
  std::string text;  ///< stdout and stderr
};

inline Finished shell(const std::string& command) {
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("could not start: " + command);
  Finished finished;
  std::array<char, 4096> buffer{};
  while (fgets(buffer.data(), static_cast<int>(buffer.size()), pipe) != nullptr) {
    finished.text += buffer.data();
  }
  const int status = pclose(pipe);
  finished.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return finished;
}

}  // namespace gdn
