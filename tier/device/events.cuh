// Events: misses and single moves, told to the CPU while kernels run, for a timeline.
//
// Whoever begins a miss, or writes a page back for a flush, draws a number: one in so
// many is told of, with all that it moves. A move is an event of its own, put into a ring
// in pinned memory when it has ended, and what it belongs to is the last one of its
// number. Nothing here waits: a miss that begins when the ring is half full is left out
// whole, so that those that are told of find room for all their moves, and is counted. The
// rest of the ring is for threads that have seen room at the same time.
//
// Without a log all this is one load and one branch at each miss and each move.
#pragma once

#include "context.cuh"

namespace tritier {
namespace tier {

// event_room says whether fewer than room events wait for the CPU.
TRITIER_DEVICE bool event_room(EventLog* l, uint64_t room) {
    if (load_relaxed_gpu(&l->tail) - load_relaxed_gpu(&l->taken) < room) {
        return true;
    }
    uint64_t taken = load_acquire_sys(&reinterpret_cast<const EventBox*>(l->box)->taken);
    store_relaxed_gpu(&l->taken, taken);
    return load_relaxed_gpu(&l->tail) - taken < room;
}

// draw_number is the number of what begins now, or 0: nothing is told of it.
TRITIER_SLOW uint32_t draw_number(EventLog* l) {
    uint64_t n = atomic_add_relaxed_gpu(&l->begun, 1);
    if (n % l->every != 0) {
        return 0;
    }
    if (!event_room(l, l->room / 2)) {
        count(&l->left_out);
        return 0;
    }
    return static_cast<uint32_t>(n / l->every % 0xffffffffu) + 1;
}

// put_event tells of what has begun at begun (globaltimer) and has ended now.
TRITIER_SLOW void put_event(EventLog* l, uint32_t number, uint32_t what, uint32_t page, uint64_t begun) {
    uint64_t ended = globaltimer();
    if (!event_room(l, l->room)) {
        count(&l->cut);
        return;
    }
#if TRITIER_GPU
    what |= sm_id() << kEventSM;
#endif
    uint64_t n = atomic_add_relaxed_gpu(&l->tail, 1);
    Event* e = reinterpret_cast<Event*>(l->events) + (n & (l->count - 1));
    store_relaxed_sys(&e->begun, begun);
    store_relaxed_sys(&e->ended, ended);
    store_relaxed_sys(&e->page, page);
    store_relaxed_sys(&e->number, number);
    store_relaxed_sys(&e->what, what);
    store_release_sys(&e->mark, static_cast<uint32_t>(n) + 1);
}

// begin_events is called by one lane where a miss, or a page's write for a flush, begins:
// its context tells of what comes.
template <class S>
TRITIER_DEVICE void begin_events(Context<S>* t) {
    t->number = t->e->events == 0 ? 0 : draw_number(reinterpret_cast<EventLog*>(t->e->events));
}

// tell_event tells of an event that has ended; the lane that has begun it calls it.
template <class S>
TRITIER_DEVICE void tell_event(const Context<S>& t, uint32_t kind, uint64_t begun, uint32_t page, uint32_t status, uint32_t op = 0) {
    if (t.number != 0) {
        uint32_t failed = status != kTierOk ? 1u << kEventFailed : 0;
        put_event(reinterpret_cast<EventLog*>(fixed(&t.e->events)), t.number, kind | op << kEventOp | failed | static_cast<uint32_t>(t.stripe) << kEventStripe, page, begun);
    }
}

// count_move counts a page that has crossed an edge since begun (globaltimer), and tells
// of it; one lane of a group calls it.
template <class S>
TRITIER_DEVICE void count_move(const Context<S>& t, uint32_t edge, uint64_t begun, uint32_t page) {
    Moves* m = reinterpret_cast<Moves*>(fixed(&t.e->moves)) + t.stripe % kMoveStripes;
    count(&m->pages[edge][bucket_of(globaltimer() - begun)]);
    tell_event(t, edge, begun, page, kTierOk);
}

} // namespace tier
} // namespace tritier
