// Pitfalls: situations that must end with an error and never with a hang, and
// what the error has to say.
#pragma once

#include "situation.hpp"

namespace rig {

// Cursors pin every frame: whoever wants another page gets an error that says
// how many frames would do, and all is well when one lets go.
inline uint32_t all_pinned() {
    Config c = small_config();
    c.placer = kTierOrder;
    Pitfall p("all pinned", c);
    std::vector<std::unique_ptr<cursor<uint64_t, MemoryStore, Solo>>> cursors;
    for (uint32_t i = 0; i < c.frames; i++) {
        cursors.push_back(std::make_unique<cursor<uint64_t, MemoryStore, Solo>>(p.g, p.a, p.t, i % 2 == 0));
        p.want("a cursor", cursors.back()->at(i * p.words) != nullptr, 1);
    }
    uint64_t begun = globaltimer();
    p.want("a load", p.load(9), kAllPinned);
    p.want("a store", p.store(10, 1), kAllPinned);
    p.want("a cursor too many", cursor<uint64_t, MemoryStore, Solo>(p.g, p.a, p.t).at(11 * p.words) == nullptr, 1);
    p.want("a prefetch", acquire(p.g, p.t, 12, kPrefetchOp).status, kAllPinned);
    if (globaltimer() - begun > 20000000000ull) {
        p.w.problems.report("all pinned: it took %llu ns", (unsigned long long)(globaltimer() - begun));
    }
    p.want("frames needed", p.w.hot()->frames_needed, c.frames + 1);
    p.want("the first error", p.w.hot()->first_error, static_cast<uint64_t>(kAllPinned) << 32 | 9);
    p.want("a load of what is there", p.load(2), kTierOk);
    cursors.pop_back();
    p.want("a load after one let go", p.load(9), kTierOk);
    cursors.clear();
    p.want("errors", p.w.counts()->errors, 3);
    p.want("prefetch errors", p.w.counts()->prefetch_errors, 1);
    return p.end();
}

// A page that left T2 for a frame that it did not get is back in T2.
inline uint32_t pinned_promotion() {
    Config c = small_config();
    c.placer = kTierOrder;
    c.frames = 1;
    c.t2 = 2;
    Pitfall p("pinned promotion", c);
    p.want("a store", p.store(1, 11), kTierOk);
    p.want("a load", p.load(2), kTierOk);
    {
        cursor<uint64_t, MemoryStore, Solo> held(p.g, p.a, p.t);
        held.at(2 * p.words);
        p.want("a load from T2", p.load(1), kAllPinned);
        p.want("its state", state_of(p.w.entry(1)), kResidentT2);
    }
    uint64_t v = 0;
    p.want("another load", p.load(1, &v), kTierOk);
    p.want("the value", v, 11);
    return p.end();
}

// A page that somebody fills and never ends: the wait has a deadline, and an
// earlier end when the host asks for it.
inline uint32_t endless_fill() {
    Pitfall p("endless fill", small_config());
    store_relaxed_gpu(p.entry(5), kFilling);
    p.want("a load", p.load(5), kWaitTimeout);
    p.want("a store", p.store(5, 1), kWaitTimeout);
    store_relaxed_sys(&p.w.stop, 1);
    p.w.e.deadline_ns = 60000000000ull;
    p.want("a load that is stopped", p.load(5), kWaitStopped);
    p.w.e.deadline_ns = 300000000;
    store_relaxed_sys(&p.w.stop, 0);
    p.want("a flush", flush_page(p.g, p.t, 5), kWaitTimeout);
    store_relaxed_gpu(p.entry(5), 0);
    return p.end();
}

// A victim that cannot be written back is where it was, dirty, and the error
// names it.
inline uint32_t failed_write_back() {
    for (uint32_t t2 = 0; t2 < 2; t2++) {
        Config c = small_config();
        c.frames = 1;
        c.t2 = t2;
        c.placer = kTierOrder;
        c.fail_writes = 1;
        Pitfall p("failed write-back", c);
        p.want("a store", p.store(3, 33), kTierOk);
        if (t2 == 1) {
            p.want("a store to the next", p.store(4, 44), kTierOk);
        }
        p.want("a load", p.load(6), kWriteBack | kWriteError);
        p.want("the first error", p.w.hot()->first_error, static_cast<uint64_t>(kWriteBack | kWriteError) << 32 | 3);
        p.want("a flush", flush_part(p.g, p.t, 0, 1), kWriteBack | kWriteError);
        p.want("dirty", p.w.entry(3) & kDirty, kDirty);
        p.want("page 6", state_of(p.w.entry(6)), kAbsent);
        check(&p.w);
        p.w.store.healthy = true;
        uint64_t v = 0;
        p.want("the load again", p.load(6), kTierOk);
        p.want("the page again", p.load(3, &v), kTierOk);
        p.want("its value", v, 33);
        if (p.end() != 0) {
            return 1;
        }
    }
    return 0;
}

// Durations go where tier/host's do.
inline uint32_t buckets() {
    Pitfall p("buckets", small_config());
    const uint64_t rows[][2] = {{0, 0}, {1, 1}, {2, 2}, {3, 2}, {4, 3}, {1023, 10}, {1024, 11}, {(1ull << 38) - 1, 38}, {1ull << 38, 39}, {1ull << 50, 39}, {~0ull, 39}};
    for (const auto& row : rows) {
        p.want("a bucket", bucket_of(row[0]), row[1]);
    }
    return p.end();
}

// The last pin that an entry can count is refused, and none of the others lost.
inline uint32_t too_many_pins() {
    Pitfall p("too many pins", small_config());
    p.want("a load", p.load(2), kTierOk);
    atomic_add_relaxed_gpu(p.entry(2), kPin * kPinLimit);
    p.want("a store", p.store(2, 1), kTooManyPins);
    p.want("a load without a pin", p.load(2), kTierOk);
    p.want("pins", pins_of(p.w.entry(2)), kPinLimit);
    atomic_add_relaxed_gpu(p.entry(2), 0 - kPin * kPinLimit);
    return p.end();
}

// No spare slot is free, and none will be.
inline uint32_t no_slot() {
    Config c = small_config();
    Pitfall p("no slot", c);
    p.want("a store", p.store(1, 7), kTierOk);
    uint64_t heads[kStripes];
    for (uint32_t i = 0; i < kStripes; i++) {
        heads[i] = load_relaxed_gpu(&p.w.hot()->free_slots[i].head);
        store_relaxed_gpu(&p.w.hot()->free_slots[i].head, uint64_t{kChainEnd});
    }
    p.want("a load", p.load(2), kNoSlot);
    p.want("a flush", flush_page(p.g, p.t, 1), kNoSlot);
    for (uint32_t i = 0; i < kStripes; i++) {
        store_relaxed_gpu(&p.w.hot()->free_slots[i].head, heads[i]);
    }
    p.want("a load again", p.load(2), kTierOk);
    return p.end();
}

inline uint32_t bad_calls() {
    Pitfall p("bad calls", small_config());
    uint64_t v[8] = {}, n = 0;
    uint32_t status = 0;
    p.want("a load", (p.a.load(p.g, p.t, p.a.length, true, &status), status), kOutOfRange);
    p.want("a load far away", (p.a.load(p.g, p.t, ~0ull, true, &status), status), kOutOfRange);
    p.want("a store", p.a.store(p.g, p.t, p.a.length, 1, true), kOutOfRange);
    p.want("an add", (p.a.add(p.g, p.t, ~0ull, 1, true, &status), status), kOutOfRange);
    p.want("a read", bulk_read(p.g, p.t, p.a, p.a.length - 1, 2, v), kOutOfRange);
    p.want("a write that wraps", bulk_write(p.g, p.t, p.a, ~0ull, 2, v), kOutOfRange);
    cursor<uint64_t, MemoryStore, Solo> c(p.g, p.a, p.t);
    p.want("a cursor", c.run(p.a.length, &n) == nullptr, 1);
    p.want("its status", c.status(), kOutOfRange);
    p.want("a page", acquire(p.g, p.t, p.w.e.pages, kReadOp).status, kOutOfRange);
    p.want("an overwrite with nothing", acquire(p.g, p.t, 0, kOverwriteOp).status, kBadCall);
    p.want("the last element", (p.a.load(p.g, p.t, p.a.length - 1, true, &status), status), kTierOk);
    uint64_t some[3] = {p.a.length, 1, p.a.length - 1}, got[3] = {7, 7, 7};
    p.want("some of which one is none", p.a.load_each(some, got), kOutOfRange);
    p.want("the value of none", got[0], 0);
    p.want("some", p.a.load_each({0, 1}, *reinterpret_cast<uint64_t(*)[2]>(got)), kTierOk);
    p.want("accesses", p.w.sum(&Stripe::hits) + p.w.sum(&Stripe::slow), 5);
    return p.end();
}

// lanes_apart: 32 lanes want 32 pages, and there is one frame.
inline uint32_t lanes_apart() {
    Config c = small_config();
    c.deadline_ms = c.pin_deadline_ms = 60000;
    c.pages = 40;
    c.frames = 1;
    c.t2 = 0;
    c.spares = 1;
    c.lanes = 32;
    Pitfall p("lanes apart", c);
    uint64_t* stored = reinterpret_cast<uint64_t*>(p.w.store.bytes.data());
    for (uint64_t i = 0; i < p.a.length; i++) {
        stored[i] = i + 1;
    }
    Crew crew(32);
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < 32; i++) {
        threads.emplace_back([&, i] {
            ThreadLanes g(&crew, i);
            uint64_t at = i * p.words + 1;
            uint32_t status;
            uint64_t v = p.a.load(g, p.w.context(0), at, true, &status);
            p.want("a lane's load", status, kTierOk);
            p.want("its value", v, at + 1);
            p.want("its store", p.a.store(g, p.w.context(0), at, v + 1000, true), kTierOk);
        });
    }
    for (std::thread& t : threads) {
        t.join();
    }
    p.want("fetches", p.w.counts()->t3_fetches + p.w.counts()->late_hits + p.w.sum(&Stripe::hits), 64);
    p.want("the flush", flush_part(p.g, p.t, 0, 1), kTierOk);
    for (uint64_t i = 0; i < 32; i++) {
        p.want("stored", stored[i * p.words + 1], i * p.words + 1002);
    }
    return p.end();
}

