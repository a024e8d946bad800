// Victims of T2: the oldest page or copy in its order.
//
// A group looks at as many entries of the log at once as it has lanes, and takes all that
// are dead off the head with one step. Groups that come at the same time begin at different
// entries: would each begin at the oldest, all but one would come too late for it, and the
// head would move one entry for each look of all of them.
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

// take_entry takes the page or copy of entry n, which was live, in slot, if it still is and
// the page at rest, or the slot is own: that of the page which the caller's group brings.
// One lane calls it.
template <class S>
TRITIER_DEVICE bool take_entry(const Context<S>& t, uint64_t n, uint32_t slot, uint32_t own, Oldest* o) {
    if (load_acquire_gpu(t.slot_order() + slot) != order_mark(n)) {
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

// take_window tries the live ones of the entries from head + from on, one a lane, of left
// from head on: those of lane first on before the others. It returns how many are dead now.
template <class G, class S>
TRITIER_DEVICE uint32_t take_window(const G& g, const Context<S>& t, uint64_t head, uint64_t left, uint32_t from, uint32_t first, uint32_t own, Oldest* o) {
    uint64_t n = head + from + g.rank();
    uint32_t slot = 0, kind = from + g.rank() < left ? entry_kind(t, n, &slot) : static_cast<uint32_t>(kUnsettled);
    uint32_t live = g.ballot(kind == kLive), dead = g.ballot(kind == kDead);
    while (live != 0 && o->page == kNone) {
        uint32_t later = live & ~((1u << first) - 1), lane = lowest_bit(later != 0 ? later : live), won = 0;
        Oldest mine{kNone, kNone, 0, 0};
        if (g.lane() == lane) {
            won = take_entry(t, n, slot, own, &mine) ? 1 : 0;
        }
        live &= ~(1u << lane);
        if (g.from(won, lane) != 0) {
            *o = Oldest{g.from(mine.page, lane), g.from(mine.slot, lane), g.from(mine.word, lane), g.from(mine.copy, lane)};
            dead |= 1u << lane;
        }
    }
    uint32_t gone = leading(g, dead);
    if (from == 0 && gone != 0) {
        drop_dead(g, t, head, gone);
    }
    return count_bits(dead);
}

constexpr uint32_t kLookAhead = 32;

// take_oldest takes T2's oldest page, or one of the next when that is in motion: another
// group takes or promotes it, or its demotion is not complete. Alone, a group always gets
// the oldest; of many that come together each gets one of the oldest.
template <class G, class S>
TRITIER_DEVICE Oldest take_oldest(const G& g, const Context<S>& t, uint32_t own = kNone) {
    Oldest o{kNone, kNone, 0, 0};
    uint32_t users = 0;
    if (g.leads() && enter_log(t, &users) != kTierOk) {
        users = 0;
    }
    users = from_leader(g, users);
    if (users == 0) {
        return o;
    }
    uint32_t before = users - 1, ahead = before / g.size() * g.size(); // ahead of the head
    uint64_t at = 0;
    bool first = true;
    for (uint32_t looked = 0; looked < kLookAhead;) {
        uint64_t head = 0, left = 0;
        if (g.leads()) {
            head = load_acquire_gpu(&t.hot()->log_head); // before the tail, which is never before it
            left = load_acquire_gpu(&t.hot()->log_tail) - head;
        }
        head = from_leader(g, head);
        left = from_leader(g, left);
        bool elsewhere = first && ahead != 0;
        at = elsewhere ? head + ahead : first || at < head ? head : at;
        first = false;
        uint32_t from = static_cast<uint32_t>(at - head), dead = from < left ? take_window(g, t, head, left, from, before % g.size(), own, &o) : 0;
        if (o.page != kNone || (left <= from && !elsewhere)) {
            break;
        }
        if (elsewhere) {
            at = head;
        } else if (from != 0 || dead != (g.size() < left ? g.size() : left)) { // else the head has moved on, by this group or another
            at += g.size();
            looked += g.size();
        }
    }
    g.sync(); // what the lanes took and cleared, before the leader leaves
    if (g.leads()) {
        leave_log(t);
    }
    return o;
}

} // namespace tier
} // namespace tritier
