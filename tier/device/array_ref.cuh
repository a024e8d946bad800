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
#include "each.cuh"
#include "hit.cuh"
#include "store_drive.cuh"

namespace tritier {
namespace tier {

// Loaded is an element and how its access ended.
template <class T>
struct Loaded {
    T value;
    uint32_t status;
};

template <class T, class S = DriveStore>
struct array_ref;

// load_here is load by the lanes that are here, for all that is no plain hit. Its few
// arguments fit into registers.
template <class T, class S>
TRITIER_SLOW Loaded<T> load_here(uint64_t engine, uint32_t first_page, uint64_t length, uint64_t i);

template <class T, class S>
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
    TRITIER_DEVICE uint64_t page_of(uint64_t i) const { return uint64_t{first_page} + ((i * sizeof(T)) >> page_shift); }
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
#if TRITIER_GPU
        T v;
        *status = kTierOk;
        if (load_hit(Here{}, *this, i, &v)) {
            return v;
        }
#endif
        return load_slowly(i, status);
    }
    // load_each reads N elements, whose trips to memory are made together: a kernel that
    // mostly hits waits for one access, not for N. It returns the status of the first that
    // failed; the values of those that did are zero.
    template <uint32_t N>
    TRITIER_DEVICE uint32_t load_each(const uint64_t (&i)[N], T (&v)[N]) const {
        uint32_t found = 0, status = kTierOk;
#if TRITIER_GPU
        found = load_hits(Lanes{__activemask()}, *this, i, v);
        if (found == (1u << N) - 1) {
            return kTierOk;
        }
#endif
TRITIER_UNROLL
        for (uint32_t k = 0; k < N; k++) {
            if ((found >> k & 1) == 0) {
                uint32_t mine;
                v[k] = load_slowly(i[k], &mine);
                status = status == kTierOk ? mine : status;
            }
        }
        return status;
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

    TRITIER_DEVICE Lanes here() const { return Lanes::sharing(reinterpret_cast<const void*>(engine)); }
    TRITIER_DEVICE static uint32_t user_here() {
#if TRITIER_GPU
        return sm_id();
#else
        return 0;
#endif
    }
private:
    // load_slowly is load for all that is no plain hit.
    TRITIER_DEVICE T load_slowly(uint64_t i, uint32_t* status) const {
#if TRITIER_GPU
        Loaded<T> l = far_call(&load_here<T, S>, never(flags))(engine, first_page, length, i);
        *status = l.status;
        return l.value;
#else
        return load(here(), context(user_here()), i, true, status);
#endif
    }
    // glance reads an element without a pin: the page was in the same frame before and
    // after. *e is its entry.
    TRITIER_DEVICE bool glance(uint64_t page, uint64_t i, T* v, uint64_t* e) const {
        const uint64_t* entry = reinterpret_cast<const uint64_t*>(entries) + page;
        uint64_t first = first_look(entry);
TRITIER_NO_UNROLL
        for (uint32_t tries = 0; tries < 3; tries++) {
            if (state_of(first) == kResidentT1) {
                *v = load_element<T>(element_at(location_of(first), i));
                *e = second_look(entry, *v, never(flags));
                if (same_place(first, *e)) {
                    return true;
                }
            }
            // Acquired: so the L1 cache forgets what it held of the entry, for later looks too.
            *e = load_acquire_gpu(entry);
            if (state_of(*e) != kResidentT1) {
                return false;
            }
            first = *e;
        }
        return false;
    }
};

// found_page tells T1's order and the observers of a page that a glance has found; e is
// its entry.
template <class S>
TRITIER_SLOW void found_page(const Engine* engine, uint32_t user, uint32_t page, uint64_t e, uint32_t flags) {
    Context<S> t = open_context<S>(engine, user);
    if ((flags & kTouches) != 0 && (e & kRef) == 0) {
        atomic_or_relaxed_gpu(t.entries + page, kRef);
    }
    if ((e & kSampled) != 0) {
        notice(t, page, kReadOp, 0);
    }
}

// acquire_any is acquire, called and not repeated in the code of every access.
template <class G, class S>
TRITIER_SLOW Access acquire_any(G g, Context<S> t, uint64_t page, uint32_t op) {
    return acquire(g, t, page, op);
}

// load_missed is load for the lanes whose glance found nothing. It is a function of its
// own, with few arguments, so that a loop of hits keeps its registers.
template <class T, class S, class G>
TRITIER_SLOW Loaded<T> load_missed(G g, Context<S> t, array_ref<T, S> a, uint64_t i, bool want) {
    Loaded<T> l{T{}, kTierOk};
    uint64_t page = want ? a.page_of(i) : ~0ull;
    for (uint32_t left = g.ballot(want); left != 0; left = g.ballot(want)) {
        uint64_t p = g.from(page, lowest_bit(left));
        Access x = acquire(g, t, p, kReadOp);
        if (want && page == p) {
            want = false;
            l.status = x.status;
            l.value = x.status == kTierOk ? load_element<T>(a.element_at(x.frame, i)) : T{};
        }
        if (x.status == kTierOk) {
            release(g, t, p, false);
        }
    }
    return l;
}

template <class T, class S>
template <class G>
TRITIER_DEVICE T array_ref<T, S>::load(const G& g, const Context<S>& t, uint64_t i, bool want, uint32_t* status) const {
    *status = want && i >= length ? kOutOfRange : kTierOk;
    want = want && i < length;
    uint64_t page = want ? page_of(i) : ~0ull, e = 0;
    T v{};
    bool got = want && glance(page, i, &v, &e);
    // One access for each page that was found.
    uint32_t mates = same_lanes(g, got ? static_cast<uint32_t>(page) : kNone);
    bool chief = got && g.lane() == lowest_bit(mates);
    uint32_t pages = count_bits(g.ballot(chief));
    count_if(g.leads() && pages != 0, &(reinterpret_cast<Stripe*>(stripes) + t.stripe)->hits, pages);
    if (chief && ((e & kSampled) != 0 || ((e & kRef) == 0 && (flags & kTouches) != 0))) {
        found_page<S>(t.e, t.stripe, static_cast<uint32_t>(page), e, flags);
    }
    if (g.any(want && !got)) {
        Loaded<T> l = load_missed<T, S, G>(g, t, *this, i, want && !got);
        if (want && !got) {
            v = l.value;
            *status = l.status;
        }
    }
    g.sync(); // the lanes go on together
    return v;
}

template <class T, class S>
TRITIER_SLOW Loaded<T> load_here(uint64_t engine, uint32_t first_page, uint64_t length, uint64_t i) {
    const Engine* e = reinterpret_cast<const Engine*>(engine);
    array_ref<T, S> a;
    a.engine = engine;
    a.page_shift = static_cast<uint8_t>(e->page_shift);
    // The version, which has not that bit either, for what a compiler knows to be 0 would
    // take the second look's address off the element: see glance.cuh.
    a.flags = static_cast<uint16_t>((e->t1_policy == kT1Clock ? kTouches : 0) | (e->version & kNever));
    a.entries = e->entries;
    a.frame_memory = e->frame_memory;
    a.stripes = e->stripes;
    a.first_page = first_page;
    a.length = length;
    Loaded<T> l;
    l.value = a.load(a.here(), a.context(a.user_here()), i, true, &l.status);
    return l;
}

template <class T, class S>
template <class G, class F>
TRITIER_DEVICE uint32_t array_ref<T, S>::change(const G& g, const Context<S>& t, uint64_t i, bool want, F f) const {
    uint32_t status = want && i >= length ? kOutOfRange : kTierOk;
    want = want && i < length;
    uint64_t page = want ? page_of(i) : ~0ull, e = 0;
    uint32_t first = lowest_bit(same_lanes(g, want ? static_cast<uint32_t>(page) : kNone)), found = 0;
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
        Access a = acquire_any(g, t, p, kWriteOp);
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
    g.sync();
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
        acquire_any(g, t, p, kPrefetchOp);
        want = want && page != p;
    }
}

} // namespace tier

using tier::array_ref;

} // namespace tritier
