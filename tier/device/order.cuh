// T2's order: first in, first out, with removal anywhere.
//
// The log is a ring of slots, oldest first. slot_order says where in the log a
// slot's page stands; a page that leaves T2 clears it, and its entry in the log
// is dead. Dead entries are dropped when they come to the head; when the log is
// full of them, one group moves the live ones together (compact.cuh).
//
// Entry number n (a 64-bit ticket) is in log[n % log_size]: bit 31 says that it
// is written, bit 30 in which lap, the rest is the slot. Whoever drops it writes
// 0, and only then the next lap's entry may be written.
#pragma once

#include "pool.cuh"

namespace tritier {
namespace tier {

constexpr uint32_t kCompacting = 1u << 31; // in Hot.log_gate
constexpr uint32_t kLogFull = 0xffffff01u; // try_insert's answer, never a status

// order_mark is what slot_order holds for entry n: never 0.
TRITIER_DEVICE uint32_t order_mark(uint64_t n) { return static_cast<uint32_t>(n) | 1u << 31; }

template <class S>
TRITIER_DEVICE uint32_t* log_at(const Context<S>& t, uint64_t n) {
    return reinterpret_cast<uint32_t*>(fixed(&t.e->log)) + n % fixed(&t.e->log_size);
}

template <class S>
TRITIER_DEVICE uint32_t log_lap(const Context<S>& t, uint64_t n) {
    return 1u << 31 | ((n / fixed(&t.e->log_size) & 1) != 0 ? 1u << 30 : 0);
}

// enter_log waits until no group compacts the log. *users is how many are in it then,
// the caller with them.
template <class S>
TRITIER_DEVICE uint32_t enter_log(const Context<S>& t, uint32_t* users) {
    uint32_t* gate = &t.hot()->log_gate;
    Wait wait = Wait::start();
    for (;;) {
        uint32_t before = atomic_add_acquire_gpu(gate, 1);
        if ((before & kCompacting) == 0) {
            *users = before + 1;
            return kTierOk;
        }
        atomic_add_relaxed_gpu(gate, 0u - 1);
        while ((load_relaxed_gpu(gate) & kCompacting) != 0) {
            // Who moves a page must not leave it without its place because
            // kernels were asked to end, and a compaction is short: a millisecond, or a
            // hundred while hundreds of groups poll this word without a rest.
            if (wait.over(t.e) == kWaitTimeout) {
                return kWaitTimeout;
            }
            nanosleep(4000);
        }
    }
}

template <class S>
TRITIER_DEVICE void leave_log(const Context<S>& t) {
    atomic_add_release_gpu(&t.hot()->log_gate, 0u - 1);
}

// What an entry of the log is: not written yet, or another has dropped it; its page is in
// T2; its page has left, for good.
enum : uint32_t { kUnsettled = 0, kLive = 1, kDead = 2 };

// entry_kind says what entry n is, and its slot. Only between enter_log and leave_log.
template <class S>
TRITIER_DEVICE uint32_t entry_kind(const Context<S>& t, uint64_t n, uint32_t* slot) {
    uint32_t word = load_acquire_gpu(log_at(t, n));
    *slot = word & kMaxLocation;
    if ((word & 3u << 30) != log_lap(t, n)) {
        return kUnsettled;
    }
    return load_acquire_gpu(t.slot_order() + *slot) == order_mark(n) ? kLive : kDead;
}

// drop_dead takes entries n to n + dead - 1, one a lane, off the head, unless another has
// dropped some of them.
template <class G, class S>
TRITIER_DEVICE void drop_dead(const G& g, const Context<S>& t, uint64_t n, uint32_t dead) {
    uint32_t won = 0;
    if (g.leads()) {
        won = atomic_cas_acq_rel_gpu(&t.hot()->log_head, n, n + dead) == n ? 1 : 0;
    }
    if (from_leader(g, won) != 0 && g.rank() < dead) {
        store_release_gpu(log_at(t, n + g.rank()), 0);
    }
}

// drop_leading drops what is dead at the head; one lane calls it.
template <class S>
TRITIER_DEVICE void drop_leading(const Context<S>& t) {
    Hot* h = t.hot();
    for (;;) {
        uint64_t n = load_acquire_gpu(&h->log_head);
        if (n == load_acquire_gpu(&h->log_tail)) {
            return;
        }
        uint32_t slot, kind = entry_kind(t, n, &slot);
        if (kind == kDead) {
            drop_dead(Solo{}, t, n, 1);
        } else if (kind == kLive || load_relaxed_gpu(&h->log_head) == n) {
            return;
        }
    }
}

// A log that is longer than this is compacted when it is full, whatever is dead at its
// head: thousands of entries, dropped one by one with everybody at it, take a hundred
// times as long.
constexpr uint32_t kShortLog = 1024;

// has_room says whether all who are in the log may append an entry each: whoever entered
// before the caller is one of users, and whoever comes later counts the caller.
template <class S>
TRITIER_DEVICE bool has_room(const Context<S>& t, uint32_t users, uint64_t* head) {
    *head = load_acquire_gpu(&t.hot()->log_head); // first: it only grows
    return load_relaxed_gpu(&t.hot()->log_tail) - *head + users <= fixed(&t.e->log_size);
}

// try_insert appends slot, which belongs to the caller's group. Places are given out by
// addition, which never fails: of compare-and-swaps on one word, each of which waits for
// a look at it, a million a second succeed, whoever asks. When the log is full, *head is
// where it began.
template <class S>
TRITIER_DEVICE uint32_t try_insert(const Context<S>& t, uint32_t slot, uint64_t* head) {
    uint32_t users = 0;
    uint32_t status = enter_log(t, &users);
    if (status != kTierOk) {
        return status;
    }
    if (!has_room(t, users, head)) {
        if (fixed(&t.e->log_size) <= kShortLog) {
            drop_leading(t);
        }
        if (!has_room(t, users, head)) {
            leave_log(t);
            return kLogFull;
        }
    }
    uint64_t n = atomic_add_relaxed_gpu(&t.hot()->log_tail, 1);
    Wait wait = Wait::start();
    while (load_acquire_gpu(log_at(t, n)) != 0) {
        // Whoever moved the head past the lap before is about to clear it.
        status = wait.over(t.e);
        if (status == kWaitTimeout) {
            break;
        }
        relax();
    }
    // The order first: an entry without it is dead.
    store_relaxed_gpu(t.slot_order() + slot, order_mark(n));
    store_release_gpu(log_at(t, n), log_lap(t, n) | slot);
    leave_log(t);
    return status == kWaitTimeout ? kBroken : kTierOk;
}

// leave_order takes the page in slot out; the caller owns the page.
template <class S>
TRITIER_DEVICE void leave_order(const Context<S>& t, uint32_t slot) {
    store_release_gpu(t.slot_order() + slot, 0);
}

// claim_place is claim for a page that is not in T1: pins on it mean nothing,
// come and go, and stay as they are.
TRITIER_DEVICE bool claim_place(uint64_t* entry, uint64_t* e, uint64_t busy_word) {
    for (;;) {
        uint64_t seen = atomic_cas_acquire_gpu(entry, *e, busy_word | (*e & kPinMask));
        if (seen == *e) {
            return true;
        }
        bool moved_on = ((seen ^ *e) & ~kPinMask) != 0;
        *e = seen;
        if (moved_on) {
            return false;
        }
    }
}

} // namespace tier
} // namespace tritier
