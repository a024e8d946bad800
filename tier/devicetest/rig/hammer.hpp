// Hammer: the pools of free slots and T2's order by themselves, with nothing
// else to slow them down.
#pragma once

#include "check.hpp"

namespace rig {

// Hammer is a world in which page p can only be in slot p.
struct Hammer {
    explicit Hammer(const Config& c) : w(c), held(w.e.slots) {}
    World w;
    std::vector<std::atomic<uint32_t>> held; // slots that a thread has popped

    uint64_t* entry(uint32_t page) { return reinterpret_cast<uint64_t*>(w.e.entries) + page; }

    uint32_t pop(const Context<MemoryStore>& t) {
        uint32_t s = find_slot(t);
        if (s != kNone && held[s].exchange(1) != 0) {
            w.problems.report("slot %u was free twice", s);
        }
        return s;
    }
    void push(const Context<MemoryStore>& t, uint32_t s) {
        held[s] = 0;
        push_slot(t, s);
    }
    // gone ends the stay in T2 of a page that the caller has claimed.
    void gone(const Context<MemoryStore>& t, uint32_t page, uint64_t busy_word) {
        publish(entry(page), busy_word, moved(busy_word, kAbsent, 0));
        push(t, page);
        atomic_add_relaxed_gpu(&w.hot()->t2_used, 0u - 1);
    }

    // turn puts a page into T2, or takes one out: the oldest, or any.
    void turn(const Context<MemoryStore>& t, Random* r) {
        switch (r->below(4)) {
        case 0:
        case 1: put(t); break;
        case 2: {
            Oldest o = take_oldest(Solo{}, t);
            if (o.page != kNone) {
                gone(t, o.page, moved(o.word, kWritingBack, o.slot));
            }
            break;
        }
        default: {
            uint32_t page = static_cast<uint32_t>(r->below(w.e.slots));
            uint64_t e = load_acquire_gpu(entry(page));
            if (state_of(e) == kResidentT2 && claim_place(entry(page), &e, moved(e, kFilling, page))) {
                leave_order(t, page);
                gone(t, page, moved(e, kFilling, page));
            }
        }
        }
    }
    void put(const Context<MemoryStore>& t) {
        if (atomic_add_relaxed_gpu(&w.hot()->t2_used, 1) >= w.e.t2_frames) {
            atomic_add_relaxed_gpu(&w.hot()->t2_used, 0u - 1);
            return;
        }
        uint32_t s = pop(t);
        if (s == kNone) {
            w.problems.report("there is a place in T2, and no slot");
            atomic_add_relaxed_gpu(&w.hot()->t2_used, 0u - 1);
            return;
        }
        uint64_t e = load_relaxed_gpu(entry(s));
        if (!claim_place(entry(s), &e, moved(e, kDemoting, 0))) {
            w.problems.report("page %u of a free slot is %#llx", s, (unsigned long long)e);
        }
        store_relaxed_gpu(t.slot_owner() + s, s);
        uint32_t status = insert_order(Solo{}, t, s);
        if (status != kTierOk) {
            w.problems.report("insert: status %#x", status);
        }
        publish(entry(s), moved(e, kDemoting, 0), moved(e, kResidentT2, s));
    }
};

inline uint32_t run_hammer(Config c) {
    c.pages = c.t2 + c.spares;
    Hammer h(c);
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < c.groups; i++) {
        threads.emplace_back([&h, i, &c] {
            Context<MemoryStore> t = h.w.context(i);
            Random r{mix(c.seed * 31 + i)};
            for (uint32_t k = 0; k < c.rounds; k++) {
                h.turn(t, &r);
            }
        });
    }
    for (std::thread& t : threads) {
        t.join();
    }
    Found found = check(&h.w);
    // In order, oldest first, and every page once.
    Context<MemoryStore> t = h.w.context(0);
    for (uint64_t n = found.in[kResidentT2]; n > 0; n--) {
        Oldest o = take_oldest(Solo{}, t);
        if (o.page == kNone) {
            h.w.problems.report("%llu pages of T2 have no place in its order", (unsigned long long)n);
            break;
        }
        h.gone(t, o.page, moved(o.word, kWritingBack, o.slot));
    }
    check(&h.w);
    return h.w.problems.count();
}

}  // namespace rig
