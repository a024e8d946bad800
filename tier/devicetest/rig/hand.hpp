// T1's victims by themselves: frames whose pages are taken by groups of one lane and of many,
// with gaps and without, alone and several at once, by the common hand and by hands of their own.
#pragma once

#include <algorithm>
#include <memory>

#include "compaction.hpp"

namespace rig {

// GapLanes is a group that is not all of its warp: rank r has the r-th lane of a mask.
class GapLanes {
public:
    GapLanes(Crew* crew, uint32_t rank, uint32_t mask) : ranks_(crew, rank), mask_(mask) {}
    uint32_t mask() const { return mask_; }
    uint32_t size() const { return ranks_.size(); }
    uint32_t lane() const { return at(ranks_.rank()); }
    uint32_t rank() const { return ranks_.rank(); }
    bool leads() const { return ranks_.leads(); }
    uint32_t ballot(bool p) const {
        uint32_t votes = 0;
        for (uint32_t all = ranks_.ballot(p); all != 0; all &= all - 1) {
            votes |= 1u << at(lowest_bit(all));
        }
        return votes;
    }
    bool any(bool p) const { return ballot(p) != 0; }
    template <class T>
    T from(T v, uint32_t lane) const {
        return ranks_.from(v, bits_below(mask_, lane));
    }
    void sync() const { ranks_.sync(); }

private:
    uint32_t at(uint32_t rank) const {
        uint32_t m = mask_;
        for (; rank != 0; rank--) {
            m &= m - 1;
        }
        return lowest_bit(m);
    }
    ThreadLanes ranks_;
    uint32_t mask_;
};

// scattered is a mask of so many lanes.
inline uint32_t scattered(Random* r, uint32_t lanes) {
    uint32_t mask = 0;
    while (count_bits(mask) < lanes) {
        mask |= 1u << r->below(32);
    }
    return mask;
}

// Turn is one turn of the hand, from first on. Page p is in frame p: some with their reference
// bit, some pinned, some frames in motion.
struct Turn {
    Turn(uint32_t frames, uint64_t first, uint64_t seed) : w(config(frames)), frames(frames), first(first), r{mix(seed)} {
        Context<MemoryStore> t = w.context(0);
        for (uint32_t f = 0; f < frames; f++) {
            uint32_t kind = static_cast<uint32_t>(r.below(8));
            uint64_t word = moved(0, kind == 7 ? kFilling : kResidentT1, f) | (kind < 4 ? kRef : 0);
            store_relaxed_gpu(t.frame_owner() + f, f);
            store_relaxed_gpu(t.entries + f, word + (kind == 6 ? kPin : 0));
            if (kind == 4 || kind == 5) {
                open.push_back(f);
            }
        }
        // In the order in which the hand comes to them.
        std::sort(open.begin(), open.end(), [&](uint32_t a, uint32_t b) { return place(a) < place(b); });
        w.hot()->hand = first;
    }
    static Config config(uint32_t frames) {
        Config c = Log::config(4);
        c.frames = frames;
        c.pages = frames + 8;
        return c;
    }
    uint32_t place(uint32_t f) const { return static_cast<uint32_t>((f + frames - first % frames) % frames); }

    // take has the groups take all open pages, and says which and how many frames they passed.
    std::vector<uint32_t> take(uint32_t groups, uint32_t lanes, uint64_t* looked) {
        std::vector<uint32_t> found(open.size(), kNone);
        std::vector<std::unique_ptr<Crew>> crews;
        std::vector<std::thread> threads;
        std::atomic<uint32_t> next{0};
        std::atomic<uint64_t> passed{0};
        auto each = [&](const auto& g, uint32_t i) {
            for (;;) {
                uint32_t n = from_leader(g, g.leads() ? next.fetch_add(1) : 0);
                if (n >= found.size()) {
                    return;
                }
                Scan s{Wait::start(), 0, 0, 0, 0, 0, 0, 0};
                Victim v{kNone, kNone, 0};
                while (!scan_window(g, w.context(i), &s, &v)) {
                }
                if (g.leads()) {
                    passed += s.looked;
                    found[n] = v.frame;
                }
            }
        };
        std::vector<uint32_t> masks;
        for (uint32_t i = 0; i < groups; i++) {
            crews.push_back(std::make_unique<Crew>(lanes));
            masks.push_back(scattered(&r, lanes));
        }
        for (uint32_t i = 0; i < groups; i++) {
            for (uint32_t k = 0; k < lanes; k++) {
                threads.emplace_back([&, i, k] {
                    if (lanes == 1) {
                        each(Solo{}, i);
                    } else {
                        each(GapLanes(crews[i].get(), k, masks[i]), i);
                    }
                });
            }
        }
        for (std::thread& x : threads) {
            x.join();
        }
        *looked = passed;
        return found;
    }

