// In the place of cuda/target.h: CUDA sources that are compiled for the CPU are in this namespace.
#pragma once

#define GDN_CUDA_TARGET cuda_emulated
