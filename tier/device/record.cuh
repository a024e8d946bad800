// Recording: accesses to marked pages go to a ring in pinned memory, which the CPU
// empties while kernels run.
//
// Entry number n is one word: its number + 1 in the high half, page and operation in
// the low one. Numbers are given as accesses are made, so that one group's entries
// come in its order; of several groups, in the order in which they took numbers, which
// may be another than that of the virtual time by as many accesses as are under way.
//
// A full ring makes the accesses wait for the CPU. When it takes nothing for
// record_wait_ns, what does not fit is counted as lost, without another wait, until it
// takes something again. An access that has a number has its place: record_room leaves
// room for all threads that have seen the same number at once.
#pragma once

#include "reuse.cuh"

namespace tritier {
namespace tier {

// in_bitmap says whether a page is in a set of pages; no set is all pages.
TRITIER_DEVICE bool in_bitmap(uint64_t bits, uint32_t page) {
    return bits == 0 || (load_relaxed_gpu(reinterpret_cast<const uint32_t*>(bits) + page / 32) >> page % 32 & 1) != 0;
}

// record_room waits until there is room in the ring; false: the entry is lost.
template <class S>
TRITIER_DEVICE bool record_room(const Context<S>& t) {
    Hot* h = t.hot();
    const RecordBox* box = reinterpret_cast<const RecordBox*>(fixed(&t.e->record_box));
    if (load_relaxed_gpu(&h->record_tail) - load_relaxed_gpu(&h->record_taken) < fixed(&t.e->record_room)) {
        return true;
    }
    Wait wait = Wait::start();
    for (;;) {
        uint64_t taken = load_acquire_sys(&box->taken);
        store_relaxed_gpu(&h->record_taken, taken);
        if (load_relaxed_gpu(&h->record_tail) - taken < fixed(&t.e->record_room)) {
            return true;
        }
        if (load_relaxed_gpu(&h->record_stuck) == taken + 1) {
            return false; // another has waited for this already
        }
        if (wait.longer_than(fixed(&t.e->record_wait_ns))) {
            store_relaxed_gpu(&h->record_stuck, taken + 1);
            return false;
        }
        if (wait.over(t.e) != kTierOk) {
            return false;
        }
        relax();
    }
}

// record sends an access to the CPU; one lane calls it.
template <class S>
TRITIER_DEVICE void record(const Context<S>& t, uint32_t page, uint32_t op) {
    if (!record_room(t)) {
        count(&t.counts()->lost_records);
        return;
    }
    uint64_t n = atomic_add_relaxed_gpu(&t.hot()->record_tail, 1);
    uint64_t* ring = reinterpret_cast<uint64_t*>(fixed(&t.e->records));
    store_release_sys(ring + (n & (fixed(&t.e->record_count) - 1)), (n + 1) << 32 | page << 2 | op);
}

// notice passes an access to a marked page on to whom it concerns; one lane calls it.
// now is the virtual time, 0: not known yet.
template <class S>
TRITIER_SLOW void notice(Context<S> t, uint32_t page, uint32_t op, uint64_t now) {
    if (fixed(&t.e->records) != 0 && in_bitmap(fixed(&t.e->recorded), page)) {
        record(t, page, op);
    }
    if (fixed(&t.e->placer) == kGmtReuse && op != kPrefetchOp && in_bitmap(fixed(&t.e->observed), page)) {
        observe(t, page, now != 0 ? now : now_of(t.e));
    }
}

} // namespace tier
} // namespace tritier
