// Fences: writes that nobody waited for any more, carried out late.
#pragma once

#include "situation.hpp"

namespace rig {

// late_write: a write that nobody waited for is carried out after the page was changed
// and flushed again. Meanwhile the page is kept, dirty; in the end the newest bytes are
// stored. where: 0 flushed in T1, 1 flushed in T2, 2 evicted from T1, 3 from T2.
inline uint32_t late_write(uint32_t where) {
    Config c = small_config();
    c.frames = 1;
    c.t2 = where % 2;
    c.placer = kTierOrder;
    c.late = 1;
    c.lose = c.fail_writes = 1;
    Pitfall p("late write", c);
    const uint64_t* stored = reinterpret_cast<uint64_t*>(p.w.store.bytes.data()) + 3 * p.words;
    StoreMemory* m = &p.w.store;
    auto flush = [&] { return flush_page(p.g, p.t, 3); };
    m->ends = false;
    std::vector<uint32_t> slots;
    for (uint32_t i = 0; i < p.w.e.slots; i++) {
        slots.push_back(pop_slot(p.t));
    }
    for (uint32_t s : slots) {
        push_slot(p.t, s); // the last one is taken first: the first slot's is no fence
    }
    p.want("a store", p.store(3, 33), kTierOk);
    if (where % 2 == 1) {
        p.want("a load that demotes it", p.load(4), kTierOk);
    }
    if (where < 2) {
        p.want("a flush that times out", flush(), kWriteBack | kWaitTimeout);
    } else {
        p.want("an eviction that times out", p.load(5), kWriteBack | kWaitTimeout);
    }
    m->fail_writes = 0;
    check(&p.w);
    p.want("where it is", state_of(p.w.entry(3)), where % 2 == 1 ? kResidentT2 : kResidentT1);
    p.want("another flush", flush(), kWriteBack | kFenced);
    p.want("an eviction", p.load(6), kWriteBack | kFenced);
    p.want("the first load that failed", state_of(p.w.entry(6)), kAbsent);
    if (where % 2 == 0) {
        p.want("a newer store", p.store(3, 34), kTierOk);
    } else {
        p.want("the page changed in T2", p.w.e.slots > location_of(p.w.entry(3)), 1);
        reinterpret_cast<uint64_t*>(p.t.slot(location_of(p.w.entry(3))))[0] = 34;
    }
    p.want("a flush of it", flush(), kWriteBack | kFenced);
    p.want("dirty", p.w.entry(3) & kDirty, kDirty);
    p.want("what is stored", stored[0], 0);
    check(&p.w);
    for (uint32_t queue = 0; queue < 2; queue++) {
        m->end(queue); // only now
    }
    p.want("what came late", stored[0], 33);
    p.want("a flush after it", flush(), kTierOk);
    p.want("what is stored then", stored[0], 34);
    uint64_t v = 0;
    p.want("loads of others", p.load(7) | p.load(8) | p.load(9), kTierOk);
    p.want("where it is then", state_of(p.w.entry(3)), kAbsent);
    p.want("a load", p.load(3, &v), kTierOk);
    p.want("its value", v, 34);
    return p.end();
}

// A page that is absent while a write of it may still come is not read, and may be
// overwritten; slots that are taken back end fences too.
inline uint32_t fenced_read() {
    Config c = small_config();
    c.late = 1;
    Pitfall p("fenced read", c);
    uint32_t slot = pop_slot(p.t);
    p.w.store.ends = false;
    p.w.store.give_up(p.t.store.held_by(3), 3, slot, true);
    raise_fence(p.t, 3, slot);
    lose_slot(p.t, slot, 3);
    p.want("a load", p.load(3), kFenced);
    p.want("a store of an element", p.store(3, 1), kFenced);
    p.want("a load of another page", p.load(4), kTierOk);
    Memory whole(1u << c.page_shift);
    p.want("an overwrite", bulk_write(p.g, p.t, p.a, 3 * p.words, p.words, whole.as<uint64_t>()), kTierOk);
    p.want("a flush of the overwritten page", flush_page(p.g, p.t, 3), kWriteBack | kFenced);
    check(&p.w);
    p.want("a slot that is not taken back", retake_slot(p.t), kNone);
    p.w.store.end(p.t.store.held_by(3));
    p.want("the slot that is taken back", retake_slot(p.t), slot);
    push_slot(p.t, slot);
    p.want("a fence", has_fence(p.t, 3), 0);
    p.want("a flush", flush_page(p.g, p.t, 3), kTierOk);
    return p.end();
}

// A fence ends by the hands of a whole group, also where another lane than the first
// has found it.
inline uint32_t lanes_lift() {
    Config c = small_config();
    c.late = 1;
    c.lanes = 4;
    Pitfall p("lanes lift", c);
    p.w.store.ends = false;
    std::vector<uint32_t> slots;
    for (uint32_t i = 0; i < 7; i++) {
        slots.push_back(pop_slot(p.t));
    }
    p.w.store.give_up(p.t.store.held_by(3), 3, slots[6], true);
    raise_fence(p.t, 3, slots[6]);
    for (uint32_t ended = 0; ended < 2; ended++) {
        Crew crew(4);
        std::vector<std::thread> threads;
        for (uint32_t i = 0; i < 4; i++) {
            threads.emplace_back([&, i] { p.want("lifted", lift(ThreadLanes(&crew, i), p.w.context(0), 3), ended); });
        }
        for (std::thread& t : threads) {
            t.join();
        }
        p.want("a fence", has_fence(p.t, 3), 1 - ended);
        p.w.store.end(p.t.store.held_by(3));
    }
    for (uint32_t s : slots) {
        push_slot(p.t, s);
    }
    return p.end();
}

inline uint32_t run_fences() {
    for (uint32_t where = 0; where < 4; where++) {
        if (late_write(where) != 0) {
            fprintf(stderr, "where %u\n", where);
            return 1;
        }
    }
    return lanes_lift() + fenced_read();
}

}  // namespace rig
