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

#include "place.cuh"
#include "reuse.cuh"
#include "t2copy.cuh"

namespace tritier {
namespace tier {

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
    uint32_t to = kNone, place = f->place, copy = f->copy;
    bool crowded;
    uint32_t status = reserve_place(g, t, f, &to, &crowded);
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
