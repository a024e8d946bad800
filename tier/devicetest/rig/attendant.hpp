// Attendant: the CPU's side of moves by request, which answers in any order, refuses, is
// late to begin and, if asked for, late to end.
#pragma once

#include "check.hpp"

namespace rig {

// late_load reads what may be another page's bytes by now. The sanitizer need not know: a
// copy that is late reads whatever is in its source, and only its destination is kept.
__attribute__((noinline, no_sanitize("thread"))) inline void late_load(const char* from, uint64_t* to) {
    to[0] = reinterpret_cast<const volatile uint64_t*>(from)[0];
    to[1] = reinterpret_cast<const volatile uint64_t*>(from)[1];
}

class Attendant {
public:
    explicit Attendant(World* w) : w_(w), slots_(reinterpret_cast<bamio::Request*>(w->ring.slots)), random_{mix(w->c.seed + 77)} {
        if (w->c.mover != 0) {
            thread_ = std::thread([this] { run(); });
        }
    }
    ~Attendant() { end(); }
    // calm waits until no copy is late, and lets none be from now on.
    void calm() {
        calm_ = true;
        while (w_->c.mover != 0 && waiting_ != 0) {
            usleep(100);
        }
    }
    // end looks whether what was lost is back, and every page went one way.
    void end() {
        if (!thread_.joinable()) {
            return;
        }
        over_ = true;
        thread_.join();
        Context<MemoryStore> t = w_->context(0);
        for (uint32_t f; static_cast<uint32_t>(w_->hot()->lost_frames) != kChainEnd && (f = retake_frame(t)) != kNone;) {
            push_frame(t, f);
        }
        if (static_cast<uint32_t>(w_->hot()->lost_frames) != kChainEnd) {
            w_->problems.report("frames stay put aside");
        }
        for (uint32_t s; w_->c.lose == 0 && (s = retake_slot(t)) != kNone;) {
            push_slot(t, s);
        }
        const Counts* c = w_->counts();
        if (w_->c.lose == 0 && c->lost_slots != c->retaken_slots) {
            w_->problems.report("%llu slots were lost and %llu taken back", (unsigned long long)c->lost_slots, (unsigned long long)c->retaken_slots);
        }
        uint64_t in = 0, came = (c->bytes_t3_read + c->bytes_promoted) >> w_->e.page_shift, lost = w_->mover.pages[kToDevice][kUnanswered];
        in = std::accumulate(w_->mover.pages[kToDevice], w_->mover.pages[kToDevice] + kWays, in);
        if (came > in || came < in - lost || w_->mover.pages[kToHost][kByCopyEngine] > hosted_ || (w_->mover.pages[kToDevice][kByKernel] != 0 && lost == 0 && w_->c.spares > 1)) {
            w_->problems.report("%llu pages came to T1, by any way %llu; %llu copies to the host", (unsigned long long)came, (unsigned long long)in, (unsigned long long)hosted_);
        }
    }

private:
    enum Fate { kPlain, kRefuse, kLateBegin, kLateEnd };
    struct Job {
        uint64_t n, due;
        Fate fate;
        bool begun;
    };

    void run() {
        while (!over_ || !jobs_.empty()) {
            bamio::Request* s = &slots_[next_ % w_->ring.count];
            if (load_acquire_sys(&s->sequence) == static_cast<uint32_t>(next_) + 1) {
                Fate fate = random_.one_in(6) ? kRefuse : random_.one_in(12) ? kLateBegin : w_->c.mover == 2 && !calm_ && random_.one_in(10) ? kLateEnd : kPlain;
                jobs_.push_back(Job{next_++, fate == kLateBegin ? globaltimer() + 2 * w_->mover.patience_ns : 0, fate, false});
                waiting_ = jobs_.size();
            }
            if (jobs_.empty()) {
                sched_yield();
                continue;
            }
            work(random_.below(jobs_.size()));
        }
    }

    void work(uint64_t which) {
        Job& j = jobs_[which];
        if (j.due > globaltimer()) {
            sched_yield();
            return;
        }
        bamio::Request* s = &slots_[j.n % w_->ring.count];
        uint32_t mark = static_cast<uint32_t>(j.n) + 1;
        if (!j.begun) {
            store_relaxed_sys(&s->done, mark ^ bamio::kBegun);
            fence_sys();
            if (load_relaxed_sys(&s->withdrawn) == mark) {
                answer(which, s, bamio::kNotBegun);
                return;
            }
            j.begun = true;
            if (j.fate == kLateEnd) { // the copy comes when its warp has given up
                j.due = globaltimer() + 2 * w_->e.deadline_ns;
                return;
            }
        }
        if (j.fate == kRefuse) {
            answer(which, s, bamio::kRequestFailed);
            return;
        }
        copy(s, j.fate == kLateEnd);
        answer(which, s, bamio::kOk);
    }

    void copy(const bamio::Request* s, bool late) {
        uint64_t bytes = s->argument[2];
        char* frame = reinterpret_cast<char*>(w_->e.frame_memory + s->argument[0] * bytes);
        char* slot = reinterpret_cast<char*>(w_->e.slot_memory + s->argument[1] * bytes);
        if (bytes != 1ull << w_->e.page_shift || s->argument[0] >= w_->e.frames || s->argument[1] >= w_->e.slots) {
            w_->problems.report("a move of %llu bytes of frame %llu and slot %llu", (unsigned long long)bytes, (unsigned long long)s->argument[0],
                                (unsigned long long)s->argument[1]);
            return;
        }
        bool in = s->kind == kMoveRequest + kToDevice;
        hosted_ += in ? 0 : 1;
        for (uint64_t i = 0; i < bytes; i += 16) {
            Piece p = late ? Piece{} : load16((in ? slot : frame) + i);
            if (late) {
                uint64_t v[2];
                late_load((in ? slot : frame) + i, v);
                p = Piece{v[0], v[1]};
            }
            store16((in ? frame : slot) + i, p);
        }
    }

    // answer also says how far all copies have ended.
    void answer(uint64_t which, bamio::Request* s, uint32_t status) {
        uint64_t n = jobs_[which].n, over = next_;
        jobs_.erase(jobs_.begin() + static_cast<long>(which));
        for (const Job& j : jobs_) {
            over = j.n < over ? j.n : over;
        }
        store_release_sys(&w_->move_over, over);
        s->result = status;
        store_release_sys(&s->done, static_cast<uint32_t>(n) + 1);
        waiting_ = jobs_.size();
    }

    World* w_;
    bamio::Request* slots_;
    uint64_t next_ = 0, hosted_ = 0;
    Random random_;
    std::vector<Job> jobs_;
    std::atomic<uint64_t> waiting_{0};
    std::atomic<bool> calm_{false}, over_{false};
    std::thread thread_;
};

}  // namespace rig
