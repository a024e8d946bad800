// Completions: one thread or warp at a time takes them from the ring for
// everybody and hands each to its command id; owners look at their id.
#pragma once

#include "port.cuh"

namespace tritier {
namespace bamio {

// Handle names a command that was sent, for its owner.
struct Handle {
    uint32_t index; // of the command id
    uint32_t word;  // of Cid while in flight: kInFlight and the generation in bits 2-15
};

// generation is what of a lap over the command ids goes into the id on the wire,
// above the index, and into bits 2-15 of Cid.word.
TRITIER_DEVICE uint32_t generation(const Port& p, uint64_t lap) {
    return static_cast<uint32_t>(lap) & ((1u << (16 - p.cid_bits)) - 1) & 0x3fff;
}

TRITIER_DEVICE uint32_t wire_cid(const Port& p, const Handle& h) { return h.index | h.word >> 2 << p.cid_bits; }

// deliver hands a completion (dword 3) to the id's owner. A compare-and-swap,
// since the owner may be giving up at the same time: exactly one of the two
// happens.
TRITIER_DEVICE void deliver(const Port& p, uint64_t cqe, uint32_t dword3) {
    uint32_t cid = dword3 & 0xffff;
    uint32_t index = cid & ((1u << p.cid_bits) - 1);
    uint32_t gen = cid >> p.cid_bits << 2;
    uint32_t status = dword3 >> 17;
    uint32_t old = kFree;
    if (index < p.cid_count) {
        Cid* id = &p.cids[index];
        if (status != 0) {
            // Relaxed is enough: the load of dword 3 was an acquire.
            store_relaxed_gpu(&id->dword0, load_relaxed_sys(reinterpret_cast<uint32_t*>(cqe)));
        }
        old = atomic_cas_acq_rel_gpu(&id->word, kInFlight | gen, kDone | gen | status << 16);
        if (old == (kAbandoned | gen)) {
            store_release_gpu(&id->word, kFree); // late, but now the controller is done with it
            return;
        }
    }
    if (old != (kInFlight | gen)) {
        atomic_add_relaxed_gpu(&p.q->spurious, 1);
    }
}

// free_slots moves Queue.freed on to the SQ head that the completion before
// head reports. Only with cq_lock. The head is read over PCIe, so only once
// half of the queue is in use: before, nobody can be short of a place.
TRITIER_DEVICE void free_slots(const Port& p, uint64_t head) {
    uint64_t freed = load_relaxed_gpu(&p.q->freed);
    uint64_t used = load_relaxed_gpu(&p.q->tickets) - freed;
    if (2 * used < p.depth - 1) {
        return;
    }
    uint64_t cqe = p.cq + static_cast<uint64_t>(slot_of(head - 1, p.cq_depth)) * 16;
    uint32_t sq_head = load_relaxed_sys(reinterpret_cast<uint32_t*>(cqe + 8)) & 0xffff;
    uint32_t at = slot_of(freed, p.depth);
    uint32_t more = sq_head >= at ? sq_head - at : sq_head + p.depth - at;
    // A head outside of what was submitted is no head.
    if (sq_head < p.depth && more <= used) {
        store_release_gpu(&p.q->freed, freed + more);
    }
}

// return_slots tells the controller what was taken from its completion ring:
// once each quarter of it, since the doorbell costs a fence of system scope. A
// ring that is full to the controller has been taken for more than a quarter
// by then, so it never stays full. Only with cq_lock.
TRITIER_DEVICE void return_slots(const Port& p, uint64_t before, uint64_t head) {
    uint32_t quarter = p.cq_depth < 8 ? 1 : p.cq_depth / 4;
    if (lap_of(head, quarter) != lap_of(before, quarter)) {
        store_release_sys(p.cq_doorbell, slot_of(head, p.cq_depth));
    }
}

// take_pass looks at the completions from head on, one per lane, hands on those
// that have come and says how many.
template <class G>
TRITIER_DEVICE uint32_t take_pass(const G& g, const Port& p, uint64_t head, uint32_t width) {
    uint64_t n = head + g.rank();
    uint64_t cqe = p.cq + static_cast<uint64_t>(slot_of(n, p.cq_depth)) * 16;
    uint32_t dword3 = 0;
    bool come = false, gone = false;
    if (g.rank() < width) {
        // The phase tag's dword first, acquire: the controller writes it last.
        // The tag of the first lap is 1, and it changes with each.
        dword3 = load_acquire_sys(reinterpret_cast<uint32_t*>(cqe + 12));
        gone = dword3 == 0xffffffffu;
        come = !gone && (dword3 >> 16 & 1) == ((lap_of(n, p.cq_depth) & 1) ^ 1);
    }
    uint32_t found = leading(g, g.ballot(come));
    if (g.rank() < found) {
        deliver(p, cqe, dword3);
    } else if (g.rank() == found && gone) {
        fail_queue(p, kDeviceGone);
    }
    return found;
}

// poll takes up to 32 completions (a few more for some groups) from the ring,
// if nobody else is at it, and says how many it took. Bounded; does not wait.
template <class G>
TRITIER_DEVICE uint32_t poll(const G& g, const Port& p) {
    if (!try_lock(g, &p.q->cq_lock)) {
        return 0;
    }
    uint64_t head = 0;
    if (g.leads()) {
        head = load_relaxed_gpu(&p.q->cq_head);
    }
    head = from_leader(g, head);
    // The controller leaves one entry of the ring empty. A lane that looked a
    // whole lap ahead would take the entry of the lap before for valid.
    uint32_t width = g.size() < p.cq_depth - 1 ? g.size() : p.cq_depth - 1;
    uint32_t total = 0, found;
    do {
        found = take_pass(g, p, head + total, width);
        total += found;
    } while (found == width && total < 32);
    if (total != 0) {
        g.sync(); // what the lanes read is before the leader's doorbell
        if (g.leads()) {
            free_slots(p, head + total);
            store_relaxed_gpu(&p.q->cq_head, head + total);
            return_slots(p, head, head + total);
            atomic_add_relaxed_gpu(&p.q->completions, total);
        }
    }
    unlock(g, &p.q->cq_lock);
    return total;
}

// try_wait takes the result of h, of one lane, if it has come: true, and the
// command id is free again. After true, h must not be used.
TRITIER_DEVICE bool try_wait(const Port& p, const Handle& h, uint32_t* status) {
    Cid* id = &p.cids[h.index];
    uint32_t word = load_acquire_gpu(&id->word);
    if (word == h.word) {
        return false;
    }
    if ((word & 0xffff) != (h.word ^ kInFlight ^ kDone)) {
        *status = kNoCompletion; // not this handle's any more
        return true;
    }
    *status = word >> 16;
    store_release_gpu(&id->word, kFree);
    return true;
}

// give_up abandons h with the status why, unless the result came just now. The
// command may still run: the controller can read or write its payload until
// its completion comes or the controller was reset.
TRITIER_DEVICE uint32_t give_up(const Port& p, const Handle& h, uint32_t why) {
    uint32_t abandoned = h.word ^ kInFlight ^ kAbandoned;
    if (atomic_cas_acq_rel_gpu(&p.cids[h.index].word, h.word, abandoned) != h.word) {
        try_wait(p, h, &why);
    }
    return why;
}

// wait takes the results of h of the lanes in want: the 15-bit status of the
// completion, or kTimeout, kStopped, or what the queue failed with; after those
// the payload is the controller's until it was reset. The deadline counts from watch on.
template <class G>
TRITIER_DEVICE uint32_t wait(const G& g, const Port& p, const Handle& h, bool want, Watch watch) {
    uint32_t status = kOk;
    for (;;) {
        want = want && !try_wait(p, h, &status);
        if (!g.any(want)) {
            g.sync();
            return status;
        }
        uint32_t took = poll(g, p);
        uint32_t why = watch.over(g, p);
        if (want && why != kOk) {
            status = give_up(p, h, why);
            want = false;
        }
        if (took == 0) {
            relax();
        }
    }
}

template <class G>
TRITIER_DEVICE uint32_t wait(const G& g, const Port& p, const Handle& h, bool want) {
    return wait(g, p, h, want, Watch::start());
}

} // namespace bamio
} // namespace tritier
