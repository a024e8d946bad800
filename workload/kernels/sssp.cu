// sssp: rounds of relaxation. relax offers the distance of every masked vertex to its
// neighbours, by an atomic minimum on the page that the engine holds meanwhile; settle
// takes over what is better and masks it for the next round.
#include "graph.cuh"

namespace tritier {
namespace workload {

// ptxgen:type Array size=64 go=github.com/tritier/tritier.ArrayRef

constexpr uint32_t kFar = 0xffffffffu;

template <class G>
TRITIER_DEVICE void sssp_clear_body(const G& g, uint32_t warp, uint32_t warps, const Array& costs, const Array& nexts, const Array& mask, char* scratch,
                                    uint64_t scratch_bytes, Outcome* outcome) {
    Team<G> w(g, warp, warps, costs, outcome);
    clear_array(w, as<uint32_t>(costs), kFar, scratch, scratch_bytes);
    clear_array(w, as<uint32_t>(nexts), kFar, scratch, scratch_bytes);
    clear_array(w, as<uint8_t>(mask), static_cast<uint8_t>(0), scratch, scratch_bytes);
}

template <class G>
TRITIER_DEVICE void sssp_start_body(const G& g, uint32_t warp, uint32_t warps, const Array& costs, const Array& nexts, const Array& mask,
                                    uint64_t source, Outcome* outcome) {
    Team<G> w(g, warp, warps, costs, outcome);
    if (warp == 0) {
        put_one(w, as<uint32_t>(costs), source, 0u);
        put_one(w, as<uint32_t>(nexts), source, 0u);
        put_one(w, as<uint8_t>(mask), source, static_cast<uint8_t>(1));
    }
}

template <class G>
TRITIER_DEVICE void sssp_relax_body(const G& g, uint32_t warp, uint32_t warps, const Array& offsets, const Array& edges, const Array& weights,
                                    const Array& costs, const Array& nexts, const Array& mask, Outcome* outcome) {
    array_ref<uint64_t> lists = as<uint64_t>(offsets);
    array_ref<uint32_t> heads = as<uint32_t>(edges), lengths = as<uint32_t>(weights), cost = as<uint32_t>(costs), next = as<uint32_t>(nexts);
    array_ref<uint8_t> masked = as<uint8_t>(mask);
    Team<G> w(g, warp, warps, costs, outcome);
    cursor<uint32_t, DriveStore, G> c(g, heads, w.t), lc(g, lengths, w.t);
    uint32_t mine = 0; // the distance of this lane's vertex
    auto visit = [&](uint64_t begin, uint64_t end, uint32_t lane) {
        uint32_t distance = g.from(mine, lane);
        return w.runs(c, heads, begin, end - begin, [&](const uint32_t* run, uint64_t done, uint64_t n) {
            uint64_t m; // both arrays begin with a page: the run is as long
            const uint32_t* length = lc.run(begin + done, &m);
            bool made = w.ok(lc.status(), lengths, begin + done);
            for (uint64_t i = 0; i < n && made; i += g.size()) {
                uint32_t status;
                bool want = i + g.rank() < n;
                uint64_t head = want ? run[i + g.rank()] : 0;
                uint32_t offer = want ? distance + length[i + g.rank()] : kFar;
                bool better = offer < next.load(g, w.t, head, want, &status) && want;
                made = w.all(status, next, head);
                if (made && g.any(better)) {
                    made = w.all(next.change(g, w.t, head, better, [offer](void* p) { atomic_min_relaxed_gpu(static_cast<uint32_t*>(p), offer); }),
                                 next, head);
                }
            }
            return made;
        });
    };
    vertices(w, cost.length, [&](uint64_t v, bool want) {
        uint32_t status, read, wrote;
        bool active = masked.load(g, w.t, v, want, &status) != 0 && want;
        if (!w.all(status, masked, v) || !g.any(active)) {
            return !g.any(status != kTierOk);
        }
        mine = cost.load(g, w.t, v, active, &read);
        wrote = masked.store(g, w.t, v, 0, active);
        return w.all(read | wrote, cost, v) && each_active(w, lists, v, active, visit);
    });
}

template <class G>
TRITIER_DEVICE void sssp_settle_body(const G& g, uint32_t warp, uint32_t warps, const Array& costs, const Array& nexts, const Array& mask,
                                     Outcome* outcome) {
    array_ref<uint32_t> cost = as<uint32_t>(costs), next = as<uint32_t>(nexts);
    array_ref<uint8_t> masked = as<uint8_t>(mask);
    Team<G> w(g, warp, warps, costs, outcome);
    bool found = false;
    vertices(w, cost.length, [&](uint64_t v, bool want) {
        uint32_t status, other;
        uint32_t was = cost.load(g, w.t, v, want, &status), is = next.load(g, w.t, v, want, &other);
        bool better = want && is < was;
        if (!w.all(status | other, cost, v)) {
            return false;
        }
        found = found || better;
        if (!g.any(better)) {
            return true;
        }
        status = cost.store(g, w.t, v, is, better);
        other = masked.store(g, w.t, v, 1, better);
        return w.all(status | other, cost, v);
    });
    note_more(w, found);
}

#if TRITIER_GPU
extern "C" __global__ void sssp_clear(const Array costs, const Array nexts, const Array mask, char* scratch, uint64_t scratch_bytes, Outcome* outcome) {
    TRITIER_BODY(sssp_clear_body, costs, nexts, mask, scratch, scratch_bytes, outcome);
}

extern "C" __global__ void sssp_start(const Array costs, const Array nexts, const Array mask, uint64_t source, Outcome* outcome) {
    TRITIER_BODY(sssp_start_body, costs, nexts, mask, source, outcome);
}

extern "C" __global__ void sssp_relax(const Array offsets, const Array edges, const Array weights, const Array costs, const Array nexts,
                                      const Array mask, Outcome* outcome) {
    TRITIER_BODY(sssp_relax_body, offsets, edges, weights, costs, nexts, mask, outcome);
}

extern "C" __global__ void sssp_settle(const Array costs, const Array nexts, const Array mask, Outcome* outcome) {
    TRITIER_BODY(sssp_settle_body, costs, nexts, mask, outcome);
}
#endif

} // namespace workload
} // namespace tritier
