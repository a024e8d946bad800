// Kernels that measure the engine against raw pointers: the path of hits, and that of
// faults from T2. Each sums what it reads, so that the host can compare.
#include "tier.cuh"

using namespace tritier;
using namespace tritier::tier;

// ptxgen:type ArrayRef size=64 go=github.com/tritier/tritier/tier/layout.ArrayRef

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

TRITIER_DEVICE uint64_t thread_number() { return blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x; }
TRITIER_DEVICE uint64_t thread_count() { return gridDim.x * static_cast<uint64_t>(blockDim.x); }
TRITIER_DEVICE uint64_t sum_of(const Quad& v) { return static_cast<uint64_t>(v.x) + v.y + v.z + v.w; }
TRITIER_DEVICE uint64_t sum_of(uint32_t v) { return v; }
TRITIER_DEVICE uint64_t sum_of(uint64_t v) { return v; }

template <class T>
TRITIER_DEVICE array_ref<T> as(const ArrayRef& r) {
    array_ref<T> a;
    static_cast<ArrayRef&>(a) = r;
    return a;
}

template <class T>
TRITIER_DEVICE void raw_all(const T* a, uint64_t n, uint64_t* sum) {
    uint64_t s = 0;
#pragma unroll 4
    for (uint64_t i = thread_number(); i < n; i += thread_count()) s += sum_of(a[i]);
    atomic_add_relaxed_gpu(sum, s);
}

template <class T>
TRITIER_DEVICE void tiered_all(const array_ref<T>& a, uint64_t n, uint64_t* sum) {
    uint64_t s = 0;
    for (uint64_t i = thread_number(); i < n; i += thread_count()) s += sum_of(a[i]);
    atomic_add_relaxed_gpu(sum, s);
}

extern "C" __global__ void raw_16(const Quad* a, uint64_t n, uint64_t* sum) { raw_all(a, n, sum); }
extern "C" __global__ void raw_4(const uint32_t* a, uint64_t n, uint64_t* sum) { raw_all(a, n, sum); }
extern "C" __global__ void tiered_16(const ArrayRef a, uint64_t n, uint64_t* sum) { tiered_all(as<Quad>(a), n, sum); }
extern "C" __global__ void tiered_4(const ArrayRef a, uint64_t n, uint64_t* sum) { tiered_all(as<uint32_t>(a), n, sum); }

extern "C" __global__ void raw_random_8(const uint64_t* a, uint64_t n, uint64_t reads, uint64_t* sum) {
    uint64_t s = 0;
    for (uint64_t i = thread_number(); i < reads; i += thread_count()) s += a[mix(i) % n];
    atomic_add_relaxed_gpu(sum, s);
}

extern "C" __global__ void tiered_random_8(const ArrayRef r, uint64_t n, uint64_t reads, uint64_t* sum) {
    array_ref<uint64_t> a = as<uint64_t>(r);
    uint64_t s = 0;
    for (uint64_t i = thread_number(); i < reads; i += thread_count()) s += a[mix(i) % n];
    atomic_add_relaxed_gpu(sum, s);
}

// cursor_16 reads a page for each warp in turn, 8 loads in flight a lane.
extern "C" __global__ void cursor_16(const ArrayRef r, uint64_t* sum, uint32_t* failed) {
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
    atomic_add_relaxed_gpu(sum, s);
}

// faults accesses random pages (op kReadOp or kWriteOp), a warp one at a time, and
// checks that each begins with its number.
extern "C" __global__ void faults(const ArrayRef r, uint32_t op, uint64_t each, uint64_t seed, uint32_t* failed) {
    Lanes g = Lanes::full();
    array_ref<uint64_t> a = as<uint64_t>(r);
    uint32_t warp = static_cast<uint32_t>(thread_number() / 32);
    Context<DriveStore> t = a.context(warp);
    uint64_t pages = a.length * sizeof(uint64_t) >> a.page_shift, bad = 0;
    for (uint64_t i = 0; i < each; i++) {
        uint64_t p = mix(mix(seed) ^ (static_cast<uint64_t>(warp) << 32 | i)) % pages;
        Access x = acquire(g, t, a.first_page + p, op);
        if (x.status != kTierOk) {
            bad++;
            continue;
        }
        if (load_element<uint64_t>(t.frame(x.frame)) != p) bad++;
        release(g, t, a.first_page + p, op == kWriteOp);
    }
    if (g.leads() && bad != 0) atomic_add_relaxed_gpu(failed, static_cast<uint32_t>(bad));
}
