// Races: what two threads may do to each other, made to happen.
#pragma once

#include <functional>

#include "situation.hpp"

namespace rig {

// Hooked is an element whose loads can be interrupted on purpose.
struct Hooked {
    uint64_t v;
};
inline std::function<void()> before_load, after_load;

}  // namespace rig

namespace tritier {
namespace tier {
template <>
inline rig::Hooked load_element<rig::Hooked>(const void* p) {
    std::function<void()> before = std::move(rig::before_load), after = std::move(rig::after_load);
    rig::before_load = rig::after_load = nullptr;
    if (before) {
        before();
    }
    rig::Hooked h{load_element<uint64_t>(p)};
    if (after) {
        after();
    }
    return h;
}
}  // namespace tier
}  // namespace tritier

namespace rig {

// A fill that fails wakes all who wait for it with its error, and leaves the
// page absent: the next access tries again.
inline uint32_t failed_waiters() {
    Config c = small_config();
    c.deadline_ms = 60000;
    Pitfall p("failed waiters", c);
    const uint64_t filling = kFilling | kGenerationMask; // the last generation: the next is 0
    store_relaxed_gpu(p.entry(5), filling);
    std::vector<std::thread> threads;
    std::atomic<uint32_t> status[6];
    for (uint32_t i = 0; i < 6; i++) {
        status[i] = ~0u;
        threads.emplace_back([&, i] {
            uint32_t s;
            p.a.load(Solo{}, p.w.context(i), 5 * p.words + i, true, &s);
            status[i] = s;
        });
    }
    while (p.w.sum(&Stripe::slow) < 6) {
        sched_yield();
    }
    usleep(50000); // until most have seen it
    publish(p.entry(5), filling, left(moved(filling, kAbsent, kReadError)));
    for (std::thread& t : threads) {
        t.join();
    }
    // One that was so slow that it came after the end has filled it anew.
    uint32_t with_error = 0, others = 0;
    for (auto& s : status) {
        with_error += s == kReadError;
        others += s != kReadError && s != kTierOk;
    }
    if (with_error == 0 || others != 0) {
        p.w.problems.report("failed waiters: %u of 6 got the error, %u another", with_error, others);
    }
    p.want("another load", p.load(5), kTierOk);
    return p.end();
}

// Two flushes of one page: the second waits for the first, or an older copy of the
// page could reach the store after a newer one.
inline uint32_t two_flushes() {
    Config c = small_config();
    c.deadline_ms = 60000;
    Pitfall p("two flushes", c);
    p.want("a store", p.store(3, 33), kTierOk);
    atomic_or_relaxed_gpu(p.entry(3), kFlushing); // another is at it
    uint32_t status = ~0u;
    std::thread second([&] { status = flush_page(Solo{}, p.w.context(1), 3); });
    usleep(50000);
    p.want("writes while the first is at it", p.w.store.writes, 0);
    atomic_and_release_gpu(p.entry(3), ~kFlushing);
    second.join();
    p.want("the second's status", status, kTierOk);
    p.want("writes", p.w.store.writes, 1);
    return p.end();
}

// The page leaves its frame while it is read without a pin: for good, or for so
// long that another was there.
inline uint32_t torn_glance(bool copies) {
    Config c = small_config();
    c.frames = 1;
    c.keep = copies ? 1 : 0;
    c.placer = copies ? kTierOrder : kBypass;
    Pitfall p(copies ? "torn glance with copies" : "torn glance", c);
    array_ref<Hooked, MemoryStore> hooked = p.w.array<Hooked>();
    p.want("a store", p.store(3, 33), kTierOk);
    p.want("another store", p.store(4, 44), kTierOk);
    p.want("a flush", flush_part(p.g, p.t, 0, 1), kTierOk); // only clean pages leave copies
    for (bool back : {false, true}) {
        p.want("a load", p.load(3), kTierOk);
        before_load = [&p] { p.load(4); };
        after_load = back ? std::function<void()>([&p] { p.load(3); }) : nullptr;
        uint32_t status;
        uint64_t v = hooked.load(p.g, p.t, 3 * p.words, true, &status).v;
        p.want("its status", status, kTierOk);
        p.want("its value", v, 33);
    }
    p.want("copies were of use", p.w.counts()->copies_saved != 0, copies);
    return p.end();
}

// The same while it is read by the code of plain hits: that finds nothing then.
inline uint32_t torn_hit() {
    Config c = small_config();
    c.frames = 1;
    c.t1 = kT1Fifo; // any page in T1 is a plain hit
    Pitfall p("torn hit", c);
    array_ref<Hooked, MemoryStore> hooked = p.w.array<Hooked>();
    for (bool back : {false, true}) {
        for (bool each : {false, true}) {
            p.want("a load", p.load(3), kTierOk);
            before_load = [&p] { p.load(4); };
            after_load = back ? std::function<void()>([&p] { p.load(3); }) : nullptr;
            uint64_t i[2] = {3 * p.words, 3 * p.words + 1};
            Hooked v[2];
            uint32_t found = each ? load_hits(p.g, hooked, i, v) & 1 : load_hit(p.g, hooked, i[0], v);
            p.want(each ? "the first of two" : "a hit", found, 0);
            p.want("where it is", p.load(3), kTierOk);
            p.want("a hit of what stays", load_hit(p.g, hooked, i[0], v), 1);
        }
    }
    return p.end();
}

// An entry of T2's order that is not written yet, where an older lap's has not
// been cleared: nobody may take the old one for it.
inline uint32_t unsettled_entry() {
    Config c = small_config();
    c.placer = kTierOrder;
    c.frames = 1;
    c.t2 = 1;
    c.log = 2;
    c.deadline_ms = 60000;
    Pitfall p("unsettled entry", c);
    Hot* h = p.w.hot();
    uint32_t* log = reinterpret_cast<uint32_t*>(p.w.e.log);
    // Entry 0 has been passed by the head, and is about to be cleared.
    store_relaxed_gpu(&log[0], log_lap(p.t, 0) | 7);
    store_relaxed_gpu(&h->log_head, 2);
    store_relaxed_gpu(&h->log_tail, 2);
    p.want("a load", p.load(1), kTierOk);
    std::thread other([&p] { p.load(2); }); // demotes page 1: entry 2, in entry 0's place
    while (load_acquire_gpu(&h->log_tail) != 3) {
        sched_yield();
    }
    p.want("the oldest", take_oldest(Solo{}, p.t).page, kNone);
    p.want("the head", load_relaxed_gpu(&h->log_head), 2);
    store_release_gpu(&log[0], 0);
    other.join();
    p.want("page 1", state_of(p.w.entry(1)), kResidentT2);
    p.want("a load from T2", p.load(1), kTierOk);
    return p.end();
}

// A group draws its time, waits, and finds that its page was evicted by one that drew a later
// one: the page was away for no time.
inline uint32_t evicted_later() {
    Config c = small_config();
    c.placer = kGmtReuse;
    Pitfall p("evicted later", c);
    ReusePage* r = reuse_of(p.t, 3);
    r->evicted_at = 307;
    r->history = kAway;
    reuse_miss(p.t, 3, 293);
    p.want("the class of its eviction", last_class(r->history), kShort);
    return p.end();
}

// Nobody compacts the log while somebody is in it.
inline uint32_t compaction_waits() {
    Config c = small_config();
    c.t2 = 4;
    c.deadline_ms = 60000;
    Pitfall p("compaction waits", c);
    uint32_t users = 0;
    p.want("a way in", enter_log(p.t, &users), kTierOk);
    std::atomic<uint32_t> done{0};
    std::thread other([&] {
        compact(Solo{}, p.t, p.w.hot()->log_head);
        done = 1;
    });
    usleep(50000);
    p.want("compacted", done, 0);
    leave_log(p.t);
    other.join();
    return p.end();
}

// A page comes back to a T2 that is full, since its move to T1 was lost: whoever sees that
// there is a place too many finds it taken.
inline uint32_t place_too_many() {
    Config c = small_config();
    c.t2 = 2;
    c.deadline_ms = 60000;
    Pitfall p("a place too many", c);
    Hot* h = p.w.hot();
    uint32_t slot = pop_slot(p.t);
    store_relaxed_gpu(p.t.slot_owner() + slot, 5);
    uint64_t word = moved(0, kResidentT2, slot);
    store_relaxed_gpu(p.entry(5), moved(0, kFilling, slot));
    store_relaxed_gpu(&h->t2_used, c.t2);
    std::thread other([&] {
        Fill f{5, kReadOp, word, 0, kNone, slot, 0, 0, kNone, 5, nullptr, kNone, Victim{kNone, kNone, 0}, Reading{}};
        give_up_fill(p.g, p.t, &f, kMoveLost);
    });
    while (load_acquire_gpu(&h->t2_extra) == 0) {
        sched_yield();
    }
    p.want("places taken", load_relaxed_gpu(&h->t2_used), c.t2 + 1);
    other.join();
    p.want("page 5", state_of(p.w.entry(5)), kResidentT2);
    store_relaxed_gpu(&h->t2_used, 1); // there were no other pages
    store_relaxed_gpu(&h->t2_extra, 0);
    return p.end();
}

// The CPU begins moves to T1 and does not answer: a page comes back to T2, which is full, and
// the one that left T1 for it has the slot that its group had to spare. A slot stays, however
// many are at it at once and come after, and when there is only one it is not risked.
inline uint32_t lost_promotions(uint32_t spares) {
    Config c = small_config();
    c.placer = kTierOrder;
    c.frames = 4;
    c.t2 = 2;
    c.spares = spares;
    c.mover = 1;
    Pitfall p("lost promotions", c);
    p.w.mover.by_request[kToHost] = p.w.mover.by_request[kToDevice] = 0;
    for (uint32_t i = 0; i < 3; i++) {
        reinterpret_cast<bamio::Request*>(p.w.ring.slots)[i].done = (i + 1) ^ bamio::kBegun;
    }
    for (uint32_t page = 0; page < 6; page++) {
        p.want("a store", p.store(page, page + 1), kTierOk);
    }
    p.w.mover.by_request[kToDevice] = 1;
    std::thread other([&p] {
        uint32_t status;
        p.a.load(Solo{}, p.w.context(1), p.words, true, &status);
    });
    p.load(0);
    other.join();
    for (uint32_t page = 0; page < 2; page++) {
        p.load(page);
    }
    p.want("lost moves", p.w.mover.pages[kToDevice][kUnanswered], spares - 1);
    p.w.mover.by_request[kToDevice] = 0;
    p.w.move_over = 100;
    for (uint32_t page = 0; page < 12; page++) {
        uint64_t v = 0;
        p.want("a load", p.load(page % 6, &v), kTierOk);
        p.want("its value", v, page % 6 + 1);
        p.want("a load of another page", p.load(6 + page % 4), kTierOk);
    }
    p.want("pages beyond T2's size", p.w.hot()->t2_extra, 0);
    return p.end();
}

// Many more groups miss than there are spare slots. Those that T2 does not use yet are not
// theirs to wait with: a victim finds one, and does not skip T2.
inline uint32_t crowd() {
    Config c = small_config();
    c.placer = kTierOrder;
    c.frames = 1;
    c.t2 = 8;
    c.spares = 3;
    Pitfall p("a crowd", c);
    p.want("a load", p.load(1), kTierOk);
    std::vector<uint32_t> held;
    for (uint32_t s; (s = pop_spare(p.t)) != kNone;) {
        held.push_back(s);
    }
    p.want("slots that can be waited with", held.size(), c.spares);
    push_spare(p.t, held.back());
    held.pop_back();
    for (uint32_t page = 2; page < 2 + c.t2; page++) {
        p.want("another load", p.load(page), kTierOk);
    }
    p.want("victims that skipped T2", p.w.counts()->crowded, 0);
    p.want("demotions", p.w.counts()->demotions, c.t2);
    for (uint32_t s : held) {
        push_spare(p.t, s);
    }
    return p.end();
}

// An element of two bytes is read as one of those that were written, never as half of each.
inline uint32_t short_elements() {
    Pitfall p("short elements", small_config());
    uint16_t* at = reinterpret_cast<uint16_t*>(p.w.e.slot_memory);
    std::atomic<uint32_t> over{0};
    std::thread other([&] {
        for (uint32_t i = 0; over == 0; i++) {
            store_element<uint16_t>(at, i % 2 == 0 ? 0xffff : 0);
        }
    });
    uint64_t torn = 0;
    for (uint64_t begun = globaltimer(); globaltimer() - begun < 200000000;) {
        uint16_t v = load_element<uint16_t>(at);
        torn += v != 0 && v != 0xffff;
    }
    over = 1;
    other.join();
    p.want("torn elements", torn, 0);
    *at = 0;
    return p.end();
}

inline uint32_t run_races() {
    return place_too_many() + lost_promotions(1) + lost_promotions(2) + crowd() + short_elements() + failed_waiters() + two_flushes() + torn_glance(false) + torn_glance(true) + torn_hit() + unsettled_entry() +
           compaction_waits() + evicted_later();
}

}  // namespace rig
