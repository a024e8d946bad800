// Submission: a command id, then a place in the queue, then the entry, then
// the doorbell. Nothing here waits while it holds what another needs:
//
//   - A command id is taken first. Who has to wait for one holds nothing.
//   - A place (ticket) is only taken when the slot is free at that moment, by
//     compare-and-swap, and is written at once: a ticket that is reserved and
//     not written would stop everybody behind it.
//   - The doorbell has a lock that is only tried. Who does not get it sees to it
//     that its entry is rung, by itself or by another, before it goes on.
//
// The order of an entry before its doorbell: entry, release of the ready mark,
// acquire by whoever rings, release (system scope) of the doorbell. The release
// covers the entries of the other lanes and threads too, since order is
// transitive; PTX's and C++'s memory model agree in this.
#pragma once

#include "poll.cuh"
#include "port.cuh"
#include "sqe.cuh"

namespace tritier {
namespace bamio {

// take_cid gives each lane of want a command id if it finds a free one in a few
// attempts. Attempts are numbered by Queue.next_cid: the number gives both the
// index and its generation, so that ids go round and a completion that comes
// twice or late does not fit the id's next owner.
template <class G>
TRITIER_DEVICE bool take_cid(const G& g, const Port& p, bool want, Handle* h) {
    bool have = false;
    TRITIER_NO_UNROLL
    for (uint32_t round = 0; round < 8; round++) {
        uint32_t asking = g.ballot(want && !have);
        if (asking == 0) {
            break;
        }
        uint64_t n = 0;
        uint32_t chief = lowest_bit(asking);
        if (g.lane() == chief) {
            n = atomic_add_relaxed_gpu(&p.q->next_cid, count_bits(asking));
        }
        n = g.from(n, chief) + bits_below(asking, g.lane());
        if (want && !have) {
            h->index = slot_of(n, p.cid_count);
            h->word = kInFlight | generation(p, lap_of(n, p.cid_count)) << 2;
            have = atomic_cas_acquire_gpu(&p.cids[h->index].word, kFree, h->word) == kFree;
        }
    }
    return have;
}

// room is how many entries fit into the queue now.
TRITIER_DEVICE uint32_t room(const Port& p, uint64_t* tickets) {
    // freed first: it never passes tickets. The acquire is for the slot, which
    // the controller has read before it was freed.
    uint64_t freed = load_acquire_gpu(&p.q->freed);
    *tickets = load_relaxed_gpu(&p.q->tickets);
    uint64_t used = *tickets - freed;
    return used >= p.depth - 1 ? 0 : static_cast<uint32_t>(p.depth - 1 - used);
}

// take_tickets reserves up to n consecutive entries whose slots are free, and
// says how many; 0 also when others were faster several times.
TRITIER_DEVICE uint32_t take_tickets(const Port& p, uint32_t n, uint64_t* first) {
    TRITIER_NO_UNROLL
    for (uint32_t attempt = 0; attempt < 8; attempt++) {
        uint32_t fit = room(p, first);
        if (fit == 0 || n == 0) {
            return 0;
        }
        fit = fit < n ? fit : n;
        if (atomic_cas_relaxed_gpu(&p.q->tickets, *first, *first + fit) == *first) {
            return fit;
        }
    }
    return 0;
}

// ring_tail tells the controller of n entries more, which the calling thread
// knows to be written. Only with ring_lock.
TRITIER_DEVICE void ring_tail(const Port& p, uint64_t rung, uint32_t n) {
    store_release_sys(p.sq_doorbell, slot_of(rung + n, p.depth));
    store_release_gpu(&p.q->rung, rung + n);
    atomic_add_relaxed_gpu(&p.q->doorbells, 1);
}

// ring_own rings for the group's entries at once, without marks, if the
// entries before have been rung and the lock is free: the usual case of a queue
// with few users.
template <class G>
TRITIER_DEVICE bool ring_own(const G& g, const Port& p, uint64_t first, uint32_t n) {
    g.sync(); // the entries of all lanes are before the leader's doorbell
    if (!try_lock(g, &p.q->ring_lock)) {
        return false;
    }
    bool next = false;
    if (g.leads() && load_relaxed_gpu(&p.q->rung) == first) {
        ring_tail(p, first, n);
        next = true;
    }
    unlock(g, &p.q->ring_lock);
    return g.any(next);
}

// ring_ready rings once for all entries that are ready, whoever wrote them.
template <class G>
TRITIER_DEVICE void ring_ready(const G& g, const Port& p) {
    if (!try_lock(g, &p.q->ring_lock)) {
        return;
    }
    uint64_t rung = 0;
    if (g.leads()) {
        rung = load_relaxed_gpu(&p.q->rung);
    }
    rung = from_leader(g, rung);
    uint32_t total = 0, found;
    do {
        uint64_t n = rung + total + g.rank();
        bool ready = load_acquire_gpu(&p.ready[slot_of(n, p.depth)]) == mark_of(n);
        found = leading(g, g.ballot(ready));
        total += found;
    } while (found == g.size() && total < p.depth - 1);
    if (g.leads() && total != 0) {
        ring_tail(p, rung, total);
    }
    unlock(g, &p.q->ring_lock);
}

// ring returns when the controller knows of all entries before end, or fails
// the queue: then somebody took a place and never wrote it, or died with the
// lock. Entries before the group's own may still have to be written by others,
// which wait for nothing meanwhile.
template <class G>
TRITIER_DEVICE void ring(const G& g, const Port& p, uint64_t end) {
    Watch watch = Watch::start();
    for (;;) {
        ring_ready(g, p);
        uint64_t rung = 0;
        if (g.leads()) {
            rung = load_relaxed_gpu(&p.q->rung);
        }
        if (from_leader(g, rung) >= end) {
            return;
        }
        uint32_t why = from_leader(g, watch.over(g, p));
        if (why != kOk) {
            if (g.leads() && why == kTimeout) {
                fail_queue(p, kQueueFailed);
            }
            return;
        }
        relax();
    }
}

// try_submit sends the commands of the lanes in want, as far as there are ids
// and places right now, with one doorbell. True for those lanes whose command
// was sent: *h names it, and wait or try_wait must take its result.
template <class G>
TRITIER_DEVICE bool try_submit(const G& g, const Port& p, const Command& c, bool want, Handle* h) {
    uint64_t first = 0;
    uint32_t fit = 0;
    if (g.leads()) {
        fit = load_relaxed_gpu(&p.q->failed) != kOk ? 0 : room(p, &first);
    }
    fit = from_leader(g, fit);
    // No more ids than places, or they would be taken in vain.
    uint32_t before = bits_below(g.ballot(want), g.lane());
    want = want && before < fit;
    bool have = take_cid(g, p, want, h);
    uint32_t senders = g.ballot(have);
    fit = 0;
    if (g.leads() && senders != 0) {
        fit = take_tickets(p, count_bits(senders), &first);
    }
    fit = from_leader(g, fit);
    first = from_leader(g, first);
    uint32_t place = bits_below(senders, g.lane());
    if (have && place >= fit) {
        store_release_gpu(&p.cids[h->index].word, kFree);
        have = false;
    }
    if (fit == 0) {
        return false;
    }
    uint32_t slot = slot_of(first + place, p.depth);
    if (have) {
        write_entry(p.sq + static_cast<uint64_t>(slot) * 64, c, wire_cid(p, *h), p.nsid);
    }
    if (!ring_own(g, p, first, fit)) {
        if (have) {
            store_release_gpu(&p.ready[slot], mark_of(first + place));
        }
        ring(g, p, first + fit);
    }
    return have;
}

// submit sends the commands of the lanes in want and returns, for each lane,
// kOk: sent, *h names the command, and its result must be taken; or kBusy: no
// place within the deadline, nothing was sent; or kStopped or what the queue
// failed with, and nothing was sent either. It takes in completions while it
// waits for a place.
//
// Command ids become free as their owners take the results. Callers that submit
// more while they have not taken what they sent before can starve one another
// of ids: use try_submit there, or stay below Queue.cid_count in all.
template <class G>
TRITIER_DEVICE uint32_t submit(const G& g, const Port& p, const Command& c, bool want, Handle* h) {
    uint32_t status = kOk;
    Watch watch = Watch::start();
    for (;;) {
        bool sent = try_submit(g, p, c, want, h);
        want = want && !sent;
        if (!g.any(want)) {
            return status;
        }
        poll(g, p);
        uint32_t why = watch.over(g, p);
        if (want && why != kOk) {
            status = why == kTimeout ? kBusy : why;
            want = false;
        }
        relax();
    }
}

} // namespace bamio
} // namespace tritier
