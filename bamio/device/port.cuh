// Port: what a thread keeps of a queue, and the arithmetic of rings.
#pragma once

#include "group.cuh"
#include "layout.cuh"

namespace tritier {
namespace bamio {

// Port is a queue as its users hold it, in registers: the fields of Queue that
// do not change, so that they are loaded once and not after every atomic.
struct Port {
    Queue* q;
    uint64_t sq;
    uint64_t cq;
    uint32_t* sq_doorbell;
    uint32_t* cq_doorbell;
    uint32_t* ready;
    Cid* cids;
    uint32_t depth;
    uint32_t cq_depth;
    uint32_t cid_count;
    uint32_t cid_bits; // of the command id on the wire that are the index; the rest are the generation
    uint32_t nsid;
    uint64_t deadline_ns;
    const uint32_t* stop; // or null
};

// bits_for is the number of bits that tell n values apart.
TRITIER_DEVICE uint32_t bits_for(uint32_t n) {
    if (n <= 1) {
        return 0;
    }
#if TRITIER_GPU
    return 32 - static_cast<uint32_t>(__clz(static_cast<int>(n - 1)));
#else
    return 32 - static_cast<uint32_t>(__builtin_clz(n - 1));
#endif
}

// open_port loads the queue of the given index in Engine.queues.
TRITIER_DEVICE Port open_port(const Engine* e, uint32_t queue) {
    Queue* q = reinterpret_cast<Queue*>(e->queues) + queue;
    Port p;
    p.q = q;
    p.sq = q->sq;
    p.cq = q->cq;
    p.sq_doorbell = reinterpret_cast<uint32_t*>(q->sq_doorbell);
    p.cq_doorbell = reinterpret_cast<uint32_t*>(q->cq_doorbell);
    p.ready = reinterpret_cast<uint32_t*>(q->ready);
    p.cids = reinterpret_cast<Cid*>(q->cids);
    p.depth = q->depth;
    p.cq_depth = q->cq_depth;
    p.cid_count = q->cid_count;
    p.cid_bits = bits_for(q->cid_count);
    p.nsid = q->nsid;
    p.deadline_ns = e->deadline_ns;
    p.stop = reinterpret_cast<const uint32_t*>(e->stop);
    return p;
}

// queue_of chooses the n-th user's queue of a drive, as an index in
// Engine.queues. n is the warp's number, say, so that users spread evenly.
TRITIER_DEVICE uint32_t queue_of(const Engine* e, uint32_t drive, uint64_t n) {
    const Drive* d = reinterpret_cast<const Drive*>(e->drives) + drive;
    return d->first_queue + static_cast<uint32_t>(n % d->queue_count);
}

// slot_of is n % size, lap_of n / size, for sizes from 1. A 64-bit division
// takes a GPU about a hundred instructions; most rings are powers of two.
TRITIER_DEVICE uint32_t slot_of(uint64_t n, uint32_t size) {
    if ((size & (size - 1)) == 0) {
        return static_cast<uint32_t>(n) & (size - 1);
    }
    return static_cast<uint32_t>(n % size);
}

TRITIER_DEVICE uint64_t lap_of(uint64_t n, uint32_t size) {
    if ((size & (size - 1)) == 0) {
        return n >> lowest_bit(size);
    }
    return n / size;
}

// mark_of is what Queue.ready holds for entry n once it is written. It is
// another number for each lap, so that no mark has to be cleared.
TRITIER_DEVICE uint32_t mark_of(uint64_t n) { return static_cast<uint32_t>(n) + 1; }

// try_lock takes one of the queue's two locks, for the whole group, or does
// not: nobody waits for them. Their holder does nothing that depends on
// another thread before it unlocks.
template <class G>
TRITIER_DEVICE bool try_lock(const G& g, uint32_t* lock) {
    uint32_t old = 1;
    if (g.leads() && load_relaxed_gpu(lock) == 0) {
        old = atomic_cas_acquire_gpu(lock, 0, 1);
    }
    return from_leader(g, old) == 0;
}

// unlock lets it go, after what every lane of the group did.
template <class G>
TRITIER_DEVICE void unlock(const G& g, uint32_t* lock) {
    g.sync();
    if (g.leads()) {
        store_release_gpu(lock, 0);
    }
}

// fail_queue ends every wait on the queue with the status, unless it has
// failed before.
TRITIER_DEVICE void fail_queue(const Port& p, uint32_t status) { atomic_cas_relaxed_gpu(&p.q->failed, 0, status); }

// stopping says whether the host asks kernels to end. Waits look at it by
// themselves when they take long; loops of short I/O look now and then, since
// a GPU reads the word over PCIe.
TRITIER_DEVICE bool stopping(const Port& p) { return p.stop != nullptr && load_relaxed_sys(p.stop) != 0; }

// Watch bounds one wait of one lane.
struct Watch {
    uint64_t begun; // globaltimer
    uint32_t looks;

    TRITIER_DEVICE static Watch start() { return Watch{globaltimer(), 0}; }

    // over says why the lane has to stop waiting: kOk (it has not),
    // Queue.failed, kStopped or kTimeout. It looks at the queue every few
    // calls only, and seldom at the host's stop word, which a GPU has to fetch
    // over PCIe.
    template <class G>
    TRITIER_DEVICE uint32_t over(const G& g, const Port& p) {
        uint32_t why = kOk;
        looks++;
        if (looks % 4 != 0) {
            return why;
        }
        if (g.leads()) {
            why = load_relaxed_gpu(&p.q->failed);
            if (why == kOk && looks % 64 == 0 && stopping(p)) {
                why = kStopped;
            }
        }
        why = from_leader(g, why);
        if (why == kOk && globaltimer() - begun > p.deadline_ns) {
            why = kTimeout;
        }
        return why;
    }
};

} // namespace bamio
} // namespace tritier
