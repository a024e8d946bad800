// Context: what a group keeps of an engine, and the arithmetic of its memory.
#pragma once

#include "entry.cuh"
#include "group.cuh"

// Paths that are taken seldom and are long: called, not repeated in the code of
// every access. What the fast paths call takes its arguments by value: an address
// would force the caller to keep them in memory.
#if TRITIER_GPU
#define TRITIER_SLOW __device__ __attribute__((noinline))
#else
#define TRITIER_SLOW inline
#endif

namespace tritier {
namespace tier {

using bamio::bits_below;
using bamio::count_bits;
using bamio::from_leader;
using bamio::Lanes;
using bamio::lowest_bit;
using bamio::leading;
using bamio::Solo;

// fixed reads a field of the engine's block, which the host does not change while
// kernels run: once in a function, whatever orders of memory come between.
template <class T>
TRITIER_DEVICE T fixed(const T* p) {
#if TRITIER_GPU
    T v;
    if constexpr (sizeof(T) == 4) {
        asm("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(p));
    } else {
        static_assert(sizeof(T) == 8, "a field of 4 or 8 bytes");
        asm("ld.global.nc.u64 %0, [%1];" : "=l"(v) : "l"(p));
    }
    return v;
#else
    return *p;
#endif
}

// far_call is f, to be called where the compiler does not know it. zero is 0. A function
// that is known is compiled with its callers, and what they hold across the call then lies
// in local memory, in hot loops too, whether they call or not; an unknown one keeps their
// registers by the calling convention.
template <class F>
TRITIER_DEVICE F far_call(F f, uint64_t zero) {
#if TRITIER_GPU
    return reinterpret_cast<F>(reinterpret_cast<uint64_t>(f) + zero);
#else
    static_cast<void>(zero);
    return f;
#endif
}

// Context is an engine with the store that its pages come from. S has
//
//   static S open(const Engine*, uint32_t user)
//   uint32_t read(const G&, uint32_t page, uint32_t slot)   T3 -> slot
//   uint32_t write(const G&, uint32_t page, uint32_t slot, Reading*)  slot -> T3, beside a read that may be under way
//   bool begin_read(const G&, uint32_t page, uint32_t slot, Reading*)  sends a read, if that is possible at once
//   void end_read(const G&, Reading*)                       waits for it
//   uint32_t flush(const G&)                                durable
//   bool lost(uint32_t status): may the slot still be used by the drive?
//   uint32_t held_by(uint32_t page): by a command of which queue, a number below 2^30?
//   bool settled(uint32_t queue): can none of that queue use a slot that was lost before?
//
// the first ones called by a whole group, with one status for all lanes, the last
// two by one lane.
template <class S>
struct Context {
    const Engine* e;
    uint64_t* entries;
    uint64_t frame_memory;
    uint8_t page_shift;
    uint8_t stripe;
    uint32_t number; // of the miss that the group is at, for events; 0: nobody is told of it
    S store;

    TRITIER_DEVICE Hot* hot() const { return reinterpret_cast<Hot*>(fixed(&e->hot)); }
    TRITIER_DEVICE Counts* counts() const { return reinterpret_cast<Counts*>(fixed(&e->counts)); }
    TRITIER_DEVICE uint32_t* frame_owner() const { return reinterpret_cast<uint32_t*>(fixed(&e->frame_owner)); }
    TRITIER_DEVICE uint32_t* slot_owner() const { return reinterpret_cast<uint32_t*>(fixed(&e->slot_owner)); }
    TRITIER_DEVICE uint32_t* slot_order() const { return reinterpret_cast<uint32_t*>(fixed(&e->slot_order)); }
    TRITIER_DEVICE void* frame(uint32_t f) const {
        return reinterpret_cast<void*>(frame_memory + (static_cast<uint64_t>(f) << page_shift));
    }
    TRITIER_DEVICE void* slot(uint32_t s) const {
        return reinterpret_cast<void*>(fixed(&e->slot_memory) + (static_cast<uint64_t>(s) << page_shift));
    }
    TRITIER_DEVICE uint64_t page_bytes() const { return 1ull << page_shift; }
};

// open_context makes a context for user number user: a warp's number, say.
template <class S>
TRITIER_DEVICE Context<S> open_context(const Engine* e, uint32_t user) {
    return Context<S>{e, reinterpret_cast<uint64_t*>(e->entries), e->frame_memory, static_cast<uint8_t>(e->page_shift),
                      static_cast<uint8_t>(user % kStripes), 0, S::open(e, user)};
}

// count adds to a counter; one lane of a group calls it, and does not wait.
TRITIER_DEVICE void count(uint64_t* counter, uint64_t n = 1) {
#if TRITIER_GPU
    asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(counter), "l"(n) : "memory");
#else
    atomic_add_relaxed_gpu(counter, n);
#endif
}

// count_if is count for the lanes with want, without a branch: lanes that go different
// ways need not come together again before the next access, which each would then make
// by itself.
TRITIER_DEVICE void count_if(bool want, uint64_t* counter, uint64_t n) {
#if TRITIER_GPU
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p red.relaxed.gpu.global.add.u64 [%0], %1; }" ::"l"(counter), "l"(n),
                 "r"(want ? 1u : 0u) : "memory");
#else
    if (want) {
        count(counter, n);
    }
#endif
}

// bucket_of is a duration's bucket in Moves: its length in bits, or the last one.
TRITIER_DEVICE uint32_t bucket_of(uint64_t ns) {
    for (uint32_t shift = 1; shift < 64; shift *= 2) {
        ns |= ns >> shift; // ones from the highest down
    }
    uint32_t length = count_bits(static_cast<uint32_t>(ns)) + count_bits(static_cast<uint32_t>(ns >> 32));
    return length < kBuckets ? length : kBuckets - 1;
}

