// Victims of T1: the hand goes round the frames, and the first page that nobody
// pins and whose reference bit is clear leaves. Every group moves the one hand
// itself, twice by a ticket for a frame and then over what it has looked at, so
// that none waits for another.
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

// Passed is the part of what a group has looked at that the hand has passed by its doing:
// ranks from up to to. won: the last of them is open.
struct Passed {
    uint32_t from, to;
    bool won;
};

// pass_one has the hand pass the one frame that a ticket stands for.
template <class G, class S>
TRITIER_DEVICE uint64_t pass_one(const G& g, const Context<S>& t) {
    uint64_t hand = 0;
    if (g.leads()) {
        hand = atomic_add_relaxed_gpu(&t.hot()->hand, 1);
    }
    return from_leader(g, hand);
}

// pass_to moves the common hand from where it was at the look, or from where others have
// moved it to since, behind the first open frame, or past the window. open is by rank. No
// frame is passed that nobody has looked at: a ticket for a whole window, of which the part
// behind the victim could not always be given back, left pages in T1 for another turn, and
// mixed up in which order they leave. false: others have passed all of the window.
template <class G, class S>
TRITIER_DEVICE bool pass_to(const G& g, const Context<S>& t, uint64_t hand, uint32_t width, uint32_t open, Passed* p) {
    p->from = 0;
    for (;;) { // each round begins further on
        uint32_t later = open & ~((1u << p->from) - 1);
        p->won = later != 0;
        p->to = p->won ? lowest_bit(later) + 1 : width;
        uint64_t seen = 0;
        if (g.leads()) {
            seen = atomic_cas_relaxed_gpu(&t.hot()->hand, hand + p->from, hand + p->to);
        }
        seen = from_leader(g, seen) - hand;
        if (seen == p->from) {
            return true;
        }
        if (seen >= width) {
            return false;
        }
        p->from = static_cast<uint32_t>(seen);
    }
}

// by_rank is a vote of the group by rank instead of by lane.
template <class G>
TRITIER_DEVICE uint32_t by_rank(const G& g, bool vote) {
    uint32_t lanes = g.ballot(vote), ranks = 0;
    if (g.mask() == ~0u) {
        return lanes;
    }
    while (lanes != 0) {
        uint32_t lane = lowest_bit(lanes);
        ranks |= 1u << bits_below(g.mask(), lane);
        lanes &= lanes - 1;
    }
    return ranks;
}

// scan_window has the hand pass a few frames: one, or up to one a lane when the first two
// were of no use. True: *v is claimed.
template <class G, class S>
TRITIER_DEVICE bool scan_window(const G& g, const Context<S>& t, Scan* s, Victim* v) {
    uint32_t frames = fixed(&t.e->frames);
    bool one = s->windows++ < 2, own = s->turns >= 2;
    uint32_t width = one ? 1 : g.size() < frames ? g.size() : frames;
    // Groups that share a hand may each see the same few frames, all pinned,
    // for ever; a hand of its own sees every frame.
    uint64_t hand = own ? s->own : 0;
    if (!own && one) {
        hand = pass_one(g, t);
    } else if (!own) {
        hand = from_leader(g, g.leads() ? load_relaxed_gpu(&t.hot()->hand) : 0);
    }
    uint32_t f = static_cast<uint32_t>((hand + g.rank()) % frames), page = kNone, kind = kMoving;
    uint64_t e = 0;
    bool in = g.rank() < width;
    if (in) {
        kind = look(t, f, &page, &e);
    }
    uint32_t open = by_rank(g, in && kind == kOpen);
    Passed p{0, open != 0 ? lowest_bit(open) + 1 : width, open != 0};
    if (!own && !one && !pass_to(g, t, hand, width, open, &p)) {
        s->looked += width; // so that the turn ends, and with it the patience, also where others are always faster
        s->moving++;
        return false;
    }
    s->own += own ? p.to : 0;
    bool passed = g.rank() >= p.from && g.rank() < p.to, last = p.won && g.rank() + 1 == p.to;
    if (passed && kind == kSecondChance) {
        // In every other state the bit means nothing: clearing it there changes nothing.
        atomic_and_relaxed_gpu(t.entries + page, ~kRef);
    }
    s->pinned += count_bits(g.ballot(passed && kind == kPinnedFrame));
    s->moving += count_bits(g.ballot(passed && kind == kMoving));
    s->looked += p.to - p.from;
    uint32_t won = last && claim(t.entries + page, e, moved(e, kDemoting, f)) ? 1 : 0, winner = g.ballot(won != 0);
    if (winner == 0) {
        s->moving += p.won ? 1 : 0;
        return false;
    }
    uint32_t chosen = lowest_bit(winner);
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
