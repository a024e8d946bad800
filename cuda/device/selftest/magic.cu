// A second source behind the same handles.
#include "variants.cuh"

extern "C" __global__ void write_magic(uint32_t* out) { *out = ptxgen_const_variant_magic; }
