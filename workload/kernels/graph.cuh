// Graphs in compressed sparse rows: a warp looks at 32 vertices at a time and takes the
// lists of those that are active one after another, 32 neighbours at a time, through a
// cursor. Properties of vertices are single elements: lanes that want the same page
// share an access.
#pragma once

#include "common.cuh"

namespace tritier {
namespace workload {

constexpr uint64_t kVertices = 256; // of a unit

// vertices calls f(v, want) for each group of vertices of this warp, until it is false.
template <class G, class F>
TRITIER_DEVICE void vertices(Team<G>& w, uint64_t n, F f) {
    for (uint64_t first = w.warp * kVertices; first < n && !w.over(); first += w.warps * kVertices) {
        for (uint64_t v = first; v < least(first + kVertices, n); v += w.g.size()) {
            if (!f(v + w.g.rank(), v + w.g.rank() < n)) {
                return;
            }
        }
    }
}

// each_active calls f(begin, end, lane) for the list of every active lane's vertex, until
// it is false.
template <class G, class F>
TRITIER_DEVICE bool each_active(Team<G>& w, const array_ref<uint64_t>& offsets, uint64_t v, bool active, F f) {
    uint32_t status, more;
    uint64_t begin = offsets.load(w.g, w.t, v, active, &status), end = offsets.load(w.g, w.t, v + 1, active, &more);
    if (!w.all(status | more, offsets, v)) {
        return false;
    }
    for (uint32_t left = w.g.ballot(active); left != 0; left &= left - 1) {
        uint32_t lane = lowest_bit(left);
        if (!f(w.g.from(begin, lane), w.g.from(end, lane), lane)) {
            return false;
        }
    }
    return true;
}

// note_more tells the host of a search that another round is needed.
template <class G>
TRITIER_DEVICE void note_more(Team<G>& w, bool found) {
    bool any = w.g.any(found);
    if (any && w.g.leads()) {
        store_relaxed_gpu(&w.out->more, 1);
    }
}

// put_one stores an element; the leader's warp calls it.
template <class G, class T>
TRITIER_DEVICE void put_one(Team<G>& w, const array_ref<T>& a, uint64_t i, T v) {
    w.all(a.store(w.g, w.t, i, v, w.g.leads()), a, i);
}

} // namespace workload
} // namespace tritier
