// Write-backs: pages that leave for T3, from a slot, and T1's victims that skip T2.
#pragma once

#include "reading.cuh"

namespace tritier {
namespace tier {

// put_back ends a claim of T1's victim: it stays.
template <class G, class S>
TRITIER_DEVICE void put_back(const G& g, const Context<S>& t, const Victim& v, uint32_t state) {
    g.sync();
    if (g.leads()) {
        publish(t.entries + v.page, moved(v.word, state, v.frame), v.word);
    }
}

// save writes a page from a slot to T3. The group owns both; a page that has a fence is
// not written, and one whose write is lost gets one. read: what the group reads meanwhile.
template <class G, class S>
TRITIER_DEVICE uint32_t save(const G& g, const Context<S>& t, uint32_t page, uint32_t slot, Reading* read = nullptr) {
    if (kept_off(g, t, page)) {
        return kFenced;
    }
    uint64_t begun = globaltimer();
    uint32_t status = t.store.write(g, page, slot, read);
    if (g.leads() && status == kTierOk) {
        count_move(t, kT2ToT3, begun, page);
        count(&t.counts()->bytes_t3_write, t.page_bytes());
    } else if (g.leads() && t.store.lost(status)) {
        raise_fence(t, page, slot);
    }
    if (status != kTierOk) {
        tell_event(t, kT2ToT3, begun, page, status);
    }
    return status;
}

// write_victim writes T1's victim to T3, through the spare slot.
template <class G, class S>
TRITIER_SLOW uint32_t write_victim(const G& g, const Context<S>& t, Fill* f, const Victim& v) {
    uint32_t second = begin_beside(g, t, f), status = move_page(g, t, kToHost, v.frame, f->spare);
    if (status != kTierOk) {
        f->spare = kNone;
    } else {
        status = save(g, t, v.page, f->spare, &f->read);
    }
    if (f->spare != kNone && t.store.lost(status)) {
        if (g.leads()) {
            lose_slot(t, f->spare, v.page);
        }
        f->spare = kNone;
    }
    if (second != kNone) {
        swap_spare(g, t, f, second);
    }
    return status;
}

// bypass_t2 lets T1's victim skip T2: written back if dirty, and forgotten.
template <class G, class S>
TRITIER_SLOW uint32_t bypass_t2(const G& g, const Context<S>& t, Fill* f, const Victim& v) {
    uint64_t* entry = t.entries + v.page;
    bool dirty = (v.word & kDirty) != 0;
    uint64_t word = moved(v.word, kDemoting, v.frame);
    if (dirty) {
        if (g.leads()) {
            publish(entry, word, moved(v.word, kWritingBack, v.frame));
        }
        word = moved(v.word, kWritingBack, v.frame);
        uint32_t status = write_victim(g, t, f, v);
        if (status != kTierOk) {
            f->at = v.page;
            put_back(g, t, v, kWritingBack);
            return kWriteBack | status;
        }
    }
    if (g.leads()) {
        Counts* c = t.counts();
        count(&c->evictions);
        count(&c->bypasses);
        if (dirty) {
            count(&c->writebacks);
        }
        publish(entry, word, left(moved(v.word & ~kDirty, kAbsent, 0)));
    }
    return kTierOk;
}

} // namespace tier
} // namespace tritier
