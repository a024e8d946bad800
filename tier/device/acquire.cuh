// Acquire: a page that a group wants, pinned in T1 when it returns.
#pragma once

#include "fill.cuh"
#include "record.cuh"
#include "seek.cuh"

namespace tritier {
namespace tier {

// Access is how an acquire ended, the same for all lanes.
struct Access {
    uint32_t status; // kTierOk: the page is pinned (a prefetched one is not)
    uint32_t frame;
    uint32_t page;   // of an error: the page that it is about
    uint32_t fresh;  // 1: this group has brought it, with its dirty bit and an overwrite's bytes
};

// tick counts one access that was not found at once, and returns the virtual
// time if anything needs it.
template <class S>
TRITIER_DEVICE uint64_t tick_slow(const Context<S>& t, uint32_t page, uint32_t op) {
    if (op != kPrefetchOp) {
        count(&stripe_of(t)->slow);
    }
    uint64_t now = fixed(&t.e->placer) == kRandom || fixed(&t.e->placer) == kGmtReuse ? now_of(t.e) : 0;
    if ((load_relaxed_gpu(t.entries + page) & kSampled) != 0) {
        notice(t, page, op, now);
    }
    return now;
}

// tick_hit counts an access that was found in T1 at once; e is its entry.
template <class S>
TRITIER_DEVICE void tick_hit(const Context<S>& t, uint32_t page, uint64_t e, uint32_t op) {
    count(&stripe_of(t)->hits);
    if ((e & kSampled) != 0) {
        notice(t, page, op, 0);
    }
}

// settle counts how the leader's search ended, where nothing had to be brought.
template <class S>
TRITIER_DEVICE void settle(const Context<S>& t, uint32_t page, uint32_t op, uint32_t got, const Seek& k) {
    Counts* c = t.counts();
    if (got == kHit && op != kPrefetchOp) {
        count(&c->late_hits);
        if (k.filling != 0) {
            count(&c->delayed);
        }
    } else if (got == kFailed) {
        count(op == kPrefetchOp ? &c->prefetch_errors : &c->errors);
        note_error(t, page, k.status);
    }
}

// acquire_slow is acquire without the look whether the page is there already.
template <class G, class S>
TRITIER_SLOW Access acquire_slow(G g, Context<S> t, uint32_t page, uint32_t op, const void* whole) {
    Seek k{Wait::start(), 0, kNone, kTierOk, 0, 0};
    uint32_t got = kGoOn;
    uint64_t now = 0;
    if (g.leads()) {
        now = tick_slow(t, page, op);
        got = seek(t, page, op, &k);
        if (got != kClaimed) {
            settle(t, page, op, got, k);
        } else {
            begin_events(&t);
        }
    }
    got = from_leader(g, got);
    k.word = from_leader(g, k.word);
    if (got == kFailed) {
        return Access{from_leader(g, k.status), kNone, page, 0};
    }
    if (got == kHit) {
        g.sync(); // what the leader acquired, all lanes have
        return Access{kTierOk, location_of(k.word), page, 0};
    }
    bool t2 = state_of(k.word) == kResidentT2;
    bool copy = t2 && fixed(&t.e->copies) != 0 && (k.word & kDirty) == 0 && (op == kReadOp || op == kPrefetchOp);
    Fill f{page, op, k.word, from_leader(g, now), from_leader(g, k.spare), t2 ? location_of(k.word) : kNone,
           t2 && !copy ? 1u : 0u, copy ? 1u : 0u, kNone, page, whole, kNone, Victim{kNone, kNone, 0}, Reading{}};
    uint32_t status = bring(g, t, &f);
    tell_event(t, kMissEvent, k.wait.begun, page, status, op);
    if (status != kTierOk && g.leads()) {
        count(op == kPrefetchOp ? &t.counts()->prefetch_errors : &t.counts()->errors);
        note_error(t, f.at, status);
    }
    g.sync();
    return Access{status, f.frame, f.at, 1};
}

// acquire pins a page for the whole group, which release lets go. All lanes
// want the same page and op. An overwrite brings the page's new bytes (whole,
// the same for all lanes) along. A prefetch leaves no pin.
template <class G, class S>
TRITIER_DEVICE Access acquire(const G& g, const Context<S>& t, uint64_t page, uint32_t op, const void* whole = nullptr) {
    if (page >= fixed(&t.e->pages) || op > kPrefetchOp || (op == kOverwriteOp && whole == nullptr)) {
        return Access{page >= fixed(&t.e->pages) ? kOutOfRange : kBadCall, kNone, kNone, 0};
    }
    uint32_t p = static_cast<uint32_t>(page), found = 0;
    uint64_t e = 0;
    if (g.leads() && op != kPrefetchOp) {
        if (try_pin(t.entries + p, &e)) {
            found = 1;
            touch(t, t.entries + p, e);
            tick_hit(t, p, e, op);
        }
    }
    Access a{kTierOk, location_of(from_leader(g, e)), p, 0};
    if (from_leader(g, found) == 0) {
        a = far_call(&acquire_slow<G, S>, t.page_shift & 128u)(g, t, p, op, whole); // no shift has that bit
        if (a.status != kTierOk || a.fresh != 0 || op == kPrefetchOp) {
            return a;
        }
    }
    if (op != kReadOp && g.leads()) {
        will_write(t, p, found != 0 ? e : 0, a.frame);
        atomic_or_relaxed_gpu(t.entries + p, kDirty); // before the write is visible
    }
    g.sync();
    if (op == kOverwriteOp) {
        copy_bytes(g, t.frame(a.frame), whole, t.page_bytes());
    }
    return a;
}

// release lets a page go that acquire has pinned.
template <class G, class S>
TRITIER_DEVICE void release(const G& g, const Context<S>& t, uint64_t page, bool wrote) {
    g.sync();
    if (g.leads()) {
        unpin(t.entries + page, wrote);
    }
}

} // namespace tier
} // namespace tritier
