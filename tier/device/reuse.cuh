// Placers: the fate of T1's victims. gmt-reuse is placement.GMTReuse, whose
// comments say why; its fits are made by the CPU from samples sent here.
#pragma once

#include "context.cuh"
#include "hash.cuh"

namespace tritier {
namespace tier {

enum : uint32_t { kKeep = 0, kToT2 = 1, kToT3 = 2 };
enum : uint32_t { kShort = 0, kMedium = 1, kLong = 2, kUnknown = 3 };

constexpr uint64_t kCountsMask = (1ull << 54) - 1;
constexpr uint64_t kHalfMask = kCountsMask / 63 * 31;
constexpr uint64_t kAway = 1ull << 58;
constexpr uint64_t kKept = 1ull << 59;

TRITIER_DEVICE uint32_t last_class(uint64_t h) { return 3 - static_cast<uint32_t>(h >> 54 & 3); }
TRITIER_DEVICE uint32_t next_class(uint64_t h) { return 3 - static_cast<uint32_t>(h >> 56 & 3); }

// successor is the most frequent successor of class c.
TRITIER_DEVICE uint32_t successor(uint64_t h, uint32_t c) {
    uint64_t row = h >> (18 * c);
    uint64_t s = (row & 63) << 4 | (c == kShort ? 3 : 2) << 2 | kShort;
    uint64_t m = (row >> 6 & 63) << 4 | (c == kMedium ? 3 : 1) << 2 | kMedium;
    uint64_t l = (row >> 12 & 63) << 4 | (c == kLong ? 3 : 0) << 2 | kLong;
    uint64_t best = s > m ? s : m;
    best = best > l ? best : l;
    return static_cast<uint32_t>(best & 3);
}

// judge notes that the page's last eviction was of class c and predicts.
TRITIER_DEVICE uint64_t judge(uint64_t h, uint32_t c) {
    uint32_t last = last_class(h);
    if (last != kUnknown) {
        uint32_t shift = 18 * last + 6 * c;
        if ((h >> shift & 63) == 63) {
            h = (h & ~kCountsMask) | (h >> 1 & kHalfMask);
        }
        h += 1ull << shift;
    }
    h &= kCountsMask | kAway | kKept;
    return h | static_cast<uint64_t>(kUnknown - c) << 54 | static_cast<uint64_t>(kUnknown - successor(h, c)) << 56;
}

// params_of is the parameters in force.
template <class S>
TRITIER_DEVICE ReuseParams* params_of(const Context<S>& t) {
    uint64_t v = load_acquire_gpu(&t.hot()->params_version);
    return reinterpret_cast<ReuseState*>(fixed(&t.e->reuse_state))->params + (v & 1);
}

template <class S>
TRITIER_DEVICE ReusePage* reuse_of(const Context<S>& t, uint32_t page) {
    return reinterpret_cast<ReusePage*>(fixed(&t.e->reuse)) + page;
}

// reuse_miss judges the page's last eviction, once. The caller owns the page.
template <class S>
TRITIER_DEVICE void reuse_miss(const Context<S>& t, uint32_t page, uint64_t now) {
    ReusePage* r = reuse_of(t, page);
    ReuseParams* p = params_of(t);
    // A warp that took its time before it waited for another's eviction may have an older one
    // than that: the page was away for no time, not for 2^64.
    uint64_t h = r->history, away = now > r->evicted_at ? now - r->evicted_at : 0;
    if ((h & kAway) != 0) {
        bool direct = away < load_relaxed_gpu(&p->direct);
        uint64_t below = load_relaxed_gpu(direct ? &p->t1 : &p->short_below);
        uint64_t medium = load_relaxed_gpu(direct ? &p->t1_t2 : &p->medium_below);
        uint32_t right = (away >= below ? 1 : 0) + (away >= medium ? 1 : 0);
        count(&t.counts()->judged[next_class(h)][right]);
        h = judge(h, right);
    }
    r->history = h & ~(kAway | kKept);
}

// starve_grant notes an eviction and says whether it goes to T2 though bound
// for T3: while more than a share of the last ones were, every second does.
template <class S>
TRITIER_DEVICE bool starve_grant(const Context<S>& t, const ReuseParams* p, bool t3) {
    Hot* h = t.hot();
    uint32_t window = load_relaxed_gpu(&p->window);
    bool full = load_relaxed_gpu(&h->starve_at) >= window;
    bool grant = t3 && full && load_relaxed_gpu(&h->starve_t3) > load_relaxed_gpu(&p->starve_above) &&
                 (atomic_add_relaxed_gpu(&h->starve_second, 1) & 1) != 0;
    uint32_t at = static_cast<uint32_t>(atomic_add_relaxed_gpu(&h->starve_at, 1) % window);
    uint32_t* word = reinterpret_cast<uint32_t*>(fixed(&t.e->starve_bits)) + at / 32;
    uint32_t bit = 1u << at % 32;
    uint32_t old = t3 ? atomic_or_relaxed_gpu(word, bit) : atomic_and_relaxed_gpu(word, ~bit);
    uint32_t change = (t3 ? 1u : 0u) - ((old & bit) != 0 ? 1u : 0u);
    if (change != 0) {
        atomic_add_relaxed_gpu(&h->starve_t3, change);
    }
    return grant;
}

// reuse_fate places a victim by its predicted class. The caller owns the page.
template <class S>
TRITIER_DEVICE uint32_t reuse_fate(const Context<S>& t, uint32_t page, bool dirty, uint64_t now, bool again) {
    ReusePage* r = reuse_of(t, page);
    ReuseParams* p = params_of(t);
    uint64_t h = r->history;
    uint32_t next = next_class(h);
    if (next == kShort && !again && (h & kKept) == 0) {
        r->history = h | kKept;
        return kKeep;
    }
    count(&t.counts()->predicted[next]);
    uint32_t to = next <= kMedium ? kToT2 : kToT3;
    if (next == kUnknown && (dirty || draw(load_relaxed_gpu(&p->seed), now, page) < load_relaxed_gpu(&p->first_below))) {
        to = kToT2;
    }
    if (starve_grant(t, p, to == kToT3)) {
        count(&t.counts()->granted);
        to = kToT2;
    }
    r->evicted_at = now;
    r->history = (h & ~kKept) | kAway;
    return to;
}

// fate_of is where a victim goes; the caller owns the page.
template <class S>
TRITIER_DEVICE uint32_t fate_of(const Context<S>& t, uint32_t page, bool dirty, uint64_t now, bool again) {
    switch (fixed(&t.e->placer)) {
    case kTierOrder: return kToT2;
    case kRandom: return draw(fixed(&t.e->seed), now, page) < fixed(&t.e->random_below) ? kToT2 : kToT3;
    case kGmtReuse: return reuse_fate(t, page, dirty, now, again);
    default: return kToT3;
    }
}

// refresh_params takes over what the CPU has published.
template <class S>
TRITIER_DEVICE void refresh_params(const Context<S>& t) {
    Hot* h = t.hot();
    Mailbox* m = reinterpret_cast<Mailbox*>(fixed(&t.e->mailbox));
    uint64_t v = load_acquire_sys(&m->version);
    if (v == load_relaxed_gpu(&h->params_version) || atomic_cas_acquire_gpu(&h->params_lock, 0, 1) != 0) {
        return;
    }
    constexpr uint32_t words = sizeof(ReuseParams) / 8;
    for (uint32_t attempt = 0; attempt < 8 && v != load_relaxed_gpu(&h->params_version); attempt++) {
        const uint64_t* from = reinterpret_cast<const uint64_t*>(&m->params[v & 1]);
        uint64_t* to = reinterpret_cast<uint64_t*>(reinterpret_cast<ReuseState*>(fixed(&t.e->reuse_state))->params + (v & 1));
        for (uint32_t i = 0; i < words; i++) {
            store_relaxed_gpu(to + i, load_acquire_sys(from + i));
        }
        uint64_t after = load_acquire_sys(&m->version);
        if (after == v) {
            store_release_gpu(&h->params_version, v);
            break;
        }
        v = after; // the CPU may have begun to write what was read
    }
    store_release_gpu(&h->params_lock, 0);
}

// sample_room says whether sample n has a place in the ring; parity waits for
// one.
template <class S>
TRITIER_DEVICE bool sample_room(const Context<S>& t, uint64_t n) {
    Hot* h = t.hot();
    Mailbox* m = reinterpret_cast<Mailbox*>(fixed(&t.e->mailbox));
    Wait wait = Wait::start();
    while (n - load_relaxed_gpu(&h->sample_taken) >= fixed(&t.e->sample_count)) {
        store_relaxed_gpu(&h->sample_taken, load_acquire_sys(&m->taken));
        if (n - load_relaxed_gpu(&h->sample_taken) < fixed(&t.e->sample_count)) {
            break;
        }
        if (fixed(&t.e->parity) == 0 || wait.over(t.e) != kTierOk) {
            return false;
        }
        relax();
    }
    return true;
}

// await_cpu waits until the CPU has taken sample n, and takes over what it made
// of it.
template <class S>
TRITIER_DEVICE void await_cpu(const Context<S>& t, uint64_t n, uint32_t page) {
    Hot* h = t.hot();
    Mailbox* m = reinterpret_cast<Mailbox*>(fixed(&t.e->mailbox));
    if (n + 1 < load_relaxed_gpu(&h->sample_gate)) {
        return;
    }
    Wait wait = Wait::start();
    while (load_acquire_sys(&m->taken) < n + 1) {
        uint32_t why = wait.over(t.e);
        if (why != kTierOk) {
            note_error(t, page, why);
            return;
        }
        relax();
    }
    store_relaxed_gpu(&h->sample_gate, load_acquire_sys(&m->gate));
    refresh_params(t);
}

// How many samples come between two looks for new parameters: the host's word is far away,
// but a fit that comes a thousand accesses late places as many pages by the old one.
constexpr uint64_t kSamplesALook = 8;

// observe sends an access to a sampled page to the CPU; one lane calls it.
template <class S>
TRITIER_SLOW void observe(Context<S> t, uint32_t page, uint64_t now) {
    Hot* h = t.hot();
    uint64_t n = load_relaxed_gpu(&h->sample_tail), seen = n;
    do {
        n = seen;
        if (!sample_room(t, n)) {
            count(&t.counts()->dropped_samples);
            return;
        }
        seen = atomic_cas_relaxed_gpu(&h->sample_tail, n, n + 1);
    } while (seen != n);
    Sample* s = reinterpret_cast<Sample*>(fixed(&t.e->samples)) + (n & (fixed(&t.e->sample_count) - 1));
    store_relaxed_sys(&s->now, now);
    store_relaxed_sys(&s->page, page);
    store_release_sys(&s->mark, static_cast<uint32_t>(n) + 1);
    if (fixed(&t.e->parity) != 0) {
        await_cpu(t, n, page);
    } else if (n % kSamplesALook == 0) {
        refresh_params(t);
    }
}

} // namespace tier
} // namespace tritier
