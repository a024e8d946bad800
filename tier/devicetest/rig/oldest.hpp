// T2's victims by themselves: orders of any size and beginning, whose pages are taken by
// groups of one lane and of many, alone and several at once.
#pragma once

#include <algorithm>
#include <memory>

#include "compaction.hpp"

namespace rig {

// Victims is an order with entries from first on, of which some are live: pages, of which some
// of the youngest are in motion, and copies. Page p can only be in slot p.
struct Victims {
    Victims(uint32_t size, uint64_t first, uint64_t length, uint32_t live_in_four, uint64_t seed)
        : w(config(size)), first(first), end(first + length), r{mix(seed)} {
        Context<MemoryStore> t = w.context(0);
        uint32_t slots = w.e.slots, next = static_cast<uint32_t>(r.below(slots));
        for (uint64_t n = first; n < end; n++) {
            bool live = r.below(4) < live_in_four;
            uint32_t slot = live ? next++ % slots : static_cast<uint32_t>(r.below(slots));
            store_relaxed_gpu(log_at(t, n), log_lap(t, n) | slot);
            if (!live) {
                continue;
            }
            bool copy = r.one_in(5), moving = !copy && r.one_in(9) && end - n <= kLookAhead;
            store_relaxed_gpu(t.slot_order() + slot, order_mark(n));
            store_relaxed_gpu(t.slot_owner() + slot, slot | (copy ? kCopyMark : 0));
            if (!copy) {
                store_relaxed_gpu(t.entries + slot, moved(kDirty, moving ? kFilling : kResidentT2, slot));
            }
            (moving ? busy : there).push_back(slot);
        }
        w.hot()->log_head = first;
        w.hot()->log_tail = end;
    }
    static Config config(uint32_t size) {
        Config c = Log::config(size);
        c.pages = size + c.spares;
        return c;
    }

    // take has so many groups of so many lanes take all that they find, and says what.
    std::vector<uint32_t> take(uint32_t groups, uint32_t lanes) {
        std::vector<std::vector<uint32_t>> found(groups);
        std::vector<std::unique_ptr<Crew>> crews;
        std::vector<std::thread> threads;
        for (uint32_t i = 0; i < groups; i++) {
            crews.push_back(std::make_unique<Crew>(lanes));
        }
        for (uint32_t i = 0; i < groups; i++) {
            for (uint32_t k = 0; k < lanes; k++) {
                threads.emplace_back([this, &found, &crews, i, k, lanes] {
                    if (lanes == 1) {
                        drain(Solo{}, w.context(i), &found[i]);
                    } else {
                        drain(ThreadLanes(crews[i].get(), k), w.context(i), &found[i]);
                    }
                });
            }
        }
        for (std::thread& x : threads) {
            x.join();
        }
        std::vector<uint32_t> all;
        for (const std::vector<uint32_t>& one : found) {
            all.insert(all.end(), one.begin(), one.end());
        }
        return all;
    }
    template <class G>
    void drain(G g, Context<MemoryStore> t, std::vector<uint32_t>* found) {
        for (;;) {
            Oldest o = take_oldest(g, t);
            if (o.page == kNone) {
                return;
            }
            if (g.leads()) {
                found->push_back(o.slot);
            }
        }
    }

    // check: each was taken once, in order by one group alone, and the head is past all that
    // is dead.
    uint32_t check(std::vector<uint32_t> got, uint32_t groups) {
        Context<MemoryStore> t = w.context(0);
        std::vector<uint32_t> want = there;
        if (groups > 1) {
            std::sort(got.begin(), got.end());
            std::sort(want.begin(), want.end());
        }
        if (got != want) {
            w.problems.report("victims: %zu were taken, want %zu, or in another order", got.size(), want.size());
        }
        take_oldest(Solo{}, t); // drops what became dead last
        Hot* h = w.hot();
        uint64_t head = end;
        for (uint64_t n = end; n > first; n--) {
            uint32_t slot = 0;
            head = entry_kind(t, n - 1, &slot) == kLive ? n - 1 : head;
        }
        if (h->log_head != head || h->log_tail != end || h->log_gate != 0) {
            w.problems.report("victims: the order is from %llu to %llu, want %llu to %llu; gate %#x", (unsigned long long)h->log_head, (unsigned long long)h->log_tail, (unsigned long long)head,
                              (unsigned long long)end, h->log_gate);
        }
        for (uint64_t n = first; n < h->log_head; n++) {
            if (load_relaxed_gpu(log_at(t, n)) != 0) {
                w.problems.report("victims: entry %llu was dropped, and is not empty", (unsigned long long)n);
            }
        }
        return w.problems.count();
    }

    World w;
    uint64_t first, end;
    Random r;
    std::vector<uint32_t> there, busy; // slots, oldest first
};

inline uint32_t run_oldest(uint64_t seed) {
    Random r{mix(seed * 7)};
    const uint64_t firsts[] = {0, 1, (1ull << 31) - 5, (1ull << 32) - 3};
    for (uint32_t size : {1u, 2u, 7u, 33u, 64u, 257u}) {
        for (uint32_t lanes : {1u, 3u, 32u}) {
            for (uint32_t groups : {1u, 4u}) {
                if (groups * lanes > size) {
                    continue;
                }
                for (uint32_t live = 0; live <= 4; live += lanes == 1 ? 1 : 2) {
                    Victims v(size, firsts[r.below(4)] + r.below(size), r.below(size + 1), live, r.next());
                    if (v.check(v.take(groups, lanes), groups) != 0) {
                        fprintf(stderr, "an order of %u of %u from %llu, %u of 4 live, %u groups of %u lanes\n", static_cast<uint32_t>(v.end - v.first), size, (unsigned long long)v.first, live, groups,
                                lanes);
                        return 1;
                    }
                }
            }
        }
    }
    return 0;
}

}  // namespace rig
