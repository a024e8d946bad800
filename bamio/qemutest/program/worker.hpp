// A worker is one lane that reads and writes blocks of its own area of drive 0,
// through whichever queue, and checks every status and every byte.
#pragma once

#include "shared.hpp"

namespace trial {

constexpr uint32_t kMargin = 64;  // bytes beside a read that must stay
constexpr uint8_t kUntouched = 0x5a;

template <class G>
class Worker {
public:
    Worker(World* w, G g, uint32_t id, uint64_t area_blocks, uint64_t seed)
        : w_(w), g_(g), id_(id), area_(area_blocks), random_{mix(seed ^ (id + 1ull) << 40)},
          p_(open_port(w->engine, 0)), m_(open_medium(w->engine, 0)),
          data_(static_cast<uint8_t*>(aligned_alloc(64, m_.payload.bytes))) {}
    ~Worker() { free(data_); }
    Worker(const Worker&) = delete;

    void run(uint64_t rounds) {
        for (uint64_t i = 0; i < rounds; i++) {
            p_ = open_port(w_->engine, queue_of(w_->engine, 0, together(1 << 20)));
            switch (together(12)) {
            case 0: flush_all(); break;
            case 1: copied(kRead); break;
            case 2: copied(kWrite); break;
            case 3: large(); break;
            case 4:
            case 5: pair(); break;
            case 6: alone(); break;
            case 7: refused(); break;
            default: single();
            }
        }
    }

private:
    struct Part {
        Span s;
        uint32_t opcode;
        uint64_t version;
        bool want;
    };

    // together is a random number that all lanes have.
    uint32_t together(uint32_t n) { return g_.from(static_cast<uint32_t>(random_.below(n)), 0); }
    uint64_t first_lba() const { return id_ * area_; }
    uint8_t* payload(const Part& a) const { return static_cast<uint8_t*>(payload_at(m_, a.s.buffer, a.s.offset)); }
    uint64_t size(const Part& a) const { return static_cast<uint64_t>(a.s.blocks) * m_.block_size; }
    uint32_t margin_before(const Part& a) const { return a.s.offset < kMargin ? a.s.offset : kMargin; }
    uint32_t margin_after(const Part& a) const {
        uint64_t left = m_.payload.bytes - a.s.offset - size(a);
        return static_cast<uint32_t>(left < kMargin ? left : kMargin);
    }
    uint32_t some_blocks(uint64_t most);
    Part part(uint32_t which, uint64_t first, uint32_t blocks);
    void fill(Part* a, uint8_t* at);
    void count(const Part& a, uint32_t status, uint32_t commands);
    void finish(const Part& a, uint32_t status, uint32_t commands);
    void check(const Part& a, const uint8_t* at);
    void single();
    void pair();
    void copied(uint32_t opcode);
    void large();
    void alone();
    void refused();
    void flush_all();

