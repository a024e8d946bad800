// Acquire: a page that a group wants, pinned in T1 when it returns.
#pragma once

#include "evict.cuh"

namespace tritier {
namespace tier {

// Access is how an acquire ended, the same for all lanes.
struct Access {
    uint32_t status; // kTierOk: the page is pinned (a prefetched one is not)
    uint32_t frame;
    uint32_t page;   // of an error: the page that it is about
    uint32_t fresh;  // 1: this group has brought it, with its dirty bit and an overwrite's bytes
};

enum : uint32_t { kGoOn = 0, kHit = 1, kClaimed = 2, kFailed = 3 };

// Seek is what the leader knows of a page that it looks for.
struct Seek {
    Wait wait;
    uint64_t word; // the page's entry as last seen
    uint32_t spare;
    uint32_t status;
    uint32_t filling; // 1: it was seen on its way to T1, in this generation:
    uint32_t generation;
};

// touch tells T1's order of a hit.
template <class S>
TRITIER_DEVICE void touch(const Context<S>& t, uint64_t* entry, uint64_t e) {
    if ((e & kRef) == 0 && t.e->t1_policy == kT1Clock) {
        atomic_or_relaxed_gpu(entry, kRef);
    }
}

// failed_fill is the status that the fill which k waited for ended with, or
// kTierOk: it has not ended, or not so.
TRITIER_DEVICE uint32_t failed_fill(const Seek& k, uint64_t e) {
    bool next = ((generation_of(e) - k.generation) & 0xfff) == 1;
    return k.filling != 0 && state_of(e) == kAbsent && next ? location_of(e) : static_cast<uint32_t>(kTierOk);
}

// seek_claim tries to become the one who brings the page. A spare slot comes
// first: who has the page must not wait for one.
template <class S>
TRITIER_DEVICE uint32_t seek_claim(const Context<S>& t, uint64_t* entry, Seek* k) {
    if (k->spare == kNone) {
        k->spare = pop_slot(t);
        if (k->spare == kNone) {
            k->status = k->wait.over(t.e);
            k->status = k->status == kWaitTimeout ? static_cast<uint32_t>(kNoSlot) : k->status;
            relax();
            return k->status == kTierOk ? kGoOn : kFailed;
        }
    }
    if (!claim_place(entry, &k->word, moved(k->word, kFilling, location_of(k->word)))) {
        return kGoOn;
    }
    k->word &= ~kPinMask;
    return kClaimed;
}

// seek_wait lets whoever moves the page go on.
template <class S>
TRITIER_DEVICE uint32_t seek_wait(const Context<S>& t, Seek* k) {
    if (k->spare != kNone) {
        push_slot(t, k->spare); // no slot is held while waiting
        k->spare = kNone;
    }
    if (state_of(k->word) == kFilling) {
        k->filling = 1;
        k->generation = generation_of(k->word);
    }
    k->status = k->wait.over(t.e);
    relax();
    return k->status == kTierOk ? kGoOn : kFailed;
}

// seek is the leader's part until the page is pinned, or its own to bring, or
// an error.
template <class S>
TRITIER_DEVICE uint32_t seek(const Context<S>& t, uint32_t page, uint32_t op, Seek* k) {
    uint64_t* entry = t.entries + page;
    for (;;) {
        uint32_t got = kGoOn;
        k->word = load_acquire_gpu(entry);
        uint32_t state = state_of(k->word);
        k->status = failed_fill(*k, k->word);
        if (k->status != kTierOk) {
            got = kFailed;
        } else if (state == kResidentT1) {
            if (op == kPrefetchOp) {
                got = kHit;
            } else if (try_pin(entry, &k->word)) {
                touch(t, entry, k->word);
                got = kHit;
            } else if (pins_of(k->word) >= kPinLimit && state_of(k->word) == kResidentT1) {
                k->status = kTooManyPins;
                got = kFailed;
            }
        } else if (busy(state)) {
            got = op == kPrefetchOp && state == kFilling ? static_cast<uint32_t>(kHit) : seek_wait(t, k);
        } else {
            got = seek_claim(t, entry, k);
        }
        if (got == kGoOn) {
            continue;
        }
        if (got != kClaimed && k->spare != kNone) {
            push_slot(t, k->spare);
            k->spare = kNone;
        }
        return got;
    }
}

// load_page brings the bytes of f's page into its frame.
template <class G, class S>
TRITIER_DEVICE uint32_t load_page(const G& g, const Context<S>& t, Fill* f) {
    if (f->op == kOverwriteOp) {
        copy_bytes(g, t.frame(f->frame), f->whole, t.page_bytes());
        return kTierOk;
    }
    if (f->slot != kNone) {
        copy_bytes(g, t.frame(f->frame), t.slot(f->slot), t.page_bytes());
        if (g.leads()) {
            count(&t.counts()->bytes_promoted, t.page_bytes());
        }
        return kTierOk;
    }
    uint32_t status = t.store.read(g, f->page, f->spare);
    if (status != kTierOk) {
        if (t.store.lost(status)) {
            f->spare = kNone;
            if (g.leads()) {
                lose_slot(t);
            }
        }
        f->at = f->page;
        return status;
    }
    copy_bytes(g, t.frame(f->frame), t.slot(f->spare), t.page_bytes());
    if (g.leads()) {
        count(&t.counts()->bytes_t3_read, t.page_bytes());
    }
    return kTierOk;
}

// give_up_fill puts f's page back to where it came from. Whoever waits for it
// gets the status, if it was on its way from T3.
template <class G, class S>
TRITIER_DEVICE void give_up_fill(const G& g, const Context<S>& t, Fill* f, uint32_t status) {
    uint64_t* entry = t.entries + f->page;
    uint64_t filling = moved(f->word, kFilling, location_of(f->word));
    if (f->slot != kNone) {
        uint32_t again = insert_order(g, t, f->slot); // at the young end, as tier.Machine has it
        if (g.leads()) {
            if (again != kTierOk) {
                note_error(t, f->page, again);
            }
            publish(entry, filling, moved(f->word, kResidentT2, f->slot));
        }
        f->slot = kNone;
        f->place = 0;
        return;
    }
    g.sync();
    if (g.leads()) {
        if (f->frame != kNone) {
            push_frame(t, f->frame);
        }
        publish(entry, filling, left(moved(f->word, kAbsent, status)));
    }
}

// count_fill counts an access or a prefetch that has been served.
template <class S>
TRITIER_DEVICE void count_fill(const Context<S>& t, const Fill& f) {
    Counts* c = t.counts();
    if (f.op == kPrefetchOp) {
        count(&c->prefetches);
        if (f.slot == kNone) {
            count(&c->prefetch_reads);
        }
    } else if (f.slot != kNone) {
        count(&c->t2_hits);
    } else if (f.op == kOverwriteOp) {
        count(&c->overwrites);
    } else {
        count(&c->t3_fetches);
    }
}

// bring makes room for f's page and fills it. The order of decisions is that of
// tier.Machine: the page leaves T2 before T1's victim is chosen.
template <class G, class S>
TRITIER_SLOW uint32_t bring(const G& g, const Context<S>& t, Fill* f) {
    if (g.leads()) {
        if (t.e->placer == kGmtReuse && f->op != kPrefetchOp) {
            reuse_miss(t, f->page, f->now);
        }
        if (f->slot != kNone) {
            leave_order(t, f->slot);
        }
    }
    g.sync();
    uint32_t status = take_frame(g, t, f);
    if (status == kTierOk) {
        if (g.leads()) {
            store_relaxed_gpu(t.frame_owner() + f->frame, f->page);
        }
        status = load_page(g, t, f);
    } else {
        f->frame = kNone;
    }
    if (status != kTierOk) {
        give_up_fill(g, t, f, status);
    } else if (g.leads()) {
        bool writes = f->op == kWriteOp || f->op == kOverwriteOp;
        uint64_t to = moved(f->word, kResidentT1, f->frame) | (writes ? kDirty : 0);
        count_fill(t, *f);
        publish(t.entries + f->page, moved(f->word, kFilling, location_of(f->word)),
                f->op == kPrefetchOp ? to : to + kPin);
    }
    if (g.leads()) {
        if (f->place != 0) {
            atomic_add_relaxed_gpu(&t.hot()->t2_used, 0u - 1);
        }
        if (status == kTierOk && f->slot != kNone) {
            push_slot(t, f->slot);
        }
        if (f->spare != kNone) {
            push_slot(t, f->spare);
        }
    }
    return status;
}

// tick counts one access that was not found at once, and returns the virtual
// time if anything needs it.
template <class S>
TRITIER_DEVICE uint64_t tick_slow(const Context<S>& t, uint32_t page, uint32_t op) {
    if (op != kPrefetchOp) {
        count(&stripe_of(t)->slow);
    }
    if (t.e->placer != kRandom && t.e->placer != kGmtReuse) {
        return 0;
    }
    uint64_t now = now_of(t.e);
    if (op != kPrefetchOp && (load_relaxed_gpu(t.entries + page) & kSampled) != 0) {
        observe(t, page, now);
    }
    return now;
}

// tick_hit counts an access that was found in T1 at once; e is its entry.
template <class S>
TRITIER_DEVICE void tick_hit(const Context<S>& t, uint32_t page, uint64_t e) {
    count(&stripe_of(t)->hits);
    if ((e & kSampled) != 0) {
        observe(t, page, now_of(t.e));
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
    Fill f{page, op, k.word, from_leader(g, now), from_leader(g, k.spare), t2 ? location_of(k.word) : kNone,
           t2 ? 1u : 0u, kNone, page, whole};
    uint32_t status = bring(g, t, &f);
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
    if (page >= t.e->pages || op > kPrefetchOp || (op == kOverwriteOp && whole == nullptr)) {
        return Access{page >= t.e->pages ? kOutOfRange : kBadCall, kNone, kNone, 0};
    }
    uint32_t p = static_cast<uint32_t>(page), found = 0;
    uint64_t e = 0;
    if (g.leads() && op != kPrefetchOp) {
        if (try_pin(t.entries + p, &e)) {
            found = 1;
            touch(t, t.entries + p, e);
            tick_hit(t, p, e);
        }
    }
    Access a{kTierOk, location_of(from_leader(g, e)), p, 0};
    if (from_leader(g, found) == 0) {
        a = acquire_slow(g, t, p, op, whole);
        if (a.status != kTierOk || a.fresh != 0 || op == kPrefetchOp) {
            return a;
        }
    }
    if (op != kReadOp && g.leads()) {
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
