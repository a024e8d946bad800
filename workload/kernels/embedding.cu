// embedding-gather: bags of rows are looked up and summed. A warp makes a page of sums;
// it reads each row of a bag in bulk, all lanes together, and adds it up in the order of
// the bag. The numbers of the rows are ordinary GPU memory: requests come from outside.
#include "common.cuh"

namespace tritier {
namespace workload {

// ptxgen:type Array size=64 go=github.com/tritier/tritier.ArrayRef

constexpr uint64_t kWidth = 64; // elements of a row
constexpr uint64_t kBag = 32;   // rows of a bag

// embedding_gather has bags first .. first+count-1, whose rows index holds.
template <class G>
TRITIER_DEVICE void embedding_gather_body(const G& g, uint32_t warp, uint32_t warps, const Array& table, const Array& sums, const uint64_t* index,
                                          uint64_t first, uint64_t count, char* scratch, uint64_t scratch_bytes, Outcome* outcome) {
    array_ref<float> rows = as<float>(table), out = as<float>(sums);
    Team<G> w(g, warp, warps, sums, outcome);
    uint64_t each = page_elements(out) / kWidth;
    if (!w.fits(scratch_bytes, (each * kWidth + kWidth + 8) * sizeof(float))) {
        return;
    }
    float* result = reinterpret_cast<float*>(scratch + warp * scratch_bytes);
    for (uint64_t low = warp * each; low < count && !w.over(); low += warps * each) {
        uint64_t n = least(each, count - low);
        for (uint64_t bag = 0; bag < n; bag++) {
            float* sum = result + bag * kWidth;
            for (uint64_t j = g.rank(); j < kWidth; j += g.size()) {
                sum[j] = 0;
            }
            for (uint64_t r = 0; r < kBag; r++) {
                const float* row = w.fetch(rows, index[(low + bag) * kBag + r] * kWidth, kWidth, result + each * kWidth);
                if (row == nullptr) {
                    return;
                }
                for (uint64_t j = g.rank(); j < kWidth; j += g.size()) {
                    sum[j] += row[j];
                }
                g.sync(); // before the next row comes
            }
        }
        if (!w.put(out, (first + low) * kWidth, n * kWidth, static_cast<const float*>(result))) {
            return;
        }
    }
}

#if TRITIER_GPU
extern "C" __global__ void embedding_gather(const Array table, const Array sums, const uint64_t* index, uint64_t first, uint64_t count, char* scratch,
                                            uint64_t scratch_bytes, Outcome* outcome) {
    TRITIER_BODY(embedding_gather_body, table, sums, index, first, count, scratch, scratch_bytes, outcome);
}
#endif

} // namespace workload
} // namespace tritier
