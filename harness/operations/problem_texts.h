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

/// The values of a grid's fields; the types, gates and encodings are those of every grid of the
/// recurrence.
struct RecurrenceGrid {
  Texts lengths, dims, heads, options;
  Texts dtypes = {"f32", "bf16", "f16"};
  Texts gates = {"mid", "real", "weak", "strong", "near_one", "none", "reset", "tiny"};
  Texts encodings = {"", ",gate=decay", ",gate=neg_log_decay", ",gate=logits",
                     ",gate=logits,beta=logit"};
};

/// Every length, head size and dtype; heads, options, encodings and gates turn with them.
inline Texts texts_of(const std::string& operation, const RecurrenceGrid& grid) {
  Texts texts;
  for (const std::string& length : grid.lengths) {
    for (const std::string& dim : grid.dims) {
      for (const std::string& dtype : grid.dtypes) {
        const std::size_t i = texts.size();
        texts.push_back(operation + ":heads=" + turn(grid.heads, i, 1) + ",dim=" + dim +
                        ",seq=" + length + ",dtype=" + dtype + ",gates=" + turn(grid.gates, i, 3) +
                        turn(grid.options, i, 1) + turn(grid.encodings, i, 2) +
                        ",seed=" + std::to_string(i + 1));
      }
    }
  }
  return texts;
}

inline void append(Texts& texts, const Texts& more) {
  texts.insert(texts.end(), more.begin(), more.end());
}

}  // namespace gdn
