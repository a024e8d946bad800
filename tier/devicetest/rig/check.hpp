// The invariants of an engine at rest.
#pragma once

#include <numeric>

#include "world.hpp"

namespace rig {

struct Found {
    uint64_t in[8] = {};
    uint64_t dirty = 0;
    uint64_t copies = 0;
};

// check_copies: a copy is that of a clean page in T1 which knows it.
inline uint64_t check_copies(World* w) {
    const uint32_t* owner = reinterpret_cast<const uint32_t*>(w->e.slot_owner);
    const uint32_t* order = reinterpret_cast<const uint32_t*>(w->e.slot_order);
    const uint32_t* copies = reinterpret_cast<const uint32_t*>(w->e.copies);
    uint64_t n = 0;
    for (uint32_t s = 0; s < w->e.slots; s++) {
        if ((owner[s] & (kFreeMark | kCopyMark)) != kCopyMark) {
            continue;
        }
        n++;
        uint32_t page = owner[s] & ~kCopyMark;
        uint64_t e = page < w->e.pages ? w->entry(page) : 0;
        if (state_of(e) != kResidentT1 || (e & kDirty) != 0 || copies == nullptr || copies[location_of(e)] != s || order[s] == 0) {
            w->problems.report("slot %u has a copy of page %u, whose entry is %#llx; order %#x", s, page, (unsigned long long)e, order[s]);
            continue;
        }
        uint64_t bytes = 1ull << w->e.page_shift;
        if (memcmp(reinterpret_cast<void*>(w->e.slot_memory + s * bytes), reinterpret_cast<void*>(w->e.frame_memory + location_of(e) * bytes), bytes) != 0) {
            w->problems.report("slot %u has a copy of page %u that differs", s, page);
        }
    }
    return n;
}

inline Found check_pages(World* w) {
    Found found;
    uint32_t* frame_owner = reinterpret_cast<uint32_t*>(w->e.frame_owner);
    uint32_t* slot_owner = reinterpret_cast<uint32_t*>(w->e.slot_owner);
    uint32_t* order = reinterpret_cast<uint32_t*>(w->e.slot_order);
    for (uint32_t p = 0; p < w->e.pages; p++) {
        uint64_t e = w->entry(p);
        uint32_t s = state_of(e), at = location_of(e);
        found.in[s]++;
        found.dirty += (e & kDirty) != 0;
        if (busy(s) || pins_of(e) != 0 || (e & kFlushing) != 0) {
            w->problems.report("page %u is left in state %u with %u pins, flushing %d", p, s, pins_of(e), (e & kFlushing) != 0);
        }
        if (s == kAbsent && (e & kDirty) != 0) {
            w->problems.report("page %u is dirty but absent: its bytes are lost", p);
        }
        if (s == kResidentT1 && (at >= w->e.frames || frame_owner[at] != p)) {
            w->problems.report("page %u is in frame %u, which is another's", p, at);
        }
        if (s == kResidentT2 && (at >= w->e.slots || slot_owner[at] != p || order[at] == 0)) {
            w->problems.report("page %u is in slot %u, which is another's or in no order", p, at);
        }
    }
    found.copies = check_copies(w);
    return found;
}

// chain counts what is free, and sees to it that nothing is free twice.
inline uint64_t chain(World* w, const char* name, uint64_t head, const uint32_t* owner, uint32_t n) {
    std::vector<bool> seen(n);
    uint64_t free = 0;
    for (uint32_t i = static_cast<uint32_t>(head); i != kChainEnd; i = owner[i] & ~kFreeMark) {
        if (i >= n || seen[i] || (owner[i] & kFreeMark) == 0) {
            w->problems.report("the chain of free %s is broken at %u", name, i);
            return free;
        }
        seen[i] = true;
        free++;
    }
    return free;
}

// check_order: every page of T2 is in the log once.
inline void check_order(World* w, uint64_t in_t2) {
    Hot* h = w->hot();
    uint32_t* order = reinterpret_cast<uint32_t*>(w->e.slot_order);
    uint32_t* log = reinterpret_cast<uint32_t*>(w->e.log);
    uint64_t live = 0;
    for (uint64_t n = h->log_head; n < h->log_tail; n++) {
        uint32_t word = log[n % w->e.log_size], slot = word & kMaxLocation;
        if (word == 0 || slot >= w->e.slots) {
            w->problems.report("entry %llu of the log is %#x", (unsigned long long)n, word);
            return;
        }
        live += order[slot] == order_mark(n);
    }
    if (live != in_t2 || h->t2_used != in_t2 || in_t2 > w->e.t2_frames + h->t2_extra || h->log_gate != 0 || h->spares_taken != 0) {
        w->problems.report("%llu pages in T2, %llu in its order, %u places of %u taken, gate %#x, %u spare slots taken", (unsigned long long)in_t2,
                           (unsigned long long)live, h->t2_used, w->e.t2_frames, h->log_gate, h->spares_taken);
    }
}

inline void check_counts(World* w) {
    Counts* c = w->counts();
    uint64_t slow = w->sum(&Stripe::slow);
    if (slow != c->late_hits + c->t2_hits + c->t3_fetches + c->overwrites + c->errors) {
        w->problems.report("%llu accesses were not hits at once, but late hits %llu, T2 hits %llu, fetches %llu, overwrites %llu, errors %llu",
                           (unsigned long long)slow, (unsigned long long)c->late_hits, (unsigned long long)c->t2_hits,
                           (unsigned long long)c->t3_fetches, (unsigned long long)c->overwrites, (unsigned long long)c->errors);
    }
    if (c->evictions != c->demotions + c->bypasses || c->delayed > c->late_hits || c->prefetch_reads > c->prefetches) {
        w->problems.report("evictions %llu, demotions %llu, bypasses %llu", (unsigned long long)c->evictions,
                           (unsigned long long)c->demotions, (unsigned long long)c->bypasses);
    }
    uint64_t moves = w->mover.pages[kToDevice][kUnanswered] + w->mover.pages[kToHost][kUnanswered];
    uint64_t served = c->t3_fetches + c->prefetch_reads;
    uint64_t in_vain = moves + c->errors + c->prefetch_errors; // read, and lost on its way or without a frame
    uint64_t written = c->bytes_t3_write >> w->e.page_shift, read = c->bytes_t3_read >> w->e.page_shift;
    if (!w->store.filling.empty()) {
        w->problems.report("%zu reads were begun, and nobody has waited for their end", w->store.filling.size());
    }
    if (written != c->writebacks + c->flushed || written != w->store.writes || read != w->store.reads ||
        read < served || read > served + in_vain || c->lost_slots > w->store.lost + moves) {
        w->problems.report("%llu pages written, %llu by the store, %llu written back, %llu flushed; %llu read, %llu by the store",
                           (unsigned long long)written, (unsigned long long)w->store.writes.load(), (unsigned long long)c->writebacks,
                           (unsigned long long)c->flushed, (unsigned long long)read, (unsigned long long)w->store.reads.load());
    }
}

// check_moves: every page that crossed an edge was timed.
inline void check_moves(World* w) {
    const Counts* c = w->counts();
    const uint64_t bytes[kEdges] = {c->bytes_t3_read, c->bytes_t3_write, c->bytes_demoted, c->bytes_promoted};
    for (uint32_t edge = 0; edge < kEdges; edge++) {
        uint64_t n = 0;
        for (uint32_t s = 0; s < kMoveStripes; s++) {
            const Moves* m = reinterpret_cast<const Moves*>(w->e.moves) + s;
            n = std::accumulate(m->pages[edge], m->pages[edge] + kBuckets, n);
        }
        if (n != bytes[edge] >> w->e.page_shift) {
            w->problems.report("%llu pages have crossed edge %u, and %llu were timed", (unsigned long long)(bytes[edge] >> w->e.page_shift), edge, (unsigned long long)n);
        }
    }
}

// check_fences: a page with a fence has it from one slot, which is put aside, and is
// dirty in T1 or T2.
inline void check_fences(World* w) {
    const uint64_t* fences = reinterpret_cast<const uint64_t*>(w->e.fences);
    const uint32_t* fenced = reinterpret_cast<const uint32_t*>(w->e.fenced);
    const uint32_t* owner = reinterpret_cast<const uint32_t*>(w->e.slot_owner);
    std::vector<uint32_t> found(w->e.pages);
    for (uint32_t s = 0; s < w->e.slots; s++) {
        if (fences[s] == 0) {
            continue;
        }
        found[static_cast<uint32_t>(fences[s]) - 1]++;
        if ((owner[s] & kFreeMark) == 0) {
            w->problems.report("slot %u has the fence %#llx and is in use", s, (unsigned long long)fences[s]);
        }
    }
    for (uint32_t p = 0; p < w->e.pages; p++) {
        bool bit = (fenced[p / 32] >> p % 32 & 1) != 0;
        uint64_t e = w->entry(p);
        if (found[p] != (bit ? 1 : 0) || (bit && (state_of(e) == kAbsent || (e & kDirty) == 0))) {
            w->problems.report("page %u, whose entry is %#llx, has a fence: %d, in %u slots", p, (unsigned long long)e, bit, found[p]);
        }
    }
}

// check proves the whole engine's invariants; nobody may be at work.
inline Found check(World* w) {
    Hot* h = w->hot();
    Found found = check_pages(w);
    uint64_t frames = chain(w, "frames", h->free_frames, reinterpret_cast<uint32_t*>(w->e.frame_owner), w->e.frames);
    uint64_t slots = 0;
    for (const SlotStack& s : h->free_slots) {
        slots += chain(w, "slots", s.head, reinterpret_cast<uint32_t*>(w->e.slot_owner), w->e.slots);
    }
    frames += chain(w, "lost frames", h->lost_frames, reinterpret_cast<uint32_t*>(w->e.frame_owner), w->e.frames);
    if (found.in[kResidentT1] + frames != h->used_frames) {
        w->problems.report("%llu pages in T1 and %llu free frames of %u used", (unsigned long long)found.in[kResidentT1],
                           (unsigned long long)frames, h->used_frames);
    }
    uint64_t lost = chain(w, "lost slots", h->lost_slots, reinterpret_cast<uint32_t*>(w->e.slot_owner), w->e.slots);
    if (lost + w->counts()->retaken_slots != w->counts()->lost_slots) {
        w->problems.report("%llu slots were lost, %llu taken back, %llu are put aside", (unsigned long long)w->counts()->lost_slots,
                           (unsigned long long)w->counts()->retaken_slots, (unsigned long long)lost);
    }
    if (found.in[kResidentT2] + found.copies + slots + lost != w->e.slots) {
        w->problems.report("%llu pages and %llu copies in T2, %llu free slots and %llu lost of %u", (unsigned long long)found.in[kResidentT2], (unsigned long long)found.copies,
                           (unsigned long long)slots, (unsigned long long)lost, w->e.slots);
    }
    if (h->starved != 0 || h->params_lock != 0) {
        w->problems.report("starved %u, lock %u", h->starved, h->params_lock);
    }
    check_order(w, found.in[kResidentT2] + found.copies);
    check_counts(w);
    check_fences(w);
    check_moves(w);
    return found;
}

}  // namespace rig
