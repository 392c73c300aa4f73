// The block's dynamic shared memory. The file of the same name under emulated/ stands for it on the
// CPU.
#pragma once

/// Declares `name`: its bytes, aligned to `alignment`. A macro, since through a pointer the
/// compiler would no longer know where they lie.
#define GDN_DYNAMIC_SHARED_MEMORY(name, alignment) \
  extern __shared__ __align__(alignment)           \
  unsigned char name[]
