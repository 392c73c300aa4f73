// How kernels are told an array's element type at run time: shared by host and device code.
#pragma once

#include <cstdint>

namespace gdn::hip {

enum class Element : std::int32_t { float32, bfloat16, float16 };

}  // namespace gdn::hip
