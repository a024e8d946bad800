// Kernels that measure hits of several elements of a thread at once, and a raw pointer's
// with as many loads in flight.
#include "bench.cuh"

using namespace tritier;
using namespace tritier::tier;
using namespace tritier::bench;

// ptxgen:type ArrayRef size=64 go=github.com/tritier/tritier/tier/layout.ArrayRef

// each_of sums N elements at a time by every thread: four with half the threads, for the
// registers, or two with all of them.
template <uint32_t N, class T, class F>
TRITIER_DEVICE void each_of(const array_ref<T>& a, uint64_t reads, uint64_t* sum, uint32_t* failed, F index) {
    uint64_t s = 0, i = thread_number(), step = thread_count();
    for (; i + (N - 1) * step < reads; i += N * step) {
        uint64_t at[N];
        T v[N];
#pragma unroll
        for (uint32_t k = 0; k < N; k++) at[k] = index(i + k * step);
        if (a.load_each(at, v) != kTierOk) atomic_add_relaxed_gpu(failed, 1);
#pragma unroll
        for (uint32_t k = 0; k < N; k++) s += sum_of(v[k]);
    }
    for (; i < reads; i += step) s += sum_of(a[index(i)]);
    add_sum(sum, s);
}

TRITIER_DEVICE uint64_t itself(uint64_t i) { return i; }

extern "C" __global__ void __launch_bounds__(256, 4) four_16(const ArrayRef a, uint64_t n, uint64_t* sum, uint32_t* failed) {
    each_of<4>(as<Quad>(a), n, sum, failed, itself);
}
extern "C" __global__ void __launch_bounds__(256, 4) four_4(const ArrayRef a, uint64_t n, uint64_t* sum, uint32_t* failed) {
    each_of<4>(as<uint32_t>(a), n, sum, failed, itself);
}
extern "C" __global__ void __launch_bounds__(256, 8) two_4(const ArrayRef a, uint64_t n, uint64_t* sum, uint32_t* failed) {
    each_of<2>(as<uint32_t>(a), n, sum, failed, itself);
}
extern "C" __global__ void __launch_bounds__(256, 4) four_random_8(const ArrayRef a, uint64_t n, uint64_t reads, uint64_t* sum, uint32_t* failed) {
    each_of<4>(as<uint64_t>(a), reads, sum, failed, [n](uint64_t i) { return mix(i) % n; });
}

// raw_four_random_8 has four loads in flight as well.
extern "C" __global__ void __launch_bounds__(256, 8) raw_four_random_8(const uint64_t* a, uint64_t n, uint64_t reads, uint64_t* sum) {
    uint64_t s = 0, i = thread_number(), step = thread_count();
    for (; i + 3 * step < reads; i += 4 * step) {
        uint64_t v[4];
#pragma unroll
        for (uint32_t k = 0; k < 4; k++) v[k] = a[mix(i + k * step) % n];
#pragma unroll
        for (uint32_t k = 0; k < 4; k++) s += v[k];
    }
    for (; i < reads; i += step) s += a[mix(i) % n];
    add_sum(sum, s);
}
