// The kernel that measures the path of faults from T2.
#include "bench.cuh"

using namespace tritier;
using namespace tritier::tier;
using namespace tritier::bench;

// ptxgen:type ArrayRef size=64 go=github.com/tritier/tritier/tier/layout.ArrayRef

// faults accesses random pages (op kReadOp or kWriteOp), a warp one at a time, and
// checks that each begins with its number.
extern "C" __global__ void faults(const ArrayRef r, uint32_t op, uint64_t each, uint64_t seed, uint32_t* failed) {
    Lanes g = Lanes::full();
    array_ref<uint64_t> a = as<uint64_t>(r);
    uint32_t warp = static_cast<uint32_t>(thread_number() / 32);
    Context<DriveStore> t = a.context(warp);
    uint64_t pages = a.length * sizeof(uint64_t) >> a.page_shift, bad = 0;
    for (uint64_t i = 0; i < each; i++) {
        uint64_t p = mix(mix(seed) ^ (static_cast<uint64_t>(warp) << 32 | i)) % pages;
        Access x = acquire(g, t, a.first_page + p, op);
        if (x.status != kTierOk) {
            bad++;
            continue;
        }
        if (load_element<uint64_t>(t.frame(x.frame)) != p) bad++;
        release(g, t, a.first_page + p, op == kWriteOp);
    }
    if (g.leads() && bad != 0) atomic_add_relaxed_gpu(failed, static_cast<uint32_t>(bad));
}
