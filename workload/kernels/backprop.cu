// backprop: the large layer of a network. forward makes a page of partial sums for each
// warp in turn, from weights and inputs read in bulk; adjust changes a page of weights
// and of their momentum in place, through cursors that write.
#include "common.cuh"

namespace tritier {
namespace workload {

// ptxgen:type Array size=64 go=github.com/tritier/tritier.ArrayRef

constexpr uint64_t kHidden = 16;           // units, and inputs of a block
constexpr uint64_t kColumns = kHidden + 1; // weights of an input; column 0 is the bias's
constexpr uint64_t kInputs = 1024;         // that a warp reads at a time
constexpr float kEta = 0.3f, kMomentum = 0.3f;
TRITIER_EXPORT_CONST(backprop_inputs, kInputs);

// partial_sum is that of a block of 16 inputs for one hidden unit, added up as a tree.
TRITIER_DEVICE float partial_sum(const float* weights, const float* inputs) {
    float product[kHidden];
TRITIER_UNROLL
    for (uint32_t i = 0; i < kHidden; i++) {
        product[i] = mul(weights[i * kColumns], inputs[i]);
    }
TRITIER_UNROLL
    for (uint32_t width = 1; width < kHidden; width *= 2) {
TRITIER_UNROLL
        for (uint32_t i = 0; i < kHidden; i += 2 * width) {
            product[i] += product[i + width];
        }
    }
    return product[0];
}

template <class G>
TRITIER_DEVICE void backprop_forward_body(const G& g, uint32_t warp, uint32_t warps, const Array& inputs, const Array& weights, const Array& partial,
                                          char* scratch, uint64_t scratch_bytes, Outcome* outcome) {
    array_ref<float> in = as<float>(inputs), all = as<float>(weights), out = as<float>(partial);
    Team<G> w(g, warp, warps, partial, outcome);
    uint64_t each = page_elements(out); // as many inputs as partial sums
    uint64_t room_in = kInputs + 8, room_weights = kInputs * kColumns + 8;
    if (!w.fits(scratch_bytes, (each + room_in + room_weights) * sizeof(float))) {
        return;
    }
    float* sums = reinterpret_cast<float*>(scratch + warp * scratch_bytes);
    for (uint64_t low = warp * each; low < out.length && !w.over(); low += warps * each) {
        uint64_t high = least(low + each, out.length);
        for (uint64_t first = low; first < high; first += kInputs) {
            uint64_t n = least(kInputs, high - first);
            // Input 0 is the bias.
            const float* x = w.fetch(in, first + 1, n, sums + each);
            const float* m = x == nullptr ? nullptr : w.fetch(all, (first + 1) * kColumns, n * kColumns, sums + each + room_in);
            if (m == nullptr) {
                return;
            }
            for (uint64_t i = g.rank(); i < n; i += g.size()) {
                uint64_t block = i / kHidden * kHidden, unit = i % kHidden;
                sums[first - low + i] = partial_sum(m + block * kColumns + unit + 1, x + block);
            }
            g.sync(); // before the next inputs come
        }
        if (!w.put(out, low, high - low, static_cast<const float*>(sums))) {
            return;
        }
    }
}

template <class G>
TRITIER_DEVICE void backprop_adjust_body(const G& g, uint32_t warp, uint32_t warps, const Array& inputs, const Array& weights, const Array& previous,
                                         const float* delta, char* scratch, uint64_t scratch_bytes, Outcome* outcome) {
    array_ref<float> in = as<float>(inputs), all = as<float>(weights), moves = as<float>(previous);
    Team<G> w(g, warp, warps, weights, outcome);
    uint64_t each = page_elements(all);
    if (!w.fits(scratch_bytes, (each / kColumns + 2 + 8) * sizeof(float))) {
        return;
    }
    cursor<float, DriveStore, G> a(g, all, w.t, true), b(g, moves, w.t, true);
    for (uint64_t low = warp * each; low < all.length && !w.over(); low += warps * each) {
        uint64_t n = least(each, all.length - low), first = low / kColumns, last = (low + n - 1) / kColumns, m;
        const float* x = w.fetch(in, first, last - first + 1, scratch + warp * scratch_bytes);
        if (x == nullptr) {
            return;
        }
        float* __restrict__ weight = a.run(low, &m);
        float* __restrict__ move = b.run(low, &m);
        if (!w.ok(a.status(), all, low) || !w.ok(b.status(), moves, low)) {
            return;
        }
        for (uint64_t i = g.rank(); i < n; i += g.size()) {
            uint64_t row = (low + i) / kColumns, column = (low + i) - row * kColumns;
            if (column > 0) {
                float change = mul(mul(kEta, delta[column - 1]), x[row - first]) + mul(kMomentum, move[i]);
                weight[i] += change;
                move[i] = change;
            }
        }
        a.drop();
        b.drop();
    }
}

#if TRITIER_GPU
extern "C" __global__ void backprop_forward(const Array inputs, const Array weights, const Array partial, char* scratch, uint64_t scratch_bytes,
                                            Outcome* outcome) {
    TRITIER_BODY(backprop_forward_body, inputs, weights, partial, scratch, scratch_bytes, outcome);
}

extern "C" __global__ void backprop_adjust(const Array inputs, const Array weights, const Array previous, const float* delta, char* scratch,
                                           uint64_t scratch_bytes, Outcome* outcome) {
    TRITIER_BODY(backprop_adjust_body, inputs, weights, previous, delta, scratch, scratch_bytes, outcome);
}
#endif

} // namespace workload
} // namespace tritier
