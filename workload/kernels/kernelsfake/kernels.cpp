// The workloads' kernels on CPU threads: the sources that are compiled for the GPU,
// built by g++. Each thread stands for a warp of one lane.
//
// Go's build cache sees this file and not what it includes: who changes that raises the
// revision, or the old kernels stay in use. Revision 4.
#include <cstring>
#include <exception>
#include <thread>
#include <tuple>
#include <type_traits>
#include <vector>

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

template <class... A>
int run(void (*body)(const Solo&, uint32_t, uint32_t, A...), uint32_t warps, const void* params) {
    Block block{static_cast<const char*>(params), 0};
    const std::tuple<std::decay_t<A>...> args{block.next<std::decay_t<A>>()...};
    auto one = [&](uint32_t warp) { std::apply([&](const auto&... a) { body(Solo::full(), warp, warps, a...); }, args); };
    std::vector<std::thread> threads;
    bool all = true;
    try {
        for (uint32_t w = 1; w < warps; w++) {
            threads.emplace_back(one, w);
        }
    } catch (const std::exception&) {
        all = false; // said below, once those that began have ended
    }
    if (all) {
        one(0);
    }
    for (std::thread& t : threads) {
        t.join();
    }
    return all ? 0 : 1;
}

struct Kernel {
    const char* name;
    int (*run)(uint32_t warps, const void* params);
};

#define KERNEL(name, body) {name, [](uint32_t warps, const void* params) { return run(body<Solo>, warps, params); }}

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

extern "C" int kernelsfake_run(uint32_t i, uint32_t warps, const void* params) { return kernels[i].run(warps, params); }
