// A program that uses the device headers on queues of a real controller, which
// another process has set up: the structs, rings and payload lie in memory that
// both share (descriptor 3), the doorbells in the controller's registers
// (descriptor 4). Threads stand for lanes. It prints what it did and exits
// with 0 if everything was as it must be.
//
//   program load|statuses|timeouts|stop|reset name=value...

#include <memory>

#include "faults.hpp"
#include "worker.hpp"

using namespace trial;

namespace {

void load(World* w, const Options& o) {
    uint64_t rounds = o["rounds"], area = o["area"], seed = o["seed"];
    uint32_t lanes = static_cast<uint32_t>(o["lanes"]), id = 0;
    std::vector<std::thread> all;
    std::vector<std::unique_ptr<rig::Crew>> crews;
    for (uint64_t i = 0; i < o["solo"]; i++, id++) {
        all.emplace_back([=] { Worker<Solo>(w, Solo::full(), id, area, seed).run(rounds); });
    }
    for (uint64_t i = 0; i < o["warps"]; i++) {
        crews.emplace_back(new rig::Crew(lanes));
        rig::Crew* crew = crews.back().get();
        for (uint32_t lane = 0; lane < lanes; lane++, id++) {
            all.emplace_back([=] { Worker<rig::ThreadLanes>(w, rig::ThreadLanes(crew, lane), id, area, seed).run(rounds); });
        }
    }
    for (std::thread& t : all) {
        t.join();
    }
}

bool run(World* w, const std::string& what, const Options& o) {
    if (what == "load") {
        load(w, o);
    } else if (what == "statuses") {
        statuses(w, o["threads"], o["rounds"]);
    } else if (what == "timeouts") {
        timeouts(w);
    } else if (what == "stop") {
        in_flight(w, 8, kStopped);
    } else if (what == "reset") {
        in_flight(w, 8, kTimeout);
    } else {
        return false;
    }
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: %s what name=value...\n", argv[0]);
        return 2;
    }
    Options o(argc - 2, argv + 2);
    map_at(kArenaFD, o["arena"], o["arena_bytes"], 0);
    map_at(kRegistersFD, o["registers"], o["registers_bytes"], o["registers_offset"]);
    World w;
    w.engine = reinterpret_cast<const Engine*>(o["engine"]);
    w.versions = reinterpret_cast<uint32_t*>(o["versions"]);
    if (w.engine->version != kLayoutVersion) {
        fprintf(stderr, "layout version %u, want %u\n", w.engine->version, kLayoutVersion);
        return 2;
    }
    uint64_t begun = globaltimer();
    if (!run(&w, argv[1], o)) {
        fprintf(stderr, "unknown: %s\n", argv[1]);
        return 2;
    }
    printf("RESULT commands=%llu reads=%llu writes=%llu flushes=%llu failed=%llu refused=%llu bytes=%llu ms=%llu problems=%llu\n",
           (unsigned long long)w.commands, (unsigned long long)w.reads, (unsigned long long)w.writes, (unsigned long long)w.flushes,
           (unsigned long long)w.failed, (unsigned long long)w.refused, (unsigned long long)w.bytes,
           (unsigned long long)milliseconds_since(begun), (unsigned long long)w.problems.count());
    return w.problems.count() == 0 ? 0 : 1;
}
