// Compaction of T2's order by itself: logs of any size and beginning, by groups of one lane
// and of a warp, while pages leave.
#pragma once

#include "situation.hpp"

namespace rig {

// Log is an order with entries from first to end, of which some are live.
struct Log {
    Log(uint32_t size, uint64_t first, uint64_t length, uint32_t live_in_four, uint64_t seed)
        : w(config(size)), t(w.context(0)), size(size), first(first), end(first + length), r{mix(seed)} {
        uint32_t slots = w.e.slots, next = static_cast<uint32_t>(r.below(slots));
        for (uint64_t n = first; n < end; n++) {
            bool live = r.below(4) < live_in_four;
            uint32_t slot = live ? next++ % slots : static_cast<uint32_t>(r.below(slots));
            store_relaxed_gpu(log_at(t, n), log_lap(t, n) | slot);
            if (live) {
                store_relaxed_gpu(t.slot_order() + slot, order_mark(n));
                slots_in_order.push_back(slot);
            }
        }
        w.hot()->log_head = first;
        w.hot()->log_tail = end;
    }
    static Config config(uint32_t size) {
        Config c = small_config();
        c.deadline_ms = 60000;
        c.t2 = size; // slots for as many live entries
        c.spares = 3;
        c.log = size;
        return c;
    }
    // compact has lanes compact it. Some pages leave beside it.
    void compact(uint32_t lanes) {
        std::vector<uint32_t> leave, stay;
        for (uint32_t slot : slots_in_order) {
            (r.one_in(5) ? leave : stay).push_back(slot);
        }
        slots_in_order = stay;
        Crew crew(lanes);
        std::vector<std::thread> threads;
        for (uint32_t i = 0; i < lanes; i++) {
            threads.emplace_back([this, &crew, i, lanes] {
                if (lanes == 1) {
                    tritier::tier::compact(Solo{}, t, first);
                } else {
                    tritier::tier::compact(ThreadLanes(&crew, i), w.context(0), first);
                }
            });
        }
        for (uint32_t slot : leave) {
            leave_order(t, slot);
        }
        for (std::thread& x : threads) {
            x.join();
        }
    }
    // check: what is live is in order, at the young end, and all else is empty.
    uint32_t check() {
        Hot* h = w.hot();
        std::vector<uint32_t> found;
        uint64_t written = 0;
        for (uint64_t n = h->log_head; n < h->log_tail; n++) {
            uint32_t word = *log_at(t, n), slot = word & kMaxLocation;
            if ((word & 3u << 30) != log_lap(t, n) || slot >= w.e.slots) {
                w.problems.report("compaction: entry %llu of %llu to %llu is %#x", (unsigned long long)n, (unsigned long long)h->log_head, (unsigned long long)end, word);
            } else if (t.slot_order()[slot] == order_mark(n)) {
                found.push_back(slot);
            }
        }
        for (uint32_t i = 0; i < size; i++) {
            written += reinterpret_cast<const uint32_t*>(w.e.log)[i] != 0;
        }
        if (found != slots_in_order || h->log_tail != end || h->log_head < first || written != end - h->log_head || h->log_gate != 0) {
            w.problems.report("compaction: %zu slots in order, want %zu; %llu entries from %llu to %llu, %llu are written; gate %#x", found.size(), slots_in_order.size(),
                              (unsigned long long)(end - h->log_head), (unsigned long long)h->log_head, (unsigned long long)end, (unsigned long long)written, h->log_gate);
        }
        return w.problems.count();
    }

    World w;
    Context<MemoryStore> t;
    uint32_t size;
    uint64_t first, end;
    Random r;
    std::vector<uint32_t> slots_in_order;
};

inline uint32_t run_compaction(uint64_t seed) {
    Random r{mix(seed)};
    const uint64_t firsts[] = {0, 1, (1ull << 31) - 5, (1ull << 32) - 3};
    for (uint32_t size : {2u, 3u, 7u, 8u, 9u, 64u, 255u, 256u, 257u, 700u}) {
        for (uint32_t lanes : {1u, 3u, 32u}) {
            for (uint32_t i = 0; i < (lanes == 1 ? 4 : 1); i++) { // threads for lanes take their time
                uint64_t first = firsts[(i + r.below(4)) % 4];
                for (uint32_t live = 0; live <= 4; live += lanes == 1 ? 1 : 2) {
                    uint64_t least = size / 2 + size / 8 + 1; // or nobody compacts it
                    Log log(size, first + r.below(size), least + r.below(size - least + 1), live, r.next());
                    log.compact(lanes);
                    if (log.check() != 0) {
                        fprintf(stderr, "a log of %u, %u lanes, from %llu, %u of 4 live\n", size, lanes, (unsigned long long)log.first, live);
                        return 1;
                    }
                }
            }
        }
    }
    return 0;
}

}  // namespace rig
