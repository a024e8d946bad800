// What the kernels of all workloads have in common: what a warp works with, how it
// reports what failed, and arithmetic whose every step is rounded by itself.
//
// Bodies are templates over a group of lanes, so that they run on CPU threads too.
// A unit of work belongs to one warp: no barrier of a block or of the grid is needed.
// Nothing here waits but the engine, whose every wait has a deadline; after the first
// access that failed each warp ends with its unit.
#pragma once

#include "tier.cuh"

// Before loops over a page, so that several loads of a lane are in flight.
#if TRITIER_GPU
#define TRITIER_UNROLL_4 _Pragma("unroll 4")
#else
#define TRITIER_UNROLL_4
#endif

namespace tritier {
namespace workload {

using tier::array_ref;
using tier::bulk_read;
using tier::bulk_write;
using tier::cursor;
using tier::DriveStore;
using tier::from_leader;
using tier::kBadCall;
using tier::kTierOk;
using tier::kWaitStopped;
using tier::Lanes;
using tier::lowest_bit;
using Array = tier::ArrayRef;

// Outcome is what the launches of a run tell the host, in GPU memory, zeroed before.
struct alignas(64) Outcome {
    uint32_t failed; // accesses
    uint32_t more;   // searches: something was found that needs another round
    uint64_t first;  // status << 32 | page of the first access that failed
    float noise;     // srad: of the region, for the launches of an iteration
};

// as gives a reference its element type.
template <class T>
TRITIER_DEVICE array_ref<T> as(const Array& r) {
    array_ref<T> a;
    static_cast<Array&>(a) = r;
    return a;
}

TRITIER_DEVICE uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

// mul is a product that no compiler fuses with a sum, as the reference's are not.
TRITIER_DEVICE float mul(float a, float b) {
#if TRITIER_GPU
    float p;
    asm("mul.rn.f32 %0, %1, %2;" : "=f"(p) : "f"(a), "f"(b));
#else
    float p = a * b;
    __asm__("" : "+m"(p));
#endif
    return p;
}

// Team is a warp at work: warp of so many that share out the units.
template <class G>
struct Team {
    G g;
    uint32_t warp, warps;
    Outcome* out;
    tier::Context<DriveStore> t;
    uint32_t looks;

    TRITIER_DEVICE Team(const G& group, uint32_t w, uint32_t ws, const Array& a, Outcome* o)
        : g(group), warp(w), warps(ws), out(o), t(as<uint8_t>(a).context(w)), looks(0) {}

    // fail reports accesses; one lane calls it.
    TRITIER_DEVICE void fail(uint32_t status, uint64_t page) {
        atomic_add_relaxed_gpu(&out->failed, 1);
        atomic_cas_relaxed_gpu(&out->first, 0, static_cast<uint64_t>(status) << 32 | static_cast<uint32_t>(page));
    }

    // ok says whether an access of the whole team, of element i, was made.
    template <class T>
    TRITIER_DEVICE bool ok(uint32_t status, const array_ref<T>& a, uint64_t i) {
        if (status != kTierOk && g.leads()) {
            fail(status, a.page_of(i));
        }
        return status == kTierOk;
    }

    // all says whether the accesses of all lanes were made; i may differ.
    template <class T>
    TRITIER_DEVICE bool all(uint32_t status, const array_ref<T>& a, uint64_t i) {
        uint32_t bad = g.ballot(status != kTierOk);
        if (bad != 0 && g.lane() == lowest_bit(bad)) {
            fail(status, a.page_of(i));
        }
        return bad == 0;
    }

    // fits says whether scratch memory is as large as a body needs it.
    TRITIER_DEVICE bool fits(uint64_t has, uint64_t needs) {
        if (has < needs && g.leads()) {
            fail(kBadCall, 0);
        }
        return has >= needs;
    }

    // over says whether to begin nothing more: an access has failed, here or elsewhere,
    // or the host asks kernels to end. Its word is far away: it is looked at seldom.
    TRITIER_DEVICE bool over() {
        uint32_t end = 0;
        if (g.leads()) {
            end = load_relaxed_gpu(&out->failed);
            if (end == 0 && looks++ % 16 == 0 && tier::stop_asked(t.e)) {
                fail(kWaitStopped, 0);
                end = 1;
            }
        }
        return from_leader(g, end) != 0;
    }

    // fetch reads elements first .. first+n-1 into scratch memory, which has room for 32
    // bytes more: from a multiple of 16 bytes to another one, so that lanes move 16 at a
    // time. It returns where element first is, or null.
    template <class T>
    TRITIER_DEVICE T* fetch(const array_ref<T>& a, uint64_t first, uint64_t n, void* scratch) {
        constexpr uint64_t each = 16 / sizeof(T);
        uint64_t from = first / each * each, to = least((first + n + each - 1) / each * each, a.length);
        T* dst = static_cast<T*>(scratch);
        if (!ok(bulk_read(g, t, a, from, to - from, dst), a, first)) {
            return nullptr;
        }
        return dst + (first - from);
    }

    // runs calls f(elements, index of the first in the range, number) for the parts of
    // elements first .. first+n-1 that lie in one page, pinned by the cursor meanwhile,
    // until it is false for all lanes.
    template <class T, class F>
    TRITIER_DEVICE bool runs(cursor<T, DriveStore, G>& c, const array_ref<T>& a, uint64_t first, uint64_t n, F f) {
        for (uint64_t done = 0; done < n;) {
            uint64_t m;
            T* run = c.run(first + done, &m);
            if (!ok(c.status(), a, first + done)) {
                return false;
            }
            m = least(m, n - done);
            if (!f(run, done, m)) {
                return false;
            }
            done += m;
        }
        return true;
    }

    // put writes elements first .. first+n-1 from scratch memory. A page that they cover
    // is not fetched before.
    template <class T>
    TRITIER_DEVICE bool put(const array_ref<T>& a, uint64_t first, uint64_t n, const T* src) {
        g.sync();
        bool done = ok(bulk_write(g, t, a, first, n, src), a, first);
        g.sync();
        return done;
    }
};

// page_elements is how many elements a page of the array has.
template <class T>
TRITIER_DEVICE uint64_t page_elements(const array_ref<T>& a) {
    return (1ull << a.page_shift) / sizeof(T);
}

// clear_array sets every element of an array, in whole pages.
template <class G, class T>
TRITIER_DEVICE void clear_array(Team<G>& w, const array_ref<T>& a, T v, char* scratch, uint64_t scratch_bytes) {
    T* mine = reinterpret_cast<T*>(scratch + w.warp * scratch_bytes);
    uint64_t each = page_elements(a);
    if (!w.fits(scratch_bytes, each * sizeof(T))) {
        return;
    }
    for (uint64_t i = w.g.rank(); i < each; i += w.g.size()) {
        mine[i] = v;
    }
    for (uint64_t at = w.warp * each; at < a.length && !w.over(); at += w.warps * each) {
        if (!w.put(a, at, least(each, a.length - at), mine)) {
            return;
        }
    }
}

#if TRITIER_GPU
TRITIER_DEVICE uint32_t warp_number() { return (blockIdx.x * blockDim.x + threadIdx.x) / 32; }
TRITIER_DEVICE uint32_t warp_count() { return gridDim.x * blockDim.x / 32; }

// TRITIER_BODY calls a body for the whole warp.
#define TRITIER_BODY(body, ...) body(Lanes::full(), warp_number(), warp_count(), __VA_ARGS__)
#endif

} // namespace workload
} // namespace tritier
