// Many more threads than cores run here. A wait gives its core away at once,
// and any atomic operation may be where a thread loses it for a while: as on a
// GPU, where a warp may stop anywhere and others go on.
#pragma once

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace rig {

// interrupts is how often: one atomic operation in so many; 0: never.
inline uint32_t& interrupts() {
    static uint32_t n = 0;
    return n;
}

// A load is interrupted much less often: there are so many of them.
inline void interrupt(uint32_t rarer = 1) {
    static thread_local uint64_t state = reinterpret_cast<uint64_t>(&state);
    uint32_t n = interrupts() * rarer;
    if (n != 0) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        if ((state >> 33) % n == 0) {
            // Now and then for long enough that others get somewhere.
            if ((state >> 50) % 32 == 0) {
                usleep(150);
            } else {
                sched_yield();
            }
        }
    }
}

}  // namespace rig

// The device headers' atomics are these built-ins (cuda/device/memory.cuh).
#define __atomic_fetch_add(...) (rig::interrupt(), __atomic_fetch_add(__VA_ARGS__))
#define __atomic_fetch_or(...) (rig::interrupt(), __atomic_fetch_or(__VA_ARGS__))
#define __atomic_fetch_and(...) (rig::interrupt(), __atomic_fetch_and(__VA_ARGS__))
#define __atomic_compare_exchange_n(...) (rig::interrupt(), __atomic_compare_exchange_n(__VA_ARGS__))
#define __atomic_store_n(...) (rig::interrupt(4), __atomic_store_n(__VA_ARGS__))
#define __atomic_load_n(...) (rig::interrupt(20), __atomic_load_n(__VA_ARGS__))

namespace tritier {
namespace bamio {
inline void relax() { sched_yield(); }
}  // namespace bamio
namespace tier {
inline void relax() { sched_yield(); }
}  // namespace tier
}  // namespace tritier

#include "tier.cuh"

#undef __atomic_fetch_add
#undef __atomic_fetch_or
#undef __atomic_fetch_and
#undef __atomic_compare_exchange_n
#undef __atomic_store_n
#undef __atomic_load_n
