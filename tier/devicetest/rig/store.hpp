// The store in memory: it can be slow, can fail, and can answer after nobody waits
// any more.
#pragma once

#include <set>

#include "problems.hpp"
#include "yield.hpp"

namespace rig {

using namespace tritier;
using namespace tritier::tier;

struct Config {
    uint64_t seed = 1, random_below = 1ull << 52;
    uint32_t pages = 16, frames = 4, t2 = 4, spares = 8, page_shift = 7;
    uint32_t t1 = kT1Clock, placer = kBypass, log = 0;
    uint32_t groups = 4, lanes = 1, rounds = 200;
    uint32_t fail_reads = 0, fail_writes = 0, slow = 0; // one in so many
    uint32_t lose = 0;                                  // of failures, one in so many is a time-out
    uint32_t late = 0;                                  // 1: what timed out ends later, and its buffer is used until then
    uint32_t hold = 0;                                  // cursors stay over other operations, one round in so many
    uint32_t flush = 40, interrupts = 0;
    uint32_t alone = 0; // 1: only its own group looks into a page, as at plain memory
    uint64_t start = 0; // counters that go on for ever begin here
    uint64_t deadline_ms = 60000, pin_deadline_ms = 20000;
    // gmt-reuse
    uint64_t direct = 64, sampled = 4;
    uint32_t window = 64, starve = 51, parity = 0, sample_count = 64;
    std::string trace, shared;
    uint32_t keep = 0; // 1: t2copy=keep
    uint32_t mover = 0;                                     // 1: pages are moved by request; 2: some are begun and not answered in time
    uint32_t records = 0, drain = 1; // length of the ring of records; 0: nobody takes any
    uint32_t events = 0, every = 1;  // of the ring of events, and of how many misses one is told of
};

constexpr uint32_t kReadError = 0x281, kWriteError = 0x280; // of a completion

// StoreMemory is what a MemoryStore reads and writes.
struct StoreMemory {
    std::vector<uint8_t> bytes;
    uint64_t page_bytes = 0, slots = 0;
    uint32_t fail_reads = 0, fail_writes = 0, slow = 0, lose = 0;
    std::atomic<uint64_t> operations{0}, reads{0}, writes{0}, flushes{0}, lost{0}, asked{0};
    std::atomic<bool> healthy{false};
    uint64_t seed = 0;
    Problems* problems = nullptr;
    uint32_t late = 0;
    bool ends = true; // commands that nobody waited for end by themselves

    // Commands that nobody waited for: they use their buffer until they end.
    struct Late {
        uint32_t page, slot;
        bool write;
        std::vector<uint8_t> snapshot;
    };
    std::mutex mu;
    std::vector<Late> lates[2]; // by queue

    std::set<uint32_t> filling; // slots of reads that were begun

    // fill has the drive write to the buffers of the reads that are under way, as it may at
    // any time until their end.
    void fill() {
        std::lock_guard<std::mutex> lock(mu);
        for (uint32_t slot : filling) {
            memset(buffer(slot), 0xee, page_bytes);
        }
    }
    void begin(uint32_t slot) {
        std::lock_guard<std::mutex> lock(mu);
        if (!filling.insert(slot).second) {
            problems->report("slot %u is read into twice at a time", slot);
        }
    }
    void ended(uint32_t slot) {
        std::lock_guard<std::mutex> lock(mu);
        filling.erase(slot);
    }
    uint8_t* buffer(uint32_t slot) { return reinterpret_cast<uint8_t*>(slots + slot * page_bytes); }
    // end has the oldest late command of a queue end, and carries it out only now. One
    // that wrote finds its buffer as it was, and puts it over what came later; one that
    // read fills it, which nobody may notice.
    void end(uint32_t queue) {
        std::lock_guard<std::mutex> lock(mu);
        if (lates[queue].empty()) {
            return;
        }
        Late x = lates[queue].front();
        lates[queue].erase(lates[queue].begin());
        if (x.write && memcmp(buffer(x.slot), x.snapshot.data(), page_bytes) != 0) {
            problems->report("the buffer in slot %u of a write that had timed out was changed before it ended", x.slot);
        }
        if (x.write) {
            memcpy(bytes.data() + x.page * page_bytes, buffer(x.slot), page_bytes);
        } else {
            memset(buffer(x.slot), 0xdd, page_bytes);
        }
    }
    void give_up(uint32_t queue, uint32_t page, uint32_t slot, bool write) {
        lost++;
        if (late != 0) {
            std::lock_guard<std::mutex> lock(mu);
            lates[queue].push_back({page, slot, write, std::vector<uint8_t>(buffer(slot), buffer(slot) + page_bytes)});
        }
    }
    bool settled(uint32_t queue) {
        if (late == 0) {
            return healthy; // it was reset by then
        }
        std::lock_guard<std::mutex> lock(mu);
        return lates[queue].empty();
    }
};

struct MemoryStore {
    StoreMemory* m;
    uint32_t user;

