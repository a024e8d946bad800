// Stress: groups that read, write, prefetch and flush at random, against the
// model, while frames are few and the store fails.
#pragma once

#include <memory>

#include "attendant.hpp"
#include "lanes.hpp"
#include "model.hpp"
#include "listener.hpp"
#include "recorder.hpp"

namespace rig {

// GroupBuffer is memory that all lanes of a group see.
struct GroupBuffer {
    explicit GroupBuffer(uint32_t words) : memory(words * 8 + 64), before(words) {}
    Memory memory;
    std::vector<uint32_t> before;
};

template <class G>
class Worker {
public:
    Worker(World* w, Model* m, const G& g, GroupBuffer* buffer, uint32_t group)
        : w_(w), m_(m), g_(g), group_(group), buffer_(buffer), t_(w->context(group)), a_(w->array<uint64_t>()),
          common_{mix(w->c.seed * 1000003 + group)}, own_{mix(w->c.seed * 7919 + group * 64 + g.lane() + 1)} {}

    void run() {
        for (uint32_t i = 0; i < w_->c.rounds; i++) {
            if (w_->c.alone != 0) {
                alone();
            } else if (common_.one_in(w_->c.hold)) {
                hold();
            } else {
                step();
            }
        }
    }

private:
    void step() {
        switch (common_.below(10)) {
        case 0:
        case 1: load(); break;
        case 2:
        case 3: store(); break;
        case 4: add(); break;
        case 5: read_run(); break;
        case 6: write_whole(); break;
        case 7: write_by_cursor(); break;
        case 8: read_by_cursor(); break;
        default:
            if (common_.one_in(w_->c.flush)) {
                flush();
            } else {
                a_.prefetch(g_, t_, common_.below(a_.length), true);
            }
        }
    }

    // alone reads and writes a page of the group's own as plain memory, which a
    // thread sanitizer checks: every other group may move the page. Or it brings
    // somebody's page.
    void alone() {
        uint64_t page = group_ + common_.below(w_->c.pages / w_->c.groups) * w_->c.groups, left = 0;
        if (common_.one_in(4)) {
            acquire(g_, t_, common_.below(w_->c.pages), kPrefetchOp);
            return;
        }
        bool writes = common_.one_in(2);
        cursor<uint64_t, MemoryStore, G> c(g_, a_, t_, writes);
        uint64_t* p = c.run(page * m_->words, &left);
        if (!allowed("cursor", c.status())) {
            return;
        }
        for (uint64_t k = g_.rank(); k < m_->words; k += g_.size()) {
            uint64_t i = page * m_->words + k, v = p[k];
            m_->read("plain", i, v, m_->begun[i]);
            if (writes) {
                m_->begun[i]++;
                p[k] = m_->kind(page) == kSums ? v + 1 : Model::value(i, m_->begun[i]);
                m_->complete[i] = m_->begun[i].load();
            }
        }
    }

    // allowed sees to it that an operation failed only as it may.
    bool allowed(const char* what, uint32_t status) {
        bool ok = status == kTierOk;
        uint32_t plain = status & ~static_cast<uint32_t>(kWriteBack);
        bool injected = (w_->c.fail_reads != 0 && status == kReadError) || (w_->c.fail_writes != 0 && status == (kWriteBack | kWriteError)) ||
                        (w_->c.lose != 0 && (plain == kWaitTimeout || plain == kFenced)) || (w_->c.lose != 0 && status == kNoSlot);
        // A copy that does not end keeps a frame or a slot, and whoever waits for its page.
        injected = injected || (w_->c.mover == 2 && (plain == kMoveLost || plain == kWaitTimeout || plain == kNoSlot || plain == kAllPinned));
        bool pinned = w_->c.hold != 0 && status == kAllPinned;
        if (!ok && !injected && !pinned && g_.leads()) {
            w_->problems.report("%s: status %#x", what, status);
        }
        return ok;
    }

    // run_in_page draws a run of words that lies in one page.
    uint64_t run_in_page(uint64_t page, uint64_t* n) {
        uint64_t at = common_.below(m_->words);
        *n = 1 + common_.below(m_->words - at);
        return page * m_->words + at;
    }

    void load() {
        if (common_.one_in(2)) {
            return common_.one_in(2) ? hit() : hit_each();
        }
        uint64_t i = own_.below(a_.length);
        bool want = g_.size() == 1 || own_.below(4) != 0;
        uint32_t before = m_->first(i), status = kTierOk;
        uint64_t v = a_.load(g_, t_, i, want, &status);
        if (want && allowed("load", status)) {
            m_->read("load", i, v, before);
        }
    }

