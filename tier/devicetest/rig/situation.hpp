// Situation: a small engine for one thread, brought into a state by hand.
#pragma once

#include "stress.hpp"

namespace rig {

struct Pitfall {
    explicit Pitfall(const char* name, Config c) : name_(name), w(c), t(w.context(0)), a(w.array<uint64_t>()), words((1u << c.page_shift) / 8) {}

    const char* name_;
    World w;
    Context<MemoryStore> t;
    array_ref<uint64_t, MemoryStore> a;
    uint64_t words;
    Solo g;

    uint32_t load(uint64_t page, uint64_t* v = nullptr) {
        uint32_t status;
        uint64_t x = a.load(g, t, page * words, true, &status);
        if (v != nullptr) {
            *v = x;
        }
        return status;
    }
    uint32_t store(uint64_t page, uint64_t v) { return a.store(g, t, page * words, v, true); }
    uint64_t* entry(uint32_t page) { return reinterpret_cast<uint64_t*>(w.e.entries) + page; }
    void want(const char* what, uint64_t got, uint64_t wanted) {
        if (got != wanted) {
            w.problems.report("%s: %s is %#llx, want %#llx", name_, what, (unsigned long long)got, (unsigned long long)wanted);
        }
    }
    uint32_t end() {
        check(&w);
        return w.problems.count();
    }
};

inline Config small_config() {
    Config c;
    c.deadline_ms = 300;
    c.pin_deadline_ms = 100;
    return c;
}

}  // namespace rig
