// One random function as a gfx906 kernel: see fuzz_body.h.
#include "fuzz_body.h"
