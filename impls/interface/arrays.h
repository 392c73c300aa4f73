// Arrays of one element type by operand name: the inputs of a case, the outputs of a run, the
// reference's results.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "interface/error.h"

namespace gdn {

template <typename Scalar>
class Arrays {
 public:
  using Array = std::vector<Scalar>;

  /// The array of that name; an empty one is made where there is none.
  Array& operator[](std::string_view name) & {
    for (auto& [key, array] : arrays_) {
      if (key == name) return array;
    }
    arrays_.emplace_back(std::string(name), Array());
    return arrays_.back().second;
  }
  /// Throws Error(bad_input) naming the array that is not there.
  const Array& operator[](std::string_view name) const& {
    const Array* array = find(name);
    if (array == nullptr) throw_bad_input(std::string(name) + ": no such array is there");
    return *array;
  }
  /// Of a temporary the array itself, which outlives it; throws as well.
  Array operator[](std::string_view name) && { return std::as_const(*this)[name]; }
  const Array* find(std::string_view name) const {
    for (const auto& [key, array] : arrays_) {
      if (key == name) return &array;
    }
    return nullptr;
  }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  void erase(std::string_view name) {
    std::erase_if(arrays_, [&](const auto& entry) { return entry.first == name; });
  }
  bool empty() const { return arrays_.empty(); }

  auto begin() const { return arrays_.begin(); }
  auto end() const { return arrays_.end(); }
  auto begin() { return arrays_.begin(); }
  auto end() { return arrays_.end(); }

 private:
  std::vector<std::pair<std::string, Array>> arrays_;  // few: looked through in order
};

}  // namespace gdn
