// Kernels that exercise the device headers; the tests beside say what each must
// give. None is of use in a program.
#include "ops.cuh"
#include "tritier.cuh"

using tritier::full_warp;

// Mail is passed by value, and read by index. Its size is Go's business too.
struct Mail {
    uint32_t kind;
    uint16_t tag;
    uint64_t words[6];
};
// ptxgen:type Mail size=56 go=mail
// ptxgen:type Flag size=4 go=uint32
enum Flag : uint32_t { off, on };

TRITIER_EXPORT_CONST(mail_size, sizeof(Mail));
TRITIER_EXPORT_CONST(mail_words_offset, offsetof(Mail, words));
TRITIER_EXPORT_CONST(zero, 0);
TRITIER_EXPORT_CONST(all_ones, ~uint64_t(0));

// How long a kernel waits for another party before it gives up, in ns.
constexpr uint64_t patience = 5000000000u;
TRITIER_EXPORT_CONST(patience, patience);

// wait_for_* polls until *p is want; false after patience.
__device__ __forceinline__ bool wait_for_gpu(const uint32_t* p, uint32_t want) {
    for (uint64_t start = tritier::globaltimer(); tritier::load_acquire_gpu(p) != want; tritier::relax()) {
        if (tritier::globaltimer() - start > patience) return false;
    }
    return true;
}

__device__ __forceinline__ bool wait_for_sys(const uint32_t* p, uint32_t want) {
    for (uint64_t start = tritier::globaltimer(); tritier::load_acquire_sys(p) != want; tritier::relax()) {
        if (tritier::globaltimer() - start > patience) return false;
    }
    return true;
}

// Every memory operation, by one thread.
extern "C" __global__ void memory_ops(uint32_t* narrow, uint64_t* wide, uint4* v, uint64_t* out) {
    out = selftest::ordered_ops(narrow, out);
    out = selftest::ordered_ops(wide, out);
    selftest::other_ops(v, out);
}

// Every warp primitive, by one warp; row i of 32 words is primitive i.
extern "C" __global__ void warp_ops(uint64_t* out) {
    uint32_t lane = tritier::lane_id();
    uint32_t odd = __ballot_sync(full_warp, lane & 1);
    uint64_t wide = uint64_t(lane) << 40 | lane;
    int row = 0;
    auto put = [&](uint64_t v) { out[row++ * 32 + lane] = v; };
    put(lane);
    put(odd);
    put(__shfl_sync(full_warp, wide, (lane + 5) & 31));
    put(__shfl_up_sync(full_warp, lane, 3));
    put(__shfl_down_sync(full_warp, wide, 3));
    put(__shfl_xor_sync(full_warp, lane, 9));
    put(__shfl_sync(full_warp, lane, 1, 8));
    put(__shfl_down_sync(full_warp, lane, 2, 16));
    put(__match_any_sync(full_warp, lane / 3));
    put(tritier::peers(full_warp, wide >> 42));
    put(__any_sync(full_warp, lane == 31));
    put(__all_sync(full_warp, lane < 31));
    put(tritier::warp_sum(wide));
    put(tritier::warp_max(lane ^ 21));
    put(tritier::broadcast(full_warp, wide, 17));
    put(tritier::lanes_below());
    put(tritier::rank(odd));
    put(tritier::is_leader(odd));
    put(__popc(lane) | __popcll(wide) << 8);
    put(__ffs(lane) | __ffsll(wide << 8) << 8);
    put(__clz(lane) | __clzll(wide) << 8);
    put(__brev(lane));
    uint32_t active = 0;
    if (lane % 4 == 0) {
        active = __activemask();
        __syncwarp(0x11111111u);
    }
    __syncwarp();
    put(active);
    put(warpSize);
}
TRITIER_EXPORT_CONST(warp_rows, 24);

// The place of each thread in the grid.
extern "C" __global__ void geometry(uint32_t* out) {
    uint32_t block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    uint32_t thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    out += 4 * (block * blockDim.x * blockDim.y * blockDim.z + thread);
    out[0] = blockIdx.x | blockIdx.y << 8 | blockIdx.z << 16;
    out[1] = threadIdx.x | threadIdx.y << 8 | threadIdx.z << 16;
    out[2] = gridDim.x | gridDim.y << 8 | gridDim.z << 16;
    out[3] = blockDim.x | blockDim.y << 8 | blockDim.z << 16;
}

// bits_of gives a value's bytes; nvcc before C++20 has no other way that clang
// has too.
template <class To, class From>
__device__ __forceinline__ To bits_of(From v) {
    union {
        From from;
        To to;
    } u;
    u.from = v;
    return u.to;
}

// Each parameter as it arrived, bit for bit.
extern "C" __global__ void parameters(uint64_t* out, uint8_t a, int8_t b, uint16_t c, int16_t d, bool e, uint32_t f,
                                      int32_t g, uint8_t pad, uint64_t h, int64_t i, float j, double k, size_t l,
                                      Flag m, const Mail mail, bool last) {
    const uint64_t got[] = {a, uint64_t(b), c, uint64_t(d), e, f, uint64_t(g), pad, h, uint64_t(i),
                            bits_of<uint32_t>(j), bits_of<uint64_t>(k), l, m, mail.kind, mail.tag, last};
    for (int n = 0; n < 17; n++) *out++ = got[n];
    for (int n = 0; n < 6; n++) *out++ = mail.words[n];
}

