// An NVMe controller that does everything the specification lets it do, and
// some of what it does not. One thread serves all queues. What it finds wrong
// with its host goes to World::problems.
#pragma once

#include <map>
#include <thread>

#include "world.hpp"

namespace rig {

// The fate of a command travels in its dword 13; dwords 14 and 15 check the rest.
enum Fate : uint32_t { kPlain, kFail, kDrop, kLate, kTwice, kPayloadLate, kAllOnes };

inline uint64_t check_of(uint32_t opcode, uint64_t lba, uint64_t prp1, uint64_t prp2, uint32_t cdw12, uint32_t fate) {
    return mix(lba ^ mix(prp1 ^ mix(prp2 ^ mix(opcode ^ static_cast<uint64_t>(cdw12) << 32 ^ fate))));
}

class Controller {
public:
    explicit Controller(World* w) : w_(w), random_{mix(w->c.seed ^ 0xc0)}, states_(w->c.queues) {
        for (uint32_t i = 0; i < w->c.queues; i++) {
            states_[i].q = &w->queues[i];
            states_[i].tail = states_[i].head = states_[i].reported = w->c.start;
            states_[i].posted = states_[i].taken = w->c.cq_start;
        }
        thread_ = std::thread([this] { run(); });
    }
    // finish waits until everything that was rung is answered.
    void finish() {
        ending_.store(true);
        thread_.join();
    }
    uint64_t duplicates() const { return duplicates_; }
    uint64_t fetched() const { return fetched_; }

private:
    struct Entry {
        uint32_t d[16];
        uint64_t due; // globaltimer, 0: at once
        bool again;
        uint64_t lba() const { return d[10] | static_cast<uint64_t>(d[11]) << 32; }
        uint64_t prp(int i) const { return d[6 + 2 * i] | static_cast<uint64_t>(d[7 + 2 * i]) << 32; }
        uint32_t cid() const { return d[0] >> 16; }
        Fate fate() const { return static_cast<Fate>(d[13] & 15); }
    };
    struct State {
        const Queue* q;
        uint64_t tail, head;    // entries rung and fetched
        uint64_t reported;      // the SQ head that the host was told
        uint64_t posted, taken; // completions
        std::vector<Entry> pending;
        std::map<uint32_t, bool> running; // by index of the command id
        bool gone = false;
    };

    void run();
    bool sweep(State& s);
    void look_at_doorbells(State& s);
    void fetch(State& s);
    void check(State& s, const Entry& e);
    void complete(State& s, uint32_t which);
    void report_head(State& s);
    void post(State& s, uint32_t dword0, uint32_t cid, uint32_t status);
    void transfer(const Entry& e);
    uint8_t* page_at(uint64_t prp, uint64_t bytes);
    uint64_t prp_of(const Entry& e, uint64_t page, bool listed);

