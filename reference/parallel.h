// Threads over independent work items: the reference and the error analysis share this one loop.
#pragma once

#include <cstdint>
#include <functional>

namespace gdn::reference {

/// Calls body(i) once for every i in 0..count-1, on `threads` threads (0 = one per hardware
/// thread). Items are handed out one by one, so unequal ones balance; each must write only its own
/// results. The first exception thrown by a body is rethrown here once all threads have stopped.
void parallel_for(std::int64_t count, int threads, const std::function<void(std::int64_t)>& body);

}  // namespace gdn::reference
