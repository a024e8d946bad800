// Victims of T2: the oldest page or copy in its order.
#pragma once

#include "order.cuh"

namespace tritier {
namespace tier {

// Oldest is T2's victim, out of the order: a page in the state WritingBack, or the copy
// of a page in T1.
struct Oldest {
    uint32_t page; // kNone: there was none just now
    uint32_t slot;
    uint64_t word; // its entry before, without pins
    uint32_t copy; // 1: a copy, whose page is not touched
};

// take_entry takes the page or copy of entry n, if that is live and the page at rest, or
// in slot own: that of the page which the caller's group brings.
template <class S>
TRITIER_DEVICE bool take_entry(const Context<S>& t, uint64_t n, uint32_t own, Oldest* o) {
    uint32_t word = load_acquire_gpu(log_at(t, n)), slot = word & kMaxLocation;
    if ((word & 3u << 30) != log_lap(t, n) || load_acquire_gpu(t.slot_order() + slot) != order_mark(n)) {
        return false;
    }
    uint32_t owner = load_relaxed_gpu(t.slot_owner() + slot), page = owner & ~kCopyMark;
    if (page >= fixed(&t.e->pages)) {
        return false;
    }
    if (slot == own || owner != page) {
        if (slot != own && atomic_cas_acq_rel_gpu(t.slot_owner() + slot, owner, kNone) != owner) {
            return false;
        }
        leave_order(t, slot);
        *o = Oldest{page, slot, 0, 1};
        return true;
    }
    uint64_t* entry = t.entries + page;
    uint64_t e = load_acquire_gpu(entry);
    if (state_of(e) != kResidentT2 || location_of(e) != slot || !claim_place(entry, &e, moved(e, kWritingBack, slot))) {
        return false;
    }
    leave_order(t, slot);
    *o = Oldest{page, slot, e & ~kPinMask, 0};
    return true;
}

constexpr uint32_t kLookAhead = 32;

// take_oldest takes T2's oldest page, or one of the next when that is in motion:
// another group takes or promotes it, or its demotion is not complete. Alone, a
// group always gets the oldest.
template <class S>
TRITIER_DEVICE Oldest take_oldest(const Context<S>& t, uint32_t own = kNone) {
    Oldest o{kNone, kNone, 0, 0};
    uint32_t users = 0;
    if (enter_log(t, &users) != kTierOk) {
        return o;
    }
    uint64_t n = 0;
    if (oldest(t, &n) != kNone) {
        uint64_t left = load_relaxed_gpu(&t.hot()->log_tail) - n, ahead = left < kLookAhead ? left : kLookAhead;
        for (uint64_t k = 0; k < ahead && o.page == kNone; k++) {
            if (take_entry(t, n + k, own, &o) && k == 0) {
                drop_entry(t, n);
            }
        }
    }
    leave_log(t);
    return o;
}

} // namespace tier
} // namespace tritier
