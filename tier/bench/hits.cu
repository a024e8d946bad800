// Kernels that measure the path of hits against raw pointers. Each sums what it reads, so
// that the host can compare. As many warps as fit hide the latency of memory: so the bounds,
// which leave a thread 32 registers. The code of misses makes do with less than it would
// like. The cursor has 8 loads in flight and needs more registers instead.
#include "bench.cuh"

using namespace tritier;
using namespace tritier::tier;
using namespace tritier::bench;

// ptxgen:type ArrayRef size=64 go=github.com/tritier/tritier/tier/layout.ArrayRef

template <class T>
TRITIER_DEVICE void raw_all(const T* a, uint64_t n, uint64_t* sum) {
    uint64_t s = 0, i = thread_number(), step = thread_count();
    for (; i + 3 * step < n; i += 4 * step) { // as a compiler makes of it that is used to such loops
        T v[4];
#pragma unroll
        for (uint32_t k = 0; k < 4; k++) v[k] = a[i + k * step];
#pragma unroll
        for (uint32_t k = 0; k < 4; k++) s += sum_of(v[k]);
    }
    for (; i < n; i += step) s += sum_of(a[i]);
    add_sum(sum, s);
}

template <class T>
TRITIER_DEVICE void tiered_all(const array_ref<T>& a, uint64_t n, uint64_t* sum) {
    uint64_t s = 0;
    for (uint64_t i = thread_number(), step = thread_count(); i < n; i += step) s += sum_of(a[i]);
    add_sum(sum, s);
}

extern "C" __global__ void __launch_bounds__(256, 8) raw_16(const Quad* a, uint64_t n, uint64_t* sum) { raw_all(a, n, sum); }
extern "C" __global__ void __launch_bounds__(256, 8) raw_4(const uint32_t* a, uint64_t n, uint64_t* sum) { raw_all(a, n, sum); }
extern "C" __global__ void __launch_bounds__(256, 8) tiered_16(const ArrayRef a, uint64_t n, uint64_t* sum) { tiered_all(as<Quad>(a), n, sum); }
extern "C" __global__ void __launch_bounds__(256, 8) tiered_4(const ArrayRef a, uint64_t n, uint64_t* sum) { tiered_all(as<uint32_t>(a), n, sum); }

extern "C" __global__ void __launch_bounds__(256, 8) raw_random_8(const uint64_t* a, uint64_t n, uint64_t reads, uint64_t* sum) {
    uint64_t s = 0;
    for (uint64_t i = thread_number(); i < reads; i += thread_count()) s += a[mix(i) % n];
    add_sum(sum, s);
}

extern "C" __global__ void __launch_bounds__(256, 8) tiered_random_8(const ArrayRef r, uint64_t n, uint64_t reads, uint64_t* sum) {
    array_ref<uint64_t> a = as<uint64_t>(r);
    uint64_t s = 0;
    for (uint64_t i = thread_number(); i < reads; i += thread_count()) s += a[mix(i) % n];
    add_sum(sum, s);
}

// cursor_16 reads a page for each warp in turn, 8 loads in flight a lane.
extern "C" __global__ void __launch_bounds__(256, 2) cursor_16(const ArrayRef r, uint64_t* sum, uint32_t* failed) {
    Lanes g = Lanes::full();
    array_ref<Quad> a = as<Quad>(r);
    uint64_t warp = thread_number() / 32, warps = thread_count() / 32, each = (1ull << a.page_shift) / sizeof(Quad), s = 0;
    cursor<Quad> c(g, a, a.context(static_cast<uint32_t>(warp)));
    for (uint64_t first = warp * each; first < a.length; first += warps * each) {
        uint64_t n;
        const Quad* p = c.run(first, &n);
        if (p == nullptr) {
            if (g.leads()) atomic_add_relaxed_gpu(failed, 1);
            continue;
        }
        uint64_t i = g.lane();
        for (; i + 7 * 32 < n; i += 8 * 32) {
            Quad v[8];
#pragma unroll
            for (uint32_t k = 0; k < 8; k++) v[k] = p[i + 32 * k];
#pragma unroll
            for (uint32_t k = 0; k < 8; k++) s += sum_of(v[k]);
        }
        for (; i < n; i += 32) s += sum_of(p[i]);
    }
    add_sum(sum, s);
}
