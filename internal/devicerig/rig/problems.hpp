// Problems, and random numbers that a seed gives again.
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <atomic>

namespace rig {

inline uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

struct Random {
    uint64_t state;
    uint64_t next() { return mix(state++); }
    uint64_t below(uint64_t n) { return next() % n; }
    bool one_in(uint64_t n) { return n != 0 && next() % n == 0; }
};

// Problems are what the rig finds wrong.
class Problems {
public:
    template <class... A>
    void report(const char* format, A... a) {
        if (count_.fetch_add(1) < 10) {
            char line[300];
            snprintf(line, sizeof line, format, a...);
            fprintf(stderr, "PROBLEM: %s\n", line);
        }
        if (quick()) {
            _exit(1);
        }
    }
    uint32_t count() const { return count_.load(); }
    // quick ends the process at the first problem: all is broken by then, and
    // waits would go on to their deadlines.
    static bool& quick() {
        static bool on = false;
        return on;
    }

private:
    std::atomic<uint32_t> count_{0};
};

}  // namespace rig
