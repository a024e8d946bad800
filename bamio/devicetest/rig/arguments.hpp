// Arguments: what make_transfer accepts and which PRPs it chooses.
#pragma once

#include <thread>

#include "lanes.hpp"
#include "world.hpp"

namespace rig {

inline Medium big_medium() {
    Medium m{};
    m.blocks = 1ull << 40;
    m.block_size = 512;
    m.max_blocks = 1024;
    m.payload.base = 0x10000;
    m.payload.iova = 0x100000000000;
    m.payload.lists = 0x200000000000;
    m.payload.bytes = 1 << 20;
    m.payload.list_bytes = 4096;
    m.payload.count = 5000; // more than 4 GiB in all
    return m;
}

// check_transfer: a transfer that leaves its buffer is refused as a whole, also
// when the offset of some lane's part, in 32 bits, comes to lie inside again.
inline void check_transfer(Problems* problems) {
    Config c;
    c.deadline_ms = 100; // no controller is there
    World w(c);
    Medium m = open_medium(&w.engine, 0);
    m.max_blocks = 1;
    Crew crew(2);
    uint32_t status[2];
    auto lane = [&](uint32_t i) {
        ThreadLanes g(&crew, i);
        status[i] = transfer(g, open_port(&w.engine, 0), m, kRead, Span{0, 2, 0, ~0u - 511});
    };
    std::thread other(lane, 1);
    lane(0);
    other.join();
    if (status[0] != kBadArgument || status[1] != kBadArgument || w.queues[0].tickets != 0) {
        problems->report("a transfer outside its buffer: %#x %#x, %llu entries", status[0], status[1],
                         (unsigned long long)w.queues[0].tickets);
    }
}

// check_parts: one part of a transfer fails, the other is never answered, and may still
// use the buffer: that is what the caller has to know.
inline void check_parts(Problems* problems) {
    Config c;
    c.deadline_ms = 200;
    World w(c);
    Medium m = open_medium(&w.engine, 0);
    m.max_blocks = 1;
    Crew crew(2);
    uint32_t status[2];
    std::vector<std::thread> lanes;
    for (uint32_t i = 0; i < 2; i++) {
        lanes.emplace_back([&, i] { status[i] = transfer(ThreadLanes(&crew, i), open_port(&w.engine, 0), m, kRead, Span{0, 2, 0, 0}); });
    }
    const Queue& q = w.queues[0];
    while (load_acquire_sys(reinterpret_cast<uint32_t*>(q.sq_doorbell)) != 2) {
        sched_yield();
    }
    const uint32_t* first = reinterpret_cast<const uint32_t*>(q.sq);
    first += first[10] == 0 ? 0 : 16; // of block 0
    uint32_t* answer = reinterpret_cast<uint32_t*>(q.cq);
    answer[2] = 2;
    store_release_sys(&answer[3], 0x281u << 17 | 1u << 16 | first[0] >> 16);
    for (std::thread& t : lanes) {
        t.join();
    }
    if (status[0] != kTimeout || status[1] != kTimeout) {
        problems->report("a transfer of which a part failed and a part was lost: %#x %#x", status[0], status[1]);
    }
}

inline uint32_t run_arguments() {
    Problems problems;
    check_transfer(&problems);
    check_parts(&problems);
    struct Row {
        const char* name;
        Span s;
        uint32_t status;
        uint64_t prp1, prp2;
    };
    const uint64_t io = 0x100000000000, ls = 0x200000000000, last = 4999ull << 20;
    const Row rows[] = {
        {"one block", {0, 1, 0, 0}, kOk, io, 0},
        {"one page", {0, 8, 0, 0}, kOk, io, 0},
        {"an offset in one page", {0, 1, 0, 3584}, kOk, io + 3584, 0},
        {"an offset into the second page", {0, 1, 0, 3588}, kOk, io + 3588, io + 4096},
        {"two pages", {0, 16, 0, 4096}, kOk, io + 4096, io + 8192},
        {"three pages", {0, 24, 0, 0}, kOk, io, ls},
        {"three pages with an offset", {0, 16, 0, 4}, kOk, io + 4, ls},
        {"three pages inside", {0, 24, 0, 8 * 4096}, kOk, io + 8 * 4096, ls + 64},
        {"the last buffer, past 4 GiB", {0, 24, 4999, 0}, kOk, io + last, ls + 4999 * 4096},
        {"the end of the buffer", {0, 1, 1, (1 << 20) - 512}, kOk, io + (2 << 20) - 512, 0},
        {"the most", {0, 1024, 0, 0}, kOk, io, ls},
        {"the end of the drive", {(1ull << 40) - 8, 8, 0, 0}, kOk, io, 0},
        {"past the end of the drive", {(1ull << 40) - 8, 9, 0, 0}, kBadArgument, 0, 0},
        {"behind the drive", {1ull << 40, 1, 0, 0}, kBadArgument, 0, 0},
        {"an LBA that wraps", {~0ull, 2, 0, 0}, kBadArgument, 0, 0},
        {"no blocks", {0, 0, 0, 0}, kBadArgument, 0, 0},
        {"more than a command may have", {0, 1025, 0, 0}, kBadArgument, 0, 0},
        {"a size that wraps", {0, 1u << 23, 0, 0}, kBadArgument, 0, 0},
        {"no such buffer", {0, 1, 5000, 0}, kBadArgument, 0, 0},
        {"past the end of the buffer", {0, 2, 0, (1 << 20) - 512}, kBadArgument, 0, 0},
        {"behind the buffer", {0, 1, 0, 1 << 20}, kBadArgument, 0, 0},
        {"an offset that wraps", {0, 1, 0, ~3u}, kBadArgument, 0, 0},
        {"an odd offset", {0, 1, 0, 2}, kBadArgument, 0, 0},
    };
    for (const Row& r : rows) {
        Command c;
        uint32_t status = make_transfer(big_medium(), kRead, r.s, &c);
        bool entry = c.opcode == kRead && c.lba == r.s.lba && c.cdw12 == r.s.blocks - 1 && (c.cdw13 | c.cdw14 | c.cdw15) == 0;
        if (status != r.status || (status == kOk && (!entry || c.prp1 != r.prp1 || c.prp2 != r.prp2))) {
            problems.report("%s: %#x, PRPs %#llx %#llx", r.name, status, (unsigned long long)c.prp1, (unsigned long long)c.prp2);
        }
    }
    // Lists have no chains: a command's part must stay in one page of it.
    Medium m = big_medium();
    m.payload.bytes = 4 << 20;
    m.payload.list_bytes = 2 * 4096;
    Command c;
    if (make_transfer(m, kRead, Span{0, 24, 0, 510 * 4096}, &c) != kOk || c.prp2 != ls + 510 * 8) {
        problems.report("the end of a list's page");
    }
    if (make_transfer(m, kRead, Span{0, 24, 0, 511 * 4096}, &c) != kBadArgument) {
        problems.report("a list that would need a chain");
    }
    m.payload.lists = 0;
    if (make_transfer(m, kRead, Span{0, 24, 0, 0}, &c) != kBadArgument || make_transfer(m, kRead, Span{0, 16, 0, 0}, &c) != kOk) {
        problems.report("no lists");
    }
    return problems.count();
}

}  // namespace rig
