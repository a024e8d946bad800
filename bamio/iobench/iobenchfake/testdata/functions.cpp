// The functions of iobench.cu that need no warp, compiled for a CPU: prints what
// they give, for the Go double to be compared with.
#define __global__
struct Three {
    unsigned x, y, z;
};
static const Three blockIdx{0, 0, 0}, blockDim{32, 1, 1}, threadIdx{0, 0, 0};
static inline int __clzll(long long v) { return v == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(v)); }
static inline unsigned sm_id() { return 0; }
#include "iobench.cu"

#include <inttypes.h>
#include <stdio.h>

#include <atomic>
#include <thread>
#include <vector>

// Every thread counts its share of statuses; what the table holds then is printed.
static void errors(uint32_t kinds, uint32_t each) {
    Results r = {};
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < 4; t++) {
        threads.emplace_back([&r, kinds, each, t] {
            for (uint32_t n = 0; n < each; n++) {
                for (uint32_t k = 0; k < kinds; k++) count_error(&r, (k + 7 * t) % kinds * 0x10001);
            }
        });
    }
    for (auto& t : threads) t.join();
    for (const StatusCount& s : r.statuses) printf("status %" PRIu32 " %" PRIu64 " %" PRIu64 "\n", kinds, s.status, s.count);
}

// Threads that meet at fresh tables, again and again, for the same first place.
static void claims() {
    constexpr uint32_t kRounds = 20000, kThreads = 3;
    std::vector<Results> tables(kRounds);
    std::atomic<uint32_t> arrived{0};
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < kThreads; t++) {
        threads.emplace_back([&, t] {
            for (uint32_t round = 0; round < kRounds; round++) {
                arrived++;
                for (uint32_t spins = 0; arrived.load() < (round + 1) * kThreads; spins++) {
                    if (spins > 1000) std::this_thread::yield(); // fewer processors than threads
                }
                count_error(&tables[round], t);
                count_error(&tables[round], (t + 1) % kThreads);
            }
        });
    }
    for (auto& t : threads) t.join();
    uint32_t wrong = 0;
    for (const Results& r : tables) {
        uint64_t sum = 0, kinds = 0;
        for (const StatusCount& s : r.statuses) {
            sum += s.count;
            kinds += s.status != 0;
        }
        wrong += sum != 2 * kThreads || kinds != kThreads;
    }
    printf("wrong %u\n", wrong);
}

int main() {
    const uint64_t values[] = {0, 1, 7, 0x9e3779b97f4a7c15ull, ~0ull, 1ull << 63};
    for (uint64_t v : values) {
        for (uint32_t drive = 0; drive < 5; drive++) printf("contents %" PRIu64 " %" PRIu32 " %" PRIu64 "\n", v, drive, contents(v, drive));
        for (uint64_t i : values) {
            uint4 p = piece(v, i);
            printf("piece %" PRIu64 " %" PRIu64 " %u %u %u %u\n", v, i, p.x, p.y, p.z, p.w);
        }
    }
    for (uint64_t ns = 1; ns < 1ull << 50; ns += 1 + ns / 5) printf("bucket %" PRIu64 " %" PRIu32 "\n", ns, bucket_of(ns));
    errors(5, 200000);
    errors(kStatuses + 8, 20);
    claims();
    return 0;
}
