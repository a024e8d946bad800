// Kernels that move pages between pinned host memory and device memory with
// plain loads and stores ("zero-copy").
//
// Work is cut into pieces of at most 2 KiB; one warp moves a piece with up to
// four 16-byte loads in flight per lane. On an H200 16 blocks of 8 such warps
// saturate PCIe Gen5 x16 one way, so blocks are few and the GPU stays usable.
//
// Every block takes a contiguous range of pieces. Its page numbers are
// therefore contiguous in the list, and one coalesced read brings them from
// pinned memory; a read of each piece's number would cost a PCIe round trip
// a piece.
#include "tritier.cuh"

using tritier::load_volatile_v4;

// Pair is copyeng.Pair: the page's number in host and in device memory.
struct Pair {
    uint32_t host, device;
};

// Few pairs travel in the kernel's parameters: no read over PCIe before the first load.
constexpr uint32_t kInline = 60;
// ptxgen:type Inline size=480 go=pairList
struct Inline {
    Pair pairs[kInline];
};
TRITIER_EXPORT_CONST(inline_pairs, kInline);
TRITIER_EXPORT_CONST(block_threads, 256);
TRITIER_EXPORT_CONST(piece_bytes, 2048);

constexpr uint32_t kThreads = 256, kWarps = kThreads / 32, kLoads = 4, kPiece = kLoads * 32 * 16;
constexpr uint32_t kCache = 1024; // pairs of a block's range held in shared memory at a time

// Where a piece is, and how many 16-byte words it has.
struct Piece {
    char *from, *to;
    uint32_t words;
};

TRITIER_DEVICE Piece piece_of(char* host, char* device, Pair p, uint32_t part, uint32_t shift, bool to_device) {
    uint32_t size = 1u << shift;
    uint64_t within = static_cast<uint64_t>(part) * kPiece;
    char* h = host + (static_cast<uint64_t>(p.host) << shift) + within;
    char* d = device + (static_cast<uint64_t>(p.device) << shift) + within;
    Piece out;
    out.from = to_device ? h : d;
    out.to = to_device ? d : h;
    out.words = (size < kPiece ? size : kPiece) / 16;
    return out;
}

// Loads are volatile: host memory that the CPU or another device rewrote since
// must be read anew, never from a line that this GPU kept.
TRITIER_DEVICE void load_piece(const Piece& p, uint32_t lane, uint4 (&r)[kLoads]) {
    const uint4* from = reinterpret_cast<const uint4*>(p.from);
#pragma unroll
    for (uint32_t k = 0; k < kLoads; k++) {
        if (lane + 32 * k < p.words) r[k] = load_volatile_v4(from + lane + 32 * k);
    }
}

TRITIER_DEVICE void store_piece(const Piece& p, uint32_t lane, const uint4 (&r)[kLoads]) {
    uint4* to = reinterpret_cast<uint4*>(p.to);
#pragma unroll
    for (uint32_t k = 0; k < kLoads; k++) {
        if (lane + 32 * k < p.words) to[lane + 32 * k] = r[k];
    }
}

// log2 of the pieces of a page.
TRITIER_DEVICE uint32_t piece_shift(uint32_t shift) { return shift > 11 ? shift - 11 : 0; }

// copy_inline copies n <= kInline pages whose numbers are parameters.
extern "C" __global__ void __launch_bounds__(kThreads)
    copy_inline(char* host, char* device, const Inline list, uint32_t n, uint32_t shift, uint32_t to_device) {
    uint32_t per = piece_shift(shift), lane = threadIdx.x & 31;
    uint32_t total = n << per, step = gridDim.x * kWarps;
    for (uint32_t t = blockIdx.x * kWarps + threadIdx.x / 32; t < total; t += step) {
        Piece p = piece_of(host, device, list.pairs[t >> per], t & ((1u << per) - 1), shift, to_device);
        uint4 r[kLoads];
        load_piece(p, lane, r);
        store_piece(p, lane, r);
    }
}

