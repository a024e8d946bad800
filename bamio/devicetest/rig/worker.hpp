// A worker is one lane that reads and writes blocks of its own area of the
// drive, with fates for its commands, and checks every status and every byte.
#pragma once

#include "controller.hpp"
#include "lanes.hpp"

namespace rig {

// Blocks say what they are: their number, a version, and a mix of both.
inline void fill_block(uint8_t* at, uint64_t lba, uint64_t version) {
    uint64_t words[kBlock / 8];
    words[0] = lba;
    words[1] = version;
    for (uint32_t i = 2; i < kBlock / 8; i++) {
        words[i] = mix((lba * 64 + i) ^ version << 40);
    }
    memcpy(at, words, kBlock);
}

// version_of is the version of a whole block, ~0 for anything else. The zeros
// of a fresh drive are version 0.
inline uint64_t version_of(const uint8_t* at, uint64_t lba) {
    uint64_t words[kBlock / 8];
    memcpy(words, at, kBlock);
    uint8_t want[kBlock] = {};
    if (words[1] != 0) {
        fill_block(want, lba, words[1]);
    }
    return memcmp(want, at, kBlock) == 0 ? words[1] : ~0ull;
}

template <class G>
class Worker {
public:
    Worker(World* w, G g, uint32_t warp, uint32_t id)
        : w_(w), g_(g), random_{mix(w->c.seed ^ (id + 1) << 8)}, id_(id), data_(kBufferBytes),
          p_(open_port(&w->engine, queue_of(&w->engine, 0, warp))), m_(open_medium(&w->engine, 0)) {
        for (Op& o : ops_) {
            next_buffer(&o);
        }
    }
    void run() {
        for (uint32_t i = 0; i < w_->c.rounds && g_.any(!ended_); i++) {
            uint64_t begun = globaltimer();
            if (w_->c.async) {
                pair();
            } else {
                single(i);
            }
            uint64_t bound = (w_->c.gone_after | w_->c.stop_after) != 0 ? 15000 : 4 * w_->c.deadline_ms + 15000;
            if (globaltimer() - begun > bound * 1000000) {
                w_->problems.report("a command took %llu ms", (unsigned long long)((globaltimer() - begun) / 1000000));
            }
        }
    }
    // check_store compares the drive's own bytes at the end.
    void check_store() {
        for (uint32_t i = 0; i < kAreaBlocks; i++) {
            check_block(w_->block(area() + i), i, "on the drive");
        }
    }

private:
    struct Op {
        Command c;
        Span s;
        Fate fate;
        uint32_t buffer;
        bool want;
    };
    struct Block {
        uint64_t version, other; // one of the two; other is of a write that failed
        bool lost;               // a write may still be under way
    };

    uint64_t area() const { return w_->c.first_lba + static_cast<uint64_t>(id_) * kAreaBlocks; }
    uint8_t* memory(const Op& o) const { return static_cast<uint8_t*>(payload_at(m_, o.s.buffer, o.s.offset)); }
    void next_buffer(Op* o);
    Fate choose_fate();
    void choose_span(Op* o, uint32_t first, uint32_t count);
    void prepare(Op* o, uint32_t first, uint32_t count);
    void single(uint32_t round);
    void pair();
    void plain_call(Op* o);
    void finish(Op* o, uint32_t status);
    bool expected(const Op& o, uint32_t status);
    void finish_write(const Op& o, uint32_t status);
    void check_block(const uint8_t* at, uint32_t i, const char* where);

