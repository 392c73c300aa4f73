#include "interface/arguments.h"

#include <algorithm>
#include <limits>

#include "interface/error.h"

namespace gdn {
namespace {

void require_pointer(const Operand& operand, const void* pointer) {
  if (pointer == nullptr) throw_bad_input(operand.name + ": null pointer");
}

void require_form(const Operand& operand, const Problem& problem, const HeldForm& form) {
  if (!operand.is_index() && !operand.may_have_form) {
    throw_bad_input(operand.name + ": is held in a form of its own (" + short_name(form.type) +
                    "), expected a dense " + short_name(own_type(operand, problem)) + " array");
  }
  const bool is_type =
      operand.is_index() ? is_index_type(form.type) : dtype_of(form.type) && !is_integer(form.type);
  if (!is_type || form.stride < 0 || form.inner_stride < 0) {
    throw_bad_input(operand.name + ": " + short_name(form.type) + " with strides " +
                    std::to_string(form.stride) + ", " + std::to_string(form.inner_stride) +
                    "; expected " + (operand.is_index() ? "int32 or int64" : "f32, bf16 or f16") +
                    " with strides of at least 0");
  }
}

void require_rows(const Operand& operand, const Problem& problem, const TokenRows& rows) {
  if (!operand.may_have_rows || !tokens_are_fastest(operand, problem)) {
    throw_bad_input(operand.name + ": has its tokens in rows, expected a dense array " +
                    shape_names(operand, problem));
  }
  if (rows.length < 1 || rows.row_stride < 0 || rows.channel_stride < 0) {
    throw_bad_input(operand.name + ": rows of " + std::to_string(rows.length) +
                    " tokens with strides " + std::to_string(rows.row_stride) + ", " +
                    std::to_string(rows.channel_stride) +
                    "; expected at least 1 token and strides of at least 0");
  }
}

void require_alignment(const Operand& operand, const Problem& problem, const void* pointer,
                       const std::optional<HeldForm>& form) {
  const auto bytes =
      static_cast<std::uintptr_t>(size_of(form ? form->type : own_type(operand, problem)));
  if (reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0) return;
  throw_bad_input(operand.name + ": pointer is not aligned to its element of " +
                  std::to_string(bytes) + " bytes");
}

void require_place(const Operand& operand, const Problem& problem, const ArrayPointer& pointer) {
  const bool apart = operand.pool.out_of_place != nullptr && operand.pool.out_of_place(problem);
  if ((pointer.read != pointer.written) != apart) {
    throw_bad_input(operand.name +
                    (apart ? ": is updated out of place, but is written where it is read"
                           : ": is updated in place, but is written elsewhere than it is read"));
  }
  if (!apart) return;
  const std::int64_t elements = cut_of(operand, problem) == Cut::pool_rows
                                    ? problem.least_pool_rows() * row_stride(operand, problem)
                                    : static_cast<std::int64_t>(element_count(operand, problem));
  const auto bytes = static_cast<std::uintptr_t>(
      elements * static_cast<std::int64_t>(size_of(operand.dtype(problem))));
  const auto read = reinterpret_cast<std::uintptr_t>(pointer.read);
  const auto written = reinterpret_cast<std::uintptr_t>(pointer.written);
  if (read < written + bytes && written < read + bytes) {
    throw_bad_input(operand.name +
                    ": what is read and what is written overlap; expected two arrays");
  }
}

// Why the problem has no use for an operand of its operation.
std::string why_not_present(const Operand& operand, const Problem& problem) {
  std::string why = operand.name + ": the problem has no such operand";
  if (operand.in_file.alternatives.empty()) return why;
  for (const Operand& other : problem.operation->operands) {
    if (other.in_file.alternatives == operand.in_file.alternatives && is_present(other, problem)) {
      why += "; its " + operand.in_file.alternatives + " is " + other.name;
    }
  }
  return why;
}

std::int32_t narrow_stride(const Operand& operand, std::int64_t stride) {
  if (stride <= std::numeric_limits<std::int32_t>::max()) return static_cast<std::int32_t>(stride);
  throw_bad_input(operand.name + ": tokens " + std::to_string(stride) +
                  " elements apart, expected fewer than 2^31");
}

}  // namespace

const Arguments::Entry* Arguments::find(std::string_view operand) const {
  for (const Entry& entry : entries_) {
    if (entry.operand == operand) return &entry;
  }
  return nullptr;
}

void Arguments::set(std::string_view operand, const ArrayPointer& pointer) {
  for (Entry& entry : entries_) {
    if (entry.operand != operand) continue;
    entry.pointer = pointer;
    return;
  }
  entries_.push_back({std::string(operand), pointer});
}

void Arguments::erase(std::string_view operand) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.operand == operand; });
}

