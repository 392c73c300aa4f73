// Stands in for the CUDA Toolkit's header of this name.
#pragma once

#include "cuda_runtime_api.h"
