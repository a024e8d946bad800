// A group whose lanes are CPU threads, so that code for warps runs as it is: a
// vote or a shuffle waits for all lanes. Lanes that part ways hang, as they
// would on a GPU; the test's limit ends that.
#pragma once

#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace rig {

class Crew {
public:
    explicit Crew(uint32_t lanes) : lanes_(lanes) {}

    // meet is a barrier that orders memory, like __syncwarp.
    void meet() {
        uint32_t turn = turn_.load(std::memory_order_acquire);
        if (come_.fetch_add(1, std::memory_order_acq_rel) + 1 == lanes_) {
            come_.store(0, std::memory_order_relaxed);
            turn_.store(turn + 1, std::memory_order_release);
            syscall(SYS_futex, &turn_, FUTEX_WAKE_PRIVATE, 64, nullptr, nullptr, 0);
            return;
        }
        while (turn_.load(std::memory_order_acquire) == turn) {
            syscall(SYS_futex, &turn_, FUTEX_WAIT_PRIVATE, turn, nullptr, nullptr, 0);
        }
    }

    const uint32_t lanes_;
    uint64_t values_[2][32]; // two sets, in turn: one barrier per operation is enough
    struct alignas(64) Count {
        uint32_t n = 0;
    };
    Count counts_[32]; // operations of each lane, whichever of its handles it uses

private:
    std::atomic<uint32_t> come_{0}, turn_{0};
};

// ThreadLanes is one lane's handle.
class ThreadLanes {
public:
    ThreadLanes(Crew* crew, uint32_t lane) : crew_(crew), lane_(lane) {}
    uint32_t mask() const { return crew_->lanes_ == 32 ? ~0u : (1u << crew_->lanes_) - 1; }
    uint32_t size() const { return crew_->lanes_; }
    uint32_t lane() const { return lane_; }
    uint32_t rank() const { return lane_; }
    bool leads() const { return lane_ == 0; }
    uint32_t ballot(bool p) const {
        const uint64_t* all = exchange(p);
        uint32_t votes = 0;
        for (uint32_t i = 0; i < crew_->lanes_; i++) {
            votes |= static_cast<uint32_t>(all[i]) << i;
        }
        return votes;
    }
    bool any(bool p) const { return ballot(p) != 0; }
    template <class T>
    T from(T v, uint32_t lane) const {
        return static_cast<T>(exchange(static_cast<uint64_t>(v))[lane]);
    }
    void sync() const { crew_->meet(); }

private:
    const uint64_t* exchange(uint64_t v) const {
        uint64_t* all = crew_->values_[++crew_->counts_[lane_].n % 2];
        all[lane_] = v;
        crew_->meet();
        return all;
    }
    Crew* crew_;
    uint32_t lane_;
};

}  // namespace rig
