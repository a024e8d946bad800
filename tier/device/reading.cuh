// Reads from T3, of which some begin before the page has a frame: the drive works while
// T1's victim leaves, and T2's is written.
//
// Such a read has a slot that is nobody else's until it has ended. While a page is written
// meanwhile, that is a second spare slot: the first is needed when the write is lost, since the
// drive may still use the page's own (leave_lost). A group that gets no second one writes
// first, and reads then. Where nothing is written the spare slot itself is read into, and T1's
// victim goes to the slot that T2's oldest page has left, or one that was free.
//
// No group waits for a place in a queue while the result of its read keeps another one from
// getting it: the store takes that result first.
#pragma once

#include "events.cuh"
#include "move.cuh"
#include "victim.cuh"

namespace tritier {
namespace tier {

// Fill is one page on its way into T1; every lane of the group has the same.
struct Fill {
    uint32_t page;
    uint32_t op;
    uint64_t word;     // the page's entry before, without pins
    uint64_t now;      // virtual time of the access
    uint32_t spare;    // a free slot that the group holds, or kNone
    uint32_t slot;     // of a page from T2: where it lies; else kNone
    uint32_t place;    // 1: the group holds a place of T2's logical size
    uint32_t copy;     // 1: the page stays in its slot as a copy, and in T2's order
    uint32_t frame;    // what it gets
    uint32_t at;       // of an error: the page that it is about
    const void* whole; // of an overwrite: the page's new bytes
    uint32_t to;       // slot that the victim's bytes are in or on their way to: it is still Demoting; or kNone
    Victim victim;     // then
    Reading read;      // of a page from T3
};

// begin_read begins to read f's page into a slot of the group, if it comes from T3 and the
// drive takes the command at once. Not where moves are made by request: one that is lost takes
// a slot with it, of which the group needs its spare one.
template <class G, class S>
TRITIER_DEVICE bool begin_read(const G& g, const Context<S>& t, Fill* f, uint32_t slot) {
    uint32_t go = 0;
    if (g.leads() && f->slot == kNone && f->op != kOverwriteOp) {
        const Mover* m = reinterpret_cast<const Mover*>(fixed(&t.e->mover));
        go = (m == nullptr || (m->by_request[kToDevice] | m->by_request[kToHost]) == 0) && !has_fence(t, f->page) ? 1 : 0;
    }
    if (from_leader(g, go) == 0) {
        return false;
    }
    f->read.begun = globaltimer();
    return t.store.begin_read(g, f->page, slot, &f->read);
}

// begin_beside begins to read f's page into a second spare slot, while another page is
// written, and returns that slot, which is the group's to give back; or kNone.
template <class G, class S>
TRITIER_SLOW uint32_t begin_beside(const G& g, const Context<S>& t, Fill* f) {
    uint32_t second = kNone;
    if (g.leads() && f->slot == kNone && f->op != kOverwriteOp) {
        second = pop_spare(t);
    }
    second = from_leader(g, second);
    if (second == kNone || begin_read(g, t, f, second)) {
        return second;
    }
    if (g.leads()) {
        push_spare(t, second);
    }
    return kNone;
}

// swap_spare makes the second slot, that is read into, the spare one of the group, which
// gives back what it had.
template <class G, class S>
TRITIER_DEVICE void swap_spare(const G& g, const Context<S>& t, Fill* f, uint32_t second) {
    if (g.leads()) {
        if (f->spare != kNone) {
            push_slot(t, f->spare);
        }
        end_spare(t);
    }
    f->spare = second;
}

// settle_read waits for the read that was begun, into what is the spare slot now, once, and
// counts it.
template <class G, class S>
TRITIER_SLOW void settle_read(const G& g, const Context<S>& t, Fill* f) {
    Reading* r = &f->read;
    if (r->state == kUnderWay) {
        t.store.end_read(g, r);
    }
    if (r->state != kEnded) {
        return;
    }
    r->state = kSettled;
    if (r->status != kTierOk) {
        tell_event(t, kT3ToT2, r->begun, f->page, r->status);
    } else if (g.leads()) {
        count_move(t, kT3ToT2, r->begun, f->page);
        count(&t.counts()->bytes_t3_read, t.page_bytes());
    }
    if (t.store.lost(r->status)) {
        if (g.leads()) {
            lose_slot(t, f->spare, f->page);
        }
        f->spare = kNone;
    }
}

// read_page has the bytes of f's page, which comes from T3, in the spare slot.
template <class G, class S>
TRITIER_DEVICE uint32_t read_page(const G& g, const Context<S>& t, Fill* f) {
    Reading* r = &f->read;
    if (r->state == kNoRead) {
        r->begun = globaltimer();
        r->status = kept_off(g, t, f->page) ? static_cast<uint32_t>(kFenced) : t.store.read(g, f->page, f->spare);
        r->state = kEnded;
    }
    settle_read(g, t, f);
    return r->status;
}

} // namespace tier
} // namespace tritier
