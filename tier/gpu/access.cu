// The kernels of package gpu; their bodies are in access.cuh.
#include "access.cuh"

using namespace tritier;
using namespace tritier::tier;

// ptxgen:type ArrayRef size=64 go=github.com/tritier/tritier/tier/layout.ArrayRef
TRITIER_EXPORT_CONST(report_bytes, sizeof(Report));
TRITIER_EXPORT_CONST(report_named, kNamed);
TRITIER_EXPORT_CONST(report_stop_at, offsetof(Report, stop));
TRITIER_EXPORT_CONST(report_begun_at, offsetof(Report, begun));
TRITIER_EXPORT_CONST(report_passed_at, offsetof(Report, passed));
TRITIER_EXPORT_CONST(report_retries_at, offsetof(Report, retries));
TRITIER_EXPORT_CONST(report_retried_at, offsetof(Report, retried));
TRITIER_EXPORT_CONST(report_page_at, offsetof(Report, page));
TRITIER_EXPORT_CONST(report_status_at, offsetof(Report, status));

TRITIER_DEVICE uint32_t warp_number() { return (blockIdx.x * blockDim.x + threadIdx.x) / 32; }
TRITIER_DEVICE uint32_t warp_count() { return gridDim.x * blockDim.x / 32; }

extern "C" __global__ void access_by_index(const ArrayRef a, uint32_t op, const uint64_t* index, uint64_t n, char* buffer, Report* report) {
    elements_body(Lanes::full(), warp_number(), warp_count(), a, op, index, n, buffer, report);
}

extern "C" __global__ void access_in_run(const ArrayRef a, uint32_t op, uint64_t first, uint64_t n, char* buffer, Report* report) {
    run_body(Lanes::full(), warp_number(), warp_count(), a, op, first, n, buffer, report);
}

extern "C" __global__ void pin_pages(const Engine* e, const uint64_t* pages, uint64_t n, uint32_t* frames, uint32_t unpin, Report* report) {
    pin_all(Lanes::full(), warp_number(), warp_count(), e, pages, n, frames, unpin, report);
}

// read_clock tells the host what time it is here.
extern "C" __global__ void read_clock(uint64_t* out) { store_release_sys(out, globaltimer()); }

extern "C" __global__ void flush_dirty(const Engine* e, Report* report) {
    flush_all(Lanes::full(), warp_number(), warp_count(), e, report);
}
