// Stands in for cuda/shared_memory.cuh: the fibres of a block share an array that starts at a
// multiple of 1024.
#pragma once

#include "cuda/emulated/grid.h"

#define GDN_DYNAMIC_SHARED_MEMORY(name, alignment) \
  unsigned char* const name = ::gdn::cuda_grid::dynamic_shared_memory()
