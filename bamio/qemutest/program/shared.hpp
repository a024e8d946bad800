// What all parts of the program share: memory and registers that another
// process set up, problems, random numbers, and what blocks contain.
#pragma once

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <atomic>
#include <map>
#include <string>

#include "yield.hpp"

#include "lanes.hpp"

namespace trial {

using namespace tritier;
using namespace tritier::bamio;

// What is inherited as open descriptors.
enum : int { kArenaFD = 3, kRegistersFD = 4 };

[[noreturn]] inline void fail(const char* what) {
    perror(what);
    exit(3);
}

// Options are numbers by name, from arguments name=value.
class Options {
public:
    Options(int n, char** arguments) {
        for (int i = 0; i < n; i++) {
            const char* value = strchr(arguments[i], '=');
            if (value == nullptr) {
                fail(arguments[i]);
            }
            values_[std::string(arguments[i], static_cast<size_t>(value - arguments[i]))] = strtoull(value + 1, nullptr, 0);
        }
    }
    uint64_t operator[](const char* name) const {
        auto at = values_.find(name);
        if (at == values_.end()) {
            fprintf(stderr, "argument %s is missing\n", name);
            exit(3);
        }
        return at->second;
    }

private:
    std::map<std::string, uint64_t> values_;
};

// map_at puts a mapping where the process that made the structs expects it.
inline void map_at(int fd, uint64_t at, uint64_t bytes, uint64_t offset) {
    void* want = reinterpret_cast<void*>(at);
    if (mmap(want, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, static_cast<off_t>(offset)) != want) {
        fail("mmap");
    }
}

// Problems counts what is wrong and prints the first few.
class Problems {
public:
    __attribute__((format(printf, 2, 3))) void report(const char* format, ...) {
        if (count_.fetch_add(1) >= 20) {
            return;
        }
        char line[300];
        va_list a;
        va_start(a, format);
        vsnprintf(line, sizeof line, format, a);
        va_end(a);
        fprintf(stderr, "problem: %s\n", line);
    }
    uint64_t count() const { return count_.load(); }

private:
    std::atomic<uint64_t> count_{0};
};

// mix is the output function of SplitMix64: all bits of v in all bits.
inline uint64_t mix(uint64_t v) {
    v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9u;
    v = (v ^ v >> 27) * 0x94d049bb133111ebu;
    return v ^ v >> 31;
}

struct Random {
    uint64_t state;
    uint64_t below(uint64_t n) { return mix(state += 0x9e3779b97f4a7c15u) % n; }
    bool one_in(uint64_t n) { return below(n) == 0; }
};

// word is a piece of what a version of a block contains: its number, the
// version, and a mix of both. The other process knows the same formula.
inline uint64_t word(uint64_t lba, uint64_t version, uint64_t i) {
    return i == 0 ? lba : i == 1 ? version : mix(lba << 32 ^ version << 12 ^ i);
}

inline void fill_block(uint8_t* at, uint32_t bytes, uint64_t lba, uint64_t version) {
    for (uint32_t i = 0; i < bytes / 8; i++) {
        uint64_t w = word(lba, version, i);
        memcpy(at + 8 * i, &w, 8);
    }
}

// wrong_word is the first word that differs from the version, or -1.
inline int wrong_word(const uint8_t* at, uint32_t bytes, uint64_t lba, uint64_t version) {
    for (uint32_t i = 0; i < bytes / 8; i++) {
        uint64_t w = word(lba, version, i);
        if (memcmp(at + 8 * i, &w, 8) != 0) {
            return static_cast<int>(i);
        }
    }
    return -1;
}

// The status code and its type, without what the controller says about
// trying again.
inline uint32_t code(uint32_t status) { return status < kTimeout ? status & 0x7ff : status; }

struct World {
    const Engine* engine;
    uint32_t* versions; // by block, each of the lane that owns the block
    Problems problems;
    std::atomic<uint64_t> commands{0}, reads{0}, writes{0}, flushes{0}, failed{0}, refused{0}, bytes{0};

    Queue* queue(uint32_t i) const { return reinterpret_cast<Queue*>(engine->queues) + i; }
    const Drive* drive(uint32_t i) const { return reinterpret_cast<const Drive*>(engine->drives) + i; }
};

}  // namespace trial
