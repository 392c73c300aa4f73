#include "interface/error.h"

namespace gdn {

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::bad_input:
    case ErrorKind::unsupported:
    case ErrorKind::out_of_memory:
      return 2;
    case ErrorKind::device_unavailable:
      return 3;
    case ErrorKind::device_failure:
      return 1;
  }
  return 1;
}

}  // namespace gdn
