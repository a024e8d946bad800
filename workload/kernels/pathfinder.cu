// pathfinder: the cheapest path down a wall. A warp has a page of columns, with a halo
// that shrinks from row to row; the wall is read through a cursor, the costs of a tile
// are in scratch memory, and the page of results is written as a whole.
#include "common.cuh"

namespace tritier {
namespace workload {

// ptxgen:type Array size=64 go=github.com/tritier/tritier.ArrayRef

// pathfinder_first copies the wall's first row.
template <class G>
TRITIER_DEVICE void pathfinder_first_body(const G& g, uint32_t warp, uint32_t warps, const Array& wall, const Array& to, char* scratch,
                                          uint64_t scratch_bytes, Outcome* outcome) {
    array_ref<int32_t> a = as<int32_t>(wall), b = as<int32_t>(to);
    Team<G> w(g, warp, warps, to, outcome);
    uint64_t each = page_elements(b);
    if (!w.fits(scratch_bytes, (each + 8) * sizeof(int32_t))) {
        return;
    }
    for (uint64_t at = warp * each; at < b.length && !w.over(); at += warps * each) {
        uint64_t n = least(each, b.length - at);
        const int32_t* costs = w.fetch(a, at, n, scratch + warp * scratch_bytes);
        if (costs == nullptr || !w.put(b, at, n, costs)) {
            return;
        }
    }
}

// pathfinder_rows takes the results height rows further, from row on.
template <class G>
TRITIER_DEVICE void pathfinder_rows_body(const G& g, uint32_t warp, uint32_t warps, const Array& wall, const Array& from, const Array& to, uint64_t row,
                                         uint64_t height, char* scratch, uint64_t scratch_bytes, Outcome* outcome) {
    array_ref<int32_t> a = as<int32_t>(wall), before = as<int32_t>(from), after = as<int32_t>(to);
    Team<G> w(g, warp, warps, to, outcome);
    uint64_t each = page_elements(after), cols = after.length;
    // Column x of a tile from low on is at x + pad - low: so low is at a multiple of 16 bytes.
    uint64_t pad = (height + 7) / 4 * 4, span = each + 2 * pad + 8;
    if (!w.fits(scratch_bytes, 2 * span * sizeof(int32_t))) {
        return;
    }
    int32_t* costs = reinterpret_cast<int32_t*>(scratch + warp * scratch_bytes);
    cursor<int32_t, DriveStore, G> c(g, a, w.t);
    for (uint64_t low = warp * each; low < cols && !w.over(); low += warps * each) {
        uint64_t high = least(low + each, cols), left = low - least(low, height), right = least(high + height, cols);
        if (w.fetch(before, left, right - left, costs + (left / 4 * 4 + pad - low)) == nullptr) {
            return;
        }
        int32_t *now = costs, *next = costs + span;
        for (uint64_t k = 0; k < height; k++) {
            uint64_t halo = height - 1 - k, lo = low - least(low, halo), hi = least(high + halo, cols);
            bool read = w.runs(c, a, (row + k) * cols + lo, hi - lo, [&](const int32_t* run, uint64_t done, uint64_t m) {
                const int32_t* __restrict__ above = now + (lo + done + pad - low);
                int32_t* __restrict__ here = next + (lo + done + pad - low);
TRITIER_UNROLL_4
                for (uint64_t i = g.rank(); i < m; i += g.size()) {
                    uint64_t x = lo + done + i;
                    int32_t best = above[i], west = x > 0 ? above[static_cast<int64_t>(i) - 1] : best, east = x + 1 < cols ? above[i + 1] : best;
                    best = west < best ? west : best;
                    here[i] = (east < best ? east : best) + run[i];
                }
                return true;
            });
            if (!read) {
                return;
            }
            g.sync();
            int32_t* other = now;
            now = next;
            next = other;
        }
        c.drop();
        if (!w.put(after, low, high - low, static_cast<const int32_t*>(now + pad))) {
            return;
        }
    }
}

#if TRITIER_GPU
extern "C" __global__ void pathfinder_first(const Array wall, const Array to, char* scratch, uint64_t scratch_bytes, Outcome* outcome) {
    TRITIER_BODY(pathfinder_first_body, wall, to, scratch, scratch_bytes, outcome);
}

extern "C" __global__ void pathfinder_rows(const Array wall, const Array from, const Array to, uint64_t row, uint64_t height, char* scratch,
                                           uint64_t scratch_bytes, Outcome* outcome) {
    TRITIER_BODY(pathfinder_rows_body, wall, from, to, row, height, scratch, scratch_bytes, outcome);
}
#endif

} // namespace workload
} // namespace tritier
