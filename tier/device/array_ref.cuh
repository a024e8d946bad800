// array_ref: an array in tiered memory, by value in a kernel's parameters.
//
//   __global__ void f(tritier::array_ref<float> a) { float x = a[i]; a.store(j, x); }
//
// Lanes of a warp that want the same page at the same time share one access.
// Pages that are in T1 are served at once, by all lanes in parallel; the others
// one after another, by all lanes together. A lane that has an error gets a
// zero value and a status; the first error of all stays in Hot.first_error.
#pragma once

#include "acquire.cuh"
#include "store_drive.cuh"

namespace tritier {
namespace tier {

// same_lanes are the lanes of the group that hold the same v.
TRITIER_DEVICE uint32_t same_lanes(const Solo&, uint64_t) { return 1; }
#if TRITIER_GPU
TRITIER_DEVICE uint32_t same_lanes(const Lanes& g, uint64_t v) { return peers(g.bits, v); }
#endif
template <class G>
TRITIER_DEVICE uint32_t same_lanes(const G& g, uint64_t v) {
    uint32_t same = 0;
    for (uint32_t left = g.mask(); left != 0; left &= left - 1) {
        uint32_t lane = lowest_bit(left);
        same |= (g.from(v, lane) == v ? 1u : 0u) << lane;
    }
    return same;
}

// load_element and store_element move an element in one access, or two words
// of 8 bytes on a CPU, that others may be moving at the same time.
template <class T>
TRITIER_DEVICE T load_element(const void* p) {
    T v;
    if constexpr (sizeof(T) == 4) {
        uint32_t w = load_relaxed_gpu(static_cast<const uint32_t*>(p));
        __builtin_memcpy(&v, &w, 4);
    } else if constexpr (sizeof(T) == 8) {
        uint64_t w = load_relaxed_gpu(static_cast<const uint64_t*>(p));
        __builtin_memcpy(&v, &w, 8);
    } else if constexpr (sizeof(T) == 16) {
        Piece w = load16(p);
        __builtin_memcpy(&v, &w, 16);
    } else {
        const volatile uint8_t* from = static_cast<const volatile uint8_t*>(p);
        uint8_t w[sizeof(T)];
        for (uint32_t i = 0; i < sizeof(T); i++) {
            w[i] = from[i];
        }
        __builtin_memcpy(&v, w, sizeof(T));
    }
    return v;
}

template <class T>
TRITIER_DEVICE void store_element(void* p, const T& v) {
    if constexpr (sizeof(T) == 4) {
        uint32_t w;
        __builtin_memcpy(&w, &v, 4);
        store_relaxed_gpu(static_cast<uint32_t*>(p), w);
    } else if constexpr (sizeof(T) == 8) {
        uint64_t w;
        __builtin_memcpy(&w, &v, 8);
        store_relaxed_gpu(static_cast<uint64_t*>(p), w);
    } else if constexpr (sizeof(T) == 16) {
        Piece w;
        __builtin_memcpy(&w, &v, 16);
        store16(p, w);
    } else {
        volatile uint8_t* to = static_cast<volatile uint8_t*>(p);
        uint8_t w[sizeof(T)];
        __builtin_memcpy(w, &v, sizeof(T));
        for (uint32_t i = 0; i < sizeof(T); i++) {
            to[i] = w[i];
        }
    }
}

template <class T, class S = DriveStore>
struct array_ref : ArrayRef {
    static_assert(sizeof(T) <= 16 && (sizeof(T) & (sizeof(T) - 1)) == 0, "elements have 1, 2, 4, 8 or 16 bytes");

    // size is the number of elements.
    TRITIER_DEVICE uint64_t size() const { return length; }

    // The engine that the array lives in. user spreads the users of queues and
    // counters: a warp's number, or anything.
    TRITIER_DEVICE Context<S> context(uint32_t user) const {
        // What the array knows itself need not be loaded.
        const Engine* e = reinterpret_cast<const Engine*>(engine);
        return Context<S>{e, reinterpret_cast<uint64_t*>(entries), frame_memory, page_shift, static_cast<uint8_t>(user % kStripes), 0, S::open(e, user)};
    }

    // page_of is the engine's page that holds element i; offset_of where in it.
    TRITIER_DEVICE uint64_t page_of(uint64_t i) const { return first_page + ((i * sizeof(T)) >> page_shift); }
    TRITIER_DEVICE uint64_t offset_of(uint64_t i) const { return (i * sizeof(T)) & ((1ull << page_shift) - 1); }
    TRITIER_DEVICE void* element_at(uint32_t frame, uint64_t i) const {
        return reinterpret_cast<void*>(frame_memory + (static_cast<uint64_t>(frame) << page_shift) + offset_of(i));
    }

    // Reads and writes of single elements by threads, wherever the code has
    // diverged.
    TRITIER_DEVICE T operator[](uint64_t i) const {
        uint32_t status;
        return load(i, &status);
    }
    TRITIER_DEVICE T load(uint64_t i, uint32_t* status) const {
        return load(here(), context(user_here()), i, true, status);
    }
    TRITIER_DEVICE uint32_t store(uint64_t i, const T& v) const {
        return store(here(), context(user_here()), i, v, true);
    }
    // add adds to an unsigned element of 4 or 8 bytes, atomically, and returns
    // what it was.
    TRITIER_DEVICE T add(uint64_t i, T v, uint32_t* status) const {
        return add(here(), context(user_here()), i, v, true, status);
    }
    // prefetch brings the page of element i to T1, without waiting for others
    // that do.
    TRITIER_DEVICE void prefetch(uint64_t i) const { prefetch(here(), context(user_here()), i, true); }

