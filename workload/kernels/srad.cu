// srad: speckle-reducing anisotropic diffusion. A launch of one warp measures the noise
// of a region, which stays on the GPU; the others make a page of cells at a time and
// write whole pages: of four derivatives and the coefficient, and of the image.
#include "grid.cuh"

namespace tritier {
namespace workload {

// ptxgen:type Array size=64 go=github.com/tritier/tritier.ArrayRef

constexpr float kLambda = 0.5f;

// srad_noise measures a region of the image, size x size cells, row by row: one lane
// adds up, in the order of the reference.
template <class G>
TRITIER_DEVICE void srad_noise_body(const G& g, uint32_t warp, uint32_t warps, const Array& image, uint64_t side, uint64_t size, char* scratch,
                                    uint64_t scratch_bytes, Outcome* outcome) {
    array_ref<float> a = as<float>(image);
    Team<G> w(g, warp, warps, image, outcome);
    if (warp != 0 || !w.fits(scratch_bytes, (size + 8) * sizeof(float))) {
        return;
    }
    float sum = 0, squares = 0, n = 0;
    for (uint64_t y = 0; y < size; y++) {
        const float* row = w.fetch(a, y * side, size, scratch);
        if (row == nullptr) {
            return;
        }
        for (uint64_t x = 0; x < size && g.leads(); x++) {
            sum += row[x];
            squares += mul(row[x], row[x]);
            n++;
        }
        g.sync();
    }
    if (g.leads()) {
        float mean = sum / n;
        outcome->noise = (squares / n - mul(mean, mean)) / mul(mean, mean);
    }
}

// coefficient of a cell with these derivatives to the north, south, west and east.
TRITIER_DEVICE float coefficient(float cell, const float (&d)[4], float q) {
    float squares = mul(d[0], d[0]) + mul(d[1], d[1]) + mul(d[2], d[2]) + mul(d[3], d[3]);
    float gradient = squares / mul(cell, cell);
    float laplace = (d[0] + d[1] + d[2] + d[3]) / cell;
    float numerator = mul(0.5f, gradient) - mul(0.0625f, mul(laplace, laplace));
    float denominator = 1 + mul(0.25f, laplace);
    float variation = numerator / mul(denominator, denominator);
    float c = 1 / (1 + (variation - q) / mul(q, 1 + q));
    return c > 1 ? 1 : c > 0 ? c : 0;
}

// srad_derive writes the derivatives and the coefficient of every cell.
template <class G>
TRITIER_DEVICE void srad_derive_body(const G& g, uint32_t warp, uint32_t warps, const Array& image, const Array& north, const Array& south,
                                     const Array& west, const Array& east, const Array& coefficients, uint64_t side, char* scratch,
                                     uint64_t scratch_bytes, Outcome* outcome) {
    array_ref<float> a = as<float>(image);
    const array_ref<float> to[5] = {as<float>(north), as<float>(south), as<float>(west), as<float>(east), as<float>(coefficients)};
    Team<G> w(g, warp, warps, image, outcome);
    uint64_t each = page_elements(a), wide = strip_floats(each, 1), all = a.length;
    if (!w.fits(scratch_bytes, (each + 3 * wide) * sizeof(float))) {
        return;
    }
    float* result = reinterpret_cast<float*>(scratch + warp * scratch_bytes);
    float q = outcome->noise;
    for (uint64_t low = warp * each; low < all && !w.over(); low += warps * each) {
        uint64_t high = least(low + each, all);
        Strip rows[3];
        for (int32_t k = 0; k < 3; k++) {
            rows[k] = strip(low, high, k - 1, side, 1);
            if (!load(w, a, &rows[k], result + each + k * wide)) {
                return;
            }
        }
TRITIER_NO_UNROLL
        for (uint32_t k = 0; k < 5; k++) {
            for (uint64_t i = low + g.rank(); i < high; i += g.size()) {
                uint64_t x = column_of(i, side);
                float cell = rows[1][i];
                float d[4] = {i >= side ? rows[0][i - side] - cell : 0, i + side < all ? rows[2][i + side] - cell : 0,
                              x > 0 ? rows[1][i - 1] - cell : 0, x + 1 < side ? rows[1][i + 1] - cell : 0};
                float v = k == 0 ? d[0] : k == 1 ? d[1] : k == 2 ? d[2] : d[3];
                result[i - low] = k == 4 ? coefficient(cell, d, q) : v;
            }
            if (!w.put(to[k], low, high - low, static_cast<const float*>(result))) {
                return;
            }
        }
    }
}

// srad_diffuse changes the image. A cell's coefficient serves its north and west, its
// neighbours' south and east.
template <class G>
TRITIER_DEVICE void srad_diffuse_body(const G& g, uint32_t warp, uint32_t warps, const Array& image, const Array& north, const Array& south,
                                      const Array& west, const Array& east, const Array& coefficients, uint64_t side, char* scratch,
                                      uint64_t scratch_bytes, Outcome* outcome) {
    array_ref<float> a = as<float>(image), factors = as<float>(coefficients);
    const array_ref<float> from[4] = {as<float>(north), as<float>(south), as<float>(west), as<float>(east)};
    Team<G> w(g, warp, warps, image, outcome);
    uint64_t each = page_elements(a), wide = strip_floats(each, 1), all = a.length;
    if (!w.fits(scratch_bytes, (each + 2 * wide) * sizeof(float))) {
        return;
    }
    float* result = reinterpret_cast<float*>(scratch + warp * scratch_bytes);
    for (uint64_t low = warp * each; low < all && !w.over(); low += warps * each) {
        uint64_t high = least(low + each, all);
        Strip here = strip(low, high, 0, side, 1), below = strip(low, high, 1, side, 0);
        if (!load(w, factors, &here, result + each) || !load(w, factors, &below, result + each + wide)) {
            return;
        }
TRITIER_NO_UNROLL
        for (uint32_t k = 0; k < 5; k++) { // the derivatives in turn, then the cells
            const array_ref<float>& part = k < 4 ? from[k] : a;
            cursor<float, DriveStore, G> c(g, part, w.t);
            bool read = w.runs(c, part, low, high - low, [&](const float* run, uint64_t done, uint64_t m) {
                for (uint64_t i = low + done + g.rank(); i < low + done + m; i += g.size()) {
                    float v = run[i - low - done], &sum = result[i - low];
                    if (k == 4) {
                        sum = v + mul(0.25f * kLambda, sum);
                        continue;
                    }
                    uint64_t x = column_of(i, side);
                    float f = k == 1 && i + side < all ? below[i + side] : k == 3 && x + 1 < side ? here[i + 1] : here[i];
                    sum = k == 0 ? mul(f, v) : sum + mul(f, v);
                }
                return true;
            });
            if (!read) {
                return;
            }
        }
        if (!w.put(a, low, high - low, static_cast<const float*>(result))) {
            return;
        }
    }
}

#if TRITIER_GPU
extern "C" __global__ void srad_noise(const Array image, uint64_t side, uint64_t size, char* scratch, uint64_t scratch_bytes, Outcome* outcome) {
    TRITIER_BODY(srad_noise_body, image, side, size, scratch, scratch_bytes, outcome);
}

extern "C" __global__ void srad_derive(const Array image, const Array north, const Array south, const Array west, const Array east,
                                       const Array coefficients, uint64_t side, char* scratch, uint64_t scratch_bytes, Outcome* outcome) {
    TRITIER_BODY(srad_derive_body, image, north, south, west, east, coefficients, side, scratch, scratch_bytes, outcome);
}

extern "C" __global__ void srad_diffuse(const Array image, const Array north, const Array south, const Array west, const Array east,
                                        const Array coefficients, uint64_t side, char* scratch, uint64_t scratch_bytes, Outcome* outcome) {
    TRITIER_BODY(srad_diffuse_body, image, north, south, west, east, coefficients, side, scratch, scratch_bytes, outcome);
}
#endif

} // namespace workload
} // namespace tritier
