// Each: several elements of each lane at once. The trips to memory of hit.cuh, three for an
// element, are made by all elements together: what a kernel waits for is three trips for N
// elements, and one count.
#pragma once

#include "hit.cuh"

namespace tritier {
namespace tier {

// Sought is what every element of an array is found by.
struct Sought {
    uint32_t zero, want, minded, shift; // see load_hit

    TRITIER_DEVICE Sought(const ArrayRef& a, uint32_t log_size) {
        zero = never(a.flags);
        uint32_t touched = (a.flags & kTouches) != 0 ? static_cast<uint32_t>(kRef) : 0;
        want = plain(kResidentT1 | touched);
        minded = plain(static_cast<uint32_t>(kStateMask | kSampled) | touched);
        shift = a.page_shift - log_size;
    }
};

// Look is an element's page, its entry at the first look, and where in the page it is.
struct Look {
    uint32_t page, low, high, inside;

    Look() = default;
    TRITIER_DEVICE Look(const ArrayRef& a, const Sought& s, uint64_t i) {
        i = plain(i);
        inside = static_cast<uint32_t>(i) & ((1u << s.shift) - 1);
        page = i < a.length ? a.first_page + static_cast<uint32_t>(i >> s.shift) : a.nowhere;
        uint64_t e = first_look(reinterpret_cast<const uint64_t*>(wide(page, sizeof(uint64_t) + s.zero, a.entries)));
        low = static_cast<uint32_t>(e);
        high = static_cast<uint32_t>(e >> 32);
    }

    // element is where the element would be: in frame 0 for a page that is not in T1.
    template <class T>
    TRITIER_DEVICE uint64_t element(const ArrayRef& a, const Sought& s) const {
        uint32_t frame = ((low ^ s.want) & kStateMask) == 0 ? location_of(low | static_cast<uint64_t>(high) << 32) : 0;
        return wide(inside, sizeof(T) + s.zero, wide(frame, 1u << a.page_shift, a.frame_memory));
    }

    // held says whether the page was there before and after its element v was read.
    template <class T>
    TRITIER_DEVICE bool held(const ArrayRef& a, const Sought& s, const T& v) const {
        uint64_t at = wide(page, sizeof(uint64_t) + s.zero, a.entries);
        uint64_t second = second_look(reinterpret_cast<const uint64_t*>(at), v, s.zero);
        return unmoved(low, high, second, s.want, s.minded);
    }
};

// count_found is the pages of all the elements that every lane has found: bit k of *found is
// set for such an element.
template <uint32_t N, class G>
TRITIER_DEVICE uint32_t count_found(const G& g, const ArrayRef& a, const Look (&look)[N], uint32_t held, uint32_t* found) {
    bool one = a.entries == g.from(a.entries, first_of(g)); // of one engine
    bool same = one & (held == (1u << N) - 1) & whole(g);
TRITIER_UNROLL
    for (uint32_t k = 0; k < N; k++) { // all lanes take part in a shuffle: see load_hit
        same &= look[k].page == g.from(look[k].page, 0u);
    }
    if (all(g, same)) {
        *found = (1u << N) - 1;
        return N;
    }
    uint32_t sum = 0;
    *found = 0;
TRITIER_UNROLL
    for (uint32_t k = 0; k < N; k++) {
        uint32_t pages = count_bits(g.ballot((mates(g, look[k].page) & below(g)) == 0));
        bool good = all(g, ((held >> k & 1) != 0) & one);
        *found |= (good ? 1u : 0u) << k;
        sum += good ? pages : 0;
    }
    return sum;
}

// load_hits reads elements i of a by the lanes that are here. It returns the set of those
// that all of them have found: nobody has to be told but the count of hits, which has been.
template <uint32_t N, class T, class G>
TRITIER_DEVICE uint32_t load_hits(const G& g, const ArrayRef& a, const uint64_t (&i)[N], T (&v)[N]) {
    static_assert(N > 0 && N <= 16, "of each element, its entry stays in registers");
    Sought s(a, kLogSize<T>);
    Look look[N];
    uint32_t held = 0, found, spot = 0;
TRITIER_UNROLL
    for (uint32_t k = 0; k < N; k++) {
        look[k] = Look(a, s, i[k]);
    }
TRITIER_UNROLL
    for (uint32_t k = 0; k < N; k++) {
        uint64_t at = look[k].template element<T>(a, s);
        v[k] = load_element<T>(reinterpret_cast<const void*>(at));
        spot = k == 0 ? static_cast<uint32_t>(at) : spot;
    }
TRITIER_UNROLL
    for (uint32_t k = 0; k < N; k++) {
        held |= (look[k].held(a, s, v[k]) ? 1u : 0u) << k;
    }
    uint32_t pages = count_found(g, a, look, held, &found);
    uint64_t stripe = a.stripes | (spot & (kStripes - 1) * sizeof(Stripe));
    count_if((g.mask() & (below(g) + s.zero)) == 0 && pages != 0, reinterpret_cast<uint64_t*>(stripe), pages);
    return found;
}

} // namespace tier
} // namespace tritier
