// Hit: an element of a page that is in T1, by the lanes that are here, in as few
// instructions as can be. A kernel that finds all that it reads is bound by them and by the
// trips to memory, of which there are three: entry, element, entry again (glance.cuh).
#pragma once

#include "glance.cuh"

namespace tritier {
namespace tier {

// kLogSize is the logarithm of an element's size.
template <class T>
constexpr uint32_t kLogSize = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : sizeof(T) == 8 ? 3 : 4;

// wide is a * b + c in one instruction, where compilers make shifts and sums of 64 bits.
TRITIER_DEVICE uint64_t wide(uint32_t a, uint32_t b, uint64_t c) {
#if TRITIER_GPU
    uint64_t v;
    asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(v) : "r"(a), "r"(b), "l"(c));
    return v;
#else
    return static_cast<uint64_t>(a) * b + c;
#endif
}

// plain is v, of which the compiler knows nothing. What it knows it uses: single bits are
// tested apart, products with powers of two become shifts and sums, and what follows from a
// loop's index becomes an index of its own.
template <class T>
TRITIER_DEVICE T plain(T v) {
#if TRITIER_GPU
    if constexpr (sizeof(T) == 8) {
        asm("" : "+l"(v));
    } else {
        asm("" : "+r"(v));
    }
#endif
    return v;
}

// What hits need to know of a group, by one instruction each where the group is lanes of a
// warp. whole: all the lanes that there are. all: a vote. below: the lanes with lower
// numbers. mates: those that hold the same v.
#if TRITIER_GPU
TRITIER_DEVICE bool whole(const Lanes& g) { return g.bits == ~0u; }
TRITIER_DEVICE bool all(const Lanes& g, bool p) { return __all_sync(g.bits, p) != 0; }
TRITIER_DEVICE uint32_t below(const Lanes&) { return lanes_below(); }
TRITIER_DEVICE uint32_t mates(const Lanes& g, uint32_t v) { return peers(g.bits, v); }
TRITIER_DEVICE uint32_t first_of(const Lanes& g) { return leader(g.bits); }
#endif
template <class G>
TRITIER_DEVICE bool whole(const G&) {
    return true;
}
template <class G>
TRITIER_DEVICE bool all(const G& g, bool p) {
    return g.ballot(p) == g.mask();
}
template <class G>
TRITIER_DEVICE uint32_t below(const G& g) {
    return (1u << g.lane()) - 1;
}
template <class G>
TRITIER_DEVICE uint32_t mates(const G& g, uint32_t v) {
    return same_lanes(g, v);
}
template <class G>
TRITIER_DEVICE uint32_t first_of(const G& g) {
    return lowest_bit(g.mask());
}

// unmoved says whether a page's entry, low and high at the first look, was in the same place at the
// second one, and a plain hit: want in the bits that are minded.
TRITIER_DEVICE bool unmoved(uint32_t low, uint32_t high, uint64_t second, uint32_t want, uint32_t minded) {
    constexpr uint64_t kPlace = kStateMask | kGenerationMask | kLocationMask; // see same_place
    uint32_t now = static_cast<uint32_t>(second), rest = static_cast<uint32_t>(second >> 32);
    return (((low ^ now) & static_cast<uint32_t>(kPlace)) | ((high ^ rest) & static_cast<uint32_t>(kPlace >> 32)) |
            ((now ^ want) & minded)) == 0;
}

// several counts the pages of lanes that are no full warp in one page: all else is no hot
// path. False: one of them has to look again.
template <class G>
TRITIER_DEVICE bool several(const G& g, const ArrayRef& a, bool good, uint64_t entry, uint32_t* pages) {
    bool one = a.entries == g.from(a.entries, first_of(g)); // of one engine
    uint32_t same = mates(g, static_cast<uint32_t>(entry >> 3));
    *pages = count_bits(g.ballot((same & below(g)) == 0));
    return all(g, good & one);
}

// present is the group of lanes: who are named, or with Here those that are there right now.
// load_hit asks only after its constants are in registers: asked before, ptxas has the loop of
// 16 bytes take 5 % longer.
struct Here {};
#if TRITIER_GPU
TRITIER_DEVICE Lanes present(const Here&) { return Lanes{__activemask()}; }
#endif
template <class G>
TRITIER_DEVICE const G& present(const G& g) {
    return g;
}

// load_hit reads element i of a by lanes: a group, or Here. True: all of them have found
// theirs, and nobody has to be told but the count of hits, which has a hit for each of the
// pages.
template <class T, class L>
TRITIER_DEVICE bool load_hit(const L& lanes, const ArrayRef& a, uint64_t i, T* v) {
    uint32_t zero = never(a.flags); // what hangs on it stays in registers
    uint32_t touched = (a.flags & kTouches) != 0 ? static_cast<uint32_t>(kRef) : 0;
    uint32_t want = plain(kResidentT1 | touched), minded = plain(static_cast<uint32_t>(kStateMask | kSampled) | touched);
    const auto& g = present(lanes);
    uint32_t shift = a.page_shift - kLogSize<T>; // log2 of the elements in a page
    i = plain(i);
    uint32_t page = i < a.length ? a.first_page + static_cast<uint32_t>(i >> shift) : a.nowhere;
    uint64_t at = wide(page, sizeof(uint64_t) + zero, a.entries);
    uint64_t first = first_look(reinterpret_cast<const uint64_t*>(at));
    uint32_t low = static_cast<uint32_t>(first), high = static_cast<uint32_t>(first >> 32);
    uint32_t frame = ((low ^ want) & kStateMask) == 0 ? location_of(first) : 0;
    uint32_t inside = static_cast<uint32_t>(i) & ((1u << shift) - 1);
    uint64_t element = wide(inside, sizeof(T) + zero, wide(frame, 1u << a.page_shift, a.frame_memory));
    *v = load_element<T>(reinterpret_cast<const void*>(element));
    // While the element is on its way. All lanes take part in a shuffle, whose answer counts
    // if there is a lane 0.
    uint64_t zeroth = g.from(at, 0u);
    bool same = (at == zeroth) & whole(g);
    uint64_t second = second_look(reinterpret_cast<const uint64_t*>(at), *v, zero);
    bool good = unmoved(low, high, second, want, minded);
    uint32_t pages = 1;
    if (!all(g, good & same) && !several(g, a, good, at, &pages)) {
        return false;
    }
    // A stripe is chosen by the element's place: any spreads as well, and this one is known.
    uint64_t stripe = a.stripes | (static_cast<uint32_t>(element) & (kStripes - 1) * sizeof(Stripe));
    count_if((g.mask() & (below(g) + zero)) == 0, reinterpret_cast<uint64_t*>(stripe), pages);
    return true;
}

} // namespace tier
} // namespace tritier
