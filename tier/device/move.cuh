// Moves between a frame of T1 and a slot of T2: by the group itself, zero-copy, or by a
// copy engine of the GPU that the CPU starts on request (Engine.mover says which way).
//
// A request is a move that somebody else makes of memory which the group owns, so it must
// be certain that nobody is still at it before the group goes on:
//
//   - no place in the ring, withdrawn before the CPU began (settle_request), or answered
//     that nothing was done and nothing is in flight: the group copies itself;
//   - begun, and no answer: the copy may still write its destination. That is put aside,
//     a frame or a slot, until the CPU says that its copies have ended; the source is only
//     read and stays what it was. kMoveLost.
//
// Orders. To the copy engine: what others wrote to frame or slot, the group has acquired
// with the page's entry; its request is released at system scope, which the CPU acquires
// before it starts the copy. Back: the CPU answers after it saw the copy end, with release,
// and the leader acquires that at system scope, which also drops what its SM had cached.
// Other lanes have it by g.sync(), other groups by the entry that is published then.
#pragma once

#include "pool.cuh"
#include "request.cuh"

namespace tritier {
namespace tier {

// lose_move puts the destination of request n aside; one lane calls it. Its number is
// known before the frame can be found.
template <class S>
TRITIER_DEVICE void lose_move(const Context<S>& t, uint32_t direction, uint32_t frame, uint32_t slot, uint64_t n) {
    if (direction == kToHost) {
        put_aside(t, slot, kByMover | (static_cast<uint32_t>(n) & kMoverMask));
        return;
    }
    atomic_max_relaxed_gpu(&t.hot()->lost_moves, n);
    push_free(&t.hot()->lost_frames, t.frame_owner(), frame);
}

// ask_mover has a page moved by request and says how that ended; one lane calls it.
template <class S>
TRITIER_SLOW uint32_t ask_mover(Context<S> t, const Mover* m, uint32_t direction, uint32_t frame, uint32_t slot) {
    bamio::RequestPort r = bamio::open_requests(reinterpret_cast<const bamio::Engine*>(m->bamio));
    r.deadline_ns = fixed(&t.e->deadline_ns);
    r.stop = reinterpret_cast<const uint32_t*>(fixed(&t.e->stop));
    uint64_t arguments[5] = {frame, slot, t.page_bytes(), 0, 0}, n = 0;
    if (bamio::try_request(r, kMoveRequest + direction, arguments, &n) != bamio::kOk) {
        return kRingFull;
    }
    switch (bamio::settle_request(r, n, m->patience_ns)) {
    case bamio::kOk:
        return kByCopyEngine;
    case bamio::kNotBegun:
        return kNotTaken;
    case bamio::kRequestFailed:
        return kRefused;
    }
    lose_move(t, direction, frame, slot, n);
    return kUnanswered;
}

// move_page copies a page between frame and slot, which the group owns: kTierOk or
// kMoveLost. After that the group has the destination no more. safe: it is not lost.
template <class G, class S>
TRITIER_SLOW uint32_t move_page(G g, Context<S> t, uint32_t direction, uint32_t frame, uint32_t slot, bool safe = false) {
    Mover* m = reinterpret_cast<Mover*>(fixed(&t.e->mover));
    uint32_t way = kByKernel;
    if (!safe && m != nullptr && m->by_request[direction] != 0) {
        g.sync(); // what the lanes did to the page is the leader's to release
        if (g.leads()) {
            way = ask_mover(t, m, direction, frame, slot);
        }
        way = from_leader(g, way);
        g.sync();
    }
    if (way != kByCopyEngine && way != kUnanswered) {
        void* in = t.frame(frame);
        void* out = t.slot(slot);
        copy_bytes(g, direction == kToDevice ? in : out, direction == kToDevice ? out : in, t.page_bytes());
    }
    if (m != nullptr && g.leads()) {
        count(&m->pages[direction][way]);
    }
    return way == kUnanswered ? static_cast<uint32_t>(kMoveLost) : kTierOk;
}

// has_extra says whether no page more may come back to T2 beyond its size. Each has a slot
// that was spare; without any, all who miss would wait in vain, for ever. So after the first
// the next are moved safely until T2 is as large as it should be, and those that were on
// their way then have left a slot (pop_spare). One lane calls it, before such a move.
template <class S>
TRITIER_DEVICE bool has_extra(const Context<S>& t) {
    return load_relaxed_gpu(&t.hot()->t2_extra) != 0 || fixed(&t.e->slots) - fixed(&t.e->t2_frames) == 1;
}

// take_extra gives back one place that T2 has beyond its size, since a page came back to it
// whose move to T1 was lost, with the slot of the page that has just left; for one lane.
template <class S>
TRITIER_DEVICE bool take_extra(const Context<S>& t, uint32_t slot) {
    uint32_t* extra = &t.hot()->t2_extra;
    uint32_t n = load_relaxed_gpu(extra);
    if (n == 0 || slot == kNone || atomic_cas_acq_rel_gpu(extra, n, n - 1) != n) {
        return false;
    }
    push_slot(t, slot); // before the place: whoever gets that finds a slot
    atomic_add_release_gpu(&t.hot()->t2_used, 0u - 1);
    return true;
}

} // namespace tier
} // namespace tritier
