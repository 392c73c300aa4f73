// Arguments: the arrays of a call, by operand name, as pointers on the plan's device. Row-major,
// shapes and element types as the operation's schema says. An operation's header has the same as a
// struct of typed pointers (interface/operations/gated_delta.h), which is what kernels read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "interface/index_array.h"
#include "interface/number_array.h"
#include "interface/problem.h"
#include "interface/storage_type.h"
#include "interface/token_rows.h"

namespace gdn {

/// How values lie that are neither dense nor in the operand's own type.
struct HeldForm {
  StorageType type = StorageType::float32;
  std::int64_t stride = 0;  ///< elements from one token, or one index, to the next; 0: one for all
  std::int32_t inner_stride = 1;  ///< from one value of a token to the next; 0: one for all
};

struct ArrayPointer {
  const void* read = nullptr;  ///< where values come from; null for an output
  void* written = nullptr;     ///< where they go; null for an input; in place: the same as `read`
  /// Elements from one token to the next (what belongs to a token is contiguous); 0: dense. Only
  /// where the operand takes one (Operand::takes_token_stride).
  std::int64_t token_stride = 0;
  /// Only of indices, and of operands with Operand::may_have_form.
  std::optional<HeldForm> form = {};
  /// Only of operands with Operand::may_have_rows: without it they are dense.
  std::optional<TokenRows> rows = {};
};

class Arguments {
 public:
  void set(std::string_view operand, const ArrayPointer& pointer);
  void set_input(std::string_view operand, const void* data, std::int64_t token_stride = 0) {
    set(operand, {data, nullptr, token_stride});
  }
  void set_output(std::string_view operand, void* data) { set(operand, {nullptr, data, 0}); }
  void set_in_place(std::string_view operand, void* data) { set(operand, {data, data, 0}); }
  void set_input(std::string_view operand, const void* data, const HeldForm& form) {
    set(operand, {data, nullptr, 0, form});
  }
  void erase(std::string_view operand);

  bool has(std::string_view operand) const { return find(operand) != nullptr; }
  /// All null where the operand was not set.
  ArrayPointer operator[](std::string_view operand) const;
  const void* input(std::string_view operand) const { return (*this)[operand].read; }
  void* output(std::string_view operand) const { return (*this)[operand].written; }
  template <typename T>
  const T* input_as(std::string_view operand) const {
    return static_cast<const T*>(input(operand));
  }

  /// Of an operand of indices; none where it was not set.
  IndexArray indices(std::string_view operand) const;
  /// Of an operand with may_have_form, [T, ..] or one of no tokens; none where it was not set.
  NumberArray numbers(std::string_view operand, const Problem& problem) const;

  /// Of an operand [channels, T].
  TokenRows token_rows(std::string_view operand, const Problem& problem) const;

  /// Those of the operands that `operation` has too: what a step of a chain shares with the whole.
  Arguments shared_with(Operation operation) const;

  struct Entry {
    std::string operand;
    ArrayPointer pointer;
  };
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  const Entry* find(std::string_view operand) const;
  std::vector<Entry> entries_;
};

/// `stride` in elements of the type, int32 or int64.
IndexArray index_array(const void* data, StorageType type, std::int64_t stride);

/// int64 of indices.
StorageType own_type(const Operand& operand, const Problem& problem);

/// Throws Error(bad_input) where the operand takes no token stride, or one smaller than a token.
void require_token_stride(const Operand& operand, const Problem& problem, std::int64_t stride);
/// Elements from one token of the operand to the next; a stride of 0 has become the dense one.
std::int64_t token_stride_of(std::string_view operand, const Problem& problem,
                             const Arguments& arguments);

/// Throws Error(bad_input) naming the operand: one that the problem does not have (a gate of another
/// encoding), one that is missing or null, one that is not aligned to its element, a token stride
/// that it does not take (require_token_stride), a form or rows that it is not taken in, or one whose two
/// arrays overlap where it is updated out of place. Operands without elements may be null.
void require_operands(const Problem& problem, const Arguments& arguments);

}  // namespace gdn