// copy_list copies n pages whose numbers are in pinned memory.
extern "C" __global__ void __launch_bounds__(kThreads)
    copy_list(char* host, char* device, const Pair* list, uint32_t n, uint32_t shift, uint32_t to_device) {
    __shared__ Pair cache[kCache];
    uint32_t per = piece_shift(shift), lane = threadIdx.x & 31;
    uint64_t total = static_cast<uint64_t>(n) << per;
    uint64_t begin = total * blockIdx.x / gridDim.x, end = total * (blockIdx.x + 1) / gridDim.x;
    while (begin < end) {
        uint64_t first = begin >> per, last = (end - 1) >> per;
        if (last - first >= kCache) last = first + kCache - 1;
        uint64_t stop = (last + 1) << per;
        if (stop > end) stop = end;
        for (uint64_t i = first + threadIdx.x; i <= last; i += kThreads) cache[i - first] = list[i];
        __syncthreads();
        for (uint64_t t = begin + threadIdx.x / 32; t < stop; t += kWarps) {
            Pair pair = cache[(t >> per) - first];
            Piece p = piece_of(host, device, pair, static_cast<uint32_t>(t & ((1u << per) - 1)), shift, to_device);
            uint4 r[kLoads];
            load_piece(p, lane, r);
            store_piece(p, lane, r);
        }
        __syncthreads(); // the cache is refilled next
        begin = stop;
    }
}

// Side is one direction of an exchange.
// ptxgen:type Side size=32 go=side
struct Side {
    char *host, *device;
    const Pair* list;
    uint32_t pages, shift;
};

// Window holds 32 consecutive pairs of a list, one per lane, so that a warp
// pays one PCIe round trip for 32 pages and not one for each.
struct Window {
    Pair held;
    uint64_t base;
    bool filled;
};

// pair_at returns list[i]; i must not decrease from call to call.
TRITIER_DEVICE Pair pair_at(Window& w, const Pair* list, uint32_t n, uint64_t i, uint32_t lane) {
    if (!w.filled || i >= w.base + 32) {
        w.base = i;
        w.filled = true;
        if (i + lane < n) w.held = list[i + lane];
    }
    Pair p;
    int from = static_cast<int>(i - w.base);
    p.host = __shfl_sync(0xffffffffu, w.held.host, from);
    p.device = __shfl_sync(0xffffffffu, w.held.device, from);
    return p;
}

// share_of is where block (or turn) i of n begins in a work of total pieces.
TRITIER_DEVICE uint64_t share_of(uint64_t total, uint64_t i, uint64_t n) { return total * i / n; }

// exchange moves pages both ways. Two kernels side by side starve each other's
// reads; here every warp issues the loads of one piece of each side, then the
// stores of both, so that neither side runs ahead. The shorter side is spread
// evenly over the longer one.
extern "C" __global__ void __launch_bounds__(kThreads) exchange(const Side in, const Side out) {
    uint32_t in_per = piece_shift(in.shift), out_per = piece_shift(out.shift), lane = threadIdx.x & 31;
    uint64_t in_total = static_cast<uint64_t>(in.pages) << in_per, out_total = static_cast<uint64_t>(out.pages) << out_per;
    uint64_t turns = in_total > out_total ? in_total : out_total, warps = static_cast<uint64_t>(gridDim.x) * kWarps;
    uint64_t warp = blockIdx.x * kWarps + threadIdx.x / 32;
    // Contiguous turns per warp: consecutive pieces share a page and a line of the list.
    uint64_t begin = share_of(turns, warp, warps), end = share_of(turns, warp + 1, warps);
    Window wi = {{0, 0}, 0, false}, wo = {{0, 0}, 0, false};
    for (uint64_t t = begin; t < end; t++) {
        uint64_t i = share_of(in_total, t, turns), o = share_of(out_total, t, turns);
        bool has_in = share_of(in_total, t + 1, turns) > i, has_out = share_of(out_total, t + 1, turns) > o;
        uint4 ri[kLoads], ro[kLoads];
        Piece pi, po;
        if (has_in) {
            Pair p = pair_at(wi, in.list, in.pages, i >> in_per, lane);
            pi = piece_of(in.host, in.device, p, static_cast<uint32_t>(i & ((1u << in_per) - 1)), in.shift, true);
            load_piece(pi, lane, ri);
        }
        if (has_out) {
            Pair p = pair_at(wo, out.list, out.pages, o >> out_per, lane);
            po = piece_of(out.host, out.device, p, static_cast<uint32_t>(o & ((1u << out_per) - 1)), out.shift, false);
            load_piece(po, lane, ro);
            store_piece(po, lane, ro);
        }
        if (has_in) store_piece(pi, lane, ri);
    }
}
