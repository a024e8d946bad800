// Reads, writes and flushes by groups and threads. In short:
//
//   Port p = open_port(engine, queue_of(engine, drive, warp));   once per warp
//   Medium m = open_medium(engine, drive);
//   status = read(Lanes::full(), p, m, span);     a command per lane, waits
//   status = read_async(g, p, m, span, want, &handle); ...; status = wait(g, p, handle, want);
//   status = read_thread(p, m, span);             code that has diverged
//
// A status is kOk, the 15-bit status field of a completion, or one of layout.cuh's
// codes. After kTimeout, kStopped, kQueueFailed and kDeviceGone the controller may
// still use the payload buffer: nothing may be put there until its completion
// came or the controller was reset. After kBusy and kBadArgument nothing was sent.
#pragma once

#include "copy.cuh"
#include "submit.cuh"

namespace tritier {
namespace bamio {

// execute runs the commands of the lanes in want and returns each lane's
// status. Results are taken as they come, also while other lanes still wait for
// a place, so that any number of groups share a queue of any depth.
template <class G>
TRITIER_DEVICE uint32_t execute(const G& g, const Port& p, const Command& c, bool want) {
    uint32_t status = kOk;
    Handle h = Handle{0, 0};
    bool running = false;
    Watch watch = Watch::start();
    for (;;) {
        if (g.any(want) && try_submit(g, p, c, want, &h)) {
            want = false;
            running = true;
            watch.begun = globaltimer();
        }
        uint32_t took = poll(g, p);
        running = running && !try_wait(p, h, &status);
        if (!g.any(want || running)) {
            g.sync();
            return status;
        }
        uint32_t why = watch.over(g, p);
        if (why != kOk && running) {
            status = give_up(p, h, why);
            running = false;
        } else if (why != kOk && want) {
            status = why == kTimeout ? kBusy : why;
            want = false;
        }
        if (took == 0) {
            relax();
        }
    }
}

// left_behind says that after status the controller may still use the buffer.
TRITIER_DEVICE bool left_behind(uint32_t status) {
    return status == kTimeout || status == kStopped || status == kQueueFailed || status == kDeviceGone;
}

// transfer_blocks reads or writes (opcode) one span per lane of want.
template <class G>
TRITIER_DEVICE uint32_t transfer_blocks(const G& g, const Port& p, const Medium& m, uint32_t opcode, const Span& s, bool want) {
    Command c;
    uint32_t bad = make_transfer(m, opcode, s, &c);
    uint32_t status = execute(g, p, c, want && bad == kOk);
    return want && bad != kOk ? bad : status;
}

// read reads a span per lane of want into its payload buffer.
template <class G>
TRITIER_DEVICE uint32_t read(const G& g, const Port& p, const Medium& m, const Span& s, bool want = true) {
    return transfer_blocks(g, p, m, kRead, s, want);
}

// write writes a span per lane of want from its payload buffer, which push or
// plain stores followed by g.sync have filled.
template <class G>
TRITIER_DEVICE uint32_t write(const G& g, const Port& p, const Medium& m, const Span& s, bool want = true) {
    return transfer_blocks(g, p, m, kWrite, s, want);
}

// flush makes what the drive has completed durable, one command for the whole
// group; every lane gets its status.
template <class G>
TRITIER_DEVICE uint32_t flush(const G& g, const Port& p) {
    return from_leader(g, execute(g, p, make_flush(), g.leads()));
}

// start_blocks is the asynchronous transfer_blocks: kOk, and *h needs wait or
// try_wait; or a status as of submit, and *h means nothing.
template <class G>
TRITIER_DEVICE uint32_t start_blocks(const G& g, const Port& p, const Medium& m, uint32_t opcode, const Span& s, bool want, Handle* h) {
    Command c;
    uint32_t bad = make_transfer(m, opcode, s, &c);
    uint32_t status = submit(g, p, c, want && bad == kOk, h);
    return want && bad != kOk ? bad : status;
}

template <class G>
TRITIER_DEVICE uint32_t read_async(const G& g, const Port& p, const Medium& m, const Span& s, bool want, Handle* h) {
    return start_blocks(g, p, m, kRead, s, want, h);
}

template <class G>
TRITIER_DEVICE uint32_t write_async(const G& g, const Port& p, const Medium& m, const Span& s, bool want, Handle* h) {
    return start_blocks(g, p, m, kWrite, s, want, h);
}

template <class G>
TRITIER_DEVICE uint32_t flush_async(const G& g, const Port& p, bool want, Handle* h) {
    return submit(g, p, make_flush(), want, h);
}

// read_to reads a span per lane of want and copies it to the lane's dst (16-byte
// aligned). All spans have the same number of blocks.
template <class G>
TRITIER_DEVICE uint32_t read_to(const G& g, const Port& p, const Medium& m, const Span& s, void* dst, bool want = true) {
    uint32_t status = read(g, p, m, s, want);
    pull_each(g, dst, payload_at(m, s.buffer, s.offset), s.blocks * m.block_size, want && status == kOk);
    return status;
}

// write_from copies each lane's src to its payload buffer and writes it.
template <class G>
TRITIER_DEVICE uint32_t write_from(const G& g, const Port& p, const Medium& m, const Span& s, const void* src, bool want = true) {
    Command c;
    uint32_t bad = make_transfer(m, kWrite, s, &c); // before anything is stored
    want = want && bad == kOk;
    push_each(g, payload_at(m, s.buffer, s.offset), src, s.blocks * m.block_size, want);
    uint32_t status = execute(g, p, c, want);
    return bad != kOk ? bad : status;
}

// transfer moves one span of any size for the whole group: as many commands as
// the drive's limit asks for, shared out to the lanes. s is the same in all
// lanes; all get the first error, or the first after which the buffer may still be
// used: another part's status would hide that.
template <class G>
TRITIER_DEVICE uint32_t transfer(const G& g, const Port& p, const Medium& m, uint32_t opcode, const Span& s) {
    uint32_t most = m.max_blocks < 65536 ? m.max_blocks : 65536;
    // As a whole: the parts' offsets are 32-bit numbers.
    uint64_t end = s.offset + static_cast<uint64_t>(s.blocks) * m.block_size;
    if (most == 0 || s.blocks == 0 || end > m.payload.bytes) {
        return kBadArgument;
    }
    for (uint64_t first = 0; first < s.blocks; first += static_cast<uint64_t>(g.size()) * most) {
        uint64_t at = first + static_cast<uint64_t>(g.rank()) * most;
        bool want = at < s.blocks;
        uint64_t left = want ? s.blocks - at : 0;
        Span part = Span{s.lba + at, left < most ? static_cast<uint32_t>(left) : most, s.buffer,
                         static_cast<uint32_t>(s.offset + at * m.block_size)};
        uint32_t status = transfer_blocks(g, p, m, opcode, part, want);
        uint32_t failed = g.ballot(want && status != kOk);
        if (failed != 0) {
            uint32_t behind = g.ballot(want && left_behind(status));
            return g.from(status, lowest_bit(behind != 0 ? behind : failed));
        }
    }
    return kOk;
}

// read_thread, write_thread and flush_thread may be called from ,
// each thread for itself. Threads of a warp that come together and use the same
// queue share a doorbell.
TRITIER_DEVICE uint32_t read_thread(const Port& p, const Medium& m, const Span& s) {
    return read(Lanes::sharing(p.q), p, m, s, true);
}

TRITIER_DEVICE uint32_t write_thread(const Port& p, const Medium& m, const Span& s) {
    return write(Lanes::sharing(p.q), p, m, s, true);
}

TRITIER_DEVICE uint32_t flush_thread(const Port& p) { return flush(Lanes::sharing(p.q), p); }

} // namespace bamio
} // namespace tritier
