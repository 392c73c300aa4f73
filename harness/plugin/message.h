// What two processes of this very program tell each other, as bytes.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

namespace gdn {

/// Written at its end, read from its beginning. Reading what is not there throws Error(device_failure): a
/// plug-in may have broken the process that wrote it.
class Message {
 public:
  Message() = default;
  explicit Message(std::string bytes) : bytes_(std::move(bytes)) {}
  const std::string& bytes() const { return bytes_; }

  /// A value without pointers, as it lies in memory: the reader is the same program.
  template <typename T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put_text(const std::string& text);
  template <typename T>
  void put_list(const std::vector<T>& values) {
    put(values.size());
    for (const T& value : values) put(value);
  }

  template <typename T>
  T get() {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>);
    T value;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }
  std::string get_text();
  /// Of what follows: values of at least one byte each.
  std::size_t get_count();
  template <typename T>
  std::vector<T> get_list() {
    std::vector<T> values;
    for (std::size_t left = get_count(); left > 0; --left) values.push_back(get<T>());
    return values;
  }

 private:
  const char* take(std::size_t bytes);

  std::string bytes_;
  std::size_t at_ = 0;
};

/// Through a socket, whole. False where the other process is gone.
bool send_message(int socket, const Message& message);
/// Waits for it.
bool receive_message(int socket, Message& message);

}  // namespace gdn
