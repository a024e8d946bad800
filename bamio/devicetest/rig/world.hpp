// The world that device code sees: queues, a drive, payload buffers, laid out
// as the host would, with counters and stale ring contents of any past.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "problems.hpp"
#include "yield.hpp"

namespace rig {

using namespace tritier;
using namespace tritier::bamio;

constexpr uint64_t kSpace = 1ull << 44; // IOVAs are addresses + kSpace
constexpr uint32_t kBlock = 512;
constexpr uint32_t kSlotPoison = 0xdeadbeef;
constexpr uint8_t kCanary = 0xc7;

// What can go wrong in a world; a chance of one in n, or 0 for never.
struct Config {
    uint64_t seed = 1;
    uint32_t depth = 64, cq_depth = 64, cids = 63, queues = 1;
    uint64_t start = 0, cq_start = 0; // entries and completions before the test
    uint32_t warps = 4, lanes = 1;    // lanes 1: Solo
    uint32_t rounds = 200;            // commands of each lane
    uint64_t deadline_ms = 60000;
    bool async = false;
    bool reorder = false;
    uint32_t torn = 0, stall = 0, pause = 0;             // of completions and sweeps
    uint32_t fail = 0, twice = 0, drop = 0, late = 0;    // of commands
    uint32_t losses = 0;                                 // drops and late ones in all, at most
    uint32_t withdraw = 0;                               // requests are withdrawn that were not begun soon
    uint32_t payload_late = 0, gone_after = 0, stop_after = 0;
    uint64_t first_lba = 0;
};

constexpr uint32_t kAreaBlocks = 64;   // of each lane
constexpr uint32_t kBufferBytes = 8 * 4096;

// Pages is zeroed memory aligned to 4096 bytes.
class Pages {
public:
    explicit Pages(uint64_t bytes) : bytes_((bytes + 4095) / 4096 * 4096), p_(static_cast<uint8_t*>(aligned_alloc(4096, bytes_))) {
        memset(p_, 0, bytes_);
    }
    ~Pages() { free(p_); }
    Pages(const Pages&) = delete;
    uint8_t* at(uint64_t offset = 0) const { return p_ + offset; }
    uint64_t address(uint64_t offset = 0) const { return reinterpret_cast<uint64_t>(p_ + offset); }
    uint64_t size() const { return bytes_; }

private:
    uint64_t bytes_;
    uint8_t* p_;
};

struct QueueMemory {
    explicit QueueMemory(const Config& c)
        : sq(c.depth * 64), cq(c.cq_depth * 16), doorbells(4096), ready(c.depth), cids(c.cids) {}
    Pages sq, cq, doorbells;
    std::vector<uint32_t> ready;
    std::vector<Cid> cids;
};

struct World {
    explicit World(const Config& config);

    Config c;
    Problems problems;
    Engine engine{};
    std::vector<Drive> drives;
    std::unique_ptr<Queue[]> queues;
    std::vector<std::unique_ptr<QueueMemory>> memory;
    uint32_t buffers;
    std::unique_ptr<Pages> payload, lists, store;
    uint32_t stop = 0;
    std::atomic<uint32_t> next_buffer{0};
    std::atomic<uint32_t> losses{0};
    std::atomic<uint32_t> fates[8] = {}; // commands that ended as each fate asks for
    std::atomic<uint32_t> dropped{0}; // commands that the controller forgot: their ids stay held
    std::atomic<uint64_t> commands{0};

