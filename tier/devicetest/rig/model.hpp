// Model: what every word of the array must hold. A word has one writer, which
// numbers its versions; whoever reads it knows the last version that was
// complete before, and the last that had begun after.
#pragma once

#include "check.hpp"

namespace rig {

enum : uint32_t { kShared = 0, kWhole = 1, kSums = 2 }; // kinds of pages

struct Model {
    explicit Model(World* world)
        : w(world), words((1u << world->c.page_shift) / 8), begun(words * world->c.pages), complete(words * world->c.pages) {}

    World* w;
    uint32_t words; // of a page
    std::vector<std::atomic<uint32_t>> begun, complete;

    // Words of shared pages belong to a lane each, pages of the second kind
    // as a whole to a group, and to words of the third kind anybody adds 1.
    uint32_t kind(uint64_t page) const { return page % 8 == 5 ? kSums : page % 4 == 3 ? kWhole : kShared; }
    uint32_t writer(uint64_t i) const { // group * lanes + lane
        uint32_t n = w->c.groups * w->c.lanes;
        return static_cast<uint32_t>(kind(i / words) == kWhole ? (i / words / 4) % w->c.groups * w->c.lanes : i % n);
    }
    static uint64_t value(uint64_t i, uint32_t version) { return version == 0 ? 0 : static_cast<uint64_t>(version) << 32 | i; }

    uint32_t first(uint64_t i) const { return complete[i].load(); }
    // read checks a value against what was complete before it was read.
    void read(const char* by, uint64_t i, uint64_t v, uint32_t before) {
        uint32_t version = kind(i / words) == kSums ? static_cast<uint32_t>(v) : static_cast<uint32_t>(v >> 32);
        uint32_t after = begun[i].load();
        bool whole = kind(i / words) == kSums ? v == version : v == value(i, version);
        if (!whole || version < before || version > after) {
            uint64_t e = w->entry(static_cast<uint32_t>(i / words));
            w->problems.report("%s: page %llu, word %llu holds %#llx: want version %u to %u; entry %#llx", by, (unsigned long long)(i / words),
                               (unsigned long long)(i % words), (unsigned long long)v, before, after, (unsigned long long)e);
        }
    }
    // last is what the word must hold when nobody writes: failed writes have
    // written nothing.
    uint64_t last(uint64_t i) const { return kind(i / words) == kSums ? complete[i].load() : value(i, complete[i]); }
};

}  // namespace rig
