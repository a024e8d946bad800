// Replay: one group performs a trace, for a comparison with tier.Machine.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>

#include "check.hpp"

namespace rig {

inline std::vector<uint32_t> read_trace(const std::string& path) {
    std::vector<uint32_t> accesses;
    FILE* f = fopen(path.c_str(), "rb");
    if (f == nullptr) {
        return accesses;
    }
    uint32_t buffer[4096];
    for (size_t n; (n = fread(buffer, 4, 4096, f)) > 0;) {
        accesses.insert(accesses.end(), buffer, buffer + n);
    }
    fclose(f);
    return accesses;
}

inline void print_counts(World* w, const Found& found) {
    Counts* c = w->counts();
    uint64_t hits = w->sum(&Stripe::hits), slow = w->sum(&Stripe::slow);
    const struct {
        const char* name;
        uint64_t n;
    } all[] = {{"accesses", hits + slow}, {"t1_hits", hits + c->late_hits}, {"t2_hits", c->t2_hits}, {"t3_fetches", c->t3_fetches},
               {"overwrites", c->overwrites}, {"errors", c->errors}, {"delayed_hits", c->delayed}, {"evictions", c->evictions},
               {"keeps", c->keeps}, {"demotions", c->demotions}, {"copies_saved", c->copies_saved}, {"bypasses", c->bypasses},
               {"t2_evictions", c->t2_evictions}, {"writebacks", c->writebacks}, {"final_dirty", found.dirty},
               {"prefetches", c->prefetches}, {"prefetch_reads", c->prefetch_reads}};
    printf("{");
    for (const auto& x : all) {
        printf("%s\"%s\":%llu", x.name == all[0].name ? "" : ",", x.name, (unsigned long long)x.n);
    }
    printf("}\n");
}

template <class G>
void replay_lane(World* w, const G& g, const std::vector<uint32_t>& trace, const void* whole) {
    Context<MemoryStore> t = w->context(0);
    for (uint32_t access : trace) {
        uint32_t page = access >> 2, op = access & 3;
        Access a = acquire(g, t, page, op, whole);
        if (a.status != kTierOk) {
            if (g.leads()) {
                w->problems.report("page %u, op %u: status %#x, page %u", page, op, a.status, a.page);
            }
        } else if (op != kPrefetchOp) {
            release(g, t, page, op != kReadOp);
        }
    }
}

inline void* map_shared(const std::string& path) {
    int fd = open(path.c_str(), O_RDWR);
    if (fd < 0) {
        return nullptr;
    }
    void* p = mmap(nullptr, static_cast<size_t>(lseek(fd, 0, SEEK_END)), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return p == MAP_FAILED ? nullptr : p;
}

}  // namespace rig
