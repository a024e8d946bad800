// Recorder: the CPU's side of the ring of records, and what must be true of it.
#pragma once

#include "check.hpp"

namespace rig {

class Recorder {
public:
    explicit Recorder(World* w) : w_(w), ring_(reinterpret_cast<uint64_t*>(w->e.records)), box_(reinterpret_cast<RecordBox*>(w->e.record_box)) {
        if (w->c.records != 0 && w->c.drain != 0) {
            begin();
        }
    }
    // begin takes records until the end.
    void begin() {
        over_ = false;
        thread_ = std::thread([this] { run(); });
    }
    // end takes what is there and compares it with the counters.
    void end() {
        if (w_->c.records == 0) {
            return;
        }
        if (thread_.joinable()) {
            over_ = true;
            thread_.join();
        }
        take();
        Hot* h = w_->hot();
        uint64_t lost = w_->counts()->lost_records, made = w_->sum(&Stripe::hits) + w_->sum(&Stripe::slow);
        if (taken_ != h->record_tail) {
            w_->problems.report("%llu records of %llu came", (unsigned long long)taken_, (unsigned long long)h->record_tail);
        }
        bool right = lost == 0 ? accesses_ == made : accesses_ <= made && taken_ + lost >= made;
        if (!right || (lost != 0 && w_->c.drain != 0)) {
            w_->problems.report("%llu accesses were recorded and %llu lost, of %llu", (unsigned long long)accesses_, (unsigned long long)lost,
                                (unsigned long long)made);
        }
    }
    std::vector<uint32_t> list; // page << 2 | op, in order

private:
    void run() {
        while (!over_) {
            if (!take()) {
                usleep(50);
            }
        }
    }
    bool take() {
        uint64_t before = taken_;
        for (;; taken_++) {
            uint64_t word = load_acquire_sys(&ring_[taken_ & (w_->e.record_count - 1)]);
            if (static_cast<uint32_t>(word >> 32) != static_cast<uint32_t>(taken_ + 1)) {
                break;
            }
            uint32_t access = static_cast<uint32_t>(word);
            if (access >> 2 >= w_->e.pages) {
                w_->problems.report("record %llu is of page %u", (unsigned long long)taken_, access >> 2);
            }
            accesses_ += (access & 3) != kPrefetchOp;
            list.push_back(access);
            if (taken_ % 7 == 0) {
                store_release_sys(&box_->taken, taken_ + 1);
            }
        }
        store_release_sys(&box_->taken, taken_);
        return taken_ != before;
    }

    World* w_;
    const uint64_t* ring_;
    RecordBox* box_;
    uint64_t taken_ = 0, accesses_ = 0;
    std::atomic<bool> over_{false};
    std::thread thread_;
};

}  // namespace rig
