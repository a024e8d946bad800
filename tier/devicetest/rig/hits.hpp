// Hits: the code of a kernel's a[i] and load_each by groups of lanes, element by element,
// with pages that are no plain hits among them, and the count of hits.
#pragma once

#include "situation.hpp"

namespace rig {

struct alignas(16) Quad {
    uint64_t low, high;
};

// Two engines whose lanes are one group.
struct HitWorlds {
    enum : uint32_t { kPages = 8, kUnloved = 3, kSampledPage = 4, kAbsentPage = 5 };

    explicit HitWorlds(uint32_t t1) : one(config(t1)), other(config(t1)) {
        for (World* w : {&one, &other}) {
            Random r{mix(t1 + 7)};
            for (uint8_t& b : w->store.bytes) {
                b = static_cast<uint8_t>(r.next());
            }
            array_ref<uint64_t, MemoryStore> a = w->array<uint64_t>();
            for (uint64_t i = 0; i < 2 * a.length; i++) {
                uint32_t status;
                if (a.page_of(i % a.length) != kAbsentPage) {
                    a.load(Solo{}, w->context(0), i % a.length, true, &status);
                }
            }
            atomic_and_relaxed_gpu(reinterpret_cast<uint64_t*>(w->e.entries) + kUnloved, ~kRef);
            atomic_or_relaxed_gpu(reinterpret_cast<uint64_t*>(w->e.entries) + kSampledPage, kSampled);
        }
    }
    static Config config(uint32_t t1) {
        Config c = small_config();
        c.deadline_ms = c.pin_deadline_ms = 60000;
        c.pages = c.frames = kPages;
        c.page_shift = 6;
        c.t1 = t1;
        return c;
    }
    // serves says whether a page is a plain hit.
    bool serves(uint64_t page) const {
        return page < kPages && page != kAbsentPage && page != kSampledPage && (page != kUnloved || one.c.t1 != kT1Clock);
    }
    World one, other;
};

// HitLane reads as one lane of a group. Every lane knows what all of them read.
template <class T, class G>
struct HitLane {
    HitLane(HitWorlds* worlds, const G& group, uint64_t s) : h(worlds), g(group), seed(s), a(worlds->one.array<T>()) { a.length -= 3; }

    // index is what a lane reads as the k-th element of a round, or'ed is where.
    uint64_t index(uint32_t round, uint32_t k, uint32_t lane) const {
        uint64_t common = mix(seed + round * 8 + k), own = mix(common + lane + 1), each = (1u << a.page_shift) / sizeof(T);
        switch (round % 6) {
        case 0: return common % a.length / each * each + own % each; // in one page, beyond the end in the last
        case 1: return own % (a.length + 1);
        case 2: return (common % 2 + 2 * (own % 2)) * each + lane % each; // in two pages that are there
        case 3: return lane % 5 == 4 ? ~own : common % (3 * each);
        case 4: return lane == common % 32 ? own % a.length : lane % each;
        default: return (common + lane) % (3 * each); // where neighbours are
        }
    }
    bool apart(uint32_t round) const { return round % 11 == 10; } // lanes of two engines

    // expected says whether all lanes find element k, and in how many pages.
    bool expected(uint32_t round, uint32_t k, uint32_t* pages) const {
        uint32_t seen = 0;
        bool found = !apart(round) || g.size() < 2;
        for (uint32_t lane = 0; lane < g.size(); lane++) {
            uint64_t i = index(round, k, lane);
            found = found && i < a.length && h->serves(a.page_of(i));
            seen |= i < a.length ? 1u << a.page_of(i) : 0;
        }
        *pages = count_bits(seen);
        return found;
    }
    void right(const char* what, bool found, bool want, uint64_t i, const T& v) {
        if (found != want) {
            h->one.problems.report("%s: element %llu of %zu bytes, lane %u of %u: found %d, want %d", what, (unsigned long long)i, sizeof(T), g.lane(), g.size(), found, want);
        } else if (found && memcmp(&v, h->one.store.bytes.data() + i * sizeof(T), sizeof(T)) != 0) {
            h->one.problems.report("%s: element %llu of %zu bytes, lane %u: another value", what, (unsigned long long)i, sizeof(T), g.lane());
        }
    }

    // run returns how many hits there were.
    uint64_t run(uint32_t rounds) {
        uint64_t hits = 0;
        for (uint32_t round = 0; round < rounds; round++) {
            ArrayRef mine = a;
            if (apart(round) && g.lane() % 2 == 1) {
                mine.entries = h->other.e.entries;
                mine.frame_memory = h->other.e.frame_memory;
            }
            uint64_t i[3];
            T v[3];
            uint32_t pages, want = 0;
            for (uint32_t k = 0; k < 3; k++) {
                i[k] = index(round, k, g.lane());
                bool found = expected(round, k, &pages);
                want |= (found ? 1u : 0u) << k;
                hits += found ? pages : 0;
                hits += found && k == 0 ? pages : 0;
            }
            right("a[i]", load_hit(g, mine, i[0], &v[0]), (want & 1) != 0, i[0], v[0]);
            uint32_t got = load_hits(g, mine, i, v);
            for (uint32_t k = 0; k < 3; k++) {
                right("load_each", (got >> k & 1) != 0, (want >> k & 1) != 0, i[k], v[k]);
            }
        }
        return hits;
    }

    HitWorlds* h;
    G g;
    uint64_t seed;
    array_ref<T, MemoryStore> a;
};

template <class T>
uint32_t hits_of(HitWorlds* h, uint32_t lanes, uint64_t seed) {
    uint32_t rounds = lanes == 1 ? 2000 : 66; // threads for lanes take their time
    uint64_t before = h->one.sum(&Stripe::hits) + h->other.sum(&Stripe::hits), want = 0;
    if (lanes == 1) {
        want = HitLane<T, Solo>(h, Solo{}, seed).run(rounds);
    } else {
        Crew crew(lanes);
        std::vector<std::thread> threads;
        for (uint32_t lane = 0; lane < lanes; lane++) {
            threads.emplace_back([=, &crew, &want] {
                uint64_t n = HitLane<T, ThreadLanes>(h, ThreadLanes(&crew, lane), seed).run(rounds);
                if (lane == 0) {
                    want = n;
                }
            });
        }
        for (std::thread& t : threads) {
            t.join();
        }
    }
    uint64_t got = h->one.sum(&Stripe::hits) + h->other.sum(&Stripe::hits) - before;
    if (got != want || want < rounds / 4) {
        h->one.problems.report("hits of %zu bytes by %u lanes: %llu are counted, there were %llu", sizeof(T), lanes, (unsigned long long)got, (unsigned long long)want);
    }
    return h->one.problems.count();
}

inline uint32_t run_hits(uint64_t seed) {
    uint32_t problems = 0;
    for (uint32_t t1 : {static_cast<uint32_t>(kT1Clock), static_cast<uint32_t>(kT1Fifo)}) {
        HitWorlds h(t1);
        for (uint32_t lanes : {1u, 2u, 5u, 32u}) {
            hits_of<uint8_t>(&h, lanes, seed);
            hits_of<uint16_t>(&h, lanes, seed);
            hits_of<uint32_t>(&h, lanes, seed);
            hits_of<uint64_t>(&h, lanes, seed);
            problems += hits_of<Quad>(&h, lanes, seed);
        }
    }
    return problems;
}

} // namespace rig
