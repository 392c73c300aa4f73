// Element types of the interface as the kernels name them.
#pragma once

#include "hip/element.h"
#include "interface/dtype.h"
#include "interface/error.h"

namespace gdn::hip {

inline Element element_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return Element::float32;
    case DType::bfloat16:
      return Element::bfloat16;
    case DType::float16:
      return Element::float16;
    case DType::int8:
      break;
  }
  throw_bad_input("dtype: unknown");
}

}  // namespace gdn::hip
