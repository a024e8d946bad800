// bfs: a search level by level. Vertices of the frontier are those whose level is the
// launch's; two warps may find a vertex at the same time, and write the same.
#include "graph.cuh"

namespace tritier {
namespace workload {

// ptxgen:type Array size=64 go=github.com/tritier/tritier.ArrayRef

constexpr uint32_t kUnreached = 0xffffffffu;

template <class G>
TRITIER_DEVICE void bfs_clear_body(const G& g, uint32_t warp, uint32_t warps, const Array& levels, char* scratch, uint64_t scratch_bytes,
                                   Outcome* outcome) {
    Team<G> w(g, warp, warps, levels, outcome);
    clear_array(w, as<uint32_t>(levels), kUnreached, scratch, scratch_bytes);
}

template <class G>
TRITIER_DEVICE void bfs_start_body(const G& g, uint32_t warp, uint32_t warps, const Array& levels, uint64_t source, Outcome* outcome) {
    Team<G> w(g, warp, warps, levels, outcome);
    if (warp == 0) {
        put_one(w, as<uint32_t>(levels), source, 0u);
    }
}

template <class G>
TRITIER_DEVICE void bfs_expand_body(const G& g, uint32_t warp, uint32_t warps, const Array& offsets, const Array& edges, const Array& levels,
                                    uint32_t depth, Outcome* outcome) {
    array_ref<uint64_t> lists = as<uint64_t>(offsets);
    array_ref<uint32_t> heads = as<uint32_t>(edges), level = as<uint32_t>(levels);
    Team<G> w(g, warp, warps, levels, outcome);
    cursor<uint32_t, DriveStore, G> c(g, heads, w.t);
    bool found = false;
    auto visit = [&](uint64_t begin, uint64_t end, uint32_t) {
        return w.runs(c, heads, begin, end - begin, [&](const uint32_t* run, uint64_t, uint64_t n) {
            bool made = true;
            for (uint64_t i = 0; i < n && made; i += g.size()) {
                uint32_t status;
                bool want = i + g.rank() < n;
                uint64_t head = want ? run[i + g.rank()] : 0;
                bool fresh = level.load(g, w.t, head, want, &status) == kUnreached && want;
                made = w.all(status, level, head);
                if (made && g.any(fresh)) {
                    made = w.all(level.store(g, w.t, head, depth + 1, fresh), level, head);
                }
                found = found || fresh;
            }
            return made;
        });
    };
    vertices(w, level.length, [&](uint64_t v, bool want) {
        uint32_t status;
        bool active = level.load(g, w.t, v, want, &status) == depth && want;
        return w.all(status, level, v) && (!g.any(active) || each_active(w, lists, v, active, visit));
    });
    note_more(w, found);
}

#if TRITIER_GPU
extern "C" __global__ void bfs_clear(const Array levels, char* scratch, uint64_t scratch_bytes, Outcome* outcome) {
    TRITIER_BODY(bfs_clear_body, levels, scratch, scratch_bytes, outcome);
}

extern "C" __global__ void bfs_start(const Array levels, uint64_t source, Outcome* outcome) { TRITIER_BODY(bfs_start_body, levels, source, outcome); }

extern "C" __global__ void bfs_expand(const Array offsets, const Array edges, const Array levels, uint32_t depth, Outcome* outcome) {
    TRITIER_BODY(bfs_expand_body, offsets, edges, levels, depth, outcome);
}
#endif

} // namespace workload
} // namespace tritier
