// multi-vector-add: d = a + b + c, a page of d for each warp in turn. The inputs are
// read through cursors; the page of d is written as a whole, so that it is not fetched.
#include "common.cuh"

namespace tritier {
namespace workload {

// ptxgen:type Array size=64 go=github.com/tritier/tritier.ArrayRef
TRITIER_EXPORT_CONST(outcome_bytes, sizeof(Outcome));
TRITIER_EXPORT_CONST(outcome_failed_at, offsetof(Outcome, failed));
TRITIER_EXPORT_CONST(outcome_more_at, offsetof(Outcome, more));
TRITIER_EXPORT_CONST(outcome_first_at, offsetof(Outcome, first));

template <class G>
TRITIER_DEVICE void vectoradd_body(const G& g, uint32_t warp, uint32_t warps, const Array& in0, const Array& in1, const Array& in2, const Array& out,
                                   char* scratch, uint64_t scratch_bytes, Outcome* outcome) {
    array_ref<float> a = as<float>(in0), b = as<float>(in1), c = as<float>(in2), d = as<float>(out);
    Team<G> w(g, warp, warps, out, outcome);
    uint64_t each = page_elements(d);
    if (!w.fits(scratch_bytes, each * sizeof(float))) {
        return;
    }
    float* __restrict__ sum = reinterpret_cast<float*>(scratch + warp * scratch_bytes);
    cursor<float, DriveStore, G> x(g, a, w.t), y(g, b, w.t), z(g, c, w.t);
    for (uint64_t at = warp * each; at < d.length && !w.over(); at += warps * each) {
        uint64_t n = least(each, d.length - at), m;
        const float* __restrict__ p = x.run(at, &m);
        const float* __restrict__ q = y.run(at, &m);
        const float* __restrict__ r = z.run(at, &m);
        if (!w.ok(x.status(), a, at) || !w.ok(y.status(), b, at) || !w.ok(z.status(), c, at)) {
            return;
        }
TRITIER_UNROLL_4
        for (uint64_t i = g.rank(); i < n; i += g.size()) {
            sum[i] = p[i] + q[i] + r[i];
        }
        x.drop();
        y.drop();
        z.drop();
        if (!w.put(d, at, n, sum)) {
            return;
        }
    }
}

#if TRITIER_GPU
extern "C" __global__ void vectoradd_pass(const Array in0, const Array in1, const Array in2, const Array out, char* scratch, uint64_t scratch_bytes,
                                          Outcome* outcome) {
    TRITIER_BODY(vectoradd_body, in0, in1, in2, out, scratch, scratch_bytes, outcome);
}
#endif

} // namespace workload
} // namespace tritier