// Nobody takes the records: accesses wait once, the rest is lost and counted; what was
// recorded is in order. When somebody has taken them, others are recorded.
inline uint32_t dead_recorder() {
    Config c = small_config();
    c.records = 16;
    c.drain = 0;
    Pitfall p("dead recorder", c);
    p.w.e.record_wait_ns = 50000000; // of one wait: 192 would take 10 s
    uint64_t begun = globaltimer();
    for (uint64_t i = 0; i < 200; i++) {
        uint64_t page = i * 5 % c.pages;
        p.want("an access", i % 3 != 0 ? p.load(page) : p.store(page, i), kTierOk);
    }
    if (globaltimer() - begun > 3000000000ull) {
        p.w.problems.report("dead recorder: 200 accesses took %llu ms", (unsigned long long)((globaltimer() - begun) / 1000000));
    }
    p.want("lost", p.w.counts()->lost_records, 192);
    Recorder r(&p.w);
    r.end();
    p.want("recorded", r.list.size(), 8);
    for (uint64_t i = 0; i < r.list.size(); i++) {
        p.want("a record", r.list[i], (i * 5 % c.pages) << 2 | (i % 3 != 0 ? kReadOp : kWriteOp));
    }
    p.want("an access", p.load(3), kTierOk);
    Memory whole(1u << c.page_shift);
    p.want("an overwrite", bulk_write(p.g, p.t, p.a, 4 * p.words, p.words, whole.as<uint64_t>()), kTierOk);
    acquire(p.g, p.t, 9, kPrefetchOp);
    r.end();
    p.want("recorded later", r.list.size(), 11);
    for (uint64_t i = 8; i < r.list.size(); i++) {
        p.want("a later record", r.list[i], i == 8 ? 3 << 2 | kReadOp : i == 9 ? 4 << 2 | kOverwriteOp : 9 << 2 | kPrefetchOp);
    }
    p.w.e.record_wait_ns = p.w.e.deadline_ns = 60000000000ull;
    r.begin();
    for (uint64_t i = 0; i < 100; i++) {
        p.want("an access", p.load(i % c.pages), kTierOk);
    }
    r.end();
    p.want("lost while somebody takes", p.w.counts()->lost_records, 192);
    return p.end();
}

