#include "harness/files/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <vector>

namespace gdn {
namespace {

std::error_code last_error() { return {errno, std::generic_category()}; }

// The file that a symbolic link stands for: the link itself stays what it is.
std::string behind_links(const std::string& path) {
  std::error_code absent;
  if (!std::filesystem::is_symlink(path, absent)) return path;
  const std::filesystem::path file = std::filesystem::canonical(path, absent);
  return absent ? path : file.string();
}

std::error_code write_all(int descriptor, const void* content, std::size_t bytes) {
  const char* next = static_cast<const char*>(content);
  while (bytes > 0) {
    const ssize_t step = write(descriptor, next, bytes);
    if (step > 0) {
      next += step;
      bytes -= static_cast<std::size_t>(step);
    } else if (step == 0) {
      return std::make_error_code(std::errc::no_space_on_device);
    } else if (errno != EINTR) {
      return last_error();
    }
  }
  return {};
}

std::error_code write_to(const std::string& path, int flags, const void* content,
                         std::size_t bytes) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666);
  if (descriptor < 0) return last_error();
  std::error_code failure = write_all(descriptor, content, bytes);
  if (close(descriptor) != 0 && !failure) failure = last_error();
  return failure;
}

// Some file systems meet a full disk only here.
std::error_code wait_until_on_disk(const std::string& path) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) return last_error();
  std::error_code failure;
  if (fsync(descriptor) != 0 && errno != EINVAL) failure = last_error();
  if (close(descriptor) != 0 && !failure) failure = last_error();
  return failure;
}

bool is_stream(const std::string& path) {
  std::error_code absent;
  const auto status = std::filesystem::status(path, absent);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
         !std::filesystem::is_directory(status);
}

}  // namespace

std::string why_not_replaceable(const std::string& path) {
  std::error_code absent;
  const auto status = std::filesystem::status(path, absent);
  if (!std::filesystem::exists(status)) return "";
  if (!std::filesystem::is_regular_file(status)) return "not a regular file";
  // A rename would succeed, and take the place of a file that somebody protects.
  if (access(path.c_str(), W_OK) != 0) return "cannot be written: " + last_error().message();
  return "";
}

WholeFile::WholeFile(const std::string& path)
    : target_(behind_links(path)), partial_(target_ + ".partial." + std::to_string(getpid())) {}

WholeFile::~WholeFile() {
  if (!in_place_) unlink(partial_.c_str());
}

std::error_code WholeFile::copy_earlier() {
  // std::filesystem::copy_file would do, but calls a full disk an input/output error.
  const int source = open(target_.c_str(), O_RDONLY | O_CLOEXEC);
  if (source < 0) return last_error();
  std::vector<char> piece(std::size_t{1} << 20);
  std::error_code failure = write_to(partial_, O_CREAT | O_TRUNC, nullptr, 0);
  while (!failure) {
    const ssize_t bytes = read(source, piece.data(), piece.size());
    if (bytes == 0) break;
    if (bytes > 0) {
      failure = write_to(partial_, O_APPEND, piece.data(), static_cast<std::size_t>(bytes));
    } else if (errno != EINTR) {
      failure = last_error();
    }
  }
  close(source);
  return failure;
}

std::error_code WholeFile::put_in_place() {
  if (const std::error_code failure = wait_until_on_disk(partial_)) return failure;
  struct stat earlier {};
  if (stat(target_.c_str(), &earlier) == 0 &&
      chmod(partial_.c_str(), earlier.st_mode & 07777) != 0) {
    return last_error();
  }
  if (std::rename(partial_.c_str(), target_.c_str()) != 0) return last_error();
  in_place_ = true;
  return {};
}

std::error_code write_whole_file(const std::string& path, const void* content, std::size_t bytes) {
  if (is_stream(path)) return write_to(path, 0, content, bytes);
  WholeFile file(path);
  if (const auto failure = write_to(file.partial(), O_CREAT | O_TRUNC, content, bytes)) {
    return failure;
  }
  return file.put_in_place();
}

}  // namespace gdn