    // The same by a group; lanes without want only help.
    template <class G>
    TRITIER_DEVICE T load(const G& g, const Context<S>& t, uint64_t i, bool want, uint32_t* status) const;
    template <class G>
    TRITIER_DEVICE uint32_t store(const G& g, const Context<S>& t, uint64_t i, const T& v, bool want) const {
        return change(g, t, i, want, [&v](void* p) { store_element<T>(p, v); });
    }
    template <class G>
    TRITIER_DEVICE T add(const G& g, const Context<S>& t, uint64_t i, T v, bool want, uint32_t* status) const {
        T old = 0;
        *status = change(g, t, i, want, [&old, v](void* p) { old = atomic_add_relaxed_gpu(static_cast<T*>(p), v); });
        return old;
    }
    template <class G>
    TRITIER_DEVICE void prefetch(const G& g, const Context<S>& t, uint64_t i, bool want) const;

    // change calls f with the address of element i of each lane of want, whose
    // page is pinned and dirty meanwhile.
    template <class G, class F>
    TRITIER_DEVICE uint32_t change(const G& g, const Context<S>& t, uint64_t i, bool want, F f) const;

private:
    TRITIER_DEVICE Lanes here() const { return Lanes::sharing(reinterpret_cast<const void*>(engine)); }
    TRITIER_DEVICE static uint32_t user_here() {
#if TRITIER_GPU
        return sm_id();
#else
        return 0;
#endif
    }
    // glance reads an element without a pin: the page was in the same frame
    // before and after. *e is its entry.
    TRITIER_DEVICE bool glance(const Context<S>& t, uint64_t page, uint64_t i, T* v, uint64_t* e) const {
        const uint64_t* entry = t.entries + page;
        *e = load_acquire_gpu(entry);
        if (state_of(*e) != kResidentT1) {
            return false;
        }
        *v = load_element<T>(element_at(location_of(*e), i));
        fence_acq_rel_gpu(); // the element before the second look
        return same_place(*e, load_relaxed_gpu(entry));
    }
};

template <class T, class S>
template <class G>
TRITIER_DEVICE T array_ref<T, S>::load(const G& g, const Context<S>& t, uint64_t i, bool want, uint32_t* status) const {
    *status = want && i >= length ? kOutOfRange : kTierOk;
    want = want && i < length;
    uint64_t page = want ? page_of(i) : ~0ull, e = 0;
    T v{};
    bool got = want && glance(t, page, i, &v, &e);
    // One access for each page that was found.
    uint32_t mates = same_lanes(g, got ? page : ~0ull);
    bool chief = got && g.lane() == lowest_bit(mates);
    uint32_t pages = count_bits(g.ballot(chief));
    if (g.leads() && pages != 0) {
        count(&stripe_of(t)->hits, pages);
    }
    if (chief) {
        touch(t, t.entries + page, e);
        if ((e & kSampled) != 0) {
            notice(t, static_cast<uint32_t>(page), kReadOp, 0);
        }
    }
    for (uint32_t left = g.ballot(want && !got); left != 0; left = g.ballot(want && !got)) {
        uint64_t p = g.from(page, lowest_bit(left));
        Access a = acquire(g, t, p, kReadOp);
        if (want && !got && page == p) {
            got = true;
            *status = a.status;
            v = a.status == kTierOk ? load_element<T>(element_at(a.frame, i)) : T{};
        }
        if (a.status == kTierOk) {
            release(g, t, p, false);
        }
    }
    return v;
}

template <class T, class S>
template <class G, class F>
TRITIER_DEVICE uint32_t array_ref<T, S>::change(const G& g, const Context<S>& t, uint64_t i, bool want, F f) const {
    uint32_t status = want && i >= length ? kOutOfRange : kTierOk;
    want = want && i < length;
    uint64_t page = want ? page_of(i) : ~0ull, e = 0;
    uint32_t first = lowest_bit(same_lanes(g, page)), found = 0;
    bool chief = want && g.lane() == first;
    if (chief && try_pin(t.entries + page, &e)) {
        found = 1;
        touch(t, t.entries + page, e);
        will_write(t, static_cast<uint32_t>(page), e, location_of(e));
        atomic_or_relaxed_gpu(t.entries + page, kDirty);
    }
    bool got = g.from(found, first) != 0 && want;
    uint32_t frame = g.from(location_of(e), first);
    if (got) {
        f(element_at(frame, i));
    }
    g.sync();
    if (found != 0) {
        unpin(t.entries + page, true);
        tick_hit(t, static_cast<uint32_t>(page), e, kWriteOp);
    }
    for (uint32_t left = g.ballot(want && !got); left != 0; left = g.ballot(want && !got)) {
        uint64_t p = g.from(page, lowest_bit(left));
        Access a = acquire(g, t, p, kWriteOp);
        if (want && !got && page == p) {
            got = true;
            status = a.status;
            if (a.status == kTierOk) {
                f(element_at(a.frame, i));
            }
        }
        if (a.status == kTierOk) {
            release(g, t, p, true);
        }
    }
    return status;
}

template <class T, class S>
template <class G>
TRITIER_DEVICE void array_ref<T, S>::prefetch(const G& g, const Context<S>& t, uint64_t i, bool want) const {
    want = want && i < length;
    uint64_t page = want ? page_of(i) : ~0ull;
    want = want && state_of(load_relaxed_gpu(t.entries + page)) != kResidentT1;
    for (uint32_t left = g.ballot(want); left != 0; left = g.ballot(want)) {
        uint64_t p = g.from(page, lowest_bit(left));
        acquire(g, t, p, kPrefetchOp);
        want = want && page != p;
    }
}

} // namespace tier

using tier::array_ref;

} // namespace tritier
