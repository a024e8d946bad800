// A page's entry: one 64-bit word, and every change to it one atomic operation.
//
//   bits  0..2   state: tier.State's numbers
//   bit   3      dirty: T1 or T2 holds bytes that T3 lacks
//   bit   4      ref: clock's reference bit
//   bit   5      sampled: accesses to this page are told of, to the placer or the recorder
//   bit   6      flushing: one group is writing the page back while it stays in T1
//   bits  7..18  generation, +1 whenever the page leaves a frame or a fill fails
//   bits 19..44  location: frame (T1) or slot (T2); of an absent page the status
//                that its last fill failed with, 0 if it did not
//   bits 45..63  pins: more than a GPU has threads
//
// Who may change what:
//
//   - Anybody adds and takes away pins. A pin counts only if the state was
//     ResidentT1 at that moment; else it is taken away again at once.
//   - In the busy states (Filling, Demoting, WritingBack) all but the pins
//     belong to the group that began the state, by a compare-and-swap. It ends
//     the state by adding the difference between two words (publish), which
//     leaves the pins that come and go meanwhile alone.
//   - In ResidentT1, dirty and flushing change only while the page is pinned by
//     whoever changes them.
//   - ref is a hint. T1's hand clears it and readers without a pin set it at any
//     time, also when the page has gone meanwhile: no decision about another
//     state looks at it, and it is cleared by the next change of state.
#pragma once

#include "engine.cuh"

namespace tritier {
namespace tier {

enum : uint32_t { kAbsent = 0, kFilling = 1, kResidentT1 = 2, kDemoting = 3, kResidentT2 = 4, kWritingBack = 5 };

constexpr uint64_t kStateMask = 7;
constexpr uint64_t kDirty = 1 << 3;
constexpr uint64_t kRef = 1 << 4;
constexpr uint64_t kSampled = 1 << 5;
constexpr uint64_t kFlushing = 1 << 6;
constexpr uint32_t kGenerationShift = 7;
constexpr uint64_t kGenerationMask = 0xfffull << kGenerationShift;
constexpr uint32_t kLocationShift = 19;
constexpr uint64_t kLocationMask = 0x3ffffffull << kLocationShift;
constexpr uint32_t kPinShift = 45;
constexpr uint64_t kPin = 1ull << kPinShift;
constexpr uint64_t kPinMask = ~(kPin - 1);
constexpr uint32_t kPinLimit = 1u << 18; // half of what fits: the rest is for pins that are about to be taken away

TRITIER_DEVICE uint32_t state_of(uint64_t e) { return static_cast<uint32_t>(e & kStateMask); }
TRITIER_DEVICE uint32_t location_of(uint64_t e) { return static_cast<uint32_t>((e & kLocationMask) >> kLocationShift); }
TRITIER_DEVICE uint32_t generation_of(uint64_t e) { return static_cast<uint32_t>((e & kGenerationMask) >> kGenerationShift); }
TRITIER_DEVICE uint32_t pins_of(uint64_t e) { return static_cast<uint32_t>(e >> kPinShift); }
TRITIER_DEVICE bool busy(uint32_t state) { return state == kFilling || state == kDemoting || state == kWritingBack; }

// at_rest is the state and place of e changed, flags kept but ref and flushing.
TRITIER_DEVICE uint64_t moved(uint64_t e, uint32_t state, uint32_t location) {
    e &= ~(kPinMask | kStateMask | kLocationMask | kRef | kFlushing);
    return e | state | static_cast<uint64_t>(location) << kLocationShift;
}

// left is e in the next generation.
TRITIER_DEVICE uint64_t left(uint64_t e) {
    return (e & ~kGenerationMask) | ((e + (1ull << kGenerationShift)) & kGenerationMask);
}

// same_place says whether the page has not moved between two looks.
TRITIER_DEVICE bool same_place(uint64_t a, uint64_t b) {
    return ((a ^ b) & (kStateMask | kGenerationMask | kLocationMask)) == 0;
}

// claim takes the page from e, which has no pins, into a busy state, if its
// entry is still e: the one decision between a pin and an eviction. A claim tells
// others nothing but itself: it need not wait for the group's writes.
TRITIER_DEVICE bool claim(uint64_t* entry, uint64_t e, uint64_t busy_word) {
    return atomic_cas_acquire_gpu(entry, e, busy_word) == e;
}

// publish ends or changes the busy state that the caller's group owns: from and
// to are the words without pins. What the group did before is seen by whoever
// finds the new word.
TRITIER_DEVICE void publish(uint64_t* entry, uint64_t from, uint64_t to) {
    atomic_add_release_gpu(entry, to - from);
}

// try_pin pins a page that is in T1. True: *e is its entry from before, and the
// page stays in its frame until unpin. False: *e says what it is instead.
TRITIER_DEVICE bool try_pin(uint64_t* entry, uint64_t* e) {
    *e = atomic_add_acquire_gpu(entry, kPin);
    if (state_of(*e) == kResidentT1 && pins_of(*e) < kPinLimit) {
        return true;
    }
    atomic_add_relaxed_gpu(entry, 0 - kPin);
    return false;
}

// unpin lets the page go, after what the group did to it. After a write, dirty
// is set once more: a flush may have cleared it before the last bytes came.
TRITIER_DEVICE void unpin(uint64_t* entry, bool wrote) {
    if (wrote) {
        atomic_or_release_gpu(entry, kDirty);
        atomic_add_relaxed_gpu(entry, 0 - kPin); // of the same word: not before the other
        return;
    }
    atomic_add_release_gpu(entry, 0 - kPin);
}

} // namespace tier
} // namespace tritier
