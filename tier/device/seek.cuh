// Seek: one lane looks for a page until it is pinned, or its group's to bring, or
// there is a reason to give up. It holds nothing while it waits, but pins that
// its cursors have.
#pragma once

#include "order.cuh"

namespace tritier {
namespace tier {

enum : uint32_t { kGoOn = 0, kHit = 1, kClaimed = 2, kFailed = 3 };

// Seek is what the leader knows of a page that it looks for.
struct Seek {
    Wait wait;
    uint64_t word; // the page's entry as last seen
    uint32_t spare;
    uint32_t status;
    uint32_t filling; // 1: it was seen on its way to T1, in this generation:
    uint32_t generation;
};

// touch tells T1's order of a hit.
template <class S>
TRITIER_DEVICE void touch(const Context<S>& t, uint64_t* entry, uint64_t e) {
    if ((e & kRef) == 0 && fixed(&t.e->t1_policy) == kT1Clock) {
        atomic_or_relaxed_gpu(entry, kRef);
    }
}

// failed_fill is the status that the fill which k waited for ended with, or
// kTierOk: it has not ended, or not so.
TRITIER_DEVICE uint32_t failed_fill(const Seek& k, uint64_t e) {
    bool next = ((generation_of(e) - k.generation) & 0xfff) == 1;
    return k.filling != 0 && state_of(e) == kAbsent && next ? location_of(e) : static_cast<uint32_t>(kTierOk);
}

// seek_claim tries to become the one who brings the page. A spare slot comes
// first: who has the page must not wait for one.
template <class S>
TRITIER_DEVICE uint32_t seek_claim(const Context<S>& t, uint64_t* entry, Seek* k) {
    if (k->spare == kNone) {
        k->spare = pop_spare(t);
        if (k->spare == kNone) {
            k->status = k->wait.over(t.e);
            k->status = k->status == kWaitTimeout ? static_cast<uint32_t>(kNoSlot) : k->status;
            k->wait.rest();
            return k->status == kTierOk ? kGoOn : kFailed;
        }
    }
    if (!claim_place(entry, &k->word, moved(k->word, kFilling, location_of(k->word)))) {
        return kGoOn;
    }
    k->word &= ~kPinMask;
    return kClaimed;
}

// seek_wait lets whoever moves the page go on.
template <class S>
TRITIER_DEVICE uint32_t seek_wait(const Context<S>& t, Seek* k) {
    if (k->spare != kNone) {
        push_spare(t, k->spare); // no slot is held while waiting
        k->spare = kNone;
    }
    if (state_of(k->word) == kFilling) {
        k->filling = 1;
        k->generation = generation_of(k->word);
    }
    k->status = k->wait.over(t.e);
    relax();
    return k->status == kTierOk ? kGoOn : kFailed;
}

// seek is the leader's part until the page is pinned, or its own to bring, or
// an error.
template <class S>
TRITIER_DEVICE uint32_t seek(const Context<S>& t, uint32_t page, uint32_t op, Seek* k) {
    uint64_t* entry = t.entries + page;
    for (;;) {
        uint32_t got = kGoOn;
        k->word = load_acquire_gpu(entry);
        uint32_t state = state_of(k->word);
        k->status = failed_fill(*k, k->word);
        if (k->status != kTierOk) {
            got = kFailed;
        } else if (state == kResidentT1) {
            if (op == kPrefetchOp) {
                got = kHit;
            } else if (try_pin(entry, &k->word)) {
                touch(t, entry, k->word);
                got = kHit;
            } else if (pins_of(k->word) >= kPinLimit && state_of(k->word) == kResidentT1) {
                k->status = kTooManyPins;
                got = kFailed;
            }
        } else if (busy(state)) {
            got = op == kPrefetchOp && state == kFilling ? static_cast<uint32_t>(kHit) : seek_wait(t, k);
        } else {
            got = seek_claim(t, entry, k);
        }
        if (got == kGoOn) {
            continue;
        }
        if (got != kClaimed && k->spare != kNone) {
            push_spare(t, k->spare);
            k->spare = kNone;
        }
        return got;
    }
}

} // namespace tier
} // namespace tritier