// The sum of a block's values through static and dynamic shared memory, and how
// many are odd.
extern "C" __global__ void __launch_bounds__(256) block_sum(const uint32_t* values, uint32_t* out) {
    __shared__ uint32_t half[128];
    extern __shared__ uint32_t every[];
    uint32_t me = threadIdx.x;
    every[me] = values[blockIdx.x * 256 + me];
    uint32_t odd = __syncthreads_count(every[me] & 1);
    if (me >= 128) half[me - 128] = every[me];
    __syncthreads();
    for (uint32_t n = 128; n > 0; n /= 2) {
        if (me < n) every[me] += n == 128 ? half[me] : every[me + n];
        __syncthreads();
    }
    if (me == 0) {
        out[2 * blockIdx.x] = every[0];
        out[2 * blockIdx.x + 1] = odd;
    }
}

// Blocks 2i and 2i+1 pass messages of 32 words, each written by another lane:
// flags[2i] publishes, flags[2i+1] acknowledges. failures counts wrong words,
// and 2^20 for a wait that ended by patience.
extern "C" __global__ void messages(uint32_t* data, uint32_t* flags, uint32_t* failures, uint32_t rounds) {
    uint32_t lane = threadIdx.x;
    uint32_t* mine = data + (blockIdx.x / 2) * 32;
    uint32_t* flag = flags + (blockIdx.x & ~1u);
    bool writer = blockIdx.x % 2 == 0;
    for (uint32_t round = 1; round <= rounds; round++) {
        bool ok = true;
        if (writer) {
            mine[lane] = round * 1000 + lane;
            __syncwarp();
            if (lane == 0) {
                tritier::store_release_gpu(&flag[0], round);
                ok = wait_for_gpu(&flag[1], round);
            }
        } else {
            if (lane == 0) ok = wait_for_gpu(&flag[0], round);
            __syncwarp();
            uint32_t other = (lane + round) % 32;
            if (mine[other] != round * 1000 + other) tritier::atomic_add_relaxed_gpu(failures, 1);
            __syncwarp();
            if (lane == 0) tritier::store_release_gpu(&flag[1], round);
        }
        __syncwarp();  // orders what lane 0 acquired before what the others write next
        if (!__all_sync(full_warp, ok)) {
            if (lane == 0) tritier::atomic_add_relaxed_gpu(failures, 1u << 20);
            return;
        }
    }
}

// The device's side of a conversation with the CPU through mapped host memory:
// the CPU writes seven words and its flag, the GPU answers with their
// complements and its own flag.
extern "C" __global__ void converse(uint64_t* ask, uint32_t* asked, uint64_t* answer, uint32_t* answered, uint32_t rounds,
                                    uint32_t* failures) {
    uint32_t lane = threadIdx.x;
    for (uint32_t round = 1; round <= rounds; round++) {
        bool ok = lane != 0 || wait_for_sys(asked, round);
        __syncwarp();  // orders what lane 0 acquired before what the others read
        if (!__all_sync(full_warp, ok)) {
            if (lane == 0) tritier::atomic_add_relaxed_gpu(failures, 1u << 20);
            return;
        }
        if (lane < 7) {
            uint64_t v = ask[lane];
            if (v != uint64_t(round) * 100 + lane) tritier::atomic_add_relaxed_gpu(failures, 1);
            answer[lane] = ~v;
        }
        __syncwarp();
        if (lane == 0) tritier::store_release_sys(answered, round);
    }
}

// Every thread counts, in each order, and one thread of each block at a time
// adds to a plain word under a lock. sums has 9 words: add in the four orders
// and both scopes, and the word under the lock.
extern "C" __global__ void contend(uint64_t* sums, uint32_t* lock, uint32_t times) {
    for (uint32_t i = 0; i < times; i++) {
        tritier::atomic_add_relaxed_gpu(&sums[0], 1);
        tritier::atomic_add_relaxed_sys(&sums[1], 1);
        tritier::atomic_add_acquire_gpu(&sums[2], 1);
        tritier::atomic_add_acquire_sys(&sums[3], 1);
        tritier::atomic_add_release_gpu(&sums[4], 1);
        tritier::atomic_add_release_sys(&sums[5], 1);
        tritier::atomic_add_acq_rel_gpu(&sums[6], 1);
        tritier::atomic_add_acq_rel_sys(&sums[7], 1);
        if (threadIdx.x == 0) {
            while (tritier::atomic_cas_acquire_gpu(lock, 0, 1) != 0) tritier::relax();
            sums[8] = sums[8] + 1;
            tritier::store_release_gpu(lock, 0);
        }
    }
}

// CUDA's own names that no kernel above uses, by one block of 64 threads.
extern "C" __global__ void cuda_names(uint64_t* out, const ulonglong2* pairs) {
    __shared__ uint2 shared[64];
    uint32_t me = threadIdx.x;
    shared[me] = make_uint2(me, me + 1);
    __threadfence_block();
    int all = __syncthreads_and(me < 64), some = __syncthreads_or(me == 63), none = __syncthreads_or(me > 63);
    ulonglong2 sum = make_ulonglong2(pairs[me].x + shared[63 - me].x, pairs[me].y + shared[63 - me].y);
    out[2 * me] = sum.x;
    __threadfence();
    out[2 * me + 1] = sum.y;
    __threadfence_system();
    __nanosleep(100);
    if (me == 0) out[128] = (all != 0) | (some != 0) << 1 | (none != 0) << 2;
}

// Where and when: the multiprocessor of each block, and two clocks.
extern "C" __global__ void placement(uint32_t* sm, uint64_t* clocks) {
    sm[blockIdx.x] = tritier::sm_id();
    clocks[2 * blockIdx.x] = tritier::globaltimer();
    clocks[2 * blockIdx.x + 1] = static_cast<uint64_t>(clock64());
}
