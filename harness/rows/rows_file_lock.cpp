#include "harness/rows/rows_file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "interface/error.h"

namespace gdn {
namespace {

// "process 4711 on host node3"
std::string this_process() {
  std::array<char, 256> host{};
  const bool known = gethostname(host.data(), host.size() - 1) == 0 && host[0] != '\0';
  return "process " + std::to_string(getpid()) +
         (known ? " on host " + std::string(host.data()) : "");
}

std::string holder_in(int descriptor) {
  std::array<char, 512> text{};
  const ssize_t bytes = pread(descriptor, text.data(), text.size(), 0);
  // Empty for a moment after the lock was taken, or for good on a full disk.
  return bytes > 0 ? std::string(text.data(), static_cast<std::size_t>(bytes)) : "another process";
}

// A holder removes the file before it gives the lock back: who waited for that one holds nothing.
bool is_still_there(int descriptor, const std::string& path) {
  struct stat held {};
  struct stat named {};
  return fstat(descriptor, &held) == 0 && stat(path.c_str(), &named) == 0 &&
         held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

// Two names of one file have one lock.
std::string lock_path(const std::string& rows_path) {
  std::error_code absent;
  const auto file = std::filesystem::canonical(rows_path, absent);
  return (absent ? rows_path : file.string()) + ".lock";
}

}  // namespace

RowsFileLock::RowsFileLock(const std::string& rows_path) : path_(lock_path(rows_path)) {
  const std::string file = "rows file '" + rows_path + "': ";
  for (;;) {
    descriptor_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor_ < 0) {
      throw_bad_input(file + "cannot be locked by '" + path_ + "': " + std::strerror(errno));
    }
    if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return;  // no locks here
      const std::string holder = holder_in(descriptor_);
      close(descriptor_);
      throw_bad_input(file + "is being written by " + holder +
                      "; wait for it, or name another file and join both by sweep --merge");
    }
    if (is_still_there(descriptor_, path_)) break;
    close(descriptor_);
  }
  // What a killed process left is longer or shorter. A full disk keeps the name, not the lock, away.
  const std::string holder = this_process();
  const bool named =
      ftruncate(descriptor_, 0) == 0 && pwrite(descriptor_, holder.data(), holder.size(), 0) >= 0;
  static_cast<void>(named);
}

RowsFileLock::~RowsFileLock() {
  unlink(path_.c_str());
  close(descriptor_);
}

}  // namespace gdn
