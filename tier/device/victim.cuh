// Victims of T1: the hand goes round the frames, and the first page that nobody
// pins and whose reference bit is clear leaves. Every group moves the one hand
// by a ticket of its own, so that none waits for another.
#pragma once

#include "pool.cuh"

namespace tritier {
namespace tier {

// Victim is a page that has been claimed, in the state Demoting.
struct Victim {
    uint32_t page; // kNone: a free frame instead
    uint32_t frame;
    uint64_t word; // its entry before, without pins and ref
};

// Scan is one search for a victim.
struct Scan {
    Wait wait;
    uint32_t windows;
    uint32_t looked;  // frames since the last turn ended
    uint32_t pinned;  // of these
    uint32_t moving;  // of these: free, busy, or lost to another
    uint32_t turns;
    uint32_t starved; // 1: counted in Hot.starved
    uint64_t own;     // after two turns of the common hand: a hand of the group's own
};

enum : uint32_t { kMoving = 0, kPinnedFrame = 1, kSecondChance = 2, kOpen = 3 };

// look says what frame f holds.
template <class S>
TRITIER_DEVICE uint32_t look(const Context<S>& t, uint32_t f, uint32_t* page, uint64_t* e) {
    *page = load_relaxed_gpu(t.frame_owner() + f);
    if ((*page & kFreeMark) != 0) {
        return kMoving;
    }
    *e = load_acquire_gpu(t.entries + *page);
    if (state_of(*e) != kResidentT1 || location_of(*e) != f) {
        return kMoving;
    }
    if (pins_of(*e) != 0) {
        return kPinnedFrame;
    }
    return (*e & kRef) != 0 ? kSecondChance : kOpen;
}

// scan_window has the hand pass a few frames: one, or one a lane when the first
// two were of no use. True: *v is claimed.
template <class G, class S>
TRITIER_DEVICE bool scan_window(const G& g, const Context<S>& t, Scan* s, Victim* v) {
    uint32_t frames = fixed(&t.e->frames);
    uint32_t width = s->windows++ < 2 ? 1 : g.size() < frames ? g.size() : frames;
    uint64_t hand = 0;
    if (s->turns >= 2) {
        // Groups that share a hand may each see the same few frames, all pinned,
        // for ever; a hand of its own sees every frame.
        hand = s->own;
        s->own += width;
    } else if (g.leads()) {
        hand = atomic_add_relaxed_gpu(&t.hot()->hand, width);
    }
    hand = from_leader(g, hand);
    uint32_t f = static_cast<uint32_t>((hand + g.rank()) % frames), page = kNone, kind = kMoving;
    uint64_t e = 0;
    bool in = g.rank() < width;
    if (in) {
        kind = look(t, f, &page, &e);
    }
    uint32_t open = g.ballot(in && kind == kOpen);
    uint32_t passed = open == 0 ? width : bits_below(g.mask(), lowest_bit(open));
    bool before = in && g.rank() < passed;
    if (before && kind == kSecondChance) {
        // In every other state the bit means nothing: clearing it there changes nothing.
        atomic_and_relaxed_gpu(t.entries + page, ~kRef);
    }
    s->pinned += count_bits(g.ballot(before && kind == kPinnedFrame));
    s->moving += count_bits(g.ballot(before && kind == kMoving));
    s->looked += passed;
    if (open == 0) {
        return false;
    }
    if (g.leads() && s->turns < 2 && passed + 1 < width) {
        // The frames behind the victim are given back, if nobody came after.
        atomic_cas_relaxed_gpu(&t.hot()->hand, hand + width, hand + passed + 1);
    }
    uint32_t chosen = lowest_bit(open), won = 0;
    if (g.lane() == chosen) {
        won = claim(t.entries + page, e, moved(e, kDemoting, f)) ? 1 : 0;
    }
    s->looked++;
    if (g.from(won, chosen) == 0) {
        s->moving++;
        return false;
    }
    *v = Victim{g.from(page, chosen), g.from(f, chosen), g.from(e & ~(kPinMask | kRef), chosen)};
    return true;
}

// end_turn looks, when the hand has been round, for a free frame and for a
// reason to give up. The group gives up early when all frames were pinned: its
// own cursors may be the reason.
template <class G, class S>
TRITIER_DEVICE uint32_t end_turn(const G& g, const Context<S>& t, Scan* s, Victim* v) {
    uint32_t frame = kNone, why = kTierOk, frames = fixed(&t.e->frames);
    bool all_pinned = s->turns >= 2 && s->pinned >= frames && s->moving == 0;
    if (g.leads()) {
        Hot* h = t.hot();
        frame = pop_frame(t);
        if (frame == kNone && all_pinned) {
            if (s->starved == 0) {
                atomic_add_relaxed_gpu(&h->starved, 1);
                s->starved = 1;
            }
            if (s->wait.longer_than(fixed(&t.e->pin_deadline_ns))) {
                atomic_max_relaxed_gpu(&h->frames_needed, frames + load_relaxed_gpu(&h->starved));
                why = kAllPinned;
            }
        }
        if (frame == kNone && why == kTierOk) {
            s->wait.looks |= 3; // each turn is worth a look at the clock
            why = s->wait.over(t.e);
        }
        if (s->starved != 0 && (frame != kNone || why != kTierOk)) {
            atomic_add_relaxed_gpu(&h->starved, 0u - 1);
            s->starved = 0;
        }
    }
    s->looked = s->pinned = s->moving = 0;
    *v = Victim{kNone, from_leader(g, frame), 0};
    return from_leader(g, why);
}

// find_victim claims the page that leaves, or finds a free frame.
template <class G, class S>
TRITIER_SLOW uint32_t find_victim(const G& g, const Context<S>& t, Scan* s, Victim* v) {
    for (;;) {
        if (scan_window(g, t, s, v)) {
            if (g.leads() && s->starved != 0) {
                atomic_add_relaxed_gpu(&t.hot()->starved, 0u - 1);
                s->starved = 0;
            }
            return kTierOk;
        }
        if (s->looked < fixed(&t.e->frames)) {
            continue;
        }
        s->turns++;
        uint32_t why = end_turn(g, t, s, v);
        if (why != kTierOk || v->frame != kNone) {
            return why;
        }
        if (s->turns > 2) {
            relax();
        }
    }
}

} // namespace tier
} // namespace tritier
