// The load of tritier bench io: warps that read and write blocks and check
// every byte. What a block holds follows from its number, its drive's and a seed,
// so that reads can be checked whoever wrote the block, writes put the same again,
// and data of another drive or place is noticed.
#include "bamio.cuh"

using namespace tritier;
using namespace tritier::bamio;

enum : uint32_t { kPatternRandom = 0, kPatternSequential = 1 };

// ptxgen:type Load size=96 go=load
struct Load {
    uint64_t target;     // where payload is pulled to in GPU memory: a buffer per lane
    uint64_t results;    // Results
    uint64_t histogram;  // uint32_t[kBuckets], or 0: no latencies
    uint64_t sms;        // uint32_t[kMaxSMs]: not 0 where a warp ran
    uint64_t blocks;     // of each drive, from 0 on, that are used; a multiple of span
    uint64_t turns;      // of each warp
    uint64_t seed;       // of the block numbers
    uint64_t data;       // seed of the contents, from which each drive has its own
    uint32_t warps;      // in all
    uint32_t span;       // blocks of a command
    uint32_t read_share; // of 256 commands
    uint32_t pattern;
    uint32_t lanes;      // of each warp that have a command, 1 to 32
    uint32_t pull;       // 1: copy the payload to target and check it, 0: leave it
    uint32_t reserved[2];
};

// StatusCount is how many commands ended with one status.
struct StatusCount {
    uint64_t status; // + 1; 0 while nobody has taken the place
    uint64_t count;
};

constexpr uint32_t kStatuses = 32;
TRITIER_EXPORT_CONST(statuses, kStatuses);

// Results are sums over all warps.
struct Results {
    uint64_t reads, writes; // that succeeded
    uint64_t errors;        // commands that ended with a status
    uint64_t bad;           // 16-byte pieces that held something else
    uint64_t first_status;  // of the errors: status + 1, of the first that got there
    uint64_t first_bad;     // + 1: a block that a lane asked for whose warp saw a bad piece
    uint64_t begun, ended;  // globaltimer
    // Of the errors, by status, in the order of their first. Statuses beyond the
    // last place are in errors alone.
    StatusCount statuses[kStatuses];
};
TRITIER_EXPORT_CONST(results_bytes, sizeof(Results));

// Latencies are counted in buckets of 1/8 octave from 2^8 ns on.
constexpr uint32_t kBuckets = 256, kMaxSMs = 1024;
TRITIER_EXPORT_CONST(buckets, kBuckets);
TRITIER_EXPORT_CONST(max_sms, kMaxSMs);
TRITIER_EXPORT_CONST(load_bytes, sizeof(Load));