    static MemoryStore open(const Engine* e, uint32_t user) { return MemoryStore{reinterpret_cast<StoreMemory*>(e->store), user}; }
    uint32_t held_by(uint32_t page) const { return (page + user) % 2; }
    bool settled(uint32_t queue) const {
        if (m->ends && (m->asked.fetch_add(1) % 3 == 0 || m->healthy)) {
            m->end(queue);
        }
        return m->settled(queue);
    }

    uint32_t move(uint32_t page, uint32_t slot, bool write) const {
        Random r{mix(m->seed ^ m->operations.fetch_add(1)) ^ page};
        uint8_t* at = m->bytes.data() + page * m->page_bytes;
        uint8_t* buffer = m->buffer(slot);
        if (m->ends && r.one_in(4)) {
            m->end(static_cast<uint32_t>(r.below(2)));
        }
        for (uint32_t i = r.one_in(m->slow) ? 20 : 0; i > 0; i--) {
            sched_yield();
        }
        if (!m->healthy && r.one_in(write ? m->fail_writes : m->fail_reads)) {
            if (r.one_in(m->lose)) {
                m->give_up(held_by(page), page, slot, write);
                return kWaitTimeout;
            }
            return write ? kWriteError : kReadError;
        }
        (write ? m->writes : m->reads)++;
        memcpy(write ? at : buffer, write ? buffer : at, m->page_bytes);
        return kTierOk;
    }
    template <class G>
    uint32_t all(const G& g, uint32_t page, uint32_t slot, bool write) const {
        g.sync();
        uint32_t status = g.leads() ? move(page, slot, write) : kTierOk;
        return from_leader(g, status);
    }
    template <class G>
    uint32_t read(const G& g, uint32_t page, uint32_t slot) const {
        return all(g, page, slot, false);
    }
    template <class G>
    bool begin_read(const G& g, uint32_t page, uint32_t slot, Reading* r) const {
        uint32_t begun = 0;
        if (g.leads() && m->operations.fetch_add(1) % 4 != 0) {
            m->begin(slot);
            begun = 1;
        }
        if (from_leader(g, begun) == 0) {
            return false;
        }
        *r = Reading{kUnderWay, kTierOk, page, slot, 0, r->begun};
        return true;
    }
    template <class G>
    void end_read(const G& g, Reading* r) const {
        if (g.leads()) {
            m->fill();
            m->ended(r->index);
        }
        r->status = all(g, r->page, r->index, false);
        r->state = kEnded;
    }
    template <class G>
    uint32_t write(const G& g, uint32_t page, uint32_t slot, Reading* r = nullptr) const {
        if (r != nullptr && r->state == kUnderWay && page % 3 == 0) {
            end_read(g, r); // as a store that has no place for the write
        }
        return all(g, page, slot, true);
    }
    template <class G>
    uint32_t flush(const G& g) const {
        if (g.leads()) {
            m->flushes++;
        }
        return kTierOk;
    }
    bool lost(uint32_t status) const { return status == kWaitTimeout; }
};

}  // namespace rig
