// Copies of payload between pinned host memory and the GPU, by a whole group,
// 16 bytes a lane and several loads in flight: a load over PCIe takes a
// microsecond, and only many at once fill the link.
#pragma once

#include "group.cuh"

namespace tritier {
namespace bamio {

constexpr uint32_t kInFlightLoads = 8; // of each lane

// pull copies payload to dst, both the same for all lanes, aligned to 16
// bytes; bytes is a multiple of 16. Another agent has written src (the
// controller), hence volatile loads: no cache answers for it.
template <class G>
TRITIER_DEVICE void pull(const G& g, void* dst, const void* src, uint64_t bytes) {
    const volatile uint4* from = static_cast<const volatile uint4*>(src);
    uint4* to = static_cast<uint4*>(dst);
    uint64_t n = bytes / 16;
    uint64_t step = g.size();
    uint64_t i = g.rank();
    for (; i + (kInFlightLoads - 1) * step < n; i += kInFlightLoads * step) {
        uint4 v[kInFlightLoads];
TRITIER_UNROLL
        for (uint32_t k = 0; k < kInFlightLoads; k++) {
            v[k] = load_volatile_v4(from + i + k * step);
        }
TRITIER_UNROLL
        for (uint32_t k = 0; k < kInFlightLoads; k++) {
            to[i + k * step] = v[k];
        }
    }
    for (; i < n; i += step) {
        to[i] = load_volatile_v4(from + i);
    }
    g.sync();
}

// push copies src to payload before a write command, with the same rules. The
// command of any lane may be submitted after it.
template <class G>
TRITIER_DEVICE void push(const G& g, void* dst, const void* src, uint64_t bytes) {
    const uint4* from = static_cast<const uint4*>(src);
    uint4* to = static_cast<uint4*>(dst);
    uint64_t n = bytes / 16;
    for (uint64_t i = g.rank(); i < n; i += g.size()) {
        to[i] = from[i];
    }
    g.sync();
}

// pull_some moves kInFlightLoads pieces of 16 bytes per lane of a full warp,
// from piece number first on; piece i is the (i % each)-th of lane i / each.
template <class G>
TRITIER_DEVICE void pull_some(const G& g, uint64_t to, uint64_t from, uint32_t each, uint32_t first) {
    uint4 v[kInFlightLoads];
    uint64_t at[kInFlightLoads];
TRITIER_UNROLL
    for (uint32_t k = 0; k < kInFlightLoads; k++) {
        uint32_t piece = first + 32 * k + g.lane();
        uint32_t owner = (each & (each - 1)) == 0 ? piece >> lowest_bit(each) : piece / each;
        uint64_t rest = static_cast<uint64_t>(piece - owner * each) * 16;
        // Every lane takes part in the shuffles, those without a piece too.
        uint64_t source = g.from(from, owner & 31) + rest;
        at[k] = g.from(to, owner & 31) + rest;
        if (owner < 32) {
            v[k] = load_volatile_v4(reinterpret_cast<const volatile uint4*>(source));
        } else {
            at[k] = 0;
        }
    }
TRITIER_UNROLL
    for (uint32_t k = 0; k < kInFlightLoads; k++) {
        if (at[k] != 0) {
            *reinterpret_cast<uint4*>(at[k]) = v[k];
        }
    }
}

// pull_each pulls for every lane of want from its own src to its own dst, bytes
// (the same for all) each. Small pieces of several lanes move in one pass.
template <class G>
TRITIER_DEVICE void pull_each(const G& g, void* dst, const void* src, uint32_t bytes, bool want) {
    uint64_t to = reinterpret_cast<uint64_t>(dst), from = reinterpret_cast<uint64_t>(src);
    uint32_t wanted = g.ballot(want);
    if (wanted == 0xffffffffu && bytes >= 16 && bytes < 16 * 32 * kInFlightLoads) {
        uint32_t each = bytes / 16;
        for (uint32_t i = 0; i < 32 * each; i += 32 * kInFlightLoads) {
            pull_some(g, to, from, each, i);
        }
        g.sync();
        return;
    }
    for (; wanted != 0; wanted &= wanted - 1) {
        uint32_t owner = lowest_bit(wanted);
        pull(g, reinterpret_cast<void*>(g.from(to, owner)), reinterpret_cast<const void*>(g.from(from, owner)), bytes);
    }
}

// push_each is pull_each the other way, before write commands.
template <class G>
TRITIER_DEVICE void push_each(const G& g, void* dst, const void* src, uint32_t bytes, bool want) {
    uint64_t to = reinterpret_cast<uint64_t>(dst), from = reinterpret_cast<uint64_t>(src);
    for (uint32_t wanted = g.ballot(want); wanted != 0; wanted &= wanted - 1) {
        uint32_t owner = lowest_bit(wanted);
        push(g, reinterpret_cast<void*>(g.from(to, owner)), reinterpret_cast<const void*>(g.from(from, owner)), bytes);
    }
}

} // namespace bamio
} // namespace tritier