    uint64_t blocks() const { return static_cast<uint64_t>(c.warps) * c.lanes * kAreaBlocks; }
    uint8_t* block(uint64_t lba) const { return store->at((lba - c.first_lba) * kBlock); }

private:
    void set_up_queue(uint32_t i);
    void set_up_payload();
};

inline World::World(const Config& config) : c(config), drives(1), queues(new Queue[config.queues]()) {
    // Every lane keeps a few buffers and leaves one behind for each loss.
    buffers = c.warps * c.lanes * 4 + c.losses * 2;
    for (uint32_t i = 0; i < c.queues; i++) {
        memory.push_back(std::make_unique<QueueMemory>(c));
        set_up_queue(i);
    }
    store = std::make_unique<Pages>(blocks() * kBlock);
    set_up_payload();
    Drive& d = drives[0];
    d.blocks = c.first_lba + blocks();
    d.block_size = kBlock;
    d.max_blocks = kBufferBytes / kBlock;
    d.queue_count = c.queues;
    d.iova = engine.payload.iova;
    d.lists = engine.payload.lists;
    engine.payload.iova = engine.payload.lists = 0; // whoever uses these is wrong
    engine.version = kLayoutVersion;
    engine.drive_count = 1;
    engine.queue_count = c.queues;
    engine.drives = reinterpret_cast<uint64_t>(drives.data());
    engine.queues = reinterpret_cast<uint64_t>(queues.get());
    engine.deadline_ns = c.deadline_ms * 1000000;
    engine.stop = reinterpret_cast<uint64_t>(&stop);
}

inline void World::set_up_queue(uint32_t i) {
    QueueMemory& m = *memory[i];
    Queue& q = queues[i];
    q.sq = m.sq.address();
    q.cq = m.cq.address();
    q.sq_doorbell = m.doorbells.address();
    q.cq_doorbell = m.doorbells.address(64);
    q.ready = reinterpret_cast<uint64_t>(m.ready.data());
    q.cids = reinterpret_cast<uint64_t>(m.cids.data());
    q.depth = c.depth;
    q.cq_depth = c.cq_depth;
    q.cid_count = c.cids;
    q.id = i + 1;
    q.nsid = 7;
    q.tickets = q.rung = q.freed = c.start;
    q.next_cid = c.start;
    q.cq_head = c.cq_start;
    *reinterpret_cast<uint32_t*>(q.sq_doorbell) = static_cast<uint32_t>(c.start % c.depth);
    *reinterpret_cast<uint32_t*>(q.cq_doorbell) = static_cast<uint32_t>(c.cq_start % c.cq_depth);
    memset(m.sq.at(), 0xee, m.sq.size());
    // What the laps before have left behind: marks, and completions of ids that
    // are in use again.
    for (uint64_t back = 1; back <= c.depth && back <= c.start; back++) {
        uint64_t n = c.start - back;
        m.ready[n % c.depth] = static_cast<uint32_t>(n) + 1;
    }
    for (uint64_t back = 1; back <= c.cq_depth && back <= c.cq_start; back++) {
        uint64_t n = c.cq_start - back;
        uint32_t phase = static_cast<uint32_t>(n / c.cq_depth & 1) ^ 1;
        uint32_t* cqe = reinterpret_cast<uint32_t*>(m.cq.at(n % c.cq_depth * 16));
        cqe[0] = cqe[1] = 0x77777777;
        cqe[2] = static_cast<uint32_t>(n % c.depth);
        cqe[3] = phase << 16 | static_cast<uint32_t>(n % c.cids);
    }
}

inline void World::set_up_payload() {
    // A canary page before and after each buffer's memory as a whole.
    uint64_t bytes = static_cast<uint64_t>(buffers) * kBufferBytes;
    payload = std::make_unique<Pages>(bytes + 2 * 4096);
    memset(payload->at(), kCanary, 4096);
    memset(payload->at(4096 + bytes), kCanary, 4096);
    constexpr uint32_t list_bytes = kBufferBytes / kPage * 8; // shorter than a page: several share one
    lists = std::make_unique<Pages>(static_cast<uint64_t>(buffers) * list_bytes);
    for (uint32_t b = 0; b < buffers; b++) {
        uint64_t* list = reinterpret_cast<uint64_t*>(lists->at(b * list_bytes));
        for (uint32_t k = 0; k + 1 < kBufferBytes / kPage; k++) {
            list[k] = payload->address(4096 + static_cast<uint64_t>(b) * kBufferBytes + (k + 1) * 4096) + kSpace;
        }
    }
    Payload& p = engine.payload;
    p.base = payload->address(4096);
    p.iova = p.base + kSpace;
    p.lists = lists->address() + kSpace;
    p.bytes = kBufferBytes;
    p.list_bytes = list_bytes;
    p.count = buffers;
}

}  // namespace rig
