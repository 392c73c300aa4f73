#include "interface/batch_part.h"

#include "interface/error.h"

namespace gdn {
namespace {

// [outer, heads, inner] elements of which some heads', or all, are meant.
struct HeadSplit {
  std::int64_t outer = 1;
  std::int64_t heads = 1;
  std::int64_t inner = 1;
  Heads kind = Heads::none;

  std::int64_t elements() const { return outer * heads * inner; }
};

// Of the dimensions that the batch is not cut along.
HeadSplit split_by_heads(const Operand& operand, const Problem& problem) {
  HeadSplit split;
  for (const Dimension& dimension : operand.shape(problem)) {
    if (dimension.cut != Cut::whole) continue;
    if (dimension.heads != Heads::none) {
      split.heads = dimension.size(problem);
      split.kind = dimension.heads;
    } else {
      (split.kind != Heads::none ? split.inner : split.outer) *= dimension.size(problem);
    }
  }
  return split;
}

struct HeadRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// The heads of an array that belong to the part; all of them where the array has none.
HeadRange heads_of(const HeadSplit& split, const BatchPart& part, const Problem& problem) {
  if (part.head == BatchPart::kEveryHead || split.kind == Heads::none) return {0, split.heads};
  if (part.of == split.kind) return {part.head, 1};
  const std::int64_t group = problem.value_heads_per_key_head();
  return part.of == Heads::value ? HeadRange{part.head / group, 1}
                                 : HeadRange{part.head * group, group};
}

// `entries` consecutive entries (tokens, rows of `stride` elements) from `first` on.
Strips of_entries(const HeadSplit& split, const HeadRange& heads, std::int64_t first,
                  std::int64_t entries, std::int64_t stride) {
  const std::int64_t whole = split.elements();
  if (heads.count == split.heads) {
    if (stride == whole) return {first * stride, 1, entries * whole, entries * whole};
    return {first * stride, entries, whole, stride};
  }
  if (stride != whole && entries > 1) throw_bad_input("heads of several padded rows: not strips");
  return {first * stride + heads.first * split.inner, entries * split.outer,
          heads.count * split.inner, split.heads * split.inner};
}

}  // namespace

bool writes_row(const Operand& operand, const Case& batch, std::int64_t sequence) {
  if (!is_written(operand, batch.problem) || batch.output_slot(sequence) < 0) return false;
  if (operand.pool.written_by_empty_sequences) return true;
  if (batch.carried_tokens(sequence) == 0) return false;
  const auto elements = operand.pool.elements_written;
  return elements == nullptr || elements(batch, sequence) > 0;
}

namespace {

// Written: of what the call writes, whose row of a pool may be another one than that which it reads.
Strips strips_of(const Operand& operand, const Case& batch, const BatchPart& part, bool written) {
  const Problem& p = batch.problem;
  const HeadSplit split = split_by_heads(operand, p);
  const HeadRange heads = heads_of(split, part, p);
  switch (cut_of(operand, p)) {
    case Cut::tokens:
      return strips_of(operand, batch, part, {0, batch.length(part.sequence)});
    case Cut::pool_rows: {
      const std::int64_t slot =
          written ? batch.output_slot(part.sequence) : batch.slot(part.sequence);
      if (slot < 0) return {};
      return of_entries(split, heads, slot, 1, row_stride(operand, p));
    }
    case Cut::sequences:
      return of_entries(split, heads, part.sequence, 1, split.elements());
    case Cut::whole:
      break;
  }
  return of_entries(split, heads, 0, 1, split.elements());
}

}  // namespace

Strips strips_of(const Operand& operand, const Case& batch, const BatchPart& part) {
  return strips_of(operand, batch, part, false);
}

Strips written_strips_of(const Operand& operand, const Case& batch, const BatchPart& part) {
  return strips_of(operand, batch, part, true);
}

Strips strips_of(const Operand& operand, const Case& batch, const BatchPart& part,
                 const TokenRange& tokens) {
  const Problem& p = batch.problem;
  const HeadSplit split = split_by_heads(operand, p);
  const HeadRange heads = heads_of(split, part, p);
  const std::int64_t first = batch.first_token(part.sequence) + tokens.begin;
  if (!tokens_are_fastest(operand, p)) {
    return of_entries(split, heads, first, tokens.count, split.elements());
  }
  const std::int64_t total = p.total_tokens();
  if (heads.count == split.heads) return {first, split.elements(), tokens.count, total};
  if (split.outer > 1) throw_bad_input("heads of an array with tokens fastest: not strips");
  return {heads.first * split.inner * total + first, heads.count * split.inner, tokens.count,
          total};
}

}  // namespace gdn
