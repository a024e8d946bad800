// Groups of lanes that work on one queue together.
//
// Queue code is written once, as templates over a group G:
//
//   Lanes  lanes of one warp, by mask (on a CPU: the same as Solo)
//   Solo   one thread alone
//
// and anything else with the same members; the tests have a group whose lanes
// are CPU threads. All lanes of a group call each function together, with the
// same Port; where lanes may differ, a parameter `want` says which of them
// have something to do. Lane numbers are below 32, mask() names the members.
#pragma once

#include "tritier.cuh"

// Before loops of a few rounds, all wanted, and before loops that hardly ever
// come to a second round, which must not be repeated in the code. nvcc knows
// only its own spelling; on a CPU the second is left to the compiler.
#if TRITIER_GPU
#define TRITIER_UNROLL _Pragma("unroll")
#define TRITIER_NO_UNROLL _Pragma("unroll 1")
#else
#define TRITIER_UNROLL _Pragma("GCC unroll 8")
#define TRITIER_NO_UNROLL
#endif

namespace tritier {
namespace bamio {

TRITIER_DEVICE uint32_t count_bits(uint32_t v) {
#if TRITIER_GPU
    return static_cast<uint32_t>(__popc(v));
#else
    return static_cast<uint32_t>(__builtin_popcount(v));
#endif
}

// lowest_bit is the number of the lowest bit of v, which is not 0.
TRITIER_DEVICE uint32_t lowest_bit(uint32_t v) {
#if TRITIER_GPU
    return static_cast<uint32_t>(__ffs(static_cast<int>(v)) - 1);
#else
    return static_cast<uint32_t>(__builtin_ctz(v));
#endif
}

// bits_below is the number of bits of mask below bit lane.
TRITIER_DEVICE uint32_t bits_below(uint32_t mask, uint32_t lane) { return count_bits(mask & ((1u << lane) - 1)); }

// Solo is a group of one.
struct Solo {
    TRITIER_DEVICE static Solo full() { return Solo{}; }
    TRITIER_DEVICE static Solo sharing(const void*) { return Solo{}; }
    TRITIER_DEVICE uint32_t mask() const { return 1; }
    TRITIER_DEVICE uint32_t size() const { return 1; }
    TRITIER_DEVICE uint32_t lane() const { return 0; }
    TRITIER_DEVICE uint32_t rank() const { return 0; }
    TRITIER_DEVICE bool leads() const { return true; }
    TRITIER_DEVICE uint32_t ballot(bool p) const { return p ? 1 : 0; }
    TRITIER_DEVICE bool any(bool p) const { return p; }
    template <class T>
    TRITIER_DEVICE T from(T v, uint32_t) const {
        return v;
    }
    TRITIER_DEVICE void sync() const {}
};

#if TRITIER_GPU
// Lanes are the lanes of bits in this warp.
struct Lanes {
    uint32_t bits;

    // full is the whole warp; every lane must be there.
    TRITIER_DEVICE static Lanes full() { return Lanes{full_warp}; }
    // sharing is those of the lanes that are here right now, wherever the
    // warp has diverged, that hold the same p. They stay together until the
    // group is dropped, since every operation waits for all of them.
    TRITIER_DEVICE static Lanes sharing(const void* p) {
        uint32_t here = __activemask();
        uint64_t v = reinterpret_cast<uint64_t>(p);
        // Mostly all do, which a vote finds faster than a match.
        return Lanes{__all_sync(here, v == broadcast(here, v, leader(here))) ? here : peers(here, v)};
    }
    TRITIER_DEVICE uint32_t mask() const { return bits; }
    TRITIER_DEVICE uint32_t size() const { return count_bits(bits); }
    TRITIER_DEVICE uint32_t lane() const { return lane_id(); }
    TRITIER_DEVICE uint32_t rank() const { return tritier::rank(bits); }
    TRITIER_DEVICE bool leads() const { return is_leader(bits); }
    TRITIER_DEVICE uint32_t ballot(bool p) const { return __ballot_sync(bits, p); }
    TRITIER_DEVICE bool any(bool p) const { return __any_sync(bits, p) != 0; }
    TRITIER_DEVICE bool all(bool p) const { return __all_sync(bits, p) != 0; }
    template <class T>
    TRITIER_DEVICE T from(T v, uint32_t lane) const {
        return broadcast(bits, v, lane);
    }
    // sync also orders memory: what a lane wrote before is seen by all after.
    TRITIER_DEVICE void sync() const { __syncwarp(bits); }
};
#else
using Lanes = Solo;
#endif

// leading counts the members, from the lowest lane on, up to the first for
// which the bit in votes is clear.
template <class G>
TRITIER_DEVICE uint32_t leading(const G& g, uint32_t votes) {
    uint32_t against = g.mask() & ~votes;
    return against == 0 ? g.size() : bits_below(g.mask(), lowest_bit(against));
}

// from_leader gives every lane the leader's v.
template <class G, class T>
TRITIER_DEVICE T from_leader(const G& g, T v) {
    return g.from(v, lowest_bit(g.mask()));
}

} // namespace bamio
} // namespace tritier