    // hit reads as a kernel's a[i] does: by the code of plain hits, and if a lane finds
    // nothing, as all else.
    void hit() {
        uint64_t i = common_.below(w_->c.pages) * m_->words + own_.below(m_->words);
        i = common_.one_in(3) ? own_.below(a_.length) : i;
        uint32_t before = m_->first(i), status = kTierOk;
        uint64_t v;
        if (!load_hit(g_, a_, i, &v)) {
            v = a_.load(g_, t_, i, true, &status);
        }
        if (allowed("hit", status)) {
            m_->read("hit", i, v, before);
        }
    }

    // hit_each reads three elements at a time.
    void hit_each() {
        uint64_t i[3] = {own_.below(a_.length), common_.below(a_.length), own_.below(a_.length)}, v[3];
        uint32_t before[3] = {m_->first(i[0]), m_->first(i[1]), m_->first(i[2])}, found = load_hits(g_, a_, i, v);
        for (uint32_t k = 0; k < 3; k++) {
            uint32_t status = kTierOk;
            if ((found >> k & 1) == 0) {
                v[k] = a_.load(g_, t_, i[k], true, &status);
            }
            if (allowed("hit of each", status)) {
                m_->read("hit of each", i[k], v[k], before[k]);
            }
        }
    }

    // mine is a word of a shared page that this lane writes.
    uint64_t mine() {
        uint32_t n = w_->c.groups * w_->c.lanes, me = group_ * w_->c.lanes + g_.lane();
        for (uint32_t tries = 0; tries < 200; tries++) {
            uint64_t i = own_.below(a_.length / n) * n + me;
            if (i < a_.length && m_->kind(i / m_->words) == kShared) {
                return i;
            }
        }
        return ~0ull;
    }

    void store() {
        uint64_t i = mine();
        bool want = i != ~0ull;
        uint32_t version = want ? ++m_->begun[i] : 0;
        uint32_t status = a_.store(g_, t_, want ? i : 0, Model::value(i, version), want);
        if (want && allowed("store", status)) {
            m_->complete[i] = version;
        }
    }

    void add() {
        uint64_t page = own_.below(w_->c.pages / 8 + 1) * 8 + 5, i = page * m_->words + own_.below(m_->words);
        bool want = page < w_->c.pages;
        if (want) {
            m_->begun[i]++;
        }
        uint32_t status = kTierOk;
        uint64_t old = a_.add(g_, t_, want ? i : 0, uint64_t{1}, want, &status);
        if (want && allowed("add", status)) {
            m_->read("add", i, old, 0);
            m_->complete[i]++;
        } else if (want) {
            // Nobody may take the failed one for one that is still to come: too
            // high a bound, which the end of the run does not use.
        }
    }

    void read_run() {
        uint64_t n, i = run_in_page(common_.below(w_->c.pages), &n);
        n = common_.one_in(2) && i + n + m_->words <= a_.length ? n + m_->words : n;
        uint64_t* to = buffer_->memory.as<uint64_t>();
        if (g_.leads()) {
            for (uint64_t k = 0; k < n; k++) {
                buffer_->before[k] = m_->first(i + k);
            }
        }
        g_.sync();
        uint32_t status = bulk_read(g_, t_, a_, i, n, to);
        if (allowed("bulk read", status) && g_.leads()) {
            for (uint64_t k = 0; k < n; k++) {
                m_->read("bulk read", i + k, to[k], buffer_->before[k]);
            }
        }
        g_.sync();
    }

    // whole_page is a page that this group writes, or ~0.
    uint64_t whole_page() {
        uint64_t all = (w_->c.pages + 3) / 4, mine = group_ + common_.below(all / w_->c.groups + 1) * w_->c.groups, page = mine * 4 + 3;
        return page < w_->c.pages && m_->kind(page) == kWhole && m_->writer(page * m_->words) == group_ * w_->c.lanes ? page : ~0ull;
    }

    void begin(uint64_t i, uint64_t n, uint64_t* values) {
        if (g_.leads()) {
            for (uint64_t k = 0; k < n; k++) {
                values[k] = Model::value(i + k, ++m_->begun[i + k]);
            }
        }
        g_.sync();
    }
    void complete(uint64_t i, uint64_t n, const uint64_t* values) {
        if (g_.leads()) {
            for (uint64_t k = 0; k < n; k++) {
                m_->complete[i + k] = static_cast<uint32_t>(values[k] >> 32);
            }
        }
        g_.sync();
    }

    void write_whole() {
        uint64_t page = whole_page(), n = m_->words, i = page * n;
        if (page == ~0ull) {
            return;
        }
        if (common_.one_in(3)) {
            i = run_in_page(page, &n);
        }
        uint64_t* from = buffer_->memory.as<uint64_t>();
        begin(i, n, from);
        if (allowed("bulk write", bulk_write(g_, t_, a_, i, n, from))) {
            complete(i, n, from);
        }
        g_.sync();
    }