    World* w_;
    G g_;
    uint64_t id_, area_;
    Random random_;
    Port p_;
    Medium m_;
    uint8_t* data_;
    uint64_t version_ = 1; // what the other process wrote before
};

// some_blocks is a number up to most, as often a few blocks as many.
template <class G>
uint32_t Worker<G>::some_blocks(uint64_t most) {
    uint64_t bounds[] = {4, 8192 / m_.block_size + 2, most};
    uint64_t n = bounds[random_.below(3)];
    return static_cast<uint32_t>(random_.below(n < most ? n : most) + 1);
}

// part makes a transfer of blocks from the area's block `first` on, with any
// place in one of the lane's two buffers.
template <class G>
typename Worker<G>::Part Worker<G>::part(uint32_t which, uint64_t first, uint32_t blocks) {
    uint64_t room = m_.payload.bytes - static_cast<uint64_t>(blocks) * m_.block_size;
    uint64_t offset = random_.below(room + 1);
    offset = random_.one_in(2) ? offset / kPage * kPage : offset / 4 * 4;
    Part a;
    a.s = Span{first_lba() + first, blocks, static_cast<uint32_t>(2 * id_ + which), static_cast<uint32_t>(offset)};
    a.opcode = random_.one_in(2) ? kWrite : kRead;
    a.version = ++version_;
    a.want = true;
    fill(&a, payload(a));
    memset(payload(a) - margin_before(a), kUntouched, margin_before(a));
    memset(payload(a) + size(a), kUntouched, margin_after(a));
    return a;
}

template <class G>
void Worker<G>::fill(Part* a, uint8_t* at) {
    if (a->opcode == kRead) {
        memset(at, kUntouched, size(*a));
        return;
    }
    for (uint32_t i = 0; i < a->s.blocks; i++) {
        fill_block(at + static_cast<uint64_t>(i) * m_.block_size, m_.block_size, a->s.lba + i, a->version);
    }
}

template <class G>
void Worker<G>::check(const Part& a, const uint8_t* at) {
    for (uint32_t i = 0; i < a.s.blocks; i++) {
        uint64_t lba = a.s.lba + i;
        int bad = wrong_word(at + static_cast<uint64_t>(i) * m_.block_size, m_.block_size, lba, w_->versions[lba]);
        if (bad >= 0) {
            w_->problems.report("block %llu is not version %u from word %d on (%u blocks at offset %u)", (unsigned long long)lba,
                                w_->versions[lba], bad, a.s.blocks, a.s.offset);
            return;
        }
    }
}

// count checks a transfer's status and notes what a success has done.
template <class G>
void Worker<G>::count(const Part& a, uint32_t status, uint32_t commands) {
    if (status != kOk) {
        w_->problems.report("opcode %u of %u blocks at %llu: status %#x", a.opcode, a.s.blocks, (unsigned long long)a.s.lba, status);
        return;
    }
    w_->commands += commands;
    w_->bytes += size(a);
    (a.opcode == kRead ? w_->reads : w_->writes)++;
    for (uint32_t i = 0; i < a.s.blocks && a.opcode == kWrite; i++) {
        w_->versions[a.s.lba + i] = static_cast<uint32_t>(a.version);
    }
}

template <class G>
void Worker<G>::finish(const Part& a, uint32_t status, uint32_t commands) {
    if (!a.want) {
        return;
    }
    count(a, status, commands);
    if (a.opcode == kRead && status == kOk) {
        check(a, payload(a));
        for (uint32_t i = 0; i < margin_before(a) + margin_after(a); i++) {
            const uint8_t* at = i < margin_before(a) ? payload(a) - 1 - i : payload(a) + size(a) + (i - margin_before(a));
            if (*at != kUntouched) {
                w_->problems.report("a read of %u blocks at offset %u wrote beside its place", a.s.blocks, a.s.offset);
                return;
            }
        }
    }
}

// single is a command or none of each lane, one in ten of them beyond the
// drive's end, which only the controller notices.
template <class G>
void Worker<G>::single() {
    uint32_t n = some_blocks(m_.max_blocks < area_ ? m_.max_blocks : area_);
    Part a = part(0, random_.below(area_ - n + 1), n);
    a.want = !random_.one_in(8);
    Command c;
    uint32_t bad = make_transfer(m_, a.opcode, a.s, &c);
    if (bad != kOk) {
        w_->problems.report("%u blocks at offset %u are refused: %#x", n, a.s.offset, bad);
    }
    bool beyond = a.want && random_.one_in(10);
    if (beyond) {
        c.lba = m_.blocks - n + 1;
    }
    uint32_t status = execute(g_, p_, c, a.want);
    if (!beyond) {
        finish(a, status, 1);
        return;
    }
    w_->commands++;
    w_->failed++;
    if (code(status) != 0x80) {
        w_->problems.report("beyond the end of the drive: status %#x", status);
    }
}

// pair has two commands in flight, as far as there is room, and takes the
// results in either order.
template <class G>
void Worker<G>::pair() {
    Part a[2];
    Command c[2];
    Handle h[2] = {};
    bool sent[2];
    uint64_t half = area_ / 2;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t n = some_blocks(m_.max_blocks < half ? m_.max_blocks : half);
        a[i] = part(i, i * half + random_.below(half - n + 1), n);
        make_transfer(m_, a[i].opcode, a[i].s, &c[i]);
        sent[i] = try_submit(g_, p_, c[i], true, &h[i]);
    }
    uint32_t turn = together(2);
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t i = k ^ turn;
        uint32_t status = wait(g_, p_, h[i], sent[i]);
        if (sent[i]) {
            finish(a[i], status, 1);
        }
    }
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t status = execute(g_, p_, c[i], !sent[i]);
        if (!sent[i]) {
            finish(a[i], status, 1);
        }
    }
}

