// Compiled for several architectures: which one was loaded?
#include "variants.cuh"

extern "C" __global__ void compiled_for(uint32_t* out) { *out = __CUDA_ARCH__; }
