// Flush: dirty pages are written back and stay where they are. Readers and
// writers may have them pinned; what is written after the copy leaves the page
// dirty, since a writer sets dirty once more when it lets the page go.
#pragma once

#include "acquire.cuh"
#include "compact.cuh"

namespace tritier {
namespace tier {

// flush_t1 writes back a page in T1, which the group has pinned and marked as
// flushing, from the spare slot. *lost: that slot may still be read. It becomes kNone
// where a move to it was lost.
template <class G, class S>
TRITIER_DEVICE uint32_t flush_t1(const G& g, const Context<S>& t, uint32_t page, uint32_t frame, uint32_t* slot, bool* lost) {
    uint64_t* entry = t.entries + page;
    if (g.leads()) {
        // Cleared before the copy: a write that the copy misses sets it again.
        atomic_and_acq_rel_gpu(entry, ~kDirty);
    }
    g.sync();
    uint32_t status = move_page(g, t, kToHost, frame, *slot);
    if (status != kTierOk) {
        *slot = kNone;
    } else {
        status = save(g, t, page, *slot);
    }
    *lost = *slot != kNone && status != kTierOk && t.store.lost(status);
    if (g.leads()) {
        if (status != kTierOk) {
            atomic_or_release_gpu(entry, kDirty);
        } else {
            count(&t.counts()->flushed);
        }
        atomic_and_release_gpu(entry, ~kFlushing);
        unpin(entry, false);
    }
    return status;
}

// flush_t2 writes back a page in T2 that the group has claimed; word is its
// entry before. *lost: the spare slot is the page's now, and its own is lost.
template <class G, class S>
TRITIER_DEVICE uint32_t flush_t2(const G& g, const Context<S>& t, uint32_t page, uint64_t word, uint32_t spare, bool* lost) {
    uint32_t slot = location_of(word), status = save(g, t, page, slot), at = slot;
    *lost = status != kTierOk && t.store.lost(status);
    if (*lost) {
        if (g.leads()) {
            leave_order(t, slot);
        }
        g.sync();
        at = leave_lost(g, t, page, slot, spare);
        uint32_t again = insert_order(g, t, at);
        status = again != kTierOk ? again : status;
    }
    if (g.leads()) {
        uint64_t to = moved(word, kResidentT2, at);
        if (status == kTierOk) {
            to &= ~kDirty;
            count(&t.counts()->flushed);
        }
        publish(t.entries + page, moved(word, kWritingBack, slot), to);
    }
    return status;
}

enum : uint32_t { kClean = 4, kFlushT1 = 5, kFlushT2 = 6 };

// flush_seek is the leader's part: the page is clean, or its own to write back.
template <class S>
TRITIER_DEVICE uint32_t flush_seek(const Context<S>& t, uint32_t page, Seek* k) {
    uint64_t* entry = t.entries + page;
    for (;;) {
        uint64_t e = load_acquire_gpu(entry);
        uint32_t state = state_of(e);
        if ((e & (kDirty | kFlushing)) == 0 && !busy(state)) {
            return kClean;
        }
        if (state == kResidentT2) {
            k->word = e;
            if (claim_place(entry, &k->word, moved(e, kWritingBack, location_of(e)))) {
                k->word &= ~kPinMask;
                return kFlushT2;
            }
        } else if (state == kResidentT1 && try_pin(entry, &k->word)) {
            if ((atomic_or_acquire_gpu(entry, kFlushing) & kFlushing) == 0) {
                return kFlushT1;
            }
            unpin(entry, false); // another flush is at it: what that one misses is still to do
        }
        k->status = k->wait.over(t.e);
        if (k->status != kTierOk) {
            return kFailed;
        }
        relax();
    }
}

// flush_page writes one page back if it is dirty. The group pins no other page,
// or somebody could wait for a frame that it holds while it waits for a slot.
template <class G, class S>
TRITIER_SLOW uint32_t flush_page(const G& g, Context<S> t, uint32_t page) {
    uint64_t e = load_relaxed_gpu(t.entries + page);
    if (from_leader(g, (e & (kDirty | kFlushing)) != 0 || busy(state_of(e)) ? 0u : 1u) != 0) {
        return kTierOk;
    }
    Seek k{Wait::start(), 0, kNone, kTierOk, 0, 0};
    uint32_t got = kFailed;
    if (g.leads()) {
        k.status = take_spare(t, &k.spare); // before the pin
        if (k.status == kTierOk) {
            got = flush_seek(t, page, &k);
        }
        if (got == kFlushT1 || got == kFlushT2) {
            begin_events(&t);
        }
    }
    got = from_leader(g, got);
    uint32_t status = from_leader(g, k.status), slot = from_leader(g, k.spare);
    k.word = from_leader(g, k.word);
    bool lost = false;
    if (got == kFlushT1) {
        status = flush_t1(g, t, page, location_of(k.word), &slot, &lost);
    } else if (got == kFlushT2) {
        status = flush_t2(g, t, page, k.word, slot, &lost);
    }
    tell_event(t, kFlushEvent, k.wait.begun, page, status);
    if (g.leads()) {
        if (lost && got == kFlushT1) {
            lose_slot(t, slot, page);
        } else if (!lost && slot != kNone) {
            push_slot(t, slot);
        }
        if (k.spare != kNone) {
            end_spare(t);
        }
        if (status != kTierOk) {
            note_error(t, page, status);
        }
    }
    g.sync();
    return got == kFailed || status == kTierOk ? status : kWriteBack | status;
}

// flush_part writes back the dirty ones of pages first, first+step, ...; several
// groups share the pages so. It goes on after a page that fails, and returns
// the first error. flush_store then makes durable what all have written.
template <class G, class S>
TRITIER_DEVICE uint32_t flush_part(const G& g, const Context<S>& t, uint64_t first, uint64_t step) {
    uint32_t status = kTierOk;
    for (uint64_t window = first; window < fixed(&t.e->pages); window += step * g.size()) {
        // Each lane looks at a page; most are clean.
        uint64_t p = window + step * g.rank();
        uint64_t e = p < fixed(&t.e->pages) ? load_relaxed_gpu(t.entries + p) : 0;
        uint32_t todo = g.ballot(p < fixed(&t.e->pages) && ((e & (kDirty | kFlushing)) != 0 || busy(state_of(e))));
        for (; todo != 0 && status != kWaitStopped; todo &= todo - 1) {
            uint32_t one = flush_page(g, t, static_cast<uint32_t>(g.from(p, lowest_bit(todo))));
            status = status == kTierOk || one == kWaitStopped ? one : status;
        }
    }
    return status;
}

template <class G, class S>
TRITIER_DEVICE uint32_t flush_store(const G& g, const Context<S>& t) {
    return t.store.flush(g);
}

} // namespace tier
} // namespace tritier
