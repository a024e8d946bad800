// The rig: device code against the adversarial controller.
//
//   rig [mode=io|random|requests|arguments] [seed=N] [ms=N] [repeat=N] [quick=1] [KEY=N ...]
//
// Keys are the fields of Config. Exit status 0: nothing is wrong.
#include <unistd.h>

#include "arguments.hpp"
#include "requests.hpp"
#include "worker.hpp"

using namespace rig;

namespace {

bool set(Config* c, const std::string& key, uint64_t v) {
    std::map<std::string, uint32_t*> small = {
        {"depth", &c->depth}, {"cq", &c->cq_depth}, {"cids", &c->cids}, {"queues", &c->queues}, {"warps", &c->warps},
        {"lanes", &c->lanes}, {"rounds", &c->rounds}, {"torn", &c->torn}, {"stall", &c->stall}, {"pause", &c->pause},
        {"fail", &c->fail}, {"twice", &c->twice}, {"drop", &c->drop}, {"late", &c->late}, {"withdraw", &c->withdraw}, {"losses", &c->losses},
        {"payload_late", &c->payload_late}, {"gone_after", &c->gone_after}, {"stop_after", &c->stop_after}};
    std::map<std::string, uint64_t*> big = {{"seed", &c->seed}, {"start", &c->start}, {"cq_start", &c->cq_start},
                                            {"deadline", &c->deadline_ms}, {"lba", &c->first_lba}};
    std::map<std::string, bool*> flags = {{"async", &c->async}, {"reorder", &c->reorder}};
    if (small.count(key) != 0) {
        *small[key] = static_cast<uint32_t>(v);
    } else if (big.count(key) != 0) {
        *big[key] = v;
    } else if (flags.count(key) != 0) {
        *flags[key] = v != 0;
    } else {
        return false;
    }
    return true;
}

// check_queue compares what the counters say at the end.
void check_queue(World* w, uint32_t i) {
    const Queue& q = w->queues[i];
    if (q.tickets != q.rung || q.freed > q.rung || q.rung - q.freed > q.depth - 1) {
        w->problems.report("queue %u: tickets %llu, rung %llu, freed %llu", i, (unsigned long long)q.tickets,
                           (unsigned long long)q.rung, (unsigned long long)q.freed);
    }
    if (q.completions != q.cq_head - w->c.cq_start || q.ring_lock != 0 || q.cq_lock != 0) {
        w->problems.report("queue %u: %llu completions, locks %u %u", i, (unsigned long long)q.completions, q.ring_lock,
                           q.cq_lock);
    }
}

void check_end(World* w, Controller* controller) {
    uint64_t entries = 0, spurious = 0, held = 0;
    for (uint32_t i = 0; i < w->c.queues; i++) {
        check_queue(w, i);
        entries += w->queues[i].tickets - w->c.start;
        spurious += w->queues[i].spurious;
        for (const Cid& id : w->memory[i]->cids) {
            held += (id.word & 3) != kFree;
        }
    }
    if (w->c.gone_after == 0) {
        if (entries != controller->fetched()) {
            w->problems.report("%llu entries, %llu fetched", (unsigned long long)entries, (unsigned long long)controller->fetched());
        }
        if (spurious != controller->duplicates()) {
            w->problems.report("%llu spurious completions of %llu", (unsigned long long)spurious,
                               (unsigned long long)controller->duplicates());
        }
        if (held != w->dropped) {
            w->problems.report("%llu command ids are held, %u commands were dropped", (unsigned long long)held, w->dropped.load());
        }
    }
    for (uint32_t i = 0; i < 4096; i++) {
        if (*w->payload->at(i) != kCanary || *w->payload->at(w->payload->size() - 1 - i) != kCanary) {
            w->problems.report("a canary is dead");
            break;
        }
    }
}

template <class G>
void run_workers(World* w, const std::vector<G>& groups) {
    Controller controller(w);
    std::vector<std::unique_ptr<Worker<G>>> workers;
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < groups.size(); i++) {
        workers.push_back(std::make_unique<Worker<G>>(w, groups[i], i / w->c.lanes, i));
    }
    for (auto& worker : workers) {
        threads.emplace_back([&worker] { worker->run(); });
    }
    if (w->c.stop_after != 0) {
        usleep(w->c.stop_after * 1000);
        store_relaxed_sys(&w->stop, 1);
    }
    for (std::thread& t : threads) {
        t.join();
    }
    // Completions that are late still come, and somebody has to take them.
    std::atomic<bool> ended{false};
    std::thread end([&] {
        controller.finish();
        ended = true;
    });
    bool more = true;
    while (more) {
        more = !ended;
        for (uint32_t i = 0; i < w->c.queues; i++) {
            more |= poll(Solo::full(), open_port(&w->engine, i)) != 0;
        }
        usleep(100);
    }
    end.join();
    check_end(w, &controller);
    for (auto& worker : workers) {
        worker->check_store();
    }
}