    World* w_;
    G g_;
    Random random_;
    uint32_t id_;
    Pages data_;
    Port p_;
    Medium m_;
    Op ops_[2] = {};
    Block blocks_[kAreaBlocks] = {};
    bool ended_ = false;
    uint64_t version_ = 0;
};

template <class G>
void Worker<G>::next_buffer(Op* o) {
    o->buffer = w_->next_buffer.fetch_add(1);
    if (o->buffer >= w_->buffers) {
        ended_ = true; // as many were lost as there are
    }
}

template <class G>
Fate Worker<G>::choose_fate() {
    const Config& c = w_->c;
    if (c.gone_after != 0 && w_->commands.fetch_add(1) == c.gone_after) {
        return kAllOnes;
    }
    bool drop = random_.one_in(c.drop);
    if ((drop || random_.one_in(c.late)) && w_->losses.fetch_add(1) < c.losses) {
        return drop ? kDrop : kLate;
    }
    if (random_.one_in(c.fail)) {
        return kFail;
    }
    return random_.one_in(c.twice) ? kTwice : random_.one_in(c.payload_late) ? kPayloadLate : kPlain;
}

template <class G>
void Worker<G>::choose_span(Op* o, uint32_t first, uint32_t count) {
    uint32_t n = static_cast<uint32_t>(random_.one_in(3) ? random_.below(count) + 1 : random_.below(4) + 1);
    uint32_t at = static_cast<uint32_t>(first + random_.below(count - n + 1));
    uint32_t offset = static_cast<uint32_t>(random_.below(kBufferBytes - n * kBlock + 1));
    offset = random_.one_in(2) ? offset / 4096 * 4096 : offset / 4 * 4;
    o->s = Span{area() + at, n, o->buffer, offset};
}

// prepare makes a command on some of count blocks from first on.
template <class G>
void Worker<G>::prepare(Op* o, uint32_t first, uint32_t count) {
    o->want = !ended_ && !random_.one_in(10);
    if (!o->want) {
        return;
    }
    choose_span(o, first, count);
    uint32_t opcode = random_.one_in(10) ? kFlush : random_.one_in(2) ? kWrite : kRead;
    o->c = make_flush();
    if (opcode != kFlush && make_transfer(m_, opcode, o->s, &o->c) != kOk) {
        w_->problems.report("a span is refused: %u blocks, offset %u", o->s.blocks, o->s.offset);
    }
    version_++;
    for (uint32_t i = 0; i < o->s.blocks && opcode != kFlush; i++) {
        memset(memory(*o) + i * kBlock, 0x5a, kBlock);
        if (opcode == kWrite) {
            fill_block(memory(*o) + i * kBlock, o->s.lba + i, version_);
        }
    }
    o->fate = choose_fate();
    uint32_t status = static_cast<uint32_t>(random_.below(0x7fff)) + 1; // all 15 bits
    o->c.cdw13 = 16 | o->fate | (o->fate == kFail ? status << 16 : 0);
    uint64_t sum = check_of(o->c.opcode, o->c.lba, o->c.prp1, o->c.prp2, o->c.cdw12, o->c.cdw13);
    o->c.cdw14 = static_cast<uint32_t>(sum);
    o->c.cdw15 = static_cast<uint32_t>(sum >> 32);
}

template <class G>
void Worker<G>::single(uint32_t round) {
    Op* o = &ops_[0];
    if (round % 4 == 3) {
        plain_call(o);
        return;
    }
    prepare(o, 0, kAreaBlocks);
    uint32_t status = execute(g_, p_, o->c, o->want);
    finish(o, status);
}

// pair has two commands in flight, on different halves of the area.
template <class G>
void Worker<G>::pair() {
    Handle h[2] = {};
    uint32_t status[2];
    for (int i = 0; i < 2; i++) {
        prepare(&ops_[i], i * kAreaBlocks / 2, kAreaBlocks / 2);
        status[i] = submit(g_, p_, ops_[i].c, ops_[i].want, &h[i]);
    }
    for (int k = 0; k < 2; k++) {
        int i = k ^ static_cast<int>(w_->c.seed & 1);
        bool sent = ops_[i].want && status[i] == kOk;
        uint32_t end = wait(g_, p_, h[i], sent);
        finish(&ops_[i], sent ? end : status[i]);
    }
}

// plain_call goes through the functions that users call.
template <class G>
void Worker<G>::plain_call(Op* o) {
    o->want = !ended_;
    o->fate = kPlain;
    // The number of blocks is the group's.
    uint32_t n = g_.from(static_cast<uint32_t>(random_.below(16) + 1), 0);
    uint64_t what = g_.from(random_.below(4), 0);
    uint32_t at = static_cast<uint32_t>(random_.below(kAreaBlocks - n + 1));
    o->s = Span{area() + at, n, o->buffer, static_cast<uint32_t>(random_.below(100)) * 16};
    o->c = make_flush();
    o->c.opcode = what < 2 ? kRead : kWrite;
    uint32_t status;
    if (what == 0) {
        memset(data_.at(), 0x5b, n * kBlock);
        status = read_to(g_, p_, m_, o->s, data_.at(), o->want);
        if (o->want && status == kOk) {
            memcpy(memory(*o), data_.at(), n * kBlock);
        }
    } else if (what == 1) {
        Medium small = m_;
        small.max_blocks = 3; // so that it takes several commands
        Span s = o->s;
        s.lba = g_.from(s.lba, 0);
        s.buffer = g_.from(s.buffer, 0);
        s.offset = g_.from(s.offset, 0);
        bool all = !g_.any(!o->want);
        status = all ? transfer(g_, p_, small, kRead, s) : kOk;
        o->want = all && g_.leads();
        g_.sync();
    } else if (what == 2) {
        version_++;
        for (uint32_t i = 0; i < n; i++) {
            fill_block(data_.at(i * kBlock), o->s.lba + i, version_);
        }
        status = write_from(g_, p_, m_, o->s, data_.at(), o->want);
    } else {
        o->c.opcode = kFlush;
        bool all = !g_.any(!o->want);
        status = all ? flush(g_, p_) : kOk;
        o->want = all;
    }
    finish(o, status);
}

// expected says whether a command of that fate may end so.
template <class G>
bool Worker<G>::expected(const Op& o, uint32_t status) {
    const Config& c = w_->c;
    if ((status == kTimeout || status == kBusy) && c.losses != 0) {
        return true; // short deadlines, and a machine may be slow
    }
    if ((c.gone_after != 0 && status == kDeviceGone) || (c.stop_after != 0 && status == kStopped)) {
        return true;
    }
    return o.fate == kFail ? status == o.c.cdw13 >> 16 : status == kOk && o.fate != kDrop;
}

template <class G>
void Worker<G>::finish(Op* o, uint32_t status) {
    if (!o->want) {
        return;
    }
    if (!expected(*o, status)) {
        w_->problems.report("fate %u ended with status %#x", o->fate, status);
    } else {
        uint32_t as = o->fate;
        as = status == kTimeout ? static_cast<uint32_t>(kDrop) : as;
        as = status == kDeviceGone ? static_cast<uint32_t>(kAllOnes) : as;
        w_->fates[status == kStopped ? 7 : as]++;
    }
    if (o->fate == kDrop && status == kTimeout) {
        w_->dropped++;
    }
    if (o->c.opcode == kWrite && status != kBusy) {
        finish_write(*o, status);
    }
    if (o->c.opcode == kRead && status == kOk) {
        for (uint32_t i = 0; i < o->s.blocks; i++) {
            check_block(memory(*o) + i * kBlock, static_cast<uint32_t>(o->s.lba + i - area()), "read");
        }
    }
    if (status >= kTimeout && status != kBusy) {
        next_buffer(o); // the old one may still be written to
        ended_ = ended_ || status != kTimeout;
    }
}

template <class G>
void Worker<G>::finish_write(const Op& o, uint32_t status) {
    for (uint32_t i = 0; i < o.s.blocks; i++) {
        Block* b = &blocks_[o.s.lba + i - area()];
        if (status == kOk) {
            b->version = b->other = version_of(memory(o) + i * kBlock, o.s.lba + i);
        } else if (status < kTimeout && b->version == b->other) {
            b->other = version_of(memory(o) + i * kBlock, o.s.lba + i);
        } else {
            b->lost = true;
        }
    }
}

template <class G>
void Worker<G>::check_block(const uint8_t* at, uint32_t i, const char* where) {
    Block* b = &blocks_[i];
    if (b->lost) {
        return;
    }
    uint64_t v = version_of(at, area() + i);
    if (v != b->version && v != b->other) {
        w_->problems.report("block %u of lane %u %s is version %lld, want %llu or %llu", i, id_, where, (long long)v,
                            (unsigned long long)b->version, (unsigned long long)b->other);
        b->lost = true;
        return;
    }
    b->version = b->other = v;
}

}  // namespace rig
