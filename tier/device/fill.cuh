// Fill: a group brings the page that it has claimed into T1. The order of its
// decisions is that of tier.Machine: the page leaves T2 before T1's victim is
// chosen, so that the two change places.
#pragma once

#include "evict.cuh"

namespace tritier {
namespace tier {

// load_page brings the bytes of f's page into its frame.
template <class G, class S>
TRITIER_DEVICE uint32_t load_page(const G& g, const Context<S>& t, Fill* f) {
    if (f->op == kOverwriteOp) {
        copy_bytes(g, t.frame(f->frame), f->whole, t.page_bytes());
        return kTierOk;
    }
    if (f->slot != kNone) {
        uint64_t begun = globaltimer();
        bool no_way_back = f->place == 0 && f->copy == 0; // its place is T1's victim's
        bool safe = from_leader(g, g.leads() && no_way_back && has_extra(t) ? 1u : 0u) != 0;
        if (move_page(g, t, kToDevice, f->frame, f->slot, safe) != kTierOk) {
            f->frame = kNone;
            return kMoveLost;
        }
        if (g.leads()) {
            count_move(t, kT2ToT1, begun, f->page);
            count(&t.counts()->bytes_promoted, t.page_bytes());
        }
        return kTierOk;
    }
    uint32_t status = read_page(g, t, f);
    if (status != kTierOk) {
        f->at = f->page;
        return status;
    }
    if (move_page(g, t, kToDevice, f->frame, f->spare) != kTierOk) {
        f->frame = kNone;
        return kMoveLost;
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
        // At the young end, as tier.Machine has it, unless it never left the order.
        uint32_t again = f->copy == 0 ? insert_order(g, t, f->slot) : static_cast<uint32_t>(kTierOk);
        if (g.leads()) {
            if (again != kTierOk) {
                note_error(t, f->page, again);
            }
            if (f->place == 0 && f->copy == 0) { // its place is T1's victim's: see take_extra
                atomic_add_relaxed_gpu(&t.hot()->t2_used, 1);
                atomic_add_release_gpu(&t.hot()->t2_extra, 1); // then: who takes it gives back that place, and no other's
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

// bring makes room for f's page and fills it.
template <class G, class S>
TRITIER_SLOW uint32_t bring(const G& g, const Context<S>& t, Fill* f) {
    if (g.leads()) {
        if (fixed(&t.e->placer) == kGmtReuse && f->op != kPrefetchOp) {
            reuse_miss(t, f->page, f->now);
        }
        if (f->slot != kNone && f->copy == 0) {
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
        if (f->to != kNone) {
            end_demotion(g, t, f);
        }
    } else {
        f->frame = kNone;
    }
    if (status != kTierOk) {
        settle_read(g, t, f); // nobody wants it, but the spare slot is its own until it ends
        give_up_fill(g, t, f, status);
    } else if (g.leads()) {
        bool writes = f->op == kWriteOp || f->op == kOverwriteOp;
        uint64_t to = moved(f->word, kResidentT1, f->frame) | (writes ? kDirty : 0);
        count_fill(t, *f);
        if (f->copy != 0) {
            store_relaxed_gpu(reinterpret_cast<uint32_t*>(fixed(&t.e->copies)) + f->frame, f->slot);
            store_release_gpu(t.slot_owner() + f->slot, f->page | kCopyMark); // T2 may take it from here on
        }
        publish(t.entries + f->page, moved(f->word, kFilling, location_of(f->word)),
                f->op == kPrefetchOp ? to : to + kPin);
    }
    if (g.leads()) {
        // Slots before what counts them: whoever gets the count finds one.
        if (status == kTierOk && f->slot != kNone && f->copy == 0) {
            push_slot(t, f->slot);
        }
        if (f->place != 0) {
            atomic_add_release_gpu(&t.hot()->t2_used, 0u - 1);
        }
        if (f->spare != kNone) {
            push_slot(t, f->spare);
        }
        end_spare(t);
    }
    return status;
}

} // namespace tier
} // namespace tritier
