// Compiled for several architectures: which one was loaded?
#include "variants.cuh"

#ifndef __CUDA_ARCH__
#define __CUDA_ARCH__ 0 // nvcc's pass for the CPU, which only parses
#endif

extern "C" __global__ void compiled_for(uint32_t* out) { *out = __CUDA_ARCH__; }
