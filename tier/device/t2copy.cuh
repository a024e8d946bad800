// Copies: a clean page that came from T2 leaves its copy in its slot (t2copy=keep).
//
// The slot's owner word is page | kCopyMark then, and the copy stays in T2's order.
// Whoever changes that word has the copy:
//
//   - the group that evicts the page from T1: the copy is the page again, and keeps its
//     age in T2's order;
//   - whoever writes to the page: while the page is pinned, so that no group evicts it
//     with a copy that is old;
//   - T2, when it needs the slot. The page stays in T1 and does not notice.
//
// copies[frame] says in which slot the copy of the frame's page is, if there is one: the
// owner word decides. A page leaves its frame only by the hand of a group that has
// taken the copy or found none, so that the word of a page in T1 is that of its last
// promotion.
#pragma once

#include "order.cuh"

namespace tritier {
namespace tier {

// claim_copy gives the copy of a page in T1, which the caller has pinned or claimed, the
// owner word owner. It returns the copy's slot, or kNone.
template <class S>
TRITIER_DEVICE uint32_t claim_copy(const Context<S>& t, uint32_t page, uint32_t frame, uint32_t owner) {
    uint32_t slot = load_relaxed_gpu(reinterpret_cast<const uint32_t*>(fixed(&t.e->copies)) + frame);
    if (slot >= fixed(&t.e->slots) || load_relaxed_gpu(t.slot_owner() + slot) != (page | kCopyMark)) {
        return kNone;
    }
    return atomic_cas_acquire_gpu(t.slot_owner() + slot, page | kCopyMark, owner) == (page | kCopyMark) ? slot : kNone;
}

// drop_copy frees the slot of a page that is about to be written, which the caller has
// pinned; one lane calls it.
template <class S>
TRITIER_SLOW void drop_copy(Context<S> t, uint32_t page, uint32_t frame) {
    uint32_t slot = claim_copy(t, page, frame, kNone);
    if (slot != kNone) {
        leave_order(t, slot);
        push_slot(t, slot);
        atomic_add_release_gpu(&t.hot()->t2_used, 0u - 1);
    }
}

// will_write is called by one lane before it writes to a page that it has pinned when
// its entry was e: a page that was dirty then has no copy, or another drops it.
template <class S>
TRITIER_DEVICE void will_write(const Context<S>& t, uint32_t page, uint64_t e, uint32_t frame) {
    if ((e & kDirty) == 0 && fixed(&t.e->copies) != 0) {
        drop_copy(t, page, frame);
    }
}

} // namespace tier
} // namespace tritier
