// What references of gradients are made of: sums beside the size of what they sum, which errors are
// judged by (Judging::by_terms).
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "interface/arrays.h"

namespace gdn::reference {

/// A sum of products, and the sum of their squares.
template <typename Scalar>
struct Sum {
  Scalar value = 0;
  Scalar squares = 0;
  Scalar terms() const { return std::sqrt(value * value + squares); }
  Sum scaled(Scalar factor) const { return {value * factor, squares * factor * factor}; }
  void add(Scalar factor, const Sum& of) {
    const Scalar product = factor * of.value;
    value += product;
    squares += product * product + factor * factor * of.squares;
  }
};

/// An output of gradients and, element by element, its terms.
template <typename Scalar>
struct Gradient {
  std::vector<Scalar> values, terms;

  void assign(std::int64_t count, Scalar value) {
    values.assign(static_cast<std::size_t>(count), value);
    terms.assign(static_cast<std::size_t>(count), value);
  }
  void store(std::int64_t at, const Sum<Scalar>& sum) {
    values[static_cast<std::size_t>(at)] = sum.value;
    terms[static_cast<std::size_t>(at)] = sum.terms();
  }
  /// Moves both to `name` and `name`_terms.
  void put(const std::string& name, Arrays<Scalar>& result) {
    result[name] = std::move(values);
    result[name + "_terms"] = std::move(terms);
  }
};

}  // namespace gdn::reference