// Nobody takes the events: nothing waits, misses are left out whole and counted, and what
// was told of is told in full. When somebody has taken them, others are told of.
inline uint32_t deaf_listener() {
    Config c = small_config();
    c.events = 64;
    c.drain = 0;
    c.placer = kTierOrder;
    Pitfall p("deaf listener", c);
    p.w.e.deadline_ns = 60000000000ull;
    EventLog* l = reinterpret_cast<EventLog*>(p.w.e.events);
    l->room = 31; // four misses have two events, the others three: none ends with the room
    uint64_t begun = globaltimer();
    for (uint64_t i = 0; i < 400; i++) {
        p.want("an access", p.load(i * 5 % c.pages), kTierOk);
    }
    if (globaltimer() - begun > 3000000000ull) {
        p.w.problems.report("deaf listener: 400 accesses took %llu ms", (unsigned long long)((globaltimer() - begun) / 1000000));
    }
    p.want("begun", l->begun, 400);
    p.want("cut", l->cut, 0);
    Listener r(&p.w);
    r.end();
    p.want("told of", r.roots, 400 - l->left_out);
    p.want("told in full", r.good[kT3ToT2], r.roots);
    if (r.roots < 5 || r.roots > 20) {
        p.w.problems.report("deaf listener: %llu misses in half a ring of 64", (unsigned long long)r.roots);
    }
    uint64_t out = l->left_out, roots = r.roots;
    p.want("an access", p.load(400 * 5 % c.pages), kTierOk);
    p.want("a store", p.store(401 * 5 % c.pages, 1), kTierOk);
    p.want("a flush", flush_part(p.g, p.t, 0, 1), kTierOk);
    r.end();
    p.want("told of later", r.roots, roots + 3);
    p.want("left out later", l->left_out, out);
    l->room = 2; // no margin: moves are cut off
    p.want("an access", p.load(402 * 5 % c.pages), kTierOk);
    p.want("cut off", l->cut != 0, 1);
    r.end();
    return p.end();
}

