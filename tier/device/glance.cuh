// What an element's access is made of: moves of one element, and the two looks at a
// page's entry between which it is read without a pin.
//
// The first look may be out of date, from the L1 cache: what counts is the second one,
// which has to find the page in the same frame and in the same generation. On a GPU no
// fence stands between the element and the second look. It would wait for all that the
// warp has written, and empty the L1 cache, in every access. Instead the look's address
// hangs on the element's value, by a bit that is never set and that no compiler knows of:
// it is made when the value has come. Both are strong loads, which the L2 cache serves,
// where every word has one order. That is what ld.acquire does on the hardware, but for
// the emptying of L1. An evicting group changes the entry and has a fence before it
// writes to the frame (take_frame), so that who has read its bytes sees the entry changed;
// a frame that it could not fill is free only after that fence.
#pragma once

#include "context.cuh"

namespace tritier {
namespace tier {

constexpr uint32_t kNever = 1u << 15; // in ArrayRef.flags: not set, ever

// never is 0, and no compiler knows: the lowest bit of a word, which every element has.
TRITIER_DEVICE uint32_t never(uint32_t flags) { return flags >> 15; }

// same_lanes are the lanes of the group that hold the same v.
TRITIER_DEVICE uint32_t same_lanes(const Solo&, uint32_t) { return 1; }
#if TRITIER_GPU
TRITIER_DEVICE uint32_t same_lanes(const Lanes& g, uint32_t v) {
    // Mostly all do, which a vote finds faster than a match.
    return g.all(v == from_leader(g, v)) ? g.bits : peers(g.bits, v);
}
#endif
template <class G>
TRITIER_DEVICE uint32_t same_lanes(const G& g, uint32_t v) {
    uint32_t same = 0;
    for (uint32_t left = g.mask(); left != 0; left &= left - 1) {
        uint32_t lane = lowest_bit(left);
        same |= (g.from(v, lane) == v ? 1u : 0u) << lane;
    }
    return same;
}

// load_frame is load_relaxed_gpu for memory that is known to be the GPU's own.
TRITIER_DEVICE uint32_t load_frame(const uint32_t* p) {
#if TRITIER_GPU
    uint32_t v;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
#else
    return load_relaxed_gpu(p);
#endif
}
TRITIER_DEVICE uint64_t load_frame(const uint64_t* p) {
#if TRITIER_GPU
    uint64_t v;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
#else
    return load_relaxed_gpu(p);
#endif
}
TRITIER_DEVICE Piece load_frame16(const void* p) {
#if TRITIER_GPU
    uint4 v;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
    return Piece{v};
#else
    return load16(p);
#endif
}

// short_word is the word of an element of 1 or 2 bytes.
template <uint32_t>
struct short_word;
template <>
struct short_word<1> {
    using type = uint8_t;
};
template <>
struct short_word<2> {
    using type = uint16_t;
};

// load_element and store_element move an element in one access, or two words
// of 8 bytes on a CPU, that others may be moving at the same time.
template <class T>
TRITIER_DEVICE T load_element(const void* p) {
    T v;
    if constexpr (sizeof(T) == 4) {
        uint32_t w = load_frame(static_cast<const uint32_t*>(p));
        __builtin_memcpy(&v, &w, 4);
    } else if constexpr (sizeof(T) == 8) {
        uint64_t w = load_frame(static_cast<const uint64_t*>(p));
        __builtin_memcpy(&v, &w, 8);
    } else if constexpr (sizeof(T) == 16) {
        Piece w = load_frame16(p);
        __builtin_memcpy(&v, &w, 16);
    } else {
        using Word = typename short_word<sizeof(T)>::type;
#if TRITIER_GPU
        Word w = *static_cast<const volatile Word*>(p);
#else
        Word w = __atomic_load_n(static_cast<const Word*>(p), __ATOMIC_RELAXED);
#endif
        __builtin_memcpy(&v, &w, sizeof(T));
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
        typename short_word<sizeof(T)>::type w;
        __builtin_memcpy(&w, &v, sizeof(T));
#if TRITIER_GPU
        *static_cast<volatile decltype(w)*>(p) = w;
#else
        __atomic_store_n(static_cast<decltype(w)*>(p), w, __ATOMIC_RELAXED);
#endif
    }
}

// first_look reads an entry as it is or was.
TRITIER_DEVICE uint64_t first_look(const uint64_t* entry) {
#if TRITIER_GPU
    uint64_t e;
    asm volatile("ld.global.ca.u64 %0, [%1];" : "=l"(e) : "l"(entry) : "memory");
    return e;
#else
    return load_acquire_gpu(entry);
#endif
}

#if TRITIER_GPU
// hung_on is the address at, made when v has come: zero is 0.
template <class T>
TRITIER_DEVICE uint64_t hung_on(uint64_t at, const T& v, uint32_t zero) {
    uint32_t word = 0;
    if constexpr (sizeof(T) > 4) {
        uint32_t part[sizeof(T) / 4];
        __builtin_memcpy(part, &v, sizeof(T));
        for (uint32_t p : part) word |= p;
    } else {
        __builtin_memcpy(&word, &v, sizeof(T));
    }
    return at | (word & zero);
}
#endif

// second_look reads an entry after v was read. zero is 0.
template <class T>
TRITIER_DEVICE uint64_t second_look(const uint64_t* entry, const T& v, uint32_t zero) {
#if TRITIER_GPU
    return load_frame(reinterpret_cast<const uint64_t*>(hung_on(reinterpret_cast<uint64_t>(entry), v, zero)));
#else
    static_cast<void>(v);
    static_cast<void>(zero);
    fence_acq_rel_gpu();
    return load_relaxed_gpu(entry);
#endif
}

} // namespace tier
} // namespace tritier
