// What goes wrong: commands that the controller refuses, media errors, and
// commands that do not end in time.
#pragma once

#include <thread>
#include <vector>

#include "shared.hpp"

namespace trial {

struct Row {
    const char* name;
    Command c;
    uint32_t nsid; // 0: the queue's
    uint32_t want;
};

// error_rows are commands with the status that QEMU's controller gives to each.
// Sectors 800 (reads) and 900 (writes) of drive 1 fail.
inline std::vector<Row> error_rows(const Medium& m) {
    uint64_t at = m.payload.iova;
    uint32_t too_many = m.max_blocks; // zero-based, so one too many
    return {
        {"a good read", Command{kRead, 0, 808, at, 0, 0, 0, 0}, 0, 0},
        {"a bad sector, read", Command{kRead, 0, 800, at, 0, 0, 0, 0}, 0, 0x281},
        {"a bad sector, written", Command{kWrite, 0, 900, at, 0, 0, 0, 0}, 0, 0x280},
        {"an unknown opcode", Command{0x55, 0, 0, at, 0, 0, 0, 0}, 0, 0x001},
        {"beyond the end", Command{kRead, 0, m.blocks, at, 0, 0, 0, 0}, 0, 0x080},
        {"an unknown namespace", Command{kRead, 0, 0, at, 0, 0, 0, 0}, 300, 0x00b},
        {"a second page with an offset", Command{kRead, 15, 0, at, at + 4096 + 8, 0, 0, 0}, 0, 0x013},
        {"more than a command may move", Command{kRead, too_many, 0, at, m.payload.lists, 0, 0, 0}, 0, 0x002},
        {"a flush", make_flush(), 0, 0},
    };
}

// statuses has many threads share few places, all with errors: each must get
// its own.
inline void statuses(World* w, uint64_t threads, uint64_t rounds) {
    std::vector<std::thread> all;
    for (uint64_t t = 0; t < threads; t++) {
        all.emplace_back([=] {
            Medium m = open_medium(w->engine, 1);
            std::vector<Row> rows = error_rows(m);
            for (uint64_t i = 0; i < rounds; i++) {
                Port p = open_port(w->engine, queue_of(w->engine, 1, t + i));
                const Row& r = rows[(i + t) % rows.size()];
                p.nsid = r.nsid != 0 ? r.nsid : p.nsid;
                uint32_t status = execute(Solo::full(), p, r.c, true);
                w->commands++;
                w->failed += r.want != 0;
                if (code(status) != r.want) {
                    w->problems.report("%s: status %#x, want %#x", r.name, status, r.want);
                }
            }
        });
    }
    for (std::thread& t : all) {
        t.join();
    }
}

// slow_read is a command that takes longer than a deadline may be.
inline Command slow_read(const Medium& m, uint32_t buffer) {
    Command c;
    make_transfer(m, kRead, Span{buffer, 1, buffer, 0}, &c);
    return c;
}

inline uint64_t milliseconds_since(uint64_t begun) { return (globaltimer() - begun) / 1000000; }

// timeouts fills drive 2's only queue with commands that take seconds.
inline void timeouts(World* w) {
    Solo g;
    Port p = open_port(w->engine, queue_of(w->engine, 2, 0));
    Medium m = open_medium(w->engine, 2);
    uint64_t begun = globaltimer(), limit = p.deadline_ns / 1000000;
    std::vector<std::thread> all;
    for (uint32_t i = 0; i < p.cid_count; i++) {
        all.emplace_back([=] {
            uint32_t status = execute(g, p, slow_read(m, i), true);
            if (status != kTimeout || milliseconds_since(begun) < limit) {
                w->problems.report("a slow command: status %#x after %llu ms", status, (unsigned long long)milliseconds_since(begun));
            }
        });
    }
    for (std::thread& t : all) {
        t.join();
    }
    printf("time-outs after %llu ms of %llu\n", (unsigned long long)milliseconds_since(begun), (unsigned long long)limit);
    // Both ids are the controller's still, so there is no place for more.
    uint64_t before = p.q->tickets;
    uint32_t status = execute(g, p, slow_read(m, p.cid_count), true);
    if (status != kBusy || p.q->tickets != before) {
        w->problems.report("no free id: status %#x, %llu tickets taken", status, (unsigned long long)(p.q->tickets - before));
    }
    // Late completions give the ids back, and nobody the results.
    begun = globaltimer();
    while (p.q->completions < p.cid_count && milliseconds_since(begun) < 20000) {
        poll(g, p);
        bamio::relax();
    }
    printf("late completions after %llu ms more\n", (unsigned long long)milliseconds_since(begun));
    for (uint32_t i = 0; i < p.cid_count; i++) {
        if (p.cids[i].word != kFree) {
            w->problems.report("command id %u is %#x after its late completion", i, p.cids[i].word);
        }
    }
    p.deadline_ns = 20000000000u;
    status = execute(g, p, slow_read(m, 0), true);
    if (status != kOk) {
        w->problems.report("with enough time: status %#x", status);
    }
    w->commands += p.cid_count + 1;
}

// in_flight leaves commands with drive 2's queue and has the other process act,
// then waits for each to end with the status want.
inline void in_flight(World* w, uint32_t count, uint32_t want) {
    Solo g;
    Port p = open_port(w->engine, queue_of(w->engine, 2, 0));
    Medium m = open_medium(w->engine, 2);
    std::vector<Handle> handles(count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t status = submit(g, p, slow_read(m, i), true, &handles[i]);
        if (status != kOk) {
            w->problems.report("submit: status %#x", status);
            return;
        }
    }
    // A controller fetches in order: when a later command is done, it has them all.
    Port fast = p;
    fast.nsid = w->queue(w->drive(0)->first_queue)->nsid;
    uint32_t status = execute(g, fast, slow_read(open_medium(w->engine, 0), count), true);
    if (status != kOk) {
        w->problems.report("a command behind them: status %#x", status);
    }
    printf("READY\n");
    fflush(stdout);
    uint64_t begun = globaltimer();
    std::vector<std::thread> all;
    for (const Handle& h : handles) {
        all.emplace_back([=] {
            uint32_t end = wait(g, p, h, true);
            if (end != want) {
                w->problems.report("a command in flight: status %#x, want %#x", end, want);
            }
        });
    }
    for (std::thread& t : all) {
        t.join();
    }
    uint64_t took = milliseconds_since(begun), limit = p.deadline_ns / 1000000 + 5000;
    printf("%u commands ended after %llu ms\n", count, (unsigned long long)took);
    if (took > limit) {
        w->problems.report("they took %llu ms, the deadline and its allowance are %llu", (unsigned long long)took, (unsigned long long)limit);
    }
    w->commands += count + 1;
}

}  // namespace trial