// A page's clean copy in T2, step by step: what moves, and who has the slot.
inline uint32_t copies_by_hand() {
    Config c = small_config();
    c.placer = kTierOrder;
    c.frames = 1;
    c.t2 = 2;
    c.keep = 1;
    Pitfall p("copies", c);
    Counts* k = p.w.counts();
    auto state = [&](const char* what, uint64_t saved, uint64_t demoted, uint64_t evicted, uint64_t copies) {
        p.want(what, k->copies_saved, saved);
        p.want("pages demoted by a copy", k->bytes_demoted >> c.page_shift, demoted);
        p.want("evictions of T2", k->t2_evictions, evicted);
        p.want("copies", check(&p.w).copies, copies);
    };
    p.want("a load", p.load(1) | p.load(2), kTierOk);
    state("1 went to T2", 0, 1, 0, 0);
    p.want("a load", p.load(1), kTierOk);
    state("1 came with a copy, 2 went", 0, 2, 0, 1);
    p.want("a load", p.load(2), kTierOk);
    state("2 came with a copy, 1's is the page", 1, 2, 0, 1);
    p.want("a store", p.store(2, 7), kTierOk);
    state("2's copy is dropped", 1, 2, 0, 0);
    p.want("a load", p.load(3), kTierOk);
    state("2 went", 1, 3, 0, 0);
    p.want("a load", p.load(1), kTierOk); // T2 is full: 1's own copy is the oldest
    state("1 came, and its slot is 3's", 1, 4, 1, 0);
    p.want("a load", p.load(3), kTierOk); // 2, dirty, is the oldest
    state("3 came with a copy, 1 went for 2", 1, 5, 2, 1);
    p.want("a load", p.load(4), kTierOk);
    state("3's copy is the page", 2, 5, 2, 0);
    uint64_t v = 0;
    p.want("a load", p.load(2, &v), kTierOk);
    p.want("what was written", v, 7);
    return p.end();
}

inline uint32_t run_pitfalls() {
    return buckets() + copies_by_hand() + dead_recorder() + deaf_listener() + all_pinned() + pinned_promotion() + endless_fill() + failed_write_back() + too_many_pins() + no_slot() + bad_calls() + lanes_apart();
}

}  // namespace rig
