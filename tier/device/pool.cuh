// Free frames and free slots: stacks whose links are the owner words of what is
// free. The head carries a tag that changes with every move, so that a head seen
// before and after is the same stack.
#pragma once

#include "fence.cuh"

namespace tritier {
namespace tier {

constexpr uint32_t kChainEnd = kFreeMark - 1;

// pop_free takes what was freed last, or kNone. Lock-free: it starts over only
// when another has moved the head.
TRITIER_DEVICE uint32_t pop_free(uint64_t* head, const uint32_t* owner) {
    for (;;) {
        uint64_t h = load_acquire_gpu(head);
        uint32_t i = static_cast<uint32_t>(h);
        if (i == kChainEnd) {
            return kNone;
        }
        // If another took i meanwhile, this is no link, and the tag has changed.
        uint32_t next = load_relaxed_gpu(owner + i) & ~kFreeMark;
        if (atomic_cas_acquire_gpu(head, h, ((h >> 32) + 1) << 32 | next) == h) {
            return i;
        }
    }
}

// push_free gives i back, after all that the caller's group did with it.
TRITIER_DEVICE void push_free(uint64_t* head, uint32_t* owner, uint32_t i) {
    for (;;) {
        uint64_t h = load_relaxed_gpu(head);
        store_relaxed_gpu(owner + i, kFreeMark | static_cast<uint32_t>(h));
        if (atomic_cas_release_gpu(head, h, ((h >> 32) + 1) << 32 | i) == h) {
            return;
        }
    }
}

constexpr uint32_t kByMover = 1u << 30; // in slot_order of a slot that was put aside: a move's request number, no queue
constexpr uint32_t kMoverMask = (1u << 30) - 1;

// mover_over is the number below which no request's copy is in flight. The word is far away.
template <class S>
TRITIER_DEVICE uint64_t mover_over(const Context<S>& t) {
    return load_acquire_sys(reinterpret_cast<const uint64_t*>(reinterpret_cast<const Mover*>(fixed(&t.e->mover))->over));
}

// retake_frame takes a frame back that a lost move could have written, once no move that
// was lost can; or kNone. Who puts one there has raised lost_moves before.
template <class S>
TRITIER_SLOW uint32_t retake_frame(Context<S> t) {
    Hot* h = t.hot();
    uint32_t f = pop_free(&h->lost_frames, t.frame_owner());
    if (f != kNone && mover_over(t) <= load_relaxed_gpu(&h->lost_moves)) {
        push_free(&h->lost_frames, t.frame_owner(), f);
        return kNone;
    }
    return f;
}

// pop_frame takes the frame that was freed last, else the next that was never
// used, as placement's clock does; or kNone.
template <class S>
TRITIER_DEVICE uint32_t pop_frame(const Context<S>& t) {
    Hot* h = t.hot();
    uint32_t f = pop_free(&h->free_frames, t.frame_owner());
    if (f != kNone) {
        return f;
    }
    uint32_t used = load_relaxed_gpu(&h->used_frames);
    while (used < fixed(&t.e->frames)) {
        uint32_t seen = atomic_cas_relaxed_gpu(&h->used_frames, used, used + 1);
        if (seen == used) {
            return used;
        }
        used = seen;
    }
    bool lost = fixed(&t.e->mover) != 0 && static_cast<uint32_t>(load_relaxed_gpu(&h->lost_frames)) != kChainEnd;
    return lost ? retake_frame(t) : static_cast<uint32_t>(kNone);
}

template <class S>
TRITIER_DEVICE void push_frame(const Context<S>& t, uint32_t f) {
    push_free(&t.hot()->free_frames, t.frame_owner(), f);
}

// pop_slot takes a free slot from the stack of the group's stripe, else from another's:
// first from where the last one was found.
template <class S>
TRITIER_DEVICE uint32_t pop_slot(const Context<S>& t) {
    SlotStack* stacks = t.hot()->free_slots;
    uint32_t s = pop_free(&stacks[t.stripe].head, t.slot_owner());
    if (s != kNone) {
        return s;
    }
    uint32_t first = load_relaxed_gpu(&t.hot()->slot_hint);
TRITIER_NO_UNROLL
    for (uint32_t i = 0; i < kStripes; i++) {
        uint32_t k = (first + i) % kStripes;
        s = pop_free(&stacks[k].head, t.slot_owner());
        if (s != kNone) {
            if (i != 0) {
                store_relaxed_gpu(&t.hot()->slot_hint, k);
            }
            return s;
        }
    }
    return kNone;
}

// find_slot is pop_slot for a group that was counted among those for which there are slots.
// One look at all stacks may miss its own: another took the slot that it was coming to, and
// the one that this other could have had was freed where it had looked.
template <class S>
TRITIER_DEVICE uint32_t find_slot(const Context<S>& t) {
    uint32_t s = kNone;
TRITIER_NO_UNROLL
    for (uint32_t looks = 0; looks < 4 && s == kNone; looks++) {
        s = pop_slot(t);
    }
    return s;
}

// push_slot gives a slot back, to the stack of the group's stripe.
template <class S>
TRITIER_DEVICE void push_slot(const Context<S>& t, uint32_t s) {
    push_free(&t.hot()->free_slots[t.stripe].head, t.slot_owner(), s);
}

// put_aside keeps s out of use while holder, a queue or a move, may use it.
template <class S>
TRITIER_DEVICE void put_aside(const Context<S>& t, uint32_t s, uint32_t holder) {
    count(&t.counts()->lost_slots);
    store_relaxed_gpu(t.slot_order() + s, holder); // no place in T2's order: those have bit 31
    push_free(&t.hot()->lost_slots, t.slot_owner(), s);
}

// lose_slot puts s aside: after a time-out the drive may still write to it, or read
// from it what must not be another page's bytes. page is whose command it was.
template <class S>
TRITIER_DEVICE void lose_slot(const Context<S>& t, uint32_t s, uint32_t page) {
    put_aside(t, s, t.store.held_by(page));
}

// let_go says whether nobody uses a slot any more that was put aside for holder.
template <class S>
TRITIER_DEVICE bool let_go(const Context<S>& t, uint32_t holder) {
    if ((holder & kByMover) == 0) {
        return t.store.settled(holder);
    }
    uint32_t past = (static_cast<uint32_t>(mover_over(t)) - holder) & kMoverMask; // 0: that one has not ended
    return past != 0 && past < kMoverMask / 2;
}

// retake_slot takes a slot back that was put aside and that no drive can use any more,
// since all commands of its queue that nobody waited for have ended; or kNone. It looks
// at a few.
template <class S>
TRITIER_SLOW uint32_t retake_slot(Context<S> t) {
    uint64_t* lost = &t.hot()->lost_slots;
    uint32_t* owner = t.slot_owner();
    uint32_t found = kNone, kept = kChainEnd;
    for (uint32_t looked = 0; looked < 32 && found == kNone; looked++) {
        uint32_t s = pop_free(lost, owner);
        if (s == kNone) {
            break;
        }
        if (let_go(t, load_relaxed_gpu(t.slot_order() + s))) {
            found = s;
        } else {
            store_relaxed_gpu(owner + s, kFreeMark | kept);
            kept = s;
        }
    }
    while (kept != kChainEnd) {
        uint32_t next = load_relaxed_gpu(owner + kept) & ~kFreeMark;
        push_free(lost, owner, kept);
        kept = next;
    }
    if (found != kNone) {
        end_fence(t, found, load_acquire_gpu(fence_at(t, found)));
        store_relaxed_gpu(t.slot_order() + found, 0);
        count(&t.counts()->retaken_slots);
    }
    return found;
}

// pop_spare takes a free slot, or one that was lost and is free again; or kNone. Of those
// that T2 does not use just now it takes none, or pages would find no slot to leave T1 for
// while others wait with them for their turn. Where moves can be lost, one of two or more is
// left over: see has_extra. end_spare is called at last.
template <class S>
TRITIER_DEVICE uint32_t pop_spare(const Context<S>& t) {
    uint32_t* taken = &t.hot()->spares_taken;
    uint32_t most = fixed(&t.e->slots) - fixed(&t.e->t2_frames), s = kNone;
    const Mover* m = reinterpret_cast<const Mover*>(fixed(&t.e->mover));
    if (m != nullptr && most > 1 && m->by_request[kToDevice] != 0) {
        most--;
    }
    if (load_relaxed_gpu(taken) >= most) {
        return kNone;
    }
    if (atomic_add_acquire_gpu(taken, 1) < most) {
        s = pop_slot(t);
        if (s == kNone && static_cast<uint32_t>(load_relaxed_gpu(&t.hot()->lost_slots)) != kChainEnd) {
            s = retake_slot(t);
        }
    }
    if (s == kNone) {
        atomic_add_relaxed_gpu(taken, 0u - 1);
    }
    return s;
}

// end_spare ends what pop_spare has begun, after all slots that the group has no use for any
// more were given back.
template <class S>
TRITIER_DEVICE void end_spare(const Context<S>& t) {
    atomic_add_release_gpu(&t.hot()->spares_taken, 0u - 1);
}

// push_spare gives back a slot that pop_spare has taken.
template <class S>
TRITIER_DEVICE void push_spare(const Context<S>& t, uint32_t s) {
    push_slot(t, s);
    end_spare(t);
}

// take_spare waits for a free slot. The caller holds no slot and no busy page:
// whoever holds one goes on without another, so that one becomes free.
template <class S>
TRITIER_DEVICE uint32_t take_spare(const Context<S>& t, uint32_t* slot) {
    Wait wait = Wait::start();
    for (;;) {
        *slot = pop_spare(t);
        if (*slot != kNone) {
            return kTierOk;
        }
        uint32_t why = wait.over(t.e);
        if (why != kTierOk) {
            return why == kWaitTimeout ? kNoSlot : why;
        }
        wait.rest();
    }
}

} // namespace tier
} // namespace tritier
