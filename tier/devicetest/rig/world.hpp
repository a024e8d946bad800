// The world that device code sees: an engine laid out as the host would.
#pragma once

#include "store.hpp"

namespace rig {

// Memory is zeroed and aligned.
class Memory {
public:
    explicit Memory(uint64_t bytes) : bytes_((bytes + 4095) / 4096 * 4096), p_(static_cast<uint8_t*>(aligned_alloc(kAlignment, (bytes_ + 4096 + kAlignment - 1) / kAlignment * kAlignment))) {
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
    // Of the stripes, of which an element's address chooses one.
    static constexpr uint64_t kAlignment = kStripes * sizeof(Stripe);
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
    bamio::Engine io{}; // its ring of requests
    bamio::RequestRing ring{};
    Mover mover{};
    uint64_t move_over = 0;

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
        a.stripes = e.stripes;
        a.nowhere = c.pages;
        a.flags = e.t1_policy == kT1Clock ? kTouches : 0;
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
    void set_up_events();
    void set_up_mover();
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
    if (c.events != 0) {
        set_up_events();
    }
    if (c.mover != 0) {
        set_up_mover();
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
    e.entries = make(8ull * (c.pages + 1)); // the last is no page
    e.frame_owner = make(4ull * c.frames);
    e.frame_memory = make(static_cast<uint64_t>(c.frames) << c.page_shift);
    e.slot_owner = make(4ull * e.slots);
    e.slot_order = make(4ull * e.slots);
    e.moves = make(sizeof(Moves) * kMoveStripes);
    e.fenced = make(4ull * (c.pages / 32 + 1));
    e.fences = make(8ull * e.slots);
    e.slot_memory = make(static_cast<uint64_t>(e.slots) << c.page_shift);
    e.log = make(4ull * e.log_size);
    if (c.keep != 0) {
        e.copies = make(4ull * c.frames);
        memset(reinterpret_cast<void*>(e.copies), 0xff, 4ull * c.frames);
    }
    Hot* h = hot();
    h->free_frames = c.start << 32 | kChainEnd;
    h->lost_slots = h->lost_frames = h->free_frames;
    h->hand = (c.start + c.frames - 1) / c.frames * c.frames;
    h->log_head = h->log_tail = c.start;
    for (uint32_t p = 0; c.start != 0 && p < c.pages; p++) {
        reinterpret_cast<uint64_t*>(e.entries)[p] = kGenerationMask;
    }
    for (uint32_t f = 0; f < c.frames; f++) {
        reinterpret_cast<uint32_t*>(e.frame_owner)[f] = kNone;
    }
    for (uint32_t s = 0; s < e.slots; s++) {
        reinterpret_cast<uint32_t*>(e.slot_owner)[s] = kFreeMark | (s + kStripes < e.slots ? s + kStripes : kChainEnd);
    }
    for (uint32_t i = 0; i < kStripes; i++) {
        h->free_slots[i].head = c.start << 32 | (i < e.slots ? i : kChainEnd);
    }
}

// Pages move by request both ways, through a ring that is short.
inline void World::set_up_mover() {
    ring.count = 4;
    ring.slots = make(ring.count * sizeof(bamio::Request));
    io.requests = reinterpret_cast<uint64_t>(&ring);
    mover.bamio = reinterpret_cast<uint64_t>(&io);
    mover.patience_ns = 2000000;
    mover.over = reinterpret_cast<uint64_t>(&move_over);
    mover.by_request[kToDevice] = mover.by_request[kToHost] = 1;
    e.mover = reinterpret_cast<uint64_t>(&mover);
    e.log_size += 64;
    e.log = make(4ull * e.log_size);
}

// All pages are recorded; a bitmap says which the placer samples.
inline void World::set_up_records() {
    e.record_box = make(sizeof(RecordBox));
    e.records = make(8ull * c.records);
    e.record_count = c.records;
    e.record_room = c.records / 2;
    // If nobody takes any, pages are pinned for so long: pins must wait for much longer.
    e.record_wait_ns = c.drain != 0 ? e.pin_deadline_ns / 2 : 10 * 1000000;
    e.observed = make(c.pages / 8 + 4);
    for (uint32_t p = 0; p < c.pages; p++) {
        uint64_t* entry = reinterpret_cast<uint64_t*>(e.entries) + p;
        reinterpret_cast<uint32_t*>(e.observed)[p / 32] |= (*entry & kSampled) != 0 ? 1u << p % 32 : 0;
        *entry |= kSampled;
    }
}

inline void World::set_up_events() {
    e.events = make(sizeof(EventLog));
    EventLog* l = reinterpret_cast<EventLog*>(e.events);
    l->events = make(sizeof(Event) * c.events);
    l->box = make(sizeof(EventBox));
    l->count = c.events;
    l->room = c.events / 2;
    l->every = c.every;
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