// in_vain says that a status stands for a wait that has ended without an answer.
TRITIER_DEVICE bool in_vain(uint32_t status) {
    status &= ~static_cast<uint32_t>(kWriteBack);
    return status == kWaitTimeout || status == kWaitStopped || status == kNoSlot || status == kNoPlace;
}

// stop_asked looks whether kernels are to end. The word is far away.
TRITIER_DEVICE bool stop_asked(const Engine* e) {
    return e->stop != 0 && load_relaxed_sys(reinterpret_cast<const uint32_t*>(e->stop)) != 0;
}

// note_error keeps the first error for the host. In a batch, nobody else waits for
// what one has waited for in vain: each would take its own deadline.
template <class S>
TRITIER_DEVICE void note_error(const Context<S>& t, uint32_t page, uint32_t status) {
    if (fixed(&t.e->give_up) != 0 && in_vain(status)) {
        store_relaxed_sys(reinterpret_cast<uint32_t*>(fixed(&t.e->stop)), 1);
    }
    uint64_t* first = &t.hot()->first_error;
    if (load_relaxed_gpu(first) == 0) {
        atomic_cas_relaxed_gpu(first, 0, static_cast<uint64_t>(status) << 32 | page);
    }
}

// now is the virtual time: exact while one group runs.
TRITIER_SLOW uint64_t now_of(const Engine* e) {
    const Stripe* s = reinterpret_cast<const Stripe*>(e->stripes);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < kStripes; i++) {
        sum += load_relaxed_gpu(&s[i].hits) + load_relaxed_gpu(&s[i].slow);
    }
    return sum;
}

template <class S>
TRITIER_DEVICE Stripe* stripe_of(const Context<S>& t) {
    return reinterpret_cast<Stripe*>(fixed(&t.e->stripes)) + t.stripe;
}

// Wait bounds one wait of one thread by time.
struct Wait {
    uint64_t begun;
    uint32_t looks;

    TRITIER_DEVICE static Wait start() { return Wait{globaltimer(), 0}; }
    TRITIER_DEVICE bool longer_than(uint64_t ns) const { return globaltimer() - begun > ns; }
    // over says why the wait has to end: kTierOk (it has not), kWaitTimeout or
    // kWaitStopped. The host's stop word is far away: it is looked at seldom.
    TRITIER_DEVICE uint32_t over(const Engine* e) {
        looks++;
        if (looks % 256 == 0 && stop_asked(e)) {
            return kWaitStopped;
        }
        return looks % 4 == 0 && longer_than(e->deadline_ns) ? kWaitTimeout : kTierOk;
    }
    // rest lets the thread sleep for an eighth of the time that it has waited, at most 128 us:
    // for waits of thousands of groups on one word, whose polls would slow down all that goes
    // through the same part of the L2 cache, whoever they wait for included.
    TRITIER_DEVICE void rest() const {
        uint64_t ns = (globaltimer() - begun) / 8;
        nanosleep(ns < 128000 ? static_cast<uint32_t>(ns) : 128000);
    }
};

// Reading is a read of a page by a group: kNoRead, or the store has its command, or its
// result, which somebody has to count, or that was done.
struct Reading {
    uint32_t state;
    uint32_t status;      // from kEnded on
    uint32_t page;        // while it is under way, for the store
    uint32_t index, word; // likewise, the leader's
    uint64_t begun;       // globaltimer
};

enum : uint32_t { kNoRead = 0, kUnderWay = 1, kEnded = 2, kSettled = 3 };

// load16 and store16 move 16 aligned bytes. On a GPU that is one instruction and
// one transaction; a CPU takes two words, of which none is ever torn.
struct Piece {
#if TRITIER_GPU
    uint4 v;
#else
    uint64_t low, high;
#endif
};

TRITIER_DEVICE Piece load16(const void* p) {
#if TRITIER_GPU
    return Piece{load_volatile_v4(static_cast<const uint4*>(p))};
#else
    const uint64_t* w = static_cast<const uint64_t*>(p);
    return Piece{load_relaxed_gpu(w), load_relaxed_gpu(w + 1)};
#endif
}

TRITIER_DEVICE void store16(void* p, const Piece& v) {
#if TRITIER_GPU
    store_volatile_v4(static_cast<uint4*>(p), v.v);
#else
    uint64_t* w = static_cast<uint64_t*>(p);
    store_relaxed_gpu(w, v.low);
    store_relaxed_gpu(w + 1, v.high);
#endif
}

// copy_bytes moves a multiple of 16 bytes by the whole group, 16 a lane, with
// several loads in flight. Loads and stores are volatile: pinned memory has
// other writers, and reads without a pin may look at a frame that is being
// filled.
template <class G>
TRITIER_SLOW void copy_bytes(G g, void* dst, const void* src, uint64_t bytes) {
    constexpr uint32_t each = 16;
    const char* from = static_cast<const char*>(src);
    char* to = static_cast<char*>(dst);
    uint64_t n = bytes / 16, step = g.size(), i = g.rank();
    for (; i + (each - 1) * step < n; i += each * step) {
        Piece v[each];
TRITIER_UNROLL
        for (uint32_t k = 0; k < each; k++) {
            v[k] = load16(from + 16 * (i + k * step));
        }
TRITIER_UNROLL
        for (uint32_t k = 0; k < each; k++) {
            store16(to + 16 * (i + k * step), v[k]);
        }
    }
    for (; i < n; i += step) {
        store16(to + 16 * i, load16(from + 16 * i));
    }
    g.sync();
}

} // namespace tier
} // namespace tritier