uint32_t run_io(const Config& c) {
    World w(c);
    uint32_t n = c.warps * c.lanes;
    if (c.lanes == 1) {
        run_workers(&w, std::vector<Solo>(n));
    } else {
        std::vector<std::unique_ptr<Crew>> crews;
        std::vector<ThreadLanes> lanes;
        for (uint32_t i = 0; i < n; i++) {
            if (i % c.lanes == 0) {
                crews.push_back(std::make_unique<Crew>(c.lanes));
            }
            lanes.emplace_back(crews.back().get(), i % c.lanes);
        }
        run_workers(&w, lanes);
    }
    printf("fates plain %u fail %u timeout %u late %u twice %u payload-late %u gone %u stopped %u\n", w.fates[0].load(),
           w.fates[1].load(), w.fates[2].load(), w.fates[3].load(), w.fates[4].load(), w.fates[5].load(), w.fates[6].load(),
           w.fates[7].load());
    return w.problems.count();
}

void print(const Config& c) {
    fprintf(stderr, "depth=%u cq=%u cids=%u queues=%u start=%llu cq_start=%llu warps=%u lanes=%u rounds=%u async=%d reorder=%d\n", c.depth,
            c.cq_depth, c.cids, c.queues, (unsigned long long)c.start, (unsigned long long)c.cq_start, c.warps, c.lanes,
            c.rounds, c.async, c.reorder);
}

// random_config is any queue with any trouble that must not matter.
Config random_config(uint64_t seed) {
    Random r{seed};
    auto some = [&](uint64_t one_of, uint64_t n) { return static_cast<uint32_t>(r.one_in(one_of) ? r.below(n) + 2 : 0); };
    Config c;
    c.seed = r.next();
    c.depth = static_cast<uint32_t>(r.one_in(3) ? 2 + r.below(3) : 2 + r.below(70));
    c.cq_depth = static_cast<uint32_t>(r.one_in(3) ? 2 + r.below(3) : 2 + r.below(70));
    c.cids = static_cast<uint32_t>(1 + r.below(c.cq_depth - 1));
    c.queues = static_cast<uint32_t>(1 + r.below(2));
    c.start = r.one_in(3) ? 0 : (r.below(5) << 32) - r.below(100);
    c.start = c.start > 1ull << 40 ? 0 : c.start;
    c.cq_start = r.one_in(3) ? 0 : ((1 + r.below(5)) << 32) - r.below(100);
    c.lanes = static_cast<uint32_t>(r.one_in(2) ? 1 : 2 + r.below(3));
    c.warps = static_cast<uint32_t>(1 + r.below(c.lanes == 1 ? 10 : 3));
    c.rounds = static_cast<uint32_t>(20 + r.below(100));
    c.async = c.cids >= 2 * c.warps * c.lanes && r.one_in(2);
    c.reorder = r.one_in(2);
    c.torn = some(3, 10);
    c.stall = some(2, 4);
    c.pause = some(3, 50);
    c.fail = some(2, 20);
    c.twice = some(2, 20);
    c.first_lba = r.one_in(2) ? 0 : ((1 + r.below(1000)) << 32) - r.below(200);
    return c;
}

}  // namespace

int main(int argc, char** argv) {
    Config c;
    std::string mode = "io";
    uint64_t ms = 1000, repeat = 1;
    for (int i = 1; i < argc; i++) {
        std::string a = argv[i], key = a.substr(0, a.find('='));
        const char* v = argv[i] + key.size() + 1;
        if (key == "mode") {
            mode = v;
        } else if (key == "quick") {
            Problems::quick() = true;
        } else if (key == "repeat") {
            repeat = strtoull(v, nullptr, 0);
        } else if (key == "ms") {
            ms = strtoull(v, nullptr, 0);
        } else if (a.find('=') == std::string::npos || !set(&c, key, strtoull(v, nullptr, 0))) {
            fprintf(stderr, "what is %s?\n", argv[i]);
            return 2;
        }
    }
    uint32_t problems = 0;
    if (mode == "io") {
        for (; repeat > 0 && problems == 0; repeat--, c.seed++) {
            problems = run_io(c);
        }
    } else if (mode == "requests") {
        problems = run_requests(c);
    } else if (mode == "arguments") {
        problems = run_arguments();
    } else if (mode == "random") {
        uint64_t begun = globaltimer();
        for (uint64_t seed = c.seed; problems == 0 && globaltimer() - begun < ms * 1000000; seed++) {
            if (getenv("RIG_VERBOSE") != nullptr) print(random_config(seed));
            problems = run_io(random_config(seed));
            if (problems != 0) {
                print(random_config(seed));
                fprintf(stderr, "with mode=random seed=%llu ms=0\n", (unsigned long long)seed);
            }
        }
    } else {
        return 2;
    }
    return problems == 0 ? 0 : 1;
}
