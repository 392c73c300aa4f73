// The edge between C and the library: exceptions into statuses, C's strings and arrays into the interface's.
#pragma once

#include <cstdint>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "harness/c_library/gdnbench.h"
#include "held/held_plan.h"
#include "interface/error.h"
#include "interface/problem.h"

namespace gdn::c_library {

/// What gdnbench_last_error() says: of the thread's last call that failed.
std::string& last_error();

gdnbench_status status_of(ErrorKind kind);

/// Runs the body; what it throws becomes a status and the last error.
template <typename Body>
gdnbench_status guarded(const Body& body) noexcept {
  try {
    body();
    return GDNBENCH_OK;
  } catch (const Error& error) {
    last_error() = error.what();
    return status_of(error.kind());
  } catch (const std::bad_alloc&) {
    last_error() = "the host has no memory left for this";
    return GDNBENCH_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    last_error() = error.what();
    return GDNBENCH_DEVICE_FAILURE;
  } catch (...) {
    last_error() = "an error of unknown kind";
    return GDNBENCH_DEVICE_FAILURE;
  }
}

/// The pointer; throws Error(bad_input) where it is null.
template <typename Pointer>
Pointer required(Pointer pointer, const char* name) {
  if (pointer == nullptr) throw_bad_input(std::string(name) + ": is null");
  return pointer;
}

/// The problem of a string, with the lengths that the offsets say where there are any.
Problem parse_problem(const char* text, const std::int64_t* offsets, std::int64_t num_sequences);

/// The caller's arrays, each operand once. Throws Error(bad_input) naming the array.
std::vector<HeldTensor> tensors_of(const gdnbench_array* arrays, std::int64_t count);

}  // namespace gdn::c_library
