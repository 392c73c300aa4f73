#include "harness/plugin/message.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstdint>

#include "interface/error.h"

namespace gdn {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 32;  // more is no message of ours

bool send_all(int socket, const char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t sent = send(socket, data, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    data += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int socket, char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = recv(socket, data, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    data += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace

void Message::put_text(const std::string& text) {
  put(text.size());
  bytes_ += text;
}

const char* Message::take(std::size_t bytes) {
  if (bytes > bytes_.size() - at_) {
    throw Error(ErrorKind::device_failure, "the process answered with something that is no answer");
  }
  const char* const data = bytes_.data() + at_;
  at_ += bytes;
  return data;
}

std::size_t Message::get_count() {
  const auto count = get<std::size_t>();
  take(count);  // a count of more than what is left cannot be
  at_ -= count;
  return count;
}

std::string Message::get_text() {
  const auto bytes = get<std::size_t>();
  const char* const data = take(bytes);
  return {data, bytes};
}

bool send_message(int socket, const Message& message) {
  const std::uint64_t bytes = message.bytes().size();
  return send_all(socket, reinterpret_cast<const char*>(&bytes), sizeof bytes) &&
         send_all(socket, message.bytes().data(), message.bytes().size());
}

bool receive_message(int socket, Message& message) {
  std::uint64_t bytes = 0;
  if (!receive_all(socket, reinterpret_cast<char*>(&bytes), sizeof bytes)) return false;
  if (bytes > kMostBytes) return false;
  std::string data(bytes, '\0');
  if (!receive_all(socket, data.data(), data.size())) return false;
  message = Message(std::move(data));
  return true;
}

}  // namespace gdn
