// Problem strings put together: what the operations' lists of problems are made with.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace gdn {

using Texts = std::vector<std::string>;

/// One of `values`, turning with `step` values per problem: combinations differ from problem to
/// problem without the whole product being run.
inline std::string turn(const Texts& values, std::size_t index, std::size_t step) {
  return values[index / step % values.size()];
}

inline void append(Texts& texts, const Texts& more) {
  texts.insert(texts.end(), more.begin(), more.end());
}

}  // namespace gdn
