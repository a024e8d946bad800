// Helpers for the 32 lanes of a warp. Only on a GPU: CPU threads that stand for
// lanes have no shuffles.
//
// A mask names lanes, bit i for lane i. Every lane in the mask must reach the
// same call with the same mask.
#pragma once

#include "platform.cuh"

#if TRITIER_GPU

namespace tritier {

constexpr uint32_t full_warp = 0xffffffffu;

// lane_id is this thread's number in its warp, 0 to 31.
TRITIER_DEVICE uint32_t lane_id() {
    uint32_t v;
    asm("mov.u32 %0, %%laneid;" : "=r"(v));
    return v;
}

// sm_id is the multiprocessor that the thread runs on right now; a hint, for
// spreading over per-processor structures.
TRITIER_DEVICE uint32_t sm_id() {
    uint32_t v;
    asm("mov.u32 %0, %%smid;" : "=r"(v)); // not volatile: once before a loop will do
    return v;
}

// lanes_below is the mask of the lanes with lower numbers.
TRITIER_DEVICE uint32_t lanes_below() {
    uint32_t v;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(v));
    return v;
}

// leader is the lowest lane of mask, which is not 0.
TRITIER_DEVICE uint32_t leader(uint32_t mask) {
    uint32_t v; // two instructions; compilers make six, for a mask of 0 too
    asm("{ .reg .b32 t; brev.b32 t, %1; clz.b32 %0, t; }" : "=r"(v) : "r"(mask));
    return v;
}

// is_leader says whether this lane is the lowest of mask.
TRITIER_DEVICE bool is_leader(uint32_t mask) { return lane_id() == leader(mask); }

// rank is the number of lanes of mask below this one: 0 for the leader.
TRITIER_DEVICE uint32_t rank(uint32_t mask) { return static_cast<uint32_t>(__popc(mask & lanes_below())); }

// broadcast gives every lane of mask the value of lane from, one of them.
template <class T>
TRITIER_DEVICE T broadcast(uint32_t mask, T v, uint32_t from) {
    return __shfl_sync(mask, v, static_cast<int>(from));
}

// peers is the mask of the lanes of mask that hold the same value.
TRITIER_DEVICE uint32_t peers(uint32_t mask, uint32_t v) { return __match_any_sync(mask, v); }
TRITIER_DEVICE uint32_t peers(uint32_t mask, uint64_t v) {
    return __match_any_sync(mask, static_cast<unsigned long long>(v));
}

// warp_sum adds v over all 32 lanes and gives each the sum.
template <class T>
TRITIER_DEVICE T warp_sum(T v) {
    for (int step = 16; step > 0; step /= 2) {
        v += __shfl_xor_sync(full_warp, v, step);
    }
    return v;
}

// warp_max gives each of all 32 lanes the largest v.
template <class T>
TRITIER_DEVICE T warp_max(T v) {
    for (int step = 16; step > 0; step /= 2) {
        T other = __shfl_xor_sync(full_warp, v, step);
        v = other > v ? other : v;
    }
    return v;
}

}  // namespace tritier

#endif
