// pagerank by pulling. Both kernels write a page of vertices as a whole. pull reads the
// lists of neighbours, which follow each other, through a cursor from front to back, and
// what 32 neighbours contribute by one access of the warp; every lane then adds up in the
// order of the lists, as the reference does.
#include "common.cuh"

namespace tritier {
namespace workload {

// ptxgen:type Array size=64 go=github.com/tritier/tritier.ArrayRef

constexpr uint64_t kLists = 1024; // whose offsets a warp reads at a time
constexpr float kDamping = 0.85f, kRest = 0.15f;
TRITIER_EXPORT_CONST(pagerank_lists, kLists);

template <class G>
TRITIER_DEVICE void pagerank_contribute_body(const G& g, uint32_t warp, uint32_t warps, const Array& offsets, const Array& ranks,
                                             const Array& contributions, char* scratch, uint64_t scratch_bytes, Outcome* outcome) {
    array_ref<uint64_t> lists = as<uint64_t>(offsets);
    array_ref<float> rank = as<float>(ranks), out = as<float>(contributions);
    Team<G> w(g, warp, warps, ranks, outcome);
    uint64_t each = page_elements(out);
    if (!w.fits(scratch_bytes, each * sizeof(float) + (kLists + 5) * sizeof(uint64_t))) {
        return;
    }
    float* result = reinterpret_cast<float*>(scratch + warp * scratch_bytes);
    cursor<float, DriveStore, G> c(g, rank, w.t);
    for (uint64_t low = warp * each; low < out.length && !w.over(); low += warps * each) {
        uint64_t high = least(low + each, out.length);
        for (uint64_t first = low; first < high; first += kLists) {
            uint64_t n = least(kLists, high - first);
            const uint64_t* at = w.fetch(lists, first, n + 1, result + each);
            if (at == nullptr || !w.runs(c, rank, first, n, [&](const float* run, uint64_t done, uint64_t m) {
                    for (uint64_t i = g.rank(); i < m; i += g.size()) {
                        uint64_t degree = at[done + i + 1] - at[done + i];
                        // A vertex without neighbours gives its rank to nobody.
                        result[first - low + done + i] = run[i] / static_cast<float>(degree > 1 ? degree : 1);
                    }
                    return true;
                })) {
                return;
            }
            g.sync(); // before the next offsets come
        }
        c.drop();
        if (!w.put(out, low, high - low, static_cast<const float*>(result))) {
            return;
        }
    }
}

// Sums adds up contributions to the vertices of a few lists.
template <class G>
struct Sums {
    const G& g;
    const uint64_t* ends; // of the lists
    float* ranks;
    uint64_t vertex, end, at;
    float sum, vertices;

    TRITIER_DEVICE void finish() {
        if (g.leads()) {
            ranks[vertex] = kRest / vertices + mul(kDamping, sum);
        }
        vertex++;
        sum = 0;
    }
    // add takes what n neighbours from lane 0 on contribute.
    TRITIER_DEVICE void add(float x, uint64_t n) {
        uint32_t bits;
        __builtin_memcpy(&bits, &x, 4);
        for (uint32_t lane = 0; lane < n; lane++, at++) {
            while (at >= end) {
                finish();
                end = ends[vertex];
            }
            uint32_t theirs = g.from(bits, lane);
            float one;
            __builtin_memcpy(&one, &theirs, 4);
            sum += one;
        }
    }
};

template <class G>
TRITIER_DEVICE void pagerank_pull_body(const G& g, uint32_t warp, uint32_t warps, const Array& offsets, const Array& edges, const Array& contributions,
                                       const Array& ranks, char* scratch, uint64_t scratch_bytes, Outcome* outcome) {
    array_ref<uint64_t> lists = as<uint64_t>(offsets);
    array_ref<uint32_t> heads = as<uint32_t>(edges);
    array_ref<float> from = as<float>(contributions), out = as<float>(ranks);
    Team<G> w(g, warp, warps, ranks, outcome);
    uint64_t each = page_elements(out);
    if (!w.fits(scratch_bytes, each * sizeof(float) + (kLists + 5) * sizeof(uint64_t))) {
        return;
    }
    float* result = reinterpret_cast<float*>(scratch + warp * scratch_bytes);
    cursor<uint32_t, DriveStore, G> c(g, heads, w.t);
    for (uint64_t low = warp * each; low < out.length && !w.over(); low += warps * each) {
        uint64_t high = least(low + each, out.length);
        for (uint64_t first = low; first < high; first += kLists) {
            uint64_t n = least(kLists, high - first);
            const uint64_t* at = w.fetch(lists, first, n + 1, result + each);
            if (at == nullptr) {
                return;
            }
            Sums<G> sums{g, at + 1, result + (first - low), 0, at[1], at[0], 0, static_cast<float>(out.length)};
            bool read = w.runs(c, heads, at[0], at[n] - at[0], [&](const uint32_t* run, uint64_t, uint64_t m) {
                bool made = true;
                for (uint64_t i = 0; i < m && made; i += g.size()) {
                    uint32_t status;
                    bool want = i + g.rank() < m;
                    uint64_t head = want ? run[i + g.rank()] : 0;
                    float x = from.load(g, w.t, head, want, &status);
                    made = w.all(status, from, head);
                    sums.add(x, least(g.size(), m - i));
                }
                return made;
            });
            if (!read) {
                return;
            }
            while (sums.vertex < n) {
                sums.finish();
            }
            g.sync(); // before the next offsets come
        }
        c.drop();
        if (!w.put(out, low, high - low, static_cast<const float*>(result))) {
            return;
        }
    }
}

#if TRITIER_GPU
extern "C" __global__ void pagerank_contribute(const Array offsets, const Array ranks, const Array contributions, char* scratch, uint64_t scratch_bytes,
                                               Outcome* outcome) {
    TRITIER_BODY(pagerank_contribute_body, offsets, ranks, contributions, scratch, scratch_bytes, outcome);
}

extern "C" __global__ void pagerank_pull(const Array offsets, const Array edges, const Array contributions, const Array ranks, char* scratch,
                                         uint64_t scratch_bytes, Outcome* outcome) {
    TRITIER_BODY(pagerank_pull_body, offsets, edges, contributions, ranks, scratch, scratch_bytes, outcome);
}
#endif

} // namespace workload
} // namespace tritier
