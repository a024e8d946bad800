// Compaction of T2's order: when its log is full of dead entries, one group moves the live
// ones together, in order, while nobody else is in the log.
#pragma once

#include "order.cuh"

namespace tritier {
namespace tier {

// close_log waits until nobody else is in the log; false: another compacts it,
// or somebody does not leave.
template <class S>
TRITIER_DEVICE bool close_log(const Context<S>& t) {
    uint32_t* gate = &t.hot()->log_gate;
    if ((atomic_or_acquire_gpu(gate, kCompacting) & kCompacting) != 0) {
        return false;
    }
    Wait wait = Wait::start();
    while (load_acquire_gpu(gate) != kCompacting) {
        if (wait.over(t.e) == kWaitTimeout) {
            atomic_and_release_gpu(gate, ~kCompacting);
            return false;
        }
        relax();
    }
    return true;
}

// Spot is where an entry of the log stands in the ring, and its lap's bits. A step costs no
// division, of which one of 64 bits takes hundreds of instructions on a GPU.
struct Spot {
    uint32_t index, lap;
};

// spot_of is entry n's.
template <class S>
TRITIER_DEVICE Spot spot_of(const Context<S>& t, uint64_t n) {
    return Spot{static_cast<uint32_t>(n % fixed(&t.e->log_size)), log_lap(t, n)};
}

// before is the spot so many entries before s, at most a lap.
TRITIER_DEVICE Spot before(Spot s, uint32_t by, uint32_t size) {
    return s.index >= by ? Spot{s.index - by, s.lap} : Spot{s.index + size - by, s.lap ^ 1u << 30};
}

constexpr uint32_t kMovedAtOnce = 8; // entries of a lane: loads in flight while all others wait

// Moving is a compaction under way: what of the log, entries [head, end), is yet to be looked
// at, and to, before which the next live one is put. last and free are the spots before these.
// word is what the lane has read ahead.
struct Moving {
    uint64_t head, end, to;
    Spot last, free;
    uint32_t word[kMovedAtOnce];
};

// read_ahead reads the youngest entries of m.
template <class G, class S>
TRITIER_DEVICE void read_ahead(const G& g, const Context<S>& t, Moving* m) {
    const uint32_t* log = reinterpret_cast<const uint32_t*>(fixed(&t.e->log));
    uint64_t left = m->end - m->head;
TRITIER_UNROLL
    for (uint32_t k = 0; k < kMovedAtOnce; k++) {
        uint32_t at = k * g.size() + g.rank();
        m->word[k] = at < left ? load_relaxed_gpu(log + before(m->last, at, fixed(&t.e->log_size)).index) : 0;
    }
}

// move_some moves the live ones of the entries that were read ahead, in order, and reads on.
template <class G, class S>
TRITIER_DEVICE void move_some(const G& g, const Context<S>& t, Moving* m) {
    uint32_t size = fixed(&t.e->log_size);
    uint32_t* log = reinterpret_cast<uint32_t*>(fixed(&t.e->log));
    uint32_t* order = t.slot_order();
    uint64_t end = m->end, left = end - m->head;
    Spot last = m->last;
    uint32_t slot[kMovedAtOnce], mark[kMovedAtOnce];
TRITIER_UNROLL
    for (uint32_t k = 0; k < kMovedAtOnce; k++) {
        slot[k] = m->word[k] & kMaxLocation; // an entry that is none has slot 0
        mark[k] = load_relaxed_gpu(order + slot[k]);
    }
    uint32_t span = kMovedAtOnce * g.size() < left ? kMovedAtOnce * g.size() : static_cast<uint32_t>(left);
    m->end -= span;
    m->last = before(last, span, size);
    read_ahead(g, t, m);
TRITIER_UNROLL
    for (uint32_t k = 0; k < kMovedAtOnce; k++) {
        uint32_t at = k * g.size() + g.rank();
        if (at < left) {
            store_relaxed_gpu(log + before(last, at, size).index, 0);
        }
    }
    g.sync(); // the places of this round are empty before they are filled again
TRITIER_UNROLL
    for (uint32_t k = 0; k < kMovedAtOnce; k++) {
        uint32_t at = k * g.size() + g.rank();
        bool live = at < left && mark[k] == order_mark(end - 1 - at);
        uint32_t votes = g.ballot(live), behind = bits_below(votes, g.lane());
        uint64_t place = m->to - 1 - behind;
        // A page may leave T2 right now: its order is 0 then and stays 0.
        if (live && place != end - 1 - at) {
            atomic_cas_relaxed_gpu(order + slot[k], mark[k], order_mark(place));
        }
        if (live) {
            Spot s = before(m->free, behind, size);
            store_relaxed_gpu(log + s.index, s.lap | slot[k]);
        }
        m->to -= count_bits(votes);
        m->free = before(m->free, count_bits(votes), size);
    }
    g.sync();
}

// begin_compaction closes the log, unless it is not full any more, and says what there is
// to move.
template <class S>
TRITIER_DEVICE bool begin_compaction(const Context<S>& t, uint64_t full_at, Moving* m) {
    Hot* h = t.hot();
    // Of the many groups that find it full at once only the first goes on: when it begins
    // elsewhere than at full_at, another has. Each that closed it for nothing would have
    // all others wait until everybody is out.
    if (load_relaxed_gpu(&h->log_head) != full_at || !close_log(t)) {
        return false;
    }
    m->head = load_relaxed_gpu(&h->log_head);
    m->end = m->to = load_relaxed_gpu(&h->log_tail);
    uint32_t size = fixed(&t.e->log_size);
    if (m->end - m->head > size / 2 + size / 8) {
        return true;
    }
    atomic_and_release_gpu(&h->log_gate, ~kCompacting);
    return false;
}

// compact moves the live entries to the log's young end, in order.
template <class G, class S>
TRITIER_SLOW void compact(const G& g, const Context<S>& t, uint64_t full_at) {
    Moving m{};
    uint64_t begun = globaltimer();
    uint32_t closed = 0;
    if (g.leads()) {
        closed = begin_compaction(t, full_at, &m) ? 1 : 0;
    }
    if (from_leader(g, closed) == 0) {
        return;
    }
    m.head = from_leader(g, m.head);
    m.end = m.to = from_leader(g, m.end);
    m.last = m.free = spot_of(t, m.end - 1);
    g.sync(); // what the leader has acquired, all lanes have
    read_ahead(g, t, &m);
    while (m.end > m.head) {
        move_some(g, t, &m);
    }
    if (g.leads()) {
        store_relaxed_gpu(&t.hot()->log_head, m.to);
        atomic_and_release_gpu(&t.hot()->log_gate, ~kCompacting);
        count(&t.counts()->compactions);
        count(&t.counts()->compaction_ns, globaltimer() - begun);
    }
    g.sync();
}

// insert_order makes the page in slot T2's youngest. The group owns the page.
template <class G, class S>
TRITIER_SLOW uint32_t insert_order(const G& g, const Context<S>& t, uint32_t slot) {
    Wait wait = Wait::start();
    for (;;) {
        uint32_t status = kTierOk;
        uint64_t full_at = 0; // the leader's
        if (g.leads()) {
            status = try_insert(t, slot, &full_at);
            if (status == kLogFull && wait.over(t.e) == kWaitTimeout) {
                status = kBroken; // full of live entries: more pages than T2 has places
            }
        }
        status = from_leader(g, status);
        if (status != kLogFull) {
            return status;
        }
        compact(g, t, full_at);
    }
}

} // namespace tier
} // namespace tritier
