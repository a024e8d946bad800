// Hit: an element of a page that is in T1, by the lanes that are here, in as few
// instructions as can be. A kernel that finds all that it reads is bound by them and by the
// trips to memory, of which there are three: entry, element, entry again (glance.cuh).
#pragma once

#include "glance.cuh"

#if TRITIER_GPU
namespace tritier {
namespace tier {

// kLogSize is the logarithm of an element's size.
template <class T>
constexpr uint32_t kLogSize = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : sizeof(T) == 8 ? 3 : 4;

// wide is a * b + c in one instruction, where compilers make shifts and sums of 64 bits.
TRITIER_DEVICE uint64_t wide(uint32_t a, uint32_t b, uint64_t c) {
    uint64_t v;
    asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(v) : "r"(a), "r"(b), "l"(c));
    return v;
}

// plain is v, of which the compiler knows nothing. What it knows it uses: single bits are
// tested apart, products with powers of two become shifts and sums, and what follows from a
// loop's index becomes an index of its own.
template <class T>
TRITIER_DEVICE T plain(T v) {
    if constexpr (sizeof(T) == 8) {
        asm("" : "+l"(v));
    } else {
        asm("" : "+r"(v));
    }
    return v;
}

// several counts the pages of lanes that are no full warp in one page: all else is no hot
// path. False: one of them has to look again.
TRITIER_DEVICE bool several(const ArrayRef& a, uint32_t lanes, bool good, uint64_t entry, uint32_t* pages) {
    bool one = a.entries == broadcast(lanes, a.entries, leader(lanes)); // of one engine
    uint32_t mates = peers(lanes, static_cast<uint32_t>(entry >> 3));
    *pages = count_bits(__ballot_sync(lanes, (mates & lanes_below()) == 0));
    return __all_sync(lanes, (good & one) != 0) != 0;
}

// load_hit reads element i of a. True: all lanes that are here have found theirs, and nobody
// has to be told but the count of hits, which has a hit for each of the pages.
template <class T>
TRITIER_DEVICE bool load_hit(const ArrayRef& a, uint64_t i, T* v) {
    constexpr uint64_t kPlace = kStateMask | kGenerationMask | kLocationMask; // see same_place
    uint32_t zero = never(a.flags);                                          // what hangs on it stays in registers
    uint32_t touched = (a.flags & kTouches) != 0 ? static_cast<uint32_t>(kRef) : 0;
    uint32_t want = plain(kResidentT1 | touched), minded = plain(static_cast<uint32_t>(kStateMask | kSampled) | touched);
    uint32_t lanes = __activemask(), shift = a.page_shift - kLogSize<T>; // log2 of the elements in a page
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
    bool same = (at == broadcast(lanes, at, 0u)) & (lanes == ~0u);
    at = hung_on(at, *v, zero);
    uint64_t second = load_frame(reinterpret_cast<const uint64_t*>(at));
    uint32_t now = static_cast<uint32_t>(second), rest = static_cast<uint32_t>(second >> 32);
    bool good = (((low ^ now) & static_cast<uint32_t>(kPlace)) | ((high ^ rest) & static_cast<uint32_t>(kPlace >> 32)) |
                 ((now ^ want) & minded)) == 0;
    uint32_t pages = 1;
    if (!__all_sync(lanes, good & same) && !several(a, lanes, good, at, &pages)) {
        return false;
    }
    // A stripe is chosen by the element's place: any spreads as well, and this one is known.
    uint64_t stripe = a.stripes | (static_cast<uint32_t>(element) & (kStripes - 1) * sizeof(Stripe));
    count_if((lanes & (lanes_below() + zero)) == 0, reinterpret_cast<uint64_t*>(stripe), pages);
    return true;
}

} // namespace tier
} // namespace tritier
#endif
