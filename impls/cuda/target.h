// The namespace of CUDA sources that are compiled twice: by the CUDA compiler for a GPU, as gdn::cuda,
// and with the emulator's headers for the CPU, as gdn::cuda_emulated, where the header of this name in
// emulated/include stands in this one's place. One program holds both.
#pragma once

#define GDN_CUDA_TARGET cuda
