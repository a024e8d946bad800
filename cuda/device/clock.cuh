// Time and waiting.
#pragma once

#include "platform.cuh"

#if !TRITIER_GPU
#include <time.h>
#endif

namespace tritier {

// globaltimer is a monotonic clock in ns. On a GPU all its multiprocessors
// share it, and it advances in steps (about 1 us, more on some devices): use
// it for deadlines, not for timing an instruction.
TRITIER_DEVICE uint64_t globaltimer() {
#if TRITIER_GPU
    uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
    return t;
#else
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
#endif
}

// nanosleep lets the thread rest for about ns nanoseconds: on a GPU between 0
// and twice that, at most 1 ms.
TRITIER_DEVICE void nanosleep(uint32_t ns) {
#if TRITIER_GPU
    asm volatile("nanosleep.u32 %0;" ::"r"(ns) : "memory");
#else
    timespec t;
    t.tv_sec = ns / 1000000000u;
    t.tv_nsec = ns % 1000000000u;
    ::nanosleep(&t, nullptr);
#endif
}

// relax belongs in the body of a loop that polls: it leaves the core to its
// neighbours for a moment, and adds little to the time until the loop sees the
// value.
TRITIER_DEVICE void relax() {
#if TRITIER_GPU
    asm volatile("nanosleep.u32 20;" ::: "memory");
#elif defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield" ::: "memory");
#else
    asm volatile("" ::: "memory");
#endif
}

}  // namespace tritier