    // check: each open page was taken once, in order by one group alone, before any other page;
    // the hand has passed only what was looked at, and cleared the bits there and nowhere else.
    uint32_t check(std::vector<uint32_t> got, uint32_t groups, uint64_t looked) {
        Context<MemoryStore> t = w.context(0);
        if (groups > 1) {
            auto before = [&](uint32_t a, uint32_t b) { return place(a) < place(b); };
            std::sort(got.begin(), got.end(), before);
        }
        if (got != open) {
            w.problems.report("hand: other pages were taken, or in another order");
        }
        uint64_t passed = w.hot()->hand - first;
        // Who has found others faster has looked in vain.
        if (passed > frames || looked < passed || (groups == 1 && looked != passed)) {
            w.problems.report("hand: it passed %llu of %u frames, of which %llu were looked at", (unsigned long long)passed, frames, (unsigned long long)looked);
        }
        for (uint32_t f = 0; f < frames; f++) {
            uint64_t e = load_relaxed_gpu(t.entries + f);
            if (state_of(e) == kResidentT1 && pins_of(e) == 0 && ((e & kRef) != 0) != (place(f) >= passed)) {
                w.problems.report("hand: the bit of frame %u, number %u of %llu that were passed, is %s", f, place(f), (unsigned long long)passed, (e & kRef) != 0 ? "set" : "clear");
            }
        }
        return w.problems.count();
    }

    World w;
    uint32_t frames;
    uint64_t first;
    Random r;
    std::vector<uint32_t> open; // frames
};

// own_hand: who has been round twice in vain looks at all frames from the first one on, each once,
// and leaves the common hand where it is. One frame is open, all others are pinned.
inline uint32_t own_hand(uint32_t frames, uint32_t lanes, uint64_t seed) {
    Turn turn(frames, seed % 5000, seed);
    Context<MemoryStore> t = turn.w.context(0);
    uint32_t open = static_cast<uint32_t>(turn.r.below(frames)), mask = scattered(&turn.r, lanes);
    for (uint32_t f = 0; f < frames; f++) {
        store_relaxed_gpu(t.entries + f, moved(0, kResidentT1, f) + (f == open ? 0 : kPin));
    }
    Crew crew(lanes);
    std::vector<std::thread> threads;
    for (uint32_t k = 0; k < lanes; k++) {
        threads.emplace_back([&, k] {
            GapLanes g(&crew, k, mask);
            Scan s{Wait::start(), 2, 0, 0, 0, 2, 0, 0};
            Victim v{kNone, kNone, 0};
            bool found = false;
            for (uint32_t looks = 0; looks < frames && !found; looks++) {
                found = scan_window(g, turn.w.context(0), &s, &v);
            }
            if (g.leads() && (!found || v.frame != open || s.looked != open + 1 || s.own != open + 1 || s.pinned != open || s.moving != 0 || turn.w.hot()->hand != turn.first)) {
                turn.w.problems.report("hand: an own one found frame %u for %u of %u with %u lanes, after %u, %u of them pinned, %u in motion; the common one is %llu for %llu",
                                       v.frame, open, frames, lanes, s.looked, s.pinned, s.moving, (unsigned long long)turn.w.hot()->hand, (unsigned long long)turn.first);
            }
        });
    }
    for (std::thread& x : threads) {
        x.join();
    }
    return turn.w.problems.count();
}

inline uint32_t run_hand(uint64_t seed) {
    Random r{mix(seed * 11)};
    for (uint32_t frames : {1u, 2u, 7u, 33u, 64u, 257u, 1000u}) {
        for (uint32_t lanes : {1u, 3u, 32u}) {
            if (frames < 1000 && own_hand(frames, lanes, r.next()) != 0) {
                return 1;
            }
            for (uint32_t groups : {1u, 4u}) {
                if (groups * lanes > frames) {
                    continue;
                }
                Turn turn(frames, r.below(5000), r.next());
                uint64_t looked = 0;
                std::vector<uint32_t> got = turn.take(groups, lanes, &looked);
                if (turn.check(got, groups, looked) != 0) {
                    fprintf(stderr, "a turn of %u frames from %llu, %u groups of %u lanes\n", frames, (unsigned long long)turn.first, groups, lanes);
                    return 1;
                }
            }
        }
    }
    return 0;
}

}  // namespace rig
