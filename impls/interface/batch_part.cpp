#include "interface/batch_part.h"

#include "interface/error.h"

namespace gdn {
namespace {

// [outer, heads, inner] elements of which one head's, or all, are meant.
struct HeadSplit {
  std::int64_t outer = 1;
  std::int64_t heads = 1;
  std::int64_t inner = 1;
};

// Of the dimensions that the batch is not cut along.
HeadSplit split_by_heads(const Operand& operand, const Problem& problem) {
  HeadSplit split;
  bool past_heads = false;
  for (const Dimension& dimension : operand.shape(problem)) {
    if (dimension.cut != Cut::whole) continue;
    if (dimension.counts_heads) {
      split.heads = dimension.size(problem);
      past_heads = true;
    } else {
      (past_heads ? split.inner : split.outer) *= dimension.size(problem);
    }
  }
  return split;
}

// `entries` consecutive entries (tokens, rows of `stride` elements) from `first` on.
Strips of_entries(const HeadSplit& split, std::int64_t head, std::int64_t first,
                  std::int64_t entries, std::int64_t stride) {
  const std::int64_t whole = split.outer * split.heads * split.inner;
  if (head == BatchPart::kEveryHead) {
    if (stride == whole) return {first * stride, 1, entries * whole, entries * whole};
    return {first * stride, entries, whole, stride};
  }
  if (stride != whole && entries > 1) throw_bad_input("heads of several padded rows: not strips");
  return {first * stride + head * split.inner, entries * split.outer, split.inner,
          split.heads * split.inner};
}

}  // namespace

Strips strips_of(const Operand& operand, const Case& batch, const BatchPart& part) {
  const Problem& p = batch.problem;
  const HeadSplit split = split_by_heads(operand, p);
  const std::int64_t elements = split.outer * split.heads * split.inner;
  switch (cut_of(operand, p)) {
    case Cut::tokens:
      return strips_of(operand, batch, part, {0, batch.length(part.sequence)});
    case Cut::pool_rows: {
      const std::int64_t slot = batch.slot(part.sequence);
      if (slot < 0) return {};
      return of_entries(split, part.head, slot, 1, row_stride(operand, p));
    }
    case Cut::sequences:
      return of_entries(split, part.head, part.sequence, 1, elements);
    case Cut::whole:
      break;
  }
  return of_entries(split, part.head, 0, 1, elements);
}

Strips strips_of(const Operand& operand, const Case& batch, const BatchPart& part,
                 const TokenRange& tokens) {
  const Problem& p = batch.problem;
  const HeadSplit split = split_by_heads(operand, p);
  const std::int64_t elements = split.outer * split.heads * split.inner;
  const std::int64_t first = batch.first_token(part.sequence) + tokens.begin;
  if (!tokens_are_fastest(operand, p)) {
    return of_entries(split, part.head, first, tokens.count, elements);
  }
  const std::int64_t total = p.total_tokens();
  if (part.head == BatchPart::kEveryHead) return {first, elements, tokens.count, total};
  if (split.outer > 1) throw_bad_input("heads of an array with tokens fastest: not strips");
  return {part.head * split.inner * total + first, split.inner, tokens.count, total};
}

}  // namespace gdn
