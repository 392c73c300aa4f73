#include "harness/c_library/edge.h"

namespace gdn::c_library {

std::string& last_error() {
  static thread_local std::string text;
  return text;
}

gdnbench_status status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::bad_input:
      return GDNBENCH_BAD_INPUT;
    case ErrorKind::unsupported:
      return GDNBENCH_UNSUPPORTED;
    case ErrorKind::device_unavailable:
      return GDNBENCH_DEVICE_UNAVAILABLE;
    case ErrorKind::out_of_memory:
      return GDNBENCH_OUT_OF_MEMORY;
    case ErrorKind::device_failure:
      return GDNBENCH_DEVICE_FAILURE;
  }
  return GDNBENCH_DEVICE_FAILURE;
}

Problem parse_problem(const char* text, const std::int64_t* offsets, std::int64_t num_sequences) {
  Problem problem = Problem::parse(required(text, "problem"));
  if (offsets != nullptr) {
    if (num_sequences < 0) {
      throw_bad_input("num_sequences: " + std::to_string(num_sequences) + ", expected 0 or more");
    }
    problem.sequences = SequenceLengths::from_offsets({offsets, offsets + num_sequences + 1});
    problem.validate();
  }
  return problem;
}

std::vector<HeldTensor> tensors_of(const gdnbench_array* arrays, std::int64_t count) {
  if (count < 0) {
    throw_bad_input("num_arrays: " + std::to_string(count) + ", expected 0 or more");
  }
  if (count > 0) required(arrays, "arrays");
  std::vector<HeldTensor> result;
  for (std::int64_t i = 0; i < count; ++i) {
    const gdnbench_array& array = arrays[i];
    HeldTensor tensor;
    tensor.operand = required(array.operand, "arrays: an operand's name");
    for (const HeldTensor& other : result) {
      if (other.operand == tensor.operand)
        throw_bad_input("arrays: " + tensor.operand + " is given twice");
    }
    tensor.read = array.read;
    tensor.written = array.written;
    if (array.dtype != nullptr) tensor.type = parse_storage_type(array.dtype, tensor.operand);
    if (array.rank < 0 || array.rank > GDNBENCH_MAX_RANK) {
      throw_bad_input(tensor.operand + ": rank " + std::to_string(array.rank) + ", expected 0 to " +
                      std::to_string(GDNBENCH_MAX_RANK));
    }
    if (array.extents != nullptr) tensor.extents = {array.extents, array.extents + array.rank};
    if (array.strides != nullptr) tensor.strides = {array.strides, array.strides + array.rank};
    result.push_back(std::move(tensor));
  }
  return result;
}

}  // namespace gdn::c_library
