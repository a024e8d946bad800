// What the kernels that measure the engine have in common.
#pragma once

#include "tier.cuh"

namespace tritier {
namespace bench {

using namespace tier;

struct alignas(16) Quad {
    uint32_t x, y, z, w;
};

TRITIER_DEVICE uint64_t mix(uint64_t x) {
    x ^= x >> 31;
    x *= 0x7fb5d329728ea185ull;
    x ^= x >> 27;
    x *= 0x81dadef4bc2dd44dull;
    return x ^ x >> 33;
}

// thread_number is plain, or clang makes each index of a loop a sum of two.
TRITIER_DEVICE uint64_t thread_number() { return plain(blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x); }
TRITIER_DEVICE uint64_t thread_count() { return gridDim.x * static_cast<uint64_t>(blockDim.x); }
TRITIER_DEVICE uint64_t sum_of(const Quad& v) { return static_cast<uint64_t>(v.x) + v.y + v.z + v.w; }
TRITIER_DEVICE uint64_t sum_of(uint32_t v) { return v; }
TRITIER_DEVICE uint64_t sum_of(uint64_t v) { return v; }

// add_sum adds what a warp has summed, by one atomic: of one word, more would take a part of
// the time that is measured.
TRITIER_DEVICE void add_sum(uint64_t* sum, uint64_t s) {
    s = warp_sum(s);
    if (lane_id() == 0) atomic_add_relaxed_gpu(sum, s);
}

template <class T>
TRITIER_DEVICE array_ref<T> as(const ArrayRef& r) {
    array_ref<T> a;
    static_cast<ArrayRef&>(a) = r;
    return a;
}

} // namespace bench
} // namespace tritier
