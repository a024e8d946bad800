// Places in T2: of its logical size, or the oldest page's, which leaves for T3.
#pragma once

#include "compact.cuh"
#include "oldest.cuh"
#include "writeback.cuh"

namespace tritier {
namespace tier {

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
        uint32_t status = save(g, t, o.page, o.slot, &f->read);
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

// take_over has T2's oldest page leave, and says in *slot which slot the group has for that:
// the page's own, or the second one, which the page that comes is read into meanwhile.
template <class G, class S>
TRITIER_DEVICE uint32_t take_over(const G& g, const Context<S>& t, Fill* f, const Oldest& o, uint32_t* slot) {
    uint32_t second = (o.word & kDirty) != 0 ? begin_beside(g, t, f) : static_cast<uint32_t>(kNone);
    uint32_t status = drop_oldest(g, t, f, o);
    *slot = status == kTierOk ? o.slot : kNone;
    if (o.slot == f->slot) { // the page that comes was the oldest: no copy of it stays, and its slot is free once it has come
        f->copy = 0;
        *slot = kNone;
    }
    if (second != kNone && status == kTierOk) {
        *slot = second;
        if (g.leads()) {
            push_spare(t, o.slot);
        }
    } else if (second != kNone) {
        swap_spare(g, t, f, second);
    }
    return status;
}

// reserve_place gets a place in T2 for a victim, which goes to slot *to: no longer one of the
// group's then, which has a spare one all the same if it needs it. *crowded says that there is
// no place, and the victim has to skip T2.
template <class G, class S>
TRITIER_DEVICE uint32_t reserve_place(const G& g, const Context<S>& t, Fill* f, uint32_t* to, bool* crowded) {
    Oldest o{kNone, kNone, 0, 0};
    uint32_t slot = kNone, found = kHavePlace, status = kTierOk;
    bool read = false;
    if (f->place == 0) { // else the page that comes leaves its place to the one that goes
        bool need_slot = f->slot == kNone && f->op != kOverwriteOp;
        found = find_place(g, t, need_slot, f->copy != 0 ? f->slot : kNone, &slot, &o);
        // Where nothing has to be written first, into the spare slot.
        read = found != kCrowded && (o.word & kDirty) == 0 && begin_read(g, t, f, f->spare);
    }
    *crowded = found == kCrowded;
    if (found == kHaveOldest) {
        status = take_over(g, t, f, o, &slot);
        *crowded = from_leader(g, g.leads() && f->read.state == kNoRead && fixed(&t.e->mover) != 0 && take_extra(t, slot) ? 1u : 0u) != 0;
    }
    if (status != kTierOk || *crowded) {
        return status;
    }
    *to = read ? slot : f->spare;
    f->spare = read ? f->spare : slot;
    return kTierOk;
}

} // namespace tier
} // namespace tritier