    void write_by_cursor() {
        uint64_t page = whole_page();
        if (page == ~0ull) {
            return;
        }
        uint64_t n, left, i = run_in_page(page, &n);
        uint64_t* from = buffer_->memory.as<uint64_t>();
        begin(i, n, from);
        {
            cursor<uint64_t, MemoryStore, G> c(g_, a_, t_, true);
            uint64_t* to = c.run(i, &left);
            if (!allowed("cursor", c.status())) {
                g_.sync();
                return;
            }
            if (left < n && g_.leads()) {
                w_->problems.report("a run of %llu, want %llu", (unsigned long long)left, (unsigned long long)n);
            }
            for (uint64_t k = g_.rank(); k < n; k += g_.size()) {
                sched_yield();
                store_element<uint64_t>(to + k, from[k]);
            }
        }
        complete(i, n, from);
    }

    void read_by_cursor() {
        uint64_t i = common_.below(a_.length), steps = 1 + common_.below(6);
        cursor<uint64_t, MemoryStore, G> c(g_, a_, t_);
        for (uint64_t k = 0; k < steps && i < a_.length; k++, i += 1 + common_.below(3)) {
            uint32_t before = m_->first(i);
            uint64_t v = c[i];
            if (!allowed("cursor", c.status())) {
                return;
            }
            m_->read("cursor", i, v, before);
        }
    }

    // hold keeps a page pinned while it does something else.
    void hold() {
        cursor<uint64_t, MemoryStore, G> c(g_, a_, t_);
        uint64_t* p = c.at(common_.below(a_.length));
        if (allowed("hold", c.status()) && p != nullptr) {
            step_without_flush();
        }
    }
    void step_without_flush() {
        switch (common_.below(4)) {
        case 0: load(); break;
        case 1: store(); break;
        case 2: read_run(); break;
        default: write_whole(); break;
        }
    }

    void flush() {
        uint32_t status = flush_part(g_, t_, common_.below(2), 1 + common_.below(2));
        if (allowed("flush", status)) {
            allowed("flush of the store", flush_store(g_, t_));
        }
    }

    World* w_;
    Model* m_;
    G g_;
    uint32_t group_;
    GroupBuffer* buffer_;
    Context<MemoryStore> t_;
    array_ref<uint64_t, MemoryStore> a_;
    Random common_, own_;
};

// settle_down flushes without faults and compares the store with the model.
inline void settle_down(World* w, Model* m) {
    check(w);
    w->store.healthy = true;
    Context<MemoryStore> t = w->context(0);
    uint32_t status = flush_part(Solo{}, t, 0, 1);
    for (uint32_t more = 0; status == (kWriteBack | kFenced) && w->c.lose != 0 && more < 1000; more++) {
        check(w);
        status = flush_part(Solo{}, t, 0, 1); // each look at a queue ends one command
    }
    if (w->c.lose != 0 && w->c.late == 0 && status == kNoSlot) {
        return; // every slot was lost: nothing moves any more, and it said so
    }
    Found found = check(w);
    if (status != kTierOk || found.dirty != 0) {
        w->problems.report("the last flush: status %#x, %llu pages are dirty", status, (unsigned long long)found.dirty);
    }
    const uint64_t* stored = reinterpret_cast<const uint64_t*>(w->store.bytes.data());
    for (uint64_t i = 0; i < m->begun.size(); i++) {
        if (stored[i] != m->last(i)) {
            w->problems.report("flushed: page %llu, word %llu is %#llx in the store, want %#llx", (unsigned long long)(i / m->words),
                               (unsigned long long)(i % m->words), (unsigned long long)stored[i], (unsigned long long)m->last(i));
        }
    }
    array_ref<uint64_t, MemoryStore> a = w->array<uint64_t>();
    for (uint64_t i = 0; i < a.length; i++) {
        uint64_t v = a.load(Solo{}, t, i, true, &status);
        if (status == kTierOk ? v != m->last(i) : w->c.lose == 0 || w->c.late != 0) {
            w->problems.report("at the end: word %llu is %#llx, want %#llx; status %#x", (unsigned long long)i, (unsigned long long)v,
                               (unsigned long long)m->last(i), status);
        }
    }
    if (w->c.late != 0) { // all that was lost has ended, and comes back
        for (uint32_t q = 0; q < 2; q++) {
            while (!w->store.settled(q)) {
                w->store.end(q);
            }
        }
        for (uint32_t s; (s = retake_slot(t)) != kNone;) {
            push_slot(t, s);
        }
        if (w->counts()->lost_slots != w->counts()->retaken_slots) {
            w->problems.report("%llu slots were lost and %llu taken back", (unsigned long long)w->counts()->lost_slots,
                               (unsigned long long)w->counts()->retaken_slots);
        }
    }
    check(w);
}

template <class G>
void run_groups(World* w, Model* m, const std::vector<G>& lanes) {
    std::vector<std::unique_ptr<GroupBuffer>> buffers;
    std::vector<std::unique_ptr<Worker<G>>> workers;
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < lanes.size(); i++) {
        if (i % w->c.lanes == 0) {
            buffers.push_back(std::make_unique<GroupBuffer>(2 * m->words));
        }
        workers.push_back(std::make_unique<Worker<G>>(w, m, lanes[i], buffers.back().get(), i / w->c.lanes));
    }
    for (auto& worker : workers) {
        threads.emplace_back([&worker] { worker->run(); });
    }
    for (std::thread& t : threads) {
        t.join();
    }
}