    World* w_;
    Random random_;
    std::vector<State> states_;
    std::atomic<bool> ending_{false};
    uint64_t duplicates_ = 0, fetched_ = 0;
    std::thread thread_;
};

inline void Controller::run() {
    for (;;) {
        bool ending = ending_.load();
        bool busy = false;
        for (State& s : states_) {
            busy |= sweep(s);
        }
        if (!busy && ending) {
            return;
        }
        if (random_.one_in(w_->c.pause)) {
            std::this_thread::sleep_for(std::chrono::microseconds(random_.below(300)));
        } else if (!busy) {
            sched_yield();
        }
    }
}

// sweep serves one queue for a moment and says whether there is more to do.
inline bool Controller::sweep(State& s) {
    look_at_doorbells(s);
    fetch(s);
    uint64_t now = globaltimer();
    for (uint32_t tries = 0; tries < 8 && !s.pending.empty(); tries++) {
        uint32_t which = w_->c.reorder ? static_cast<uint32_t>(random_.below(s.pending.size())) : 0;
        if (s.pending[which].due > now || s.posted - s.taken >= w_->c.cq_depth - 1 || s.gone) {
            continue;
        }
        if (w_->c.reorder && random_.one_in(3)) {
            break;
        }
        complete(s, which);
    }
    return (s.tail != s.head || !s.pending.empty()) && !s.gone;
}

inline void Controller::look_at_doorbells(State& s) {
    uint32_t depth = w_->c.depth, cq_depth = w_->c.cq_depth;
    uint32_t v = load_acquire_sys(reinterpret_cast<uint32_t*>(s.q->sq_doorbell));
    uint64_t more = (v + depth - s.tail % depth) % depth;
    if (v >= depth || s.tail + more - s.reported > depth - 1) {
        w_->problems.report("SQ doorbell %u: backward or out of range (tail %llu, head %llu, depth %u)", v,
                            (unsigned long long)s.tail, (unsigned long long)s.reported, depth);
        s.gone = true;
        return;
    }
    s.tail += more;
    v = load_acquire_sys(reinterpret_cast<uint32_t*>(s.q->cq_doorbell));
    more = (v + cq_depth - s.taken % cq_depth) % cq_depth;
    if (v >= cq_depth || s.taken + more > s.posted) {
        w_->problems.report("CQ doorbell %u: past what was posted", v);
        s.gone = true;
        return;
    }
    s.taken += more;
}

inline void Controller::fetch(State& s) {
    uint64_t most = random_.below(5) + 1;
    for (; s.head != s.tail && most > 0 && !s.gone; s.head++, most--) {
        uint32_t* slot = reinterpret_cast<uint32_t*>(s.q->sq) + s.head % w_->c.depth * 16;
        Entry e{};
        memcpy(e.d, slot, 64);
        for (int i = 0; i < 16; i++) {
            slot[i] = kSlotPoison;
        }
        fetched_++;
        check(s, e);
        if (e.fate() == kAllOnes) {
            // The device is gone: reads of it are ones, nothing else comes.
            uint32_t* cqe = reinterpret_cast<uint32_t*>(s.q->cq) + s.posted % w_->c.cq_depth * 4;
            store_release_sys(&cqe[3], 0xffffffffu);
            s.gone = true;
            return;
        }
        if (e.fate() == kDrop) {
            continue;
        }
        e.due = e.fate() == kLate ? globaltimer() + 3 * w_->engine.deadline_ns : 0;
        s.pending.push_back(e);
    }
}

inline void Controller::check(State& s, const Entry& e) {
    uint32_t opcode = e.d[0] & 0xff;
    uint64_t sum = check_of(opcode, e.lba(), e.prp(0), e.prp(1), e.d[12], e.d[13]);
    if ((e.d[13] | e.d[14] | e.d[15]) == 0) {
        sum = 0; // from a function that makes its commands itself
    }
    if (e.d[14] != static_cast<uint32_t>(sum) || e.d[15] != static_cast<uint32_t>(sum >> 32)) {
        w_->problems.report("entry %llu is not whole: dword 0 %#x, 12 %#x", (unsigned long long)s.head, e.d[0], e.d[12]);
        s.gone = true;
        return;
    }
    if ((e.d[0] & 0xff00) != 0 || e.d[1] != 7 || (e.d[2] | e.d[3] | e.d[4] | e.d[5]) != 0 || opcode > kRead) {
        w_->problems.report("entry with wrong dwords: %#x %#x %#x %#x", e.d[0], e.d[1], e.d[2], e.d[4]);
        s.gone = true;
        return;
    }
    uint32_t index = e.cid() & ((1u << bits_for(w_->c.cids)) - 1);
    if (index >= w_->c.cids || s.running[index]) {
        w_->problems.report("command id %#x is in use", e.cid());
    }
    s.running[index] = true;
}

inline void Controller::complete(State& s, uint32_t which) {
    Entry e = s.pending[which];
    s.pending.erase(s.pending.begin() + which);
    uint32_t status = e.fate() == kFail ? e.d[13] >> 16 : 0;
    if (e.again) {
        duplicates_++;
    } else {
        s.running[e.cid() & ((1u << bits_for(w_->c.cids)) - 1)] = false;
        if (e.fate() == kTwice) {
            s.pending.push_back(e);
            s.pending.back().again = true;
            s.pending.back().due = random_.one_in(2) ? 0 : globaltimer() + random_.below(2000000);
        }
        if (e.fate() != kPayloadLate && (status == 0 || random_.one_in(2))) {
            transfer(e);
        }
    }
    report_head(s);
    post(s, static_cast<uint32_t>(mix(e.d[14])), e.cid(), status);
    if (e.fate() == kPayloadLate && !e.again) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        transfer(e);
    }
}

