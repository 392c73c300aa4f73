#include "harness/cli/result_lines.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "harness/files/json.h"
#include "interface/enum_names.h"
#include "interface/error.h"

namespace gdn::cli {
namespace {

// Takes `"NAME": "` and the text up to the next quotation mark off the front of `line`. Names of problems and
// implementations have nothing in them that JSON escapes.
std::optional<std::string> take_member(std::string& line, const std::string& before) {
  if (line.compare(0, before.size(), before) != 0) return std::nullopt;
  const std::size_t end = line.find('"', before.size());
  if (end == std::string::npos) return std::nullopt;
  std::string value = line.substr(before.size(), end - before.size());
  line.erase(0, end + 1);
  return value;
}

std::optional<Verdict> verdict_of(const std::string& name) {
  for (const auto& [known, verdict] : names_of<Verdict>()) {
    if (name == known) return verdict;
  }
  return std::nullopt;
}

}  // namespace

ResultLinesFile::ResultLinesFile(const std::string& path, const std::string& head) : path_(path) {
  descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0) refuse(std::strerror(errno));
  try {
    if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      refuse("is being written by another process; wait for it, or name another file");
    }
    std::string text = content();
    // A file that was cut before its head was whole begins anew, but nobody's file of something else does.
    const std::string start = head + "\n";
    if (text.size() < start.size() && start.compare(0, text.size(), text) == 0) {
      if (ftruncate(descriptor_, 0) != 0) refuse(std::strerror(errno));
      append(start);
      return;
    }
    if (text.compare(0, start.size(), start) != 0) {
      refuse("was begun by another run (" + text.substr(0, text.find('\n')) + "), expected " +
             head + "; remove it, or name another file");
    }
    const std::size_t whole = text.rfind('\n') + 1;
    if (whole < text.size() && ftruncate(descriptor_, static_cast<off_t>(whole)) != 0) {
      refuse(std::strerror(errno));
    }
    read_earlier(text.substr(start.size(), whole - start.size()));
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

ResultLinesFile::~ResultLinesFile() { close(descriptor_); }

void ResultLinesFile::refuse(const std::string& reason) const {
  throw_bad_input("--out '" + path_ + "': " + reason);
}

void ResultLinesFile::add(const std::string& line) { append(line + "\n"); }

void ResultLinesFile::append(const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = write(descriptor_, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) refuse(std::strerror(errno));
    done += static_cast<std::size_t>(written);
  }
}

std::string ResultLinesFile::content() const {
  std::string text;
  std::array<char, 65536> part{};
  for (;;) {
    const ssize_t bytes =
        pread(descriptor_, part.data(), part.size(), static_cast<off_t>(text.size()));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) refuse(std::strerror(errno));
    if (bytes == 0) return text;
    text.append(part.data(), static_cast<std::size_t>(bytes));
  }
}

void ResultLinesFile::read_earlier(const std::string& lines) {
  std::size_t number = 2;  // of the line in the file
  for (std::size_t begin = 0; begin < lines.size(); ++number) {
    const std::size_t end = lines.find('\n', begin);
    std::string line = lines.substr(begin, end - begin);
    begin = end + 1;
    const auto problem = take_member(line, "{\"problem\": \"");
    const auto implementation = take_member(line, ", \"implementation\": \"");
    const auto word = take_member(line, ", \"verdict\": \"");
    const auto verdict = word ? verdict_of(*word) : std::nullopt;
    if (!problem || !implementation || !verdict) {
      refuse("line " + std::to_string(number) + " is no result of verify --json-lines");
    }
    // Within a string the quotation marks would be escaped.
    const bool gone = line.find(", " + json_string(kLimitsGone) + ": [") != std::string::npos;
    if (!earlier_.emplace(Key{*problem, *implementation}, Earlier{*verdict, gone}).second) {
      refuse("has " + *implementation + " on " + *problem + " twice");
    }
  }
}

}  // namespace gdn::cli
