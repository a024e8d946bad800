// The workloads' kernels on CPU threads: the sources that are compiled for the GPU,
// built by g++. Each thread stands for a warp of one lane, or for a lane of a warp.
//
// Go's build cache sees this file and not what it includes: who changes that raises the
// revision, or the old kernels stay in use. Revision 46.
#include <atomic>
#include <cstring>
#include <deque>
#include <exception>
#include <thread>
#include <tuple>
#include <type_traits>
#include <vector>

#include "../../../tier/devicetest/rig/lanes.hpp"
#include "../backprop.cu"
#include "../bfs.cu"
#include "../embedding.cu"
#include "../hotspot.cu"
#include "../pagerank.cu"
#include "../pathfinder.cu"
#include "../srad.cu"
#include "../sssp.cu"
#include "../vectoradd.cu"

using namespace tritier;
using namespace tritier::workload;
using tier::Solo;

namespace {

// Block is a kernel's parameters, each aligned to its own size.
struct Block {
    const char* base;
    size_t at;

    template <class T>
    T next() {
        at = (at + alignof(T) - 1) / alignof(T) * alignof(T);
        T v;
        memcpy(&v, base + at, sizeof v);
        at += sizeof v;
        return v;
    }
};

// together runs f(0) to f(n-1) at the same time.
template <class F>
int together(uint32_t n, const F& f) {
    std::vector<std::thread> threads;
    std::atomic<int> go{0};
    bool all = true;
    try {
        for (uint32_t i = 0; i < n; i++) {
            threads.emplace_back([&f, &go, i] {
                go.wait(0);
                if (go > 0) {
                    f(i);
                }
            });
        }
    } catch (const std::exception&) {
        all = false; // none of them begins: lanes would wait for each other
    }
    go = all ? 1 : -1;
    go.notify_all();
    for (std::thread& t : threads) {
        t.join();
    }
    return all ? 0 : 1;
}

template <class... A>
int run(void (*one)(const Solo&, uint32_t, uint32_t, A...), void (*lane)(const rig::ThreadLanes&, uint32_t, uint32_t, A...), uint32_t warps,
        uint32_t lanes, const void* params) {
    Block block{static_cast<const char*>(params), 0};
    const std::tuple<std::decay_t<A>...> args{block.next<std::decay_t<A>>()...};
    if (lanes <= 1) {
        return together(warps, [&](uint32_t warp) { std::apply([&](const auto&... a) { one(Solo::full(), warp, warps, a...); }, args); });
    }
    std::deque<rig::Crew> crews;
    for (uint32_t w = 0; w < warps; w++) {
        crews.emplace_back(lanes);
    }
    return together(warps * lanes, [&](uint32_t i) {
        std::apply([&](const auto&... a) { lane(rig::ThreadLanes(&crews[i / lanes], i % lanes), i / lanes, warps, a...); }, args);
    });
}

struct Kernel {
    const char* name;
    int (*run)(uint32_t warps, uint32_t lanes, const void* params);
};

#define KERNEL(name, body) \
    {name, [](uint32_t warps, uint32_t lanes, const void* params) { return run(body<Solo>, body<rig::ThreadLanes>, warps, lanes, params); }}

const Kernel kernels[] = {
    KERNEL("backprop_adjust", backprop_adjust_body),
    KERNEL("backprop_forward", backprop_forward_body),
    KERNEL("bfs_clear", bfs_clear_body),
    KERNEL("bfs_expand", bfs_expand_body),
    KERNEL("bfs_start", bfs_start_body),
    KERNEL("embedding_gather", embedding_gather_body),
    KERNEL("hotspot_heat", hotspot_heat_body),
    KERNEL("pagerank_contribute", pagerank_contribute_body),
    KERNEL("pagerank_pull", pagerank_pull_body),
    KERNEL("pathfinder_first", pathfinder_first_body),
    KERNEL("pathfinder_rows", pathfinder_rows_body),
    KERNEL("srad_derive", srad_derive_body),
    KERNEL("srad_diffuse", srad_diffuse_body),
    KERNEL("srad_noise", srad_noise_body),
    KERNEL("sssp_clear", sssp_clear_body),
    KERNEL("sssp_relax", sssp_relax_body),
    KERNEL("sssp_settle", sssp_settle_body),
    KERNEL("sssp_start", sssp_start_body),
    KERNEL("vectoradd_pass", vectoradd_body),
};

} // namespace

// kernelsfake_name is the name of kernel number i, or null.
extern "C" const char* kernelsfake_name(uint32_t i) { return i < sizeof kernels / sizeof *kernels ? kernels[i].name : nullptr; }

extern "C" int kernelsfake_run(uint32_t i, uint32_t warps, uint32_t lanes, const void* params) { return kernels[i].run(warps, lanes, params); }