ArrayPointer Arguments::operator[](std::string_view operand) const {
  const Entry* entry = find(operand);
  return entry == nullptr ? ArrayPointer{} : entry->pointer;
}

IndexArray Arguments::indices(std::string_view operand) const {
  const ArrayPointer pointer = (*this)[operand];
  const HeldForm form = pointer.form.value_or(HeldForm{StorageType::int64, 1});
  return index_array(pointer.read, form.type, form.stride);
}

NumberArray Arguments::numbers(std::string_view operand, const Problem& problem) const {
  const ArrayPointer pointer = (*this)[operand];
  NumberArray numbers;
  numbers.data = pointer.read;
  const Operand& of = problem.operation->at(operand);
  numbers.type = of.dtype(problem);
  if (cut_of(of, problem) == Cut::tokens)
    numbers.stride = narrow_stride(of, token_stride_of(operand, problem, *this));
  if (!pointer.form) return numbers;
  numbers.type = *dtype_of(pointer.form->type);
  numbers.stride = narrow_stride(of, pointer.form->stride);
  numbers.inner_stride = pointer.form->inner_stride;
  return numbers;
}

TokenRows Arguments::token_rows(std::string_view operand, const Problem& problem) const {
  const std::int64_t tokens = std::max<std::int64_t>(problem.total_tokens(), 1);
  return (*this)[operand].rows.value_or(TokenRows{tokens, tokens, 0});
}

Arguments Arguments::shared_with(Operation operation) const {
  Arguments shared;
  for (const Entry& entry : entries_) {
    if (operation->find(entry.operand) != nullptr) shared.entries_.push_back(entry);
  }
  return shared;
}

IndexArray index_array(const void* data, StorageType type, std::int64_t stride) {
  const std::int64_t words = size_of(type) / size_of(StorageType::int32);
  return {data, static_cast<std::int32_t>(stride * words)};
}

StorageType own_type(const Operand& operand, const Problem& problem) {
  return operand.is_index() ? StorageType::int64 : storage_type(operand.dtype(problem));
}

void require_token_stride(const Operand& operand, const Problem& problem, std::int64_t stride) {
  if (stride == 0) return;
  if (!takes_token_stride(operand, problem)) {
    throw_bad_input(operand.name + ": takes no token stride (" + std::to_string(stride) +
                    " was given), its shape is " + shape_names(operand, problem));
  }
  const std::int64_t dense = elements_per_token(operand, problem);
  if (stride < dense) {
    throw_bad_input(operand.name + ": token stride " + std::to_string(stride) +
                    " is smaller than a token's " + std::to_string(dense) + " elements");
  }
}

std::int64_t token_stride_of(std::string_view operand, const Problem& problem,
                             const Arguments& arguments) {
  const std::int64_t given = arguments[operand].token_stride;
  return given != 0 ? given : elements_per_token(problem.operation->at(operand), problem);
}

void require_operands(const Problem& problem, const Arguments& arguments) {
  const OperationSchema& schema = *problem.operation;
  for (const Arguments::Entry& entry : arguments.entries()) {
    const Operand* operand = schema.find(entry.operand);
    if (operand == nullptr) {
      throw_bad_input("arguments: " + entry.operand + " is no operand of " + schema.name);
    }
    const bool given = entry.pointer.read != nullptr || entry.pointer.written != nullptr;
    if (given && !is_present(*operand, problem))
      throw_bad_input(why_not_present(*operand, problem));
  }
  for (const Operand& operand : schema.operands) {
    if (!is_present(operand, problem)) continue;
    const ArrayPointer pointer = arguments[operand.name];
    const bool reads = operand.role != Role::output && is_read(operand, problem);
    const bool writes = operand.is_output() && is_written(operand, problem);
    const bool may_be_null = operand.hand_over.on_request || operand.hand_over.between_steps ||
                             arguments.has(operand.hand_over.replaced_by) ||
                             element_count(operand, problem) == 0;
    if (reads && !may_be_null) require_pointer(operand, pointer.read);
    if (writes && !may_be_null) require_pointer(operand, pointer.written);
    if (pointer.form) require_form(operand, problem, *pointer.form);
    if (pointer.rows) require_rows(operand, problem, *pointer.rows);
    require_alignment(operand, problem, pointer.read, pointer.form);
    require_alignment(operand, problem, pointer.written, pointer.form);
    require_token_stride(operand, problem, pointer.token_stride);
    if (reads && writes) require_place(operand, problem, pointer);
  }
}

}  // namespace gdn
