// Submission entries: what a command moves, where to, and the 64 bytes of it.
#pragma once

#include "layout.cuh"

namespace tritier {
namespace bamio {

enum : uint32_t {
    kFlush = 0x00,
    kWrite = 0x01,
    kRead = 0x02,
    kForceUnitAccess = 1u << 30, // a flag of reads and writes, in dword 12
    kPage = 4096,                // the memory page size that the host sets in CC.MPS
};

// Command is an entry without its command id and namespace.
struct Command {
    uint32_t opcode;
    uint32_t cdw12;
    uint64_t lba; // dwords 10 and 11
    uint64_t prp1;
    uint64_t prp2;
    uint32_t cdw13;
    uint32_t cdw14;
    uint32_t cdw15;
};

// Span is blocks of the drive and the place in a payload buffer for them.
struct Span {
    uint64_t lba;
    uint32_t blocks;
    uint32_t buffer; // number of the payload buffer
    uint32_t offset; // bytes in it, a multiple of 4
};

// Medium is a drive's limits and the payload buffers, as threads hold them.
struct Medium {
    uint64_t blocks;
    uint32_t block_size;
    uint32_t max_blocks; // of one command
    Payload payload;     // with iova and lists as this drive's controller sees them
};

// open_medium loads the drive of the given index in Engine.drives.
TRITIER_DEVICE Medium open_medium(const Engine* e, uint32_t drive) {
    const Drive* d = reinterpret_cast<const Drive*>(e->drives) + drive;
    Medium m{d->blocks, d->block_size, d->max_blocks, e->payload};
    m.payload.iova = d->iova;
    m.payload.lists = d->lists;
    return m;
}

// payload_at is where a GPU finds the byte of a payload buffer.
TRITIER_DEVICE void* payload_at(const Medium& m, uint32_t buffer, uint32_t offset) {
    return reinterpret_cast<void*>(m.payload.base + static_cast<uint64_t>(buffer) * m.payload.bytes + offset);
}

// set_prps chooses PRP1 and PRP2 for bytes at offset of a buffer: PRP1 alone
// for one page, PRP2 the second of two, else PRP2 points into the buffer's list
// where the entry of the command's second page is. Lists have no chain
// pointers: kBadArgument when the command's part of it leaves its page.
TRITIER_DEVICE uint32_t set_prps(const Payload& b, uint32_t buffer, uint32_t offset, uint64_t bytes, Command* c) {
    uint64_t start = b.iova + static_cast<uint64_t>(buffer) * b.bytes;
    uint64_t first = offset / kPage;
    uint64_t pages = (offset % kPage + bytes + kPage - 1) / kPage;
    c->prp1 = start + offset;
    c->prp2 = 0;
    if (pages == 2) {
        c->prp2 = start + (first + 1) * kPage;
    } else if (pages > 2) {
        uint64_t list = b.lists + static_cast<uint64_t>(buffer) * b.list_bytes + 8 * first;
        uint64_t list_end = list % kPage + 8 * (pages - 1);
        if (b.lists == 0 || 8 * (first + pages - 1) > b.list_bytes || list_end > kPage) {
            return kBadArgument;
        }
        c->prp2 = list;
    }
    return kOk;
}

// make_transfer makes a read or a write of s. kBadArgument: s leaves the drive
// or the buffer, or is more than one command may move.
TRITIER_DEVICE uint32_t make_transfer(const Medium& m, uint32_t opcode, const Span& s, Command* c) {
    uint64_t bytes = static_cast<uint64_t>(s.blocks) * m.block_size;
    *c = Command{opcode, s.blocks - 1, s.lba, 0, 0, 0, 0, 0};
    if (s.blocks == 0 || s.blocks > m.max_blocks || s.blocks > 65536 || s.lba >= m.blocks ||
        s.blocks > m.blocks - s.lba) {
        return kBadArgument;
    }
    if (s.buffer >= m.payload.count || s.offset % 4 != 0 || s.offset > m.payload.bytes ||
        bytes > m.payload.bytes - s.offset) {
        return kBadArgument;
    }
    return set_prps(m.payload, s.buffer, s.offset, bytes, c);
}

// make_flush makes a flush of the whole namespace.
TRITIER_DEVICE Command make_flush() { return Command{kFlush, 0, 0, 0, 0, 0, 0, 0}; }

// write_entry puts all 64 bytes at p: what the command does not use is zero.
TRITIER_DEVICE void write_entry(uint64_t p, const Command& c, uint32_t cid, uint32_t nsid) {
    uint4* to = reinterpret_cast<uint4*>(p);
    auto low = [](uint64_t v) { return static_cast<uint32_t>(v); };
    auto high = [](uint64_t v) { return static_cast<uint32_t>(v >> 32); };
    store_volatile_v4(to, make_uint4(c.opcode | cid << 16, nsid, 0, 0));
    store_volatile_v4(to + 1, make_uint4(0, 0, low(c.prp1), high(c.prp1)));
    store_volatile_v4(to + 2, make_uint4(low(c.prp2), high(c.prp2), low(c.lba), high(c.lba)));
    store_volatile_v4(to + 3, make_uint4(c.cdw12, c.cdw13, c.cdw14, c.cdw15));
}

} // namespace bamio
} // namespace tritier
