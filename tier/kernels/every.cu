// Kernels that instantiate every function of the device headers for a GPU, over
// drives: so that the build with clang covers them all. flush_pages is the one
// that a host launches to write everything back.
#include "tier.cuh"

using namespace tritier;
using namespace tritier::tier;

// ptxgen:type Array size=64 go=github.com/tritier/tritier/tier/layout.ArrayRef
using Array = array_ref<uint32_t>;

TRITIER_DEVICE uint32_t thread_number() { return blockIdx.x * blockDim.x + threadIdx.x; }

// copy_elements copies count elements from place from on to place to on, one
// each by every thread in turn, and counts the errors.
extern "C" __global__ void copy_elements(const Array a, uint64_t from, uint64_t to, uint64_t count, uint32_t* failed) {
    uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t i = thread_number(); i < count; i += step) {
        uint32_t status;
        uint32_t v = a.load(from + i, &status);
        status |= a.store(to + i, v);
        if (status != kTierOk) {
            atomic_add_relaxed_gpu(failed, 1);
        }
    }
}

// add_elements adds a[i] of every index to its thread's sum, and 1 to the
// element.
extern "C" __global__ void add_elements(const Array a, const uint64_t* index, uint64_t count, uint64_t* sum) {
    uint64_t mine = 0, step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t i = thread_number(); i < count; i += step) {
        uint32_t status;
        mine += a[index[i]];
        a.add(index[i], 1, &status);
        a.prefetch(index[i] + 1);
    }
    atomic_add_relaxed_gpu(sum, mine);
}

// sum_some adds up the elements of the indices, four at a time by every thread.
extern "C" __global__ void sum_some(const Array a, const uint64_t* index, uint64_t count, uint64_t* sum, uint32_t* failed) {
    uint64_t mine = 0, step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t k = thread_number(); k + 3 * step < count; k += 4 * step) {
        uint64_t i[4] = {index[k], index[k + step], index[k + 2 * step], index[k + 3 * step]};
        uint32_t v[4];
        if (a.load_each(i, v) != kTierOk) {
            atomic_add_relaxed_gpu(failed, 1);
        }
        mine += static_cast<uint64_t>(v[0]) + v[1] + v[2] + v[3];
    }
    atomic_add_relaxed_gpu(sum, mine);
}

// sum_runs adds up all elements, a page for each warp in turn, by cursors.
extern "C" __global__ void sum_runs(const Array a, uint64_t* sum, uint32_t* failed) {
    Lanes g = Lanes::full();
    uint32_t warp = thread_number() / 32, warps = gridDim.x * blockDim.x / 32;
    cursor<uint32_t> c(g, a, a.context(warp));
    uint64_t mine = 0, each = (1ull << a.page_shift) / sizeof(uint32_t);
    for (uint64_t i = warp * each; i < a.length; i += warps * each) {
        uint64_t n;
        const uint32_t* run = c.run(i, &n);
        if (run == nullptr) {
            atomic_add_relaxed_gpu(failed, 1);
            continue;
        }
        for (uint64_t k = g.rank(); k < n; k += 32) {
            mine += run[k];
        }
    }
    atomic_add_relaxed_gpu(sum, mine);
}

// move_runs reads count elements (what 0) or writes them (1), a part for each
// warp.
extern "C" __global__ void move_runs(const Array a, uint32_t what, uint64_t first, uint64_t count, uint32_t* data, uint32_t* status) {
    Lanes g = Lanes::full();
    uint32_t warp = thread_number() / 32, warps = gridDim.x * blockDim.x / 32;
    uint64_t each = (count + warps - 1) / warps, begin = warp * each;
    if (begin >= count) {
        return;
    }
    uint64_t n = each < count - begin ? each : count - begin;
    Context<DriveStore> t = a.context(warp);
    uint32_t s = what == 0 ? bulk_read(g, t, a, first + begin, n, data + begin) : bulk_write(g, t, a, first + begin, n, data + begin);
    if (g.leads() && s != kTierOk) {
        atomic_cas_relaxed_gpu(status, 0, s);
    }
}

// flush_pages writes all dirty pages back, shared out to the warps; the last of
// them to finish then makes the drives durable. done is 0 before.
extern "C" __global__ void flush_pages(const Engine* e, uint32_t* done, uint32_t* status) {
    Lanes g = Lanes::full();
    uint32_t warp = thread_number() / 32, warps = gridDim.x * blockDim.x / 32, last = 0;
    Context<DriveStore> t = open_context<DriveStore>(e, warp);
    uint32_t s = flush_part(g, t, warp, warps);
    if (g.leads()) {
        last = atomic_add_acq_rel_gpu(done, 1) + 1 == warps ? 1 : 0;
    }
    if (from_leader(g, last) != 0) {
        uint32_t durable = flush_store(g, t);
        s = s == kTierOk ? durable : s;
    }
    if (g.leads() && s != kTierOk) {
        atomic_cas_relaxed_gpu(status, 0, s);
    }
}
