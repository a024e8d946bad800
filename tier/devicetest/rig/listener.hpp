// Listener: the CPU's side of the ring of events, and what must be true of it.
#pragma once

#include "check.hpp"

namespace rig {

class Listener {
public:
    explicit Listener(World* w) : w_(w), log_(reinterpret_cast<EventLog*>(w->e.events)) {
        if (log_ != nullptr && w->c.drain != 0) {
            begin();
        }
    }
    // begin takes events until the end.
    void begin() {
        over_ = false;
        thread_ = std::thread([this] { run(); });
    }
    // end takes what is there and compares it with the counters.
    void end() {
        if (log_ == nullptr) {
            return;
        }
        if (thread_.joinable()) {
            over_ = true;
            thread_.join();
        }
        take();
        wrong("events that did not come", log_->tail - taken_, 0);
        if (log_->cut == 0) {
            wrong("moves without what they belong to", open_.size(), 0);
        }
        wrong("misses and flushes that were told of or left out", roots + log_->left_out, (log_->begun + log_->every - 1) / log_->every, log_->cut);
        if (log_->left_out + log_->cut != 0 || log_->every != 1) {
            return;
        }
        Counts* c = w_->counts();
        wrong("misses", good[kMissEvent], c->t2_hits + c->t3_fetches + c->overwrites + c->prefetches);
        wrong("flushed pages", good[kFlushEvent], c->flushed);
        const Moves* m = reinterpret_cast<const Moves*>(w_->e.moves);
        for (uint32_t edge = 0; edge < kEdges; edge++) {
            uint64_t n = 0;
            for (uint32_t i = 0; i < kMoveStripes * kBuckets; i++) {
                n += m[i / kBuckets].pages[edge][i % kBuckets];
            }
            wrong("moves", good[edge], n);
        }
        uint64_t errors = c->errors + c->prefetch_errors;
        // A miss whose victim cannot leave may find its read failed as well.
        if (bad[kMissEvent] > errors || bad[kT3ToT2] > bad[kMissEvent] || bad[kT2ToT3] > bad[kMissEvent] + bad[kFlushEvent]) {
            w_->problems.report("%llu misses failed, of %llu errors; %llu reads and %llu writes", (unsigned long long)bad[kMissEvent],
                                (unsigned long long)errors, (unsigned long long)bad[kT3ToT2], (unsigned long long)bad[kT2ToT3]);
        }
    }
    uint64_t roots = 0, good[6] = {}, bad[6] = {}; // by kind

private:
    struct Known {
        uint64_t first, last; // begin of the first move, end of the last one
        uint32_t stripe;
    };
    // wrong compares; less may be missing.
    void wrong(const char* what, uint64_t got, uint64_t wanted, uint64_t less = 0) {
        if (got > wanted || got + less < wanted) {
            w_->problems.report("listener: %s are %llu, want %llu", what, (unsigned long long)got, (unsigned long long)wanted);
        }
    }
    void run() {
        while (!over_) {
            if (!take()) {
                usleep(50);
            }
        }
    }
    bool take() {
        Event* ring = reinterpret_cast<Event*>(log_->events);
        uint64_t before = taken_;
        for (;; taken_++) {
            Event* e = ring + (taken_ & (log_->count - 1));
            if (load_acquire_sys(&e->mark) != static_cast<uint32_t>(taken_ + 1)) {
                break;
            }
            sort(load_relaxed_sys(&e->begun), load_relaxed_sys(&e->ended), load_relaxed_sys(&e->page), load_relaxed_sys(&e->number), load_relaxed_sys(&e->what));
            if (taken_ % 7 == 0) {
                store_release_sys(&reinterpret_cast<EventBox*>(log_->box)->taken, taken_ + 1);
            }
        }
        store_release_sys(&reinterpret_cast<EventBox*>(log_->box)->taken, taken_);
        return taken_ != before;
    }
    void sort(uint64_t begun, uint64_t ended, uint32_t page, uint32_t number, uint32_t what) {
        uint32_t kind = what & 15, stripe = what >> kEventStripe & (kStripes - 1);
        if (kind > kFlushEvent || page >= w_->e.pages || number == 0 || begun > ended) {
            w_->problems.report("an event %#x of page %u and miss %u lasts from %llu to %llu", what, page, number, (unsigned long long)begun, (unsigned long long)ended);
            return;
        }
        ((what >> kEventFailed & 1) != 0 ? bad : good)[kind]++;
        auto at = open_.find(number);
        if (kind < kEdges) {
            if (at == open_.end()) {
                open_[number] = Known{begun, ended, stripe};
            } else {
                // But for a read, which may have begun before all that made room for its page.
                bool around = kind == kT3ToT2 && begun <= at->second.first;
                if ((begun < at->second.last && !around) || stripe != at->second.stripe) {
                    w_->problems.report("a move %#x of miss %u begins before the one before it ended", what, number);
                }
                at->second.first = around ? begun : at->second.first;
                at->second.last = ended;
            }
            return;
        }
        roots++;
        if (at != open_.end()) {
            if (at->second.first < begun || at->second.last > ended || at->second.stripe != stripe) {
                w_->problems.report("moves of miss %u do not lie in it", number);
            }
            open_.erase(at);
        }
    }

    World* w_;
    EventLog* log_;
    std::map<uint32_t, Known> open_;
    uint64_t taken_ = 0;
    std::atomic<bool> over_{false};
    std::thread thread_;
};

}  // namespace rig
