// Owning HDF5 identifiers, and HDF5's own words for what went wrong.
#pragma once

#include <hdf5.h>

#include <string>
#include <utility>

namespace gdn {

/// An identifier and the function that closes it. Empty (-1) after a move.
class Hdf5Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Hdf5Handle() = default;
  Hdf5Handle(hid_t id, Close closer) : id_(id), close_(closer) {}
  Hdf5Handle(Hdf5Handle&& other) noexcept { swap(other); }
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept {
    Hdf5Handle taken(std::move(other));
    swap(taken);
    return *this;
  }
  Hdf5Handle(const Hdf5Handle&) = delete;
  Hdf5Handle& operator=(const Hdf5Handle&) = delete;
  ~Hdf5Handle() {
    if (id_ >= 0) close_(id_);
  }

  bool valid() const { return id_ >= 0; }
  hid_t id() const { return id_; }
  /// Closes now; false if HDF5 could not (unwritten data, for a file).
  bool close() {
    const hid_t id = std::exchange(id_, -1);
    return id < 0 || close_(id) >= 0;
  }

 private:
  void swap(Hdf5Handle& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
  }
  hid_t id_ = -1;
  Close close_ = nullptr;
};

/// Keeps HDF5 from printing its error stack while in scope: errors are thrown, not printed.
class Hdf5Quiet {
 public:
  Hdf5Quiet() {
    H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ~Hdf5Quiet() { H5Eset_auto2(H5E_DEFAULT, function_, data_); }
  Hdf5Quiet(const Hdf5Quiet&) = delete;
  Hdf5Quiet& operator=(const Hdf5Quiet&) = delete;

 private:
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
};

/// The innermost entry of HDF5's error stack, as text; empty if there is none.
inline std::string hdf5_error_text() {
  std::string text;
  const auto visit = [](unsigned depth, const H5E_error2_t* entry, void* data) -> herr_t {
    if (depth == 0 && entry->desc != nullptr) *static_cast<std::string*>(data) = entry->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, visit, &text);
  return text;
}

}  // namespace gdn
