// The world that device code sees: an engine laid out as the host would, and a
// store in memory that can be slow and can fail.
#pragma once

#include "yield.hpp"

namespace rig {

using namespace tritier;
using namespace tritier::tier;

inline uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

struct Random {
    uint64_t state;
    uint64_t next() { return mix(state++); }
    uint64_t below(uint64_t n) { return next() % n; }
    bool one_in(uint64_t n) { return n != 0 && next() % n == 0; }
};

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
    uint32_t records = 0, drain = 1; // length of the ring of records; 0: nobody takes any
};

constexpr uint32_t kReadError = 0x281, kWriteError = 0x280; // of a completion

// Problems are what the rig finds wrong.
class Problems {
public:
    template <class... A>
    void report(const char* format, A... a) {
        if (count_.fetch_add(1) < 10) {
            char line[300];
            snprintf(line, sizeof line, format, a...);
            fprintf(stderr, "PROBLEM: %s\n", line);
        }
        if (quick()) {
            _exit(1);
        }
    }
    uint32_t count() const { return count_.load(); }
    // quick ends the process at the first problem: all is broken by then, and
    // waits would go on to their deadlines.
    static bool& quick() {
        static bool on = false;
        return on;
    }

private:
    std::atomic<uint32_t> count_{0};
};

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

    // Commands that nobody waited for: they use their buffer until they end.
    struct Late {
        uint32_t page, slot;
        bool write;
        std::vector<uint8_t> snapshot;
    };
    std::mutex mu;
    std::vector<Late> lates[2]; // by queue

    uint8_t* buffer(uint32_t slot) { return reinterpret_cast<uint8_t*>(slots + slot * page_bytes); }
    // end has the oldest late command of a queue end. One that wrote finds its
    // buffer as it was; one that read fills it, which nobody may notice.
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
        if (!x.write) {
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
            return false;
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
        if (m->asked.fetch_add(1) % 3 == 0 || m->healthy) {
            m->end(queue);
        }
        return m->settled(queue);
    }

    uint32_t move(uint32_t page, uint32_t slot, bool write) const {
        Random r{mix(m->seed ^ m->operations.fetch_add(1)) ^ page};
        uint8_t* at = m->bytes.data() + page * m->page_bytes;
        uint8_t* buffer = m->buffer(slot);
        if (r.one_in(4)) {
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
    uint32_t write(const G& g, uint32_t page, uint32_t slot) const {
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

// Memory is zeroed and aligned.
class Memory {
public:
    explicit Memory(uint64_t bytes) : bytes_((bytes + 4095) / 4096 * 4096), p_(static_cast<uint8_t*>(aligned_alloc(4096, bytes_ + 4096))) {
        memset(p_, 0, bytes_);
    }
    ~Memory() { free(p_); }
    Memory(const Memory&) = delete;
    template <class T>
    T* as() const {
        return reinterpret_cast<T*>(p_);
    }
    uint64_t address() const { return reinterpret_cast<uint64_t>(p_); }

private:
    uint64_t bytes_;
    uint8_t* p_;
};

struct World {
    explicit World(const Config& config, void* shared = nullptr);

    Config c;
    Problems problems;
    Engine e{};
    StoreMemory store;
    uint32_t stop = 0;

    Hot* hot() { return reinterpret_cast<Hot*>(e.hot); }
    Counts* counts() { return reinterpret_cast<Counts*>(e.counts); }
    uint64_t entry(uint32_t page) { return load_acquire_gpu(reinterpret_cast<uint64_t*>(e.entries) + page); }
    Context<MemoryStore> context(uint32_t user) { return open_context<MemoryStore>(&e, user); }
    template <class T>
    array_ref<T, MemoryStore> array() const {
        array_ref<T, MemoryStore> a{};
        a.version = kTierVersion;
        a.page_shift = static_cast<uint8_t>(e.page_shift);
        a.engine = reinterpret_cast<uint64_t>(&e);
        a.entries = e.entries;
        a.frame_memory = e.frame_memory;
        a.length = (static_cast<uint64_t>(c.pages) << c.page_shift) / sizeof(T);
        return a;
    }
    uint64_t sum(uint64_t Stripe::* field) {
        uint64_t s = 0;
        for (uint32_t i = 0; i < kStripes; i++) {
            s += load_relaxed_gpu(&(reinterpret_cast<Stripe*>(e.stripes)[i].*field));
        }
        return s;
    }

private:
    uint64_t make(uint64_t bytes) {
        memory_.push_back(std::make_unique<Memory>(bytes));
        return memory_.back()->address();
    }
    void set_up_tiers();
    void set_up_reuse(void* shared);
    void set_up_records();
    std::vector<std::unique_ptr<Memory>> memory_;
};

inline World::World(const Config& config, void* shared) : c(config) {
    e.version = kTierVersion;
    e.page_shift = c.page_shift;
    e.t1_policy = c.t1;
    e.placer = c.placer;
    e.pages = c.pages;
    e.frames = c.frames;
    e.t2_frames = c.t2;
    e.slots = c.t2 + c.spares;
    e.seed = c.seed;
    e.random_below = c.random_below;
    e.deadline_ns = c.deadline_ms * 1000000;
    e.pin_deadline_ns = c.pin_deadline_ms * 1000000;
    e.stop = reinterpret_cast<uint64_t>(&stop);
    e.store = reinterpret_cast<uint64_t>(&store);
    e.counts = make(sizeof(Counts));
    e.hot = make(sizeof(Hot));
    e.stripes = make(sizeof(Stripe) * kStripes);
    set_up_tiers();
    if (c.placer == kGmtReuse) {
        set_up_reuse(shared);
    }
    if (c.records != 0) {
        set_up_records();
    }
    store.page_bytes = 1ull << c.page_shift;
    store.bytes.resize(c.pages * store.page_bytes);
    store.slots = e.slot_memory;
    store.fail_reads = c.fail_reads;
    store.fail_writes = c.fail_writes;
    store.slow = c.slow;
    store.lose = c.lose;
    store.late = c.late;
    store.problems = &problems;
    store.seed = c.seed;
}

inline void World::set_up_tiers() {
    e.log_size = c.log;
    if (e.log_size == 0) {
        e.log_size = c.t2 == 0 ? 2 : 2 * c.t2;
    }
    e.entries = make(8ull * c.pages);
    e.frame_owner = make(4ull * c.frames);
    e.frame_memory = make(static_cast<uint64_t>(c.frames) << c.page_shift);
    e.slot_owner = make(4ull * e.slots);
    e.slot_order = make(4ull * e.slots);
    e.slot_memory = make(static_cast<uint64_t>(e.slots) << c.page_shift);
    e.log = make(4ull * e.log_size);
    if (c.keep != 0) {
        e.copies = make(4ull * c.frames);
        memset(reinterpret_cast<void*>(e.copies), 0xff, 4ull * c.frames);
    }
    Hot* h = hot();
    h->free_frames = h->free_slots = c.start << 32;
    h->free_frames |= kChainEnd;
    h->lost_slots = h->free_frames;
    h->hand = (c.start + c.frames - 1) / c.frames * c.frames;
    h->log_head = h->log_tail = c.start;
    for (uint32_t p = 0; c.start != 0 && p < c.pages; p++) {
        reinterpret_cast<uint64_t*>(e.entries)[p] = kGenerationMask;
    }
    for (uint32_t f = 0; f < c.frames; f++) {
        reinterpret_cast<uint32_t*>(e.frame_owner)[f] = kNone;
    }
    for (uint32_t s = 0; s < e.slots; s++) {
        reinterpret_cast<uint32_t*>(e.slot_owner)[s] = kFreeMark | (s + 1 < e.slots ? s + 1 : kChainEnd);
    }
}

// All pages are recorded; a bitmap says which the placer samples.
inline void World::set_up_records() {
    e.record_box = make(sizeof(RecordBox));
    e.records = make(8ull * c.records);
    e.record_count = c.records;
    e.record_room = c.records / 2;
    e.record_wait_ns = e.pin_deadline_ns / 2;
    e.observed = make(c.pages / 8 + 4);
    for (uint32_t p = 0; p < c.pages; p++) {
        uint64_t* entry = reinterpret_cast<uint64_t*>(e.entries) + p;
        reinterpret_cast<uint32_t*>(e.observed)[p / 32] |= (*entry & kSampled) != 0 ? 1u << p % 32 : 0;
        *entry |= kSampled;
    }
}

inline void World::set_up_reuse(void* shared) {
    e.reuse = make(sizeof(ReusePage) * c.pages);
    e.reuse_state = make(sizeof(ReuseState));
    e.sample_count = c.sample_count;
    e.parity = c.parity;
    if (shared == nullptr) {
        e.mailbox = make(4096 + sizeof(Sample) * c.sample_count);
        Mailbox* m = reinterpret_cast<Mailbox*>(e.mailbox);
        m->gate = ~0ull;
        m->params[0] = ReuseParams{0, 1, 0, c.direct, c.frames, c.frames + c.t2, c.frames, c.frames + c.t2, c.seed, 1ull << 52, c.window, c.starve};
        for (uint32_t p = 0; p < c.pages; p++) {
            if (c.sampled != 0 && mix(p) % c.sampled == 0) {
                reinterpret_cast<uint64_t*>(e.entries)[p] |= kSampled;
            }
        }
    } else {
        // Mailbox, samples, and a byte for each page: is it sampled?
        e.mailbox = reinterpret_cast<uint64_t>(shared);
        const uint8_t* sampled = static_cast<uint8_t*>(shared) + 4096 + sizeof(Sample) * c.sample_count;
        for (uint32_t p = 0; p < c.pages; p++) {
            reinterpret_cast<uint64_t*>(e.entries)[p] |= sampled[p] != 0 ? kSampled : 0;
        }
    }
    e.samples = e.mailbox + 4096;
    Mailbox* m = reinterpret_cast<Mailbox*>(e.mailbox);
    reinterpret_cast<ReuseState*>(e.reuse_state)->params[0] = m->params[0];
    hot()->sample_gate = m->gate;
    e.starve_bits = make(4ull * (m->params[0].window / 32 + 1));
}

}  // namespace rig