// copied reads to or writes from memory that the drive cannot reach.
template <class G>
void Worker<G>::copied(uint32_t opcode) {
    uint32_t most = m_.max_blocks < 32 ? m_.max_blocks : 32;
    uint32_t n = together(most) + 1;
    Part a = part(0, random_.below(area_ - n + 1), n);
    a.s.offset = a.s.offset / 16 * 16;
    a.opcode = opcode;
    fill(&a, data_);
    memset(payload(a), kUntouched, size(a));
    uint32_t status = opcode == kRead ? read_to(g_, p_, m_, a.s, data_) : write_from(g_, p_, m_, a.s, data_);
    count(a, status, 1);
    if (opcode == kRead && status == kOk) {
        check(a, data_);
    }
}

// large is one transfer of the whole group, of the leader's blocks, mostly of
// more than a command may move.
template <class G>
void Worker<G>::large() {
    uint64_t most = m_.payload.bytes / m_.block_size;
    uint32_t n = static_cast<uint32_t>(random_.below(most < area_ ? most : area_) + 1);
    Part a = part(0, random_.below(area_ - n + 1), n);
    Span s = Span{g_.from(a.s.lba, 0), g_.from(a.s.blocks, 0), g_.from(a.s.buffer, 0), g_.from(a.s.offset, 0)};
    uint32_t status = transfer(g_, p_, m_, g_.from(a.opcode, 0), s);
    if (g_.leads()) {
        finish(a, status, (n + m_.max_blocks - 1) / m_.max_blocks);
    } else if (status != kOk) {
        w_->problems.report("a lane's part of %u blocks: status %#x", s.blocks, status);
    }
    g_.sync(); // the leader looks before anybody goes on
}

// alone is each lane for itself, among groups.
template <class G>
void Worker<G>::alone() {
    uint32_t n = some_blocks(m_.max_blocks < area_ ? m_.max_blocks : area_);
    Part a = part(0, random_.below(area_ - n + 1), n);
    finish(a, a.opcode == kRead ? read_thread(p_, m_, a.s) : write_thread(p_, m_, a.s), 1);
}

// refused has arguments that must not reach the controller in some lanes.
template <class G>
void Worker<G>::refused() {
    uint32_t n = some_blocks(m_.max_blocks < area_ ? m_.max_blocks : area_);
    Part a = part(0, random_.below(area_ - n + 1), n);
    Span s = a.s;
    switch (random_.below(6)) {
    case 0: s.lba = m_.blocks - n + 1; break;
    case 1: s.lba = ~0ull - 1; break;
    case 2: s.blocks = m_.max_blocks + 1; break;
    case 3: s.buffer = m_.payload.count; break;
    case 4: s.offset = m_.payload.bytes - n * m_.block_size + 4; break;
    default: break;
    }
    bool good = s.lba == a.s.lba && s.blocks == n && s.buffer == a.s.buffer && s.offset == a.s.offset;
    uint32_t status = transfer_blocks(g_, p_, m_, a.opcode, s, true);
    if (good) {
        finish(a, status, 1);
        return;
    }
    w_->refused++;
    if (status != kBadArgument) {
        w_->problems.report("%u blocks at %llu, buffer %u offset %u: status %#x", s.blocks, (unsigned long long)s.lba, s.buffer,
                            s.offset, status);
    }
}

template <class G>
void Worker<G>::flush_all() {
    uint32_t status = flush(g_, p_);
    if (status != kOk) {
        w_->problems.report("flush: status %#x", status);
    }
    if (g_.leads()) {
        w_->commands++;
        w_->flushes++;
    }
}

}  // namespace trial
