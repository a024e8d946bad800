// A foreign process as a host of libnvm's software controller: the device code
// on the controller's own memory file.
//
//   soft KEY=N ...     file descriptor 3 is the memory file
//
// Offsets are in the file; memory at IOVA x is at x - 2^32 of it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "yield.hpp"

using namespace tritier;
using namespace tritier::bamio;

namespace {

constexpr uint64_t kBase = 1ull << 32;
std::map<std::string, uint64_t> arg;

// value is an argument, or 0. Threads read the map, nobody writes to it then.
uint64_t value(const std::string& key) {
    auto a = arg.find(key);
    return a == arg.end() ? 0 : a->second;
}

std::atomic<uint32_t> problems{0};
std::atomic<uint64_t> commands{0}, errors{0};

void problem(const char* what, uint64_t a, uint64_t b) {
    if (problems.fetch_add(1) < 10) {
        fprintf(stderr, "PROBLEM: %s: %#llx, %#llx\n", what, (unsigned long long)a, (unsigned long long)b);
    }
}

struct World {
    explicit World(uint8_t* memory);
    Engine engine{};
    Drive drive{};
    std::vector<Queue> queues;
    std::vector<std::vector<uint32_t>> ready;
    std::vector<std::vector<Cid>> cids;
};

uint64_t of_queue(const char* what, uint32_t i) { return value(what + std::to_string(i)); }

World::World(uint8_t* memory) : queues(value("queues")), ready(value("queues")), cids(value("queues")) {
    uint64_t base = reinterpret_cast<uint64_t>(memory);
    uint32_t depth = static_cast<uint32_t>(value("depth"));
    for (uint32_t i = 0; i < queues.size(); i++) {
        Queue& q = queues[i];
        ready[i].resize(depth);
        cids[i].resize(depth - 1);
        q.sq = base + of_queue("sq", i) - kBase;
        q.cq = base + of_queue("cq", i) - kBase;
        q.sq_doorbell = base + of_queue("sqdb", i);
        q.cq_doorbell = base + of_queue("cqdb", i);
        q.ready = reinterpret_cast<uint64_t>(ready[i].data());
        q.cids = reinterpret_cast<uint64_t>(cids[i].data());
        q.depth = q.cq_depth = depth;
        q.cid_count = depth - 1;
        q.id = i + 1;
        q.nsid = 1;
    }
    drive.blocks = value("blocks");
    drive.block_size = static_cast<uint32_t>(value("block_size"));
    drive.max_blocks = static_cast<uint32_t>(value("max_blocks"));
    drive.queue_count = static_cast<uint32_t>(queues.size());
    drive.iova = value("payload");
    drive.lists = value("lists");
    Payload& p = engine.payload;
    p.base = base + value("payload") - kBase;
    p.bytes = static_cast<uint32_t>(value("bytes"));
    p.list_bytes = 4096;
    p.count = static_cast<uint32_t>(value("threads"));
    for (uint32_t b = 0; b < p.count; b++) {
        uint64_t* list = reinterpret_cast<uint64_t*>(memory + value("lists") - kBase + b * 4096ull);
        for (uint64_t k = 1; k < p.bytes / kPage; k++) {
            list[k - 1] = drive.iova + static_cast<uint64_t>(b) * p.bytes + k * kPage;
        }
    }
    engine.version = kLayoutVersion;
    engine.drive_count = 1;
    engine.queue_count = drive.queue_count;
    engine.drives = reinterpret_cast<uint64_t>(&drive);
    engine.queues = reinterpret_cast<uint64_t>(queues.data());
    engine.deadline_ns = value("deadline") * 1000000;
}

uint64_t word_of(uint64_t lba, uint64_t version, uint64_t i) { return (lba << 20 ^ version * 0x9e3779b97f4a7c15ull) + i; }

// work writes and reads blocks of the thread's own part of the drive. With
// faults=1 commands may fail, and blocks whose write failed are not checked.
void work(const Engine* e, uint32_t thread) {
    Solo g;
    Port p = open_port(e, queue_of(e, 0, thread));
    Medium m = open_medium(e, 0);
    bool faults = value("faults") != 0;
    uint64_t part = m.blocks / value("threads"), words = m.block_size / 8, state = thread * 7919 + value("seed");
    std::vector<uint64_t> version(part);
    std::vector<uint64_t> data(m.payload.bytes / 8);
    auto random = [&](uint64_t n) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        return (state >> 33) % n;
    };
    for (uint64_t round = 0; round < value("rounds"); round++) {
        uint32_t n = static_cast<uint32_t>(1 + random(m.max_blocks));
        uint64_t at = random(part - n);
        uint32_t offset = static_cast<uint32_t>(random(m.payload.bytes - n * m.block_size + 1) / 16 * 16);
        Span s{thread * part + at, n, thread, offset};
        bool is_write = random(2) == 0;
        for (uint64_t i = 0; i < n * words; i++) {
            data[i] = is_write ? word_of(s.lba + i / words, round + 1, i % words) : ~0ull;
        }
        uint32_t status = is_write ? write_from(g, p, m, s, data.data()) : read_to(g, p, m, s, data.data());
        commands++;
        errors += status != kOk;
        if (status >= kTimeout) {
            if (!faults) {
                problem("status", status, round);
            }
            return; // the buffer is not this thread's any more
        }
        if (status != kOk && !faults) {
            problem("status", status, round);
        }
        for (uint64_t b = 0; b < n; b++) {
            uint64_t& v = version[at + b];
            if (is_write) {
                v = status == kOk ? round + 1 : ~0ull;
            }
            for (uint64_t i = 0; !is_write && status == kOk && v != ~0ull && i < words; i++) {
                uint64_t want = v == 0 ? 0 : word_of(s.lba + b, v, i);
                if (data[b * words + i] != want) {
                    problem("data of block", s.lba + b, data[b * words + i]);
                    break;
                }
            }
        }
        if (round % 16 == 0 && flush(g, p) != kOk && !faults) {
            problem("flush", 0, round);
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    for (int i = 1; i < argc; i++) {
        std::string a = argv[i];
        size_t eq = a.find('=');
        arg[a.substr(0, eq)] = strtoull(argv[i] + eq + 1, nullptr, 0);
    }
    uint8_t* memory = static_cast<uint8_t*>(mmap(nullptr, value("size"), PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0));
    if (memory == MAP_FAILED) {
        perror("mmap");
        return 2;
    }
    World w(memory);
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < value("threads"); t++) {
        threads.emplace_back(work, &w.engine, t);
    }
    for (std::thread& t : threads) {
        t.join();
    }
    uint64_t entries = 0, doorbells = 0;
    for (const Queue& q : w.queues) {
        entries += q.rung;
        doorbells += q.doorbells;
        if (q.tickets != q.rung || q.spurious != value("spurious")) {
            problem("tickets and spurious completions", q.tickets, q.spurious);
        }
    }
    printf("commands=%llu errors=%llu entries=%llu doorbells=%llu\n", (unsigned long long)commands.load(),
           (unsigned long long)errors.load(), (unsigned long long)entries, (unsigned long long)doorbells);
    return problems == 0 ? 0 : 1;
}