// report_head decides on the SQ head of the next completion. It may lag behind
// if another completion is sure to follow and to report more. Slots are the
// controller's until then, and still hold what it put there.
inline void Controller::report_head(State& s) {
    if (!s.pending.empty() && random_.one_in(w_->c.stall)) {
        return;
    }
    for (; s.reported != s.head; s.reported++) {
        const uint32_t* slot = reinterpret_cast<uint32_t*>(s.q->sq) + s.reported % w_->c.depth * 16;
        if (slot[0] != kSlotPoison || slot[15] != kSlotPoison) {
            w_->problems.report("slot %llu was used before it was free", (unsigned long long)(s.reported % w_->c.depth));
        }
    }
}

inline void Controller::post(State& s, uint32_t dword0, uint32_t cid, uint32_t status) {
    uint32_t* cqe = reinterpret_cast<uint32_t*>(s.q->cq) + s.posted % w_->c.cq_depth * 4;
    uint32_t phase = static_cast<uint32_t>(s.posted / w_->c.cq_depth & 1) ^ 1;
    bool torn = random_.one_in(w_->c.torn);
    auto rest = [&] {
        if (torn) {
            std::this_thread::sleep_for(std::chrono::microseconds(random_.below(50)));
        }
    };
    if (torn) { // the command id before the phase tag
        store_relaxed_sys(&cqe[3], (phase ^ 1) << 16 | cid);
        rest();
    }
    cqe[0] = dword0;
    cqe[1] = 0;
    rest();
    cqe[2] = static_cast<uint32_t>(s.reported % w_->c.depth) | s.q->id << 16;
    rest();
    store_release_sys(&cqe[3], status << 17 | phase << 16 | cid);
    s.posted++;
}

// page_at checks that a PRP lies in the payload buffers, by itself.
inline uint8_t* Controller::page_at(uint64_t prp, uint64_t bytes) {
    uint64_t at = prp - kSpace;
    uint64_t first = w_->payload->address(4096);
    uint64_t end = first + static_cast<uint64_t>(w_->buffers) * kBufferBytes;
    if (at < first || bytes > end - at || at % 4 != 0) {
        w_->problems.report("PRP %#llx leaves the payload", (unsigned long long)prp);
        return nullptr;
    }
    return reinterpret_cast<uint8_t*>(at);
}

// prp_of is where the page-th page of a transfer lies: PRP1, PRP2, or an entry
// of the list that PRP2 points to.
inline uint64_t Controller::prp_of(const Entry& e, uint64_t page, bool listed) {
    if (page == 0) {
        return e.prp(0);
    }
    uint64_t prp = e.prp(1);
    if (listed) {
        uint64_t at = prp - kSpace - w_->lists->address() + 8 * (page - 1);
        bool chained = prp / 4096 != (prp + 8 * (page - 1)) / 4096;
        if (at >= w_->lists->size() || at % 8 != 0 || chained) {
            w_->problems.report("PRP list at %#llx, page %llu", (unsigned long long)prp, (unsigned long long)page);
            return 0;
        }
        prp = *reinterpret_cast<uint64_t*>(w_->lists->at(at));
    }
    if (prp % 4096 != 0) {
        w_->problems.report("PRP %#llx has an offset", (unsigned long long)prp);
    }
    return prp;
}

// transfer walks the PRPs as a controller does, page by page.
inline void Controller::transfer(const Entry& e) {
    uint32_t opcode = e.d[0] & 0xff;
    if (opcode == kFlush) {
        if ((e.lba() | e.prp(0) | e.prp(1) | e.d[12]) != 0) {
            w_->problems.report("a flush with dwords that are not zero");
        }
        return;
    }
    uint64_t left = ((e.d[12] & 0xffff) + 1ull) * kBlock;
    if (e.lba() < w_->c.first_lba || e.lba() + left / kBlock > w_->drives[0].blocks) {
        w_->problems.report("LBA %llu is outside", (unsigned long long)e.lba());
        return;
    }
    uint8_t* disk = w_->block(e.lba());
    uint64_t pages = (e.prp(0) % 4096 + left + 4095) / 4096;
    if (pages == 1 && e.prp(1) != 0) {
        w_->problems.report("one page, and PRP2 is %#llx", (unsigned long long)e.prp(1));
    }
    for (uint64_t page = 0; page < pages; page++) {
        uint64_t prp = prp_of(e, page, pages > 2);
        uint64_t bytes = 4096 - prp % 4096 < left ? 4096 - prp % 4096 : left;
        uint8_t* memory = page_at(prp, bytes);
        if (memory == nullptr) {
            return;
        }
        opcode == kRead ? memcpy(memory, disk, bytes) : memcpy(disk, memory, bytes);
        disk += bytes;
        left -= bytes;
    }
}

}  // namespace rig
