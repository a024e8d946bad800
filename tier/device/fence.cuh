// Fences: pages with a write whose outcome nobody knows.
//
// A write that nobody waited for any more may still be carried out. Were the page
// written again, the old bytes could come after the new ones; were it read, either
// could be found. So it is neither written nor read until the queue of that write has
// ended all commands that somebody gave up on. Until then it stays dirty where it is:
// in T1 or T2.
//
// The write's slot has the fence: page and queue, in fences[slot]. A bit for each page,
// in fenced, says whether there is one, so that nobody searches for a fence in vain.
//
//   - Who raises a fence owns the page and the slot (save), and does so before it lets
//     either go.
//   - Whoever takes the fence's word away by compare-and-swap clears the bit, and
//     owns the page (lift) or the slot (retake_slot) meanwhile: the same page cannot get
//     the same fence again between its look at the queue and the swap.
#pragma once

#include "context.cuh"

namespace tritier {
namespace tier {

template <class S>
TRITIER_DEVICE uint64_t* fence_at(const Context<S>& t, uint32_t slot) {
    return reinterpret_cast<uint64_t*>(fixed(&t.e->fences)) + slot;
}

template <class S>
TRITIER_DEVICE uint32_t* fenced_word(const Context<S>& t, uint32_t page) {
    return reinterpret_cast<uint32_t*>(fixed(&t.e->fenced)) + page / 32;
}

template <class S>
TRITIER_DEVICE bool has_fence(const Context<S>& t, uint32_t page) {
    return (load_acquire_gpu(fenced_word(t, page)) >> page % 32 & 1) != 0;
}

// fence_word is what fences holds: never 0.
TRITIER_DEVICE uint64_t fence_word(uint32_t queue, uint32_t page) { return static_cast<uint64_t>(queue) << 32 | (page + 1); }

// raise_fence is called by one lane of the group whose write of page from slot was lost.
template <class S>
TRITIER_DEVICE void raise_fence(const Context<S>& t, uint32_t page, uint32_t slot) {
    store_release_gpu(fence_at(t, slot), fence_word(t.store.held_by(page), page));
    atomic_or_release_gpu(fenced_word(t, page), 1u << page % 32);
}

// end_fence takes slot's fence word away, if it still is word.
template <class S>
TRITIER_DEVICE void end_fence(const Context<S>& t, uint32_t slot, uint64_t word) {
    uint32_t page = static_cast<uint32_t>(word) - 1;
    if (word != 0 && atomic_cas_acq_rel_gpu(fence_at(t, slot), word, 0) == word) {
        atomic_and_release_gpu(fenced_word(t, page), ~(1u << page % 32));
    }
}

// find_fence is the slot whose fence keeps the page, or kNone; *word is the fence.
template <class G, class S>
TRITIER_DEVICE uint32_t find_fence(const G& g, const Context<S>& t, uint32_t page, uint64_t* word) {
    for (uint32_t first = 0; first < fixed(&t.e->slots); first += g.size()) {
        uint32_t s = first + g.rank();
        *word = s < fixed(&t.e->slots) ? load_acquire_gpu(fence_at(t, s)) : 0;
        uint32_t found = g.ballot(static_cast<uint32_t>(*word) == page + 1);
        if (found != 0) {
            *word = g.from(*word, lowest_bit(found));
            return g.from(s, lowest_bit(found));
        }
    }
    return kNone;
}

// lift tries to end the fence of a page that the group owns. True: there is none now.
template <class G, class S>
TRITIER_SLOW bool lift(G g, Context<S> t, uint32_t page) {
    uint64_t word = 0;
    uint32_t slot = find_fence(g, t, page, &word), open = 0;
    if (g.leads()) {
        bool over = slot == kNone || t.store.settled(static_cast<uint32_t>(word >> 32));
        if (over && slot != kNone) {
            end_fence(t, slot, word);
        }
        // Another may have taken the word, and be about to clear the bit.
        for (Wait wait = Wait::start(); over && open == 0 && wait.over(t.e) == kTierOk;) {
            open = has_fence(t, page) ? 0 : 1;
        }
    }
    return from_leader(g, open) != 0;
}

// kept_off says whether a page that the group owns must not be written or read now.
template <class G, class S>
TRITIER_DEVICE bool kept_off(const G& g, const Context<S>& t, uint32_t page) {
    uint32_t fence = 0;
    if (g.leads()) {
        fence = has_fence(t, page) ? 1 : 0;
    }
    return from_leader(g, fence) != 0 && !lift(g, t, page);
}

} // namespace tier
} // namespace tritier
