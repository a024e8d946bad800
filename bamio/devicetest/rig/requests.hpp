// Requests: many producers, one consumer that is slow or does not answer.
#pragma once

#include <thread>

#include "world.hpp"

namespace rig {

// Requests with kind 1 are answered late, after their owner gave up; others at
// once, in any order. Of kind 3 and 4, argument 2 is the address of a word to mark: by
// the CPU if it begins, by the producer if it has withdrawn. 4 are begun and answered late.
class Clerk {
public:
    Clerk(RequestRing* ring, uint64_t start, uint64_t late_ms, Problems* problems, uint64_t seed)
        : ring_(ring), slots_(reinterpret_cast<Request*>(ring->slots)), count_(ring->count), next_(start), late_ms_(late_ms),
          problems_(problems), random_{seed}, thread_([this] { run(); }) {}
    void finish() {
        ending_ = true;
        thread_.join();
    }
    uint64_t next() const { return next_; }

private:
    struct Job {
        uint64_t n, due;
        bool begun;
    };
    void run() {
        // Those that were withdrawn may come last, and nobody waits for them.
        while (!ending_ || !jobs_.empty() || next_ != load_relaxed_gpu(&ring_->tail)) {
            Request* s = &slots_[next_ % count_];
            if (load_acquire_sys(&s->sequence) == static_cast<uint32_t>(next_) + 1) {
                jobs_.push_back(Job{next_, s->kind == 1 ? globaltimer() + late_ms_ * 1000000 : 0, false});
                next_++;
            }
            if (!jobs_.empty()) {
                answer(random_.below(jobs_.size()));
            }
            sched_yield();
        }
    }
    // begin is what package bamio does: whether the request was not withdrawn.
    static bool begin(Request* s, uint32_t mark) {
        store_relaxed_sys(&s->done, mark ^ kBegun);
        fence_sys();
        return load_relaxed_sys(&s->withdrawn) != mark;
    }
    void answer(uint64_t which) {
        Job& j = jobs_[which];
        if (j.due > globaltimer()) {
            return;
        }
        Request* s = &slots_[j.n % count_];
        uint32_t mark = static_cast<uint32_t>(j.n) + 1;
        if (s->kind >= 3 && !j.begun) {
            if (!begin(s, mark)) {
                s->result = kNotBegun;
                store_release_sys(&s->done, mark);
                jobs_.erase(jobs_.begin() + static_cast<long>(which));
                return;
            }
            *reinterpret_cast<uint64_t*>(s->argument[2]) += 1; // alone, or the producer has not waited
            j.begun = true;
            j.due = s->kind == 4 ? globaltimer() + random_.below(300) * 1000 : 0;
            return;
        }
        if (s->argument[1] != mix(s->argument[0]) || s->argument[4] != s->argument[0] + s->kind) {
            problems_->report("request %llu is not whole", (unsigned long long)j.n);
        }
        s->result = static_cast<uint32_t>(s->argument[0] * 3);
        store_release_sys(&s->done, mark);
        jobs_.erase(jobs_.begin() + static_cast<long>(which));
    }
    const RequestRing* ring_;
    Request* slots_;
    uint32_t count_;
    uint64_t next_, late_ms_;
    Problems* problems_;
    Random random_;
    std::vector<Job> jobs_;
    std::atomic<bool> ending_{false};
    std::thread thread_;
};

// settle has a word marked once, by the CPU or, when it was withdrawn, by itself; true: it was.
// No fence orders what both do to the word: only answers and what was not begun do.
inline bool settle(const RequestPort& r, Random* random, Problems* problems, uint64_t* word) {
    uint64_t x = random->next(), n = 0;
    uint32_t kind = 3 + static_cast<uint32_t>(random->below(2));
    uint64_t arguments[5] = {x, mix(x), reinterpret_cast<uint64_t>(word), 0, x + kind};
    while (try_request(r, kind, arguments, &n) != kOk) {
        sched_yield();
    }
    uint32_t status = settle_request(r, n, random->below(40) * 1000);
    bool mine = status == kNotBegun;
    if (mine) {
        *word += 1;
    } else if (status != static_cast<uint32_t>(x * 3)) {
        problems->report("a request to settle ended with %#x", status);
    }
    return mine;
}

// run_requests: c.depth slots, c.warps producers, c.rounds requests of each,
// one in c.late of them answered too late.
inline uint32_t run_requests(const Config& c) {
    Problems problems;
    std::vector<Request> slots(c.depth);
    RequestRing ring{};
    ring.slots = reinterpret_cast<uint64_t>(slots.data());
    ring.count = c.depth;
    ring.tail = ring.head = c.start;
    for (uint64_t back = 1; back <= c.depth && back <= c.start; back++) {
        uint64_t n = c.start - back;
        slots[n % c.depth].sequence = (static_cast<uint32_t>(n) + 1) ^ kTaken;
        slots[n % c.depth].done = slots[n % c.depth].abandoned = static_cast<uint32_t>(n) + 1;
    }
    Engine e{};
    e.requests = reinterpret_cast<uint64_t>(&ring);
    e.deadline_ns = c.deadline_ms * 1000000;
    Clerk clerk(&ring, c.start, 2 * c.deadline_ms, &problems, c.seed);
    std::vector<std::thread> threads;
    std::vector<uint64_t> words(c.warps * c.rounds);
    std::atomic<uint64_t> sent{0}, late{0}, withdrawn{0};
    for (uint32_t t = 0; t < c.warps; t++) {
        threads.emplace_back([&, t] {
            RequestPort r = open_requests(&e);
            Random random{mix(c.seed + t)};
            for (uint32_t i = 0; i < c.rounds; i++) {
                uint64_t x = random.next();
                if (c.withdraw != 0) {
                    withdrawn += settle(r, &random, &problems, &words[t * c.rounds + i]) ? 1 : 0;
                    sent++;
                    continue;
                }
                uint32_t kind = random.one_in(c.late) ? 1 : 2;
                uint64_t arguments[5] = {x, mix(x), 0, 0, x + kind};
                uint32_t status = request(r, kind, arguments);
                bool good = status == static_cast<uint32_t>(x * 3);
                bool slow = c.late != 0 && (status == kTimeout || status == kBusy);
                if (!good && !slow) {
                    problems.report("a request of kind %u ended with %#x", kind, status);
                }
                sent += status == kBusy ? 0 : 1;
                late += status == kTimeout;
            }
        });
    }
    for (std::thread& t : threads) {
        t.join();
    }
    clerk.finish();
    if (ring.tail - c.start != sent || clerk.next() != ring.tail || ring.tail - ring.head > c.depth) {
        problems.report("%llu sent, tail %llu, head %llu", (unsigned long long)sent.load(), (unsigned long long)ring.tail,
                        (unsigned long long)ring.head);
    }
    for (uint64_t i = 0; c.withdraw != 0 && i < words.size(); i++) {
        if (words[i] != 1) {
            problems.report("what request %llu asked for was done %llu times", (unsigned long long)i, (unsigned long long)words[i]);
        }
    }
    if (c.withdraw != 0 && (withdrawn == 0 || withdrawn == sent)) {
        problems.report("%llu of %llu requests were withdrawn", (unsigned long long)withdrawn.load(), (unsigned long long)sent.load());
    }
    if (c.late != 0 && late == 0) {
        problems.report("no request was late");
    }
    RequestPort none = open_requests(&e);
    none.ring = nullptr;
    uint64_t arguments[5] = {};
    if (request(none, 2, arguments) != kBadArgument) {
        problems.report("a ring that is not there");
    }
    return problems.count();
}

}  // namespace rig
