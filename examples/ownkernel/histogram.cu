// A kernel of a user's: counts how often each of 256 values occurs in an array that
// is larger than GPU memory.
#include "tier.cuh"

// ptxgen:type Array size=64 go=github.com/tritier/tritier.ArrayRef
using Array = tritier::array_ref<uint8_t>;

extern "C" __global__ void histogram(const Array a, uint64_t* bins, uint32_t* failed) {
    uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t i = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x; i < a.size(); i += step) {
        uint32_t status;
        uint8_t v = a.load(i, &status); // lanes that want the same page share one access
        if (status != 0) {
            tritier::atomic_add_relaxed_gpu(failed, 1);
        } else {
            tritier::atomic_add_relaxed_gpu(bins + v, 1);
        }
    }
}