TRITIER_DEVICE uint64_t mix(uint64_t x) { // splitmix64's finalizer
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

// contents is the seed of one drive's contents. It differs for all drives, since
// mix is a bijection.
TRITIER_DEVICE uint64_t contents(uint64_t data, uint32_t drive) { return mix(data + (drive + 1) * 0x9e3779b97f4a7c15ull); }

// piece is what the i-th 16 bytes of a drive hold that has these contents.
TRITIER_DEVICE uint4 piece(uint64_t data, uint64_t i) {
    uint64_t v = (i + 1) * 0x9e3779b97f4a7c15ull ^ data;
    return make_uint4(static_cast<uint32_t>(v), static_cast<uint32_t>(v >> 32), static_cast<uint32_t>(i), ~static_cast<uint32_t>(v));
}

TRITIER_DEVICE uint32_t bucket_of(uint64_t ns) {
    if (ns < 256) return 0;
    uint32_t top = 63 - static_cast<uint32_t>(__clzll(static_cast<long long>(ns)));
    uint32_t b = (top - 8) * 8 + static_cast<uint32_t>(ns >> (top - 3) & 7);
    return b < kBuckets ? b : kBuckets - 1;
}

constexpr uint32_t kAtOnce = 8; // loads of a lane in flight

// pull_and_check copies the payload of the lanes in goods to GPU memory, all
// 32 lanes together, and compares it on the way: what is the count of wrong
// pieces that this lane saw. data are the drive's contents, first is the number of
// the lane's first piece; pieces, of each lane, is a power of two.
TRITIER_DEVICE uint32_t pull_and_check(const Lanes& g, const Medium& m, const Load& l, uint64_t data, uint32_t warp, uint64_t first, uint32_t goods,
                                       uint32_t pieces) {
    uint32_t bad = 0, shift = lowest_bit(pieces), total = l.lanes << shift;
    for (uint32_t base = 0; base < total; base += 32 * kAtOnce) {
        uint4 v[kAtOnce];
        uint64_t number[kAtOnce];
TRITIER_UNROLL
        for (uint32_t k = 0; k < kAtOnce; k++) {
            uint32_t i = base + 32 * k + g.lane(), owner = i >> shift;
            number[k] = g.from(first, owner & 31) + (i & (pieces - 1));
            if (i < total && (goods >> owner & 1)) {
                uint64_t from = m.payload.base + (static_cast<uint64_t>(warp * l.lanes + owner) << shift) * 16;
                v[k] = load_volatile_v4(reinterpret_cast<const uint4*>(from) + (i & (pieces - 1)));
            }
        }
TRITIER_UNROLL
        for (uint32_t k = 0; k < kAtOnce; k++) {
            uint32_t i = base + 32 * k + g.lane(), owner = i >> shift;
            if (i < total && (goods >> owner & 1)) {
                uint64_t to = l.target + (static_cast<uint64_t>(warp * l.lanes + owner) << shift) * 16;
                *(reinterpret_cast<uint4*>(to) + (i & (pieces - 1))) = v[k];
                uint4 want = piece(data, number[k]);
                bad += v[k].x != want.x || v[k].y != want.y || v[k].z != want.z || v[k].w != want.w;
            }
        }
    }
    g.sync(); // the next batch's payload goes where this one's was
    return bad;
}

// Sums are a lane's share of Results.
struct Sums {
    uint64_t reads, writes, errors, bad;
    bool over; // the queue is of no more use
};

TRITIER_DEVICE void add_sums(Results* r, const Sums& s) {
    if (s.reads) atomic_add_relaxed_gpu(&r->reads, s.reads);
    if (s.writes) atomic_add_relaxed_gpu(&r->writes, s.writes);
    if (s.errors) atomic_add_relaxed_gpu(&r->errors, s.errors);
    if (s.bad) atomic_add_relaxed_gpu(&r->bad, s.bad);
}

// count_error counts a command that ended with a status: in the place of that
// status, or in the first free one. The count and the place are only read once
// the kernel has ended, so that nothing needs an order.
TRITIER_DEVICE void count_error(Results* r, uint32_t status) {
    uint64_t key = static_cast<uint64_t>(status) + 1;
    for (uint32_t i = 0; i < kStatuses; i++) {
        StatusCount* s = &r->statuses[i];
        uint64_t has = load_relaxed_gpu(&s->status);
        if (has == 0) has = atomic_cas_relaxed_gpu(&s->status, 0, key);
        if (has == 0 || has == key) {
            atomic_add_relaxed_gpu(&s->count, 1);
            return;
        }
    }
}

// turn is one batch of a warp: up to 32 commands of one kind.
TRITIER_DEVICE void turn(const Lanes& g, const Port& p, const Medium& m, const Load& l, uint32_t drives, uint32_t warp, uint64_t t, Sums* sums) {
    Results* r = reinterpret_cast<Results*>(l.results);
    // Numbered per drive, so that a sequential load misses no block of any.
    uint64_t mine = (t * ((l.warps + drives - 1) / drives) + warp / drives) * l.lanes + g.lane(), spans = l.blocks / l.span;
    uint64_t at = l.pattern == kPatternRandom ? mix(l.seed + (mine * drives + warp % drives)) % spans : mine % spans;
    bool want = g.lane() < l.lanes, reads = (mix(l.seed ^ (t * l.warps + warp) << 20) & 255) < l.read_share;
    // Payloads lie side by side, several small ones in a buffer: what is in
    // flight should fit into the CPU's caches.
    uint32_t bytes = l.span * m.block_size, pieces = bytes / 16;
    uint64_t place = static_cast<uint64_t>(warp * l.lanes + (want ? g.lane() : 0)) * bytes;
    Span s = Span{at * l.span, l.span, static_cast<uint32_t>(place / m.payload.bytes), static_cast<uint32_t>(place % m.payload.bytes)};
    uint64_t first = s.lba * (m.block_size / 16), payload = m.payload.base + place, data = contents(l.data, warp % drives);
    if (!reads) {
        for (uint32_t lane = 0; lane < l.lanes; lane++) {
            uint4* to = reinterpret_cast<uint4*>(g.from(payload, lane));
            uint64_t from = g.from(first, lane);
            for (uint32_t i = g.rank(); i < pieces; i += 32) to[i] = piece(data, from + i);
        }
        g.sync();
    }
    uint64_t begun = globaltimer();
    uint32_t status = transfer_blocks(g, p, m, reads ? kRead : kWrite, s, want);
    uint64_t took = globaltimer() - begun;
    bool good = want && status == kOk;
    if (want && !good) {
        sums->errors++;
        sums->over = sums->over || status == kQueueFailed || status == kDeviceGone || status == kStopped;
        atomic_cas_relaxed_gpu(&r->first_status, 0, static_cast<uint64_t>(status) + 1);
        count_error(r, status);
    }
    if (l.histogram != 0 && good) atomic_add_relaxed_gpu(reinterpret_cast<uint32_t*>(l.histogram) + bucket_of(took), 1);
    sums->reads += good && reads;
    sums->writes += good && !reads;
    if (!reads || l.pull == 0) return;
    uint32_t bad = pull_and_check(g, m, l, data, warp, first, g.ballot(good), pieces);
    if (bad != 0) atomic_cas_relaxed_gpu(&r->first_bad, 0, s.lba + 1);
    sums->bad += bad;
}

// run_load is the load: warps of all blocks, each with a queue of its drive.
extern "C" __global__ void run_load(const Engine* e, const Load l) {
    uint32_t warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (warp >= l.warps) return;
    Lanes g = Lanes::full();
    uint32_t drive = warp % e->drive_count;
    Port p = open_port(e, queue_of(e, drive, warp / e->drive_count));
    Medium m = open_medium(e, drive);
    Results* r = reinterpret_cast<Results*>(l.results);
    if (g.leads()) {
        if (sm_id() < kMaxSMs) store_relaxed_gpu(reinterpret_cast<uint32_t*>(l.sms) + sm_id(), 1);
        atomic_min_relaxed_gpu(&r->begun, globaltimer());
    }
    Sums sums = {0, 0, 0, 0, false};
    for (uint64_t t = 0; t < l.turns; t++) {
        turn(g, p, m, l, e->drive_count, warp, t, &sums);
        // A drive that is gone, or fails everything, must not keep the GPU for
        // all turns. A single lane may well meet bad blocks only.
        if (g.any(sums.over) || (g.any(sums.errors >= 8) && !g.any(sums.reads + sums.writes != 0))) break;
        if (p.stop != nullptr && t % 64 == 63 && from_leader(g, load_relaxed_sys(p.stop)) != 0) break;
    }
    add_sums(r, sums);
    g.sync();
    if (g.leads()) atomic_max_relaxed_gpu(&r->ended, globaltimer());
}

// mailbox is the round trip GPU -> CPU -> GPU that latencies are held against:
// the CPU answers each number in word 0 by the same in word 32.
extern "C" __global__ void mailbox(uint32_t* words, uint32_t rounds, uint64_t limit_ns, uint64_t* out) {
    uint64_t begun = globaltimer();
    uint32_t i = 1;
    for (; i <= rounds; i++) {
        store_release_sys(words, i);
        while (load_acquire_sys(words + 32) != i) {
            if (globaltimer() - begun > limit_ns) {
                out[1] = i;
                return;
            }
        }
    }
    out[0] = globaltimer() - begun;
    out[1] = i;
}