inline uint32_t run_stress(const Config& c) {
    World w(c);
    Model m(&w);
    Recorder recorder(&w);
    Listener listener(&w);
    Attendant attendant(&w);
    uint32_t n = c.groups * c.lanes;
    if (c.lanes == 1) {
        run_groups(&w, &m, std::vector<Solo>(n));
    } else {
        std::vector<std::unique_ptr<Crew>> crews;
        std::vector<ThreadLanes> lanes;
        for (uint32_t i = 0; i < n; i++) {
            if (i % c.lanes == 0) {
                crews.push_back(std::make_unique<Crew>(c.lanes));
            }
            lanes.emplace_back(crews.back().get(), i % c.lanes);
        }
        run_groups(&w, &m, lanes);
    }
    attendant.calm();
    settle_down(&w, &m);
    attendant.end();
    recorder.end();
    listener.end();
    Counts* k = w.counts();
    printf("accesses %llu fetches %llu T2 hits %llu evictions %llu demotions %llu T2 evictions %llu saved %llu writebacks %llu flushed %llu errors %llu crowded %llu lost %llu retaken %llu\n",
           (unsigned long long)(w.sum(&Stripe::hits) + w.sum(&Stripe::slow)), (unsigned long long)k->t3_fetches,
           (unsigned long long)k->t2_hits, (unsigned long long)k->evictions, (unsigned long long)k->demotions,
           (unsigned long long)k->t2_evictions, (unsigned long long)k->copies_saved, (unsigned long long)k->writebacks, (unsigned long long)k->flushed,
           (unsigned long long)k->errors, (unsigned long long)k->crowded, (unsigned long long)k->lost_slots, (unsigned long long)k->retaken_slots);
    return w.problems.count();
}

// random_config is any engine with any trouble that must not matter.
inline Config random_config(uint64_t seed, uint32_t rounds) {
    Random r{mix(seed)};
    auto some = [&](uint64_t one_of, uint64_t n) { return static_cast<uint32_t>(r.one_in(one_of) ? r.below(n) + 2 : 0); };
    Config c;
    c.seed = r.next() >> 1;
    c.frames = static_cast<uint32_t>(1 + r.below(4));
    c.t2 = static_cast<uint32_t>(r.below(4));
    c.spares = static_cast<uint32_t>(1 + r.below(4));
    c.pages = static_cast<uint32_t>(8 + r.below(24));
    c.page_shift = static_cast<uint32_t>(4 + r.below(5));
    c.t1 = static_cast<uint32_t>(r.below(2));
    c.placer = static_cast<uint32_t>(r.below(4));
    c.lanes = static_cast<uint32_t>(r.one_in(2) ? 1 : 2 + r.below(3));
    c.groups = static_cast<uint32_t>(1 + r.below(c.lanes == 1 ? 8 : 3));
    c.rounds = c.lanes == 1 ? rounds : rounds / 3;
    c.fail_reads = some(2, 20);
    c.fail_writes = some(2, 20);
    c.slow = some(2, 4);
    c.flush = static_cast<uint32_t>(2 + r.below(20));
    c.interrupts = static_cast<uint32_t>(r.below(2) * (2 + r.below(30)));
    c.start = r.one_in(2) ? 0 : (1ull << (r.one_in(2) ? 31 : 32)) - r.below(200);
    c.hold = some(4, 20);
    c.pin_deadline_ms = c.hold != 0 ? 5 : c.pin_deadline_ms;
    c.keep = static_cast<uint32_t>(r.below(2));
    c.late = static_cast<uint32_t>(r.below(2));
    c.lose = c.late != 0 && c.hold == 0 ? some(2, 8) : 0;
    c.mover = static_cast<uint32_t>(r.one_in(2) ? 1 : 0);
    c.records = c.hold == 0 && r.one_in(2) ? 64u << r.below(2) : 0;
    c.events = r.one_in(2) ? 256u << r.below(5) : 0;
    c.every = static_cast<uint32_t>(1 + r.below(2) * r.below(5));
    return c;
}

}  // namespace rig
