// hotspot: heat on a chip, two time steps a launch. A warp makes a page of temperatures:
// of the first step it makes what the second one needs, in scratch memory, and it writes
// the page as a whole.
#include "grid.cuh"

namespace tritier {
namespace workload {

// ptxgen:type Array size=64 go=github.com/tritier/tritier.ArrayRef

constexpr float kAmbient = 80;

// Chip is the physics of a cell.
struct Chip {
    float rate, rx, ry, rz;

    TRITIER_DEVICE float after(float t, float north, float south, float west, float east, float power) const {
        float vertical = mul(north + south - mul(2, t), ry);
        float horizontal = mul(east + west - mul(2, t), rx);
        return t + mul(rate, power + vertical + horizontal + mul(kAmbient - t, rz));
    }
};

// heat makes cells to.from .. to.to-1 from strips a row before, here and a row behind.
template <class G>
TRITIER_DEVICE void heat(const G& g, const Chip& chip, uint64_t side, const Strip& north, const Strip& here, const Strip& south, const Strip& power,
                         const Strip& to) {
    uint64_t all = side * side;
    for (uint64_t i = to.from + g.rank(); i < to.to; i += g.size()) {
        uint64_t x = column_of(i, side);
        float t = here[i];
        to.cells[i - to.from] = chip.after(t, i >= side ? north[i - side] : t, i + side < all ? south[i + side] : t, x > 0 ? here[i - 1] : t,
                                           x + 1 < side ? here[i + 1] : t, power[i]);
    }
    g.sync();
}

// hotspot_heat takes the chip one or two steps further.
template <class G>
TRITIER_DEVICE void hotspot_heat_body(const G& g, uint32_t warp, uint32_t warps, const Array& from, const Array& power, const Array& to, uint64_t side,
                                      uint32_t steps, float rate, float rx, float ry, float rz, char* scratch, uint64_t scratch_bytes, Outcome* outcome) {
    array_ref<float> before = as<float>(from), heats = as<float>(power), after = as<float>(to);
    Team<G> w(g, warp, warps, to, outcome);
    Chip chip{rate, rx, ry, rz};
    uint64_t each = page_elements(after), wide = strip_floats(each, 2);
    if (!w.fits(scratch_bytes, (each + 9 * wide) * sizeof(float))) {
        return;
    }
    float* result = reinterpret_cast<float*>(scratch + warp * scratch_bytes);
    float* room = result + each; // 5 strips of temperatures, 3 of the step between, 1 of power
    for (uint64_t low = warp * each; low < after.length && !w.over(); low += warps * each) {
        uint64_t high = least(low + each, after.length);
        int32_t reach = static_cast<int32_t>(steps);
        Strip now[5], mid[3], heat_in = strip(low, high, 0, side, 1);
        for (int32_t k = -reach; k <= reach; k++) {
            now[k + 2] = strip(low, high, k, side, steps);
            if (!load(w, before, &now[k + 2], room + (k + 2) * wide)) {
                return;
            }
        }
        if (steps == 2) {
            for (int32_t k = -1; k <= 1; k++) {
                Strip p = strip(low, high, k, side, 1);
                mid[k + 1] = p;
                mid[k + 1].cells = room + (5 + k + 1) * wide;
                if (!load(w, heats, &p, room + 8 * wide)) {
                    return;
                }
                heat(g, chip, side, now[k + 1], now[k + 2], now[k + 3], p, mid[k + 1]);
            }
        } else {
            mid[0] = now[1];
            mid[1] = now[2];
            mid[2] = now[3];
        }
        if (!load(w, heats, &heat_in, room + 8 * wide)) {
            return;
        }
        heat(g, chip, side, mid[0], mid[1], mid[2], heat_in, Strip{low, high, result});
        if (!w.put(after, low, high - low, static_cast<const float*>(result))) {
            return;
        }
    }
}

#if TRITIER_GPU
extern "C" __global__ void hotspot_heat(const Array from, const Array power, const Array to, uint64_t side, uint32_t steps, float rate, float rx, float ry,
                                        float rz, char* scratch, uint64_t scratch_bytes, Outcome* outcome) {
    TRITIER_BODY(hotspot_heat_body, from, power, to, side, steps, rate, rx, ry, rz, scratch, scratch_bytes, outcome);
}
#endif

} // namespace workload
} // namespace tritier
