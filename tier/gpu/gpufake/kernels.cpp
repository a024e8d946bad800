// The kernels of package gpu on CPU threads: the device's own code, built by g++.
// Each thread stands for a warp of one lane.
//
// Go's build cache sees this file and not the headers: who changes those raises the
// revision, or the old kernels stay in use. Revision 46.
#include <sched.h>

#include <exception>
#include <thread>
#include <vector>

// Warps wait here for the CPU, which may have few cores: a wait gives its core away at
// once. Code finds these before the one of clock.cuh.
namespace tritier {
namespace bamio {
inline void relax() { sched_yield(); }
} // namespace bamio
namespace tier {
inline void relax() { sched_yield(); }
} // namespace tier
} // namespace tritier

#include "../access.cuh"

using namespace tritier;
using namespace tritier::tier;

namespace {

template <class F>
int each_warp(uint32_t warps, const F& f) {
    std::vector<std::thread> threads;
    try {
        for (uint32_t w = 1; w < warps; w++) {
            threads.emplace_back([&f, w] { f(w); });
        }
    } catch (const std::exception&) {
        warps = 0; // no thread to be had: said below, once those that began have ended
    }
    if (warps != 0) {
        f(0u);
    }
    for (std::thread& t : threads) {
        t.join();
    }
    return warps != 0 ? 0 : 1;
}

} // namespace

extern "C" int gpufake_by_index(const void* ref, uint32_t warps, uint32_t op, const uint64_t* index, uint64_t n, char* buffer, void* report) {
    ArrayRef a = *static_cast<const ArrayRef*>(ref);
    return each_warp(warps, [=](uint32_t w) { elements_body(Solo::full(), w, warps, a, op, index, n, buffer, static_cast<Report*>(report)); });
}

extern "C" int gpufake_in_run(const void* ref, uint32_t warps, uint32_t op, uint64_t first, uint64_t n, char* buffer, void* report) {
    ArrayRef a = *static_cast<const ArrayRef*>(ref);
    return each_warp(warps, [=](uint32_t w) { run_body(Solo::full(), w, warps, a, op, first, n, buffer, static_cast<Report*>(report)); });
}

extern "C" int gpufake_flush(const void* engine, uint32_t warps, void* report) {
    return each_warp(warps, [=](uint32_t w) { flush_all(Solo::full(), w, warps, static_cast<const Engine*>(engine), static_cast<Report*>(report)); });
}

extern "C" int gpufake_pin(const void* engine, uint32_t warps, const uint64_t* pages, uint64_t n, uint32_t* frames, uint32_t unpin, void* report) {
    return each_warp(warps, [=](uint32_t w) {
        pin_all(Solo::full(), w, warps, static_cast<const Engine*>(engine), pages, n, frames, unpin, static_cast<Report*>(report));
    });
}

extern "C" int gpufake_clock(uint64_t* out) {
    store_release_sys(out, globaltimer());
    return 0;
}
