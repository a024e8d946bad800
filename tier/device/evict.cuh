// Evictions: where T1's victim goes, and what T2 drops for it.
//
// What a group holds while it makes room for a page, and why it gets on:
//
//   - It has claimed its page (Filling), and had a spare slot before it did.
//     It never waits for a second one: a victim that would need it skips T2.
//   - It waits for a frame. Frames are pinned, by groups that use them and then
//     let go, or in motion, with groups that wait for nothing but their I/O.
//   - A victim that it has claimed (Demoting) is either moved or put back.
#pragma once

#include "compact.cuh"
#include "events.cuh"
#include "move.cuh"
#include "t2copy.cuh"
#include "oldest.cuh"
#include "reuse.cuh"
#include "victim.cuh"

namespace tritier {
namespace tier {

// Fill is one page on its way into T1; every lane of the group has the same.
struct Fill {
    uint32_t page;
    uint32_t op;
    uint64_t word;     // the page's entry before, without pins
    uint64_t now;      // virtual time of the access
    uint32_t spare;    // a free slot that the group holds, or kNone
    uint32_t slot;     // of a page from T2: where it lies; else kNone
    uint32_t place;    // 1: the group holds a place of T2's logical size
    uint32_t copy;     // 1: the page stays in its slot as a copy, and in T2's order
    uint32_t frame;    // what it gets
    uint32_t at;       // of an error: the page that it is about
    const void* whole; // of an overwrite: the page's new bytes
    uint32_t to;       // slot that the victim's bytes are in or on their way to: it is still Demoting; or kNone
    Victim victim;     // then
};

// put_back ends a claim of T1's victim: it stays.
template <class G, class S>
TRITIER_DEVICE void put_back(const G& g, const Context<S>& t, const Victim& v, uint32_t state) {
    g.sync();
    if (g.leads()) {
        publish(t.entries + v.page, moved(v.word, state, v.frame), v.word);
    }
}

// save writes a page from a slot to T3. The group owns both; a page that has a fence is
// not written, and one whose write is lost gets one.
template <class G, class S>
TRITIER_DEVICE uint32_t save(const G& g, const Context<S>& t, uint32_t page, uint32_t slot) {
    if (kept_off(g, t, page)) {
        return kFenced;
    }
    uint64_t begun = globaltimer();
    uint32_t status = t.store.write(g, page, slot);
    if (g.leads() && status == kTierOk) {
        count_move(t, kT2ToT3, begun, page);
        count(&t.counts()->bytes_t3_write, t.page_bytes());
    } else if (g.leads() && t.store.lost(status)) {
        raise_fence(t, page, slot);
    }
    if (status != kTierOk) {
        tell_event(t, kT2ToT3, begun, page, status);
    }
    return status;
}

// bypass_t2 lets T1's victim skip T2: written back if dirty, and forgotten.
template <class G, class S>
TRITIER_SLOW uint32_t bypass_t2(const G& g, const Context<S>& t, Fill* f, const Victim& v) {
    uint64_t* entry = t.entries + v.page;
    bool dirty = (v.word & kDirty) != 0;
    uint64_t word = moved(v.word, kDemoting, v.frame);
    if (dirty) {
        if (g.leads()) {
            publish(entry, word, moved(v.word, kWritingBack, v.frame));
        }
        word = moved(v.word, kWritingBack, v.frame);
        uint32_t status = move_page(g, t, kToHost, v.frame, f->spare);
        if (status != kTierOk) {
            f->spare = kNone;
        } else {
            status = save(g, t, v.page, f->spare);
        }
        if (status != kTierOk) {
            if (f->spare != kNone && t.store.lost(status)) {
                if (g.leads()) {
                    lose_slot(t, f->spare, v.page);
                }
                f->spare = kNone;
            }
            f->at = v.page;
            put_back(g, t, v, kWritingBack);
            return kWriteBack | status;
        }
    }
    if (g.leads()) {
        Counts* c = t.counts();
        count(&c->evictions);
        count(&c->bypasses);
        if (dirty) {
            count(&c->writebacks);
        }
        publish(entry, word, left(moved(v.word & ~kDirty, kAbsent, 0)));
    }
    return kTierOk;
}

// leave_lost moves a page of T2 to the spare slot, since the drive may still use its
// own after a write that was lost; the group owns the page. It returns where the page is.
template <class G, class S>
TRITIER_DEVICE uint32_t leave_lost(const G& g, const Context<S>& t, uint32_t page, uint32_t slot, uint32_t spare) {
    copy_bytes(g, t.slot(spare), t.slot(slot), t.page_bytes());
    if (g.leads()) {
        store_relaxed_gpu(t.slot_owner() + spare, page);
        lose_slot(t, slot, page);
    }
    return spare;
}

// drop_oldest makes T2's oldest page, which o says, leave for T3, and hands
// over its slot. On failure the page is T2's youngest, dirty as before.
template <class G, class S>
TRITIER_SLOW uint32_t drop_oldest(const G& g, const Context<S>& t, Fill* f, const Oldest& o) {
    if (o.copy != 0) {
        if (g.leads()) {
            count(&t.counts()->t2_evictions);
        }
        return kTierOk;
    }
    uint64_t word = moved(o.word, kWritingBack, o.slot);
    bool dirty = (o.word & kDirty) != 0;
    if (dirty) {
        uint32_t status = save(g, t, o.page, o.slot);
        if (status != kTierOk) {
            f->at = o.page;
            uint32_t slot = o.slot;
            if (t.store.lost(status) && f->spare != kNone) {
                slot = leave_lost(g, t, o.page, o.slot, f->spare);
                f->spare = kNone;
            }
            uint32_t again = insert_order(g, t, slot);
            if (g.leads()) {
                publish(t.entries + o.page, word, moved(o.word, kResidentT2, slot));
            }
            return again != kTierOk ? again : kWriteBack | status;
        }
    }
    if (g.leads()) {
        count(&t.counts()->t2_evictions);
        if (dirty) {
            count(&t.counts()->writebacks);
        }
        publish(t.entries + o.page, word, moved(o.word & ~kDirty, kAbsent, 0));
    }
    return kTierOk;
}

enum : uint32_t { kHavePlace = 0, kHaveOldest = 1, kCrowded = 2 };

// take_place takes a place of T2's logical size, for one lane, with a slot if the group
// needs one. kHaveOldest: T2 is full.
template <class S>
TRITIER_DEVICE uint32_t take_place(const Context<S>& t, bool need_slot, uint32_t* slot) {
    uint32_t* used = &t.hot()->t2_used;
    // Added first, and taken back if others were faster: many groups at once would keep one
    // another from a compare-and-swap.
    if (load_relaxed_gpu(used) >= fixed(&t.e->t2_frames)) {
        return kHaveOldest;
    }
    if (atomic_add_acquire_gpu(used, 1) >= fixed(&t.e->t2_frames)) {
        atomic_add_relaxed_gpu(used, 0u - 1);
        return kHaveOldest;
    }
    *slot = need_slot ? find_slot(t) : kNone;
    if (!need_slot || *slot != kNone) {
        return kHavePlace;
    }
    atomic_add_relaxed_gpu(used, 0u - 1);
    return kCrowded;
}

// find_place looks for room in T2's logical size. kHavePlace: it was below its size, and
// *slot is another spare one if the group needs it. kHaveOldest: *o leaves, which may be in
// slot own. kCrowded: neither just now.
template <class G, class S>
TRITIER_DEVICE uint32_t find_place(const G& g, const Context<S>& t, bool need_slot, uint32_t own, uint32_t* slot, Oldest* o) {
    for (uint32_t attempt = 0; attempt < 64; attempt++) {
        uint32_t found = kHavePlace;
        *slot = kNone;
        if (g.leads()) {
            found = take_place(t, need_slot, slot);
        }
        found = from_leader(g, found);
        *slot = from_leader(g, *slot);
        if (found != kHaveOldest) {
            return found;
        }
        *o = take_oldest(g, t, own);
        if (o->page != kNone) {
            return kHaveOldest;
        }
        relax();
    }
    return kCrowded;
}

// reserve_place gets a place in T2 for a victim. *slot is then another free
// slot, or kNone where the group needs none; *crowded says that there is no
// place, and the victim has to skip T2.
template <class G, class S>
TRITIER_DEVICE uint32_t reserve_place(const G& g, const Context<S>& t, Fill* f, uint32_t* slot, bool* crowded) {
    Oldest o{kNone, kNone, 0, 0};
    *slot = kNone;
    *crowded = false;
    if (f->place != 0) {
        return kTierOk; // the page that comes leaves its place to the one that goes
    }
    bool need_slot = f->slot == kNone && f->op != kOverwriteOp;
    uint32_t found = find_place(g, t, need_slot, f->copy != 0 ? f->slot : kNone, slot, &o);
    *crowded = found == kCrowded;
    if (found != kHaveOldest) {
        return kTierOk;
    }
    uint32_t status = drop_oldest(g, t, f, o);
    *slot = status == kTierOk ? o.slot : kNone;
    if (o.slot == f->slot) { // the page that comes was the oldest: no copy of it stays, and its slot is free once it has come
        f->copy = 0;
        *slot = kNone;
    }
    if (from_leader(g, g.leads() && fixed(&t.e->mover) != 0 && take_extra(t, *slot) ? 1u : 0u) != 0) {
        *slot = kNone;
        *crowded = true;
    }
    return status;
}

// undo_demotion takes back what reserve_place has got for a victim that could not be moved,
// and whose slot is lost. swapped: that was the place of the page that was to come.
template <class G, class S>
TRITIER_DEVICE void undo_demotion(const G& g, const Context<S>& t, Fill* f, const Victim& v, bool swapped) {
    if (swapped) {
        f->place = 1;
    } else if (g.leads()) {
        atomic_add_relaxed_gpu(&t.hot()->t2_used, 0u - 1);
    }
    f->at = v.page;
    put_back(g, t, v, kDemoting);
}

// become_copy makes the clean copy of T1's victim the page, if there is one.
template <class G, class S>
TRITIER_SLOW bool become_copy(const G& g, const Context<S>& t, const Victim& v) {
    uint32_t slot = kNone;
    if (g.leads() && (v.word & kDirty) == 0) {
        slot = claim_copy(t, v.page, v.frame, v.page);
    }
    slot = from_leader(g, slot);
    if (slot == kNone) {
        return false;
    }
    if (g.leads()) {
        Counts* c = t.counts();
        count(&c->evictions);
        count(&c->demotions);
        count(&c->copies_saved);
        publish(t.entries + v.page, moved(v.word, kDemoting, v.frame), left(moved(v.word, kResidentT2, slot)));
    }
    return true;
}

// end_demotion makes T1's victim, whose bytes have been sent to its slot, a page of T2. What
// it publishes waits until they are there.
template <class G, class S>
TRITIER_SLOW void end_demotion(const G& g, const Context<S>& t, Fill* f) {
    const Victim& v = f->victim;
    if (g.leads()) {
        store_relaxed_gpu(t.slot_owner() + f->to, v.page);
    }
    uint32_t status = insert_order(g, t, f->to);
    if (g.leads()) {
        Counts* c = t.counts();
        count(&c->evictions);
        count(&c->demotions);
        count(&c->bytes_demoted, t.page_bytes());
        publish(t.entries + v.page, moved(v.word, kDemoting, v.frame), left(moved(v.word, kResidentT2, f->to)));
        if (status != kTierOk) {
            note_error(t, v.page, status); // the page is safe, but T2 will not let it go by itself
        }
    }
    f->to = kNone;
}

// demote moves T1's victim to T2. If another page comes from T2 in its place, end_demotion
// is left to the caller: bytes go both ways at once then.
template <class G, class S>
TRITIER_SLOW uint32_t demote(const G& g, const Context<S>& t, Fill* f, const Victim& v) {
    uint32_t slot;
    bool crowded;
    uint32_t place = f->place, copy = f->copy;
    uint32_t status = reserve_place(g, t, f, &slot, &crowded);
    if (status != kTierOk) {
        put_back(g, t, v, kDemoting);
        return status;
    }
    if (crowded) {
        if (g.leads()) {
            count(&t.counts()->crowded);
        }
        return bypass_t2(g, t, f, v);
    }
    uint32_t to = f->spare;
    f->spare = slot;
    f->place = 0;
    uint64_t begun = globaltimer();
    if (move_page(g, t, kToHost, v.frame, to) != kTierOk) {
        undo_demotion(g, t, f, v, place != 0 || copy != f->copy);
        return kMoveLost;
    }
    if (g.leads()) {
        count_move(t, kT1ToT2, begun, v.page);
    }
    f->to = to;
    f->victim = v;
    if (f->slot == kNone) {
        end_demotion(g, t, f);
    }
    return kTierOk;
}

// take_frame gives f a frame: a free one, or that of a victim.
template <class G, class S>
TRITIER_DEVICE uint32_t take_frame(const G& g, const Context<S>& t, Fill* f) {
    uint32_t frame = kNone;
    if (g.leads()) {
        frame = pop_frame(t);
    }
    f->frame = from_leader(g, frame);
    if (f->frame != kNone) {
        return kTierOk;
    }
    Scan s{Wait::start(), 0, 0, 0, 0, 0, 0, 0};
    bool again = false;
    for (;;) {
        Victim v;
        uint32_t status = find_victim(g, t, &s, &v);
        f->frame = v.frame;
        if (status != kTierOk || v.page == kNone) {
            return status;
        }
        // Who reads without a pin must see the entry change, which one lane has made, before
        // the frame, which all write. Here nothing is on its way yet that a fence would wait for.
        g.sync();
        fence_acq_rel_gpu();
        uint32_t fate = kToT3;
        if (g.leads() && (fixed(&t.e->t2_frames) != 0 || fixed(&t.e->placer) == kGmtReuse)) {
            fate = fate_of(t, v.page, (v.word & kDirty) != 0, f->now, again);
        }
        fate = from_leader(g, fate);
        if (fate == kKeep && !again) {
            if (g.leads()) {
                count(&t.counts()->keeps);
            }
            put_back(g, t, v, kDemoting);
            again = true;
            continue;
        }
        bool t2 = fixed(&t.e->t2_frames) != 0 && fate != kToT3;
        if (fixed(&t.e->copies) == 0 || !become_copy(g, t, v)) {
            status = t2 ? demote(g, t, f, v) : bypass_t2(g, t, f, v);
        }
        g.sync();
        return status;
    }
}

} // namespace tier
} // namespace tritier
