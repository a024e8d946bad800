// The rig: the device headers of tier on CPU threads.
//
//   rig [mode=replay|stress|random|hammer|pitfalls] [seed=N] [ms=N] [quick=1] [KEY=N ...]
//
// Keys are the fields of Config. Exit status 0: nothing is wrong.
#include "replay.hpp"
#include "oldest.hpp"
#include "fences.hpp"
#include "hammer.hpp"
#include "hand.hpp"
#include "hits.hpp"
#include "pitfalls.hpp"
#include "races.hpp"

using namespace rig;

namespace {

bool set(Config* c, const std::string& key, const char* text) {
    std::map<std::string, uint32_t*> small = {
        {"pages", &c->pages}, {"frames", &c->frames}, {"t2", &c->t2}, {"spares", &c->spares}, {"shift", &c->page_shift},
        {"t1", &c->t1}, {"placer", &c->placer}, {"log", &c->log}, {"groups", &c->groups}, {"lanes", &c->lanes},
        {"rounds", &c->rounds}, {"fail_reads", &c->fail_reads}, {"fail_writes", &c->fail_writes}, {"slow", &c->slow},
        {"lose", &c->lose}, {"late", &c->late}, {"hold", &c->hold}, {"alone", &c->alone}, {"flush", &c->flush}, {"interrupts", &c->interrupts}, {"window", &c->window},
        {"starve", &c->starve}, {"records", &c->records}, {"events", &c->events}, {"every", &c->every}, {"keep", &c->keep}, {"mover", &c->mover}, {"drain", &c->drain}, {"parity", &c->parity}, {"samples", &c->sample_count}};
    std::map<std::string, uint64_t*> big = {{"seed", &c->seed}, {"below", &c->random_below}, {"deadline", &c->deadline_ms},
                                            {"pin_deadline", &c->pin_deadline_ms}, {"direct", &c->direct}, {"sampled", &c->sampled}, {"start", &c->start}};
    std::map<std::string, std::string*> words = {{"trace", &c->trace}, {"shared", &c->shared}};
    if (small.count(key) != 0) {
        *small[key] = static_cast<uint32_t>(strtoull(text, nullptr, 0));
    } else if (big.count(key) != 0) {
        *big[key] = strtoull(text, nullptr, 0);
    } else if (words.count(key) != 0) {
        *words[key] = text;
    } else {
        return false;
    }
    return true;
}

// run_replay performs a trace with one group, of one thread or of several.
uint32_t run_replay(const Config& c) {
    void* shared = c.shared.empty() ? nullptr : map_shared(c.shared);
    World w(c, shared);
    std::vector<uint32_t> trace = read_trace(c.trace);
    Memory whole(1ull << c.page_shift);
    if (c.lanes == 1) {
        replay_lane(&w, Solo{}, trace, whole.as<void>());
    } else {
        Crew crew(c.lanes);
        std::vector<std::thread> threads;
        for (uint32_t i = 0; i < c.lanes; i++) {
            threads.emplace_back([&, i] { replay_lane(&w, ThreadLanes(&crew, i), trace, whole.as<void>()); });
        }
        for (std::thread& t : threads) {
            t.join();
        }
    }
    print_counts(&w, check(&w));
    return w.problems.count();
}

void print(const Config& c) {
    fprintf(stderr, "seed=%llu pages=%u frames=%u t2=%u spares=%u shift=%u t1=%u placer=%u groups=%u lanes=%u rounds=%u fail_reads=%u fail_writes=%u "
            "slow=%u flush=%u interrupts=%u hold=%u pin_deadline=%llu start=%llu records=%u keep=%u events=%u every=%u mover=%u\n", (unsigned long long)c.seed, c.pages, c.frames, c.t2, c.spares, c.page_shift,
            c.t1, c.placer, c.groups, c.lanes, c.rounds, c.fail_reads, c.fail_writes, c.slow, c.flush, c.interrupts, c.hold,
            (unsigned long long)c.pin_deadline_ms, (unsigned long long)c.start, c.records, c.keep, c.events, c.every, c.mover);
}

// run_random tries one engine after another until the time is over.
uint32_t run_random(const Config& c, uint64_t ms) {
    uint64_t begun = globaltimer(), seed = c.seed;
    uint32_t problems = 0;
    for (; problems == 0 && globaltimer() - begun < ms * 1000000; seed++) {
        Config one = random_config(seed, c.rounds);
        interrupts() = one.interrupts;
        if (Problems::quick() || getenv("RIG_VERBOSE") != nullptr) {
            print(one); // the process may end where it is
        }
        problems = run_stress(one);
        if (problems != 0) {
            print(one);
            fprintf(stderr, "with mode=random seed=%llu ms=0\n", (unsigned long long)seed);
        }
    }
    printf("%llu engines\n", (unsigned long long)(seed - c.seed));
    return problems;
}

}  // namespace

int main(int argc, char** argv) {
    Config c;
    std::string mode = "stress";
    uint64_t ms = 1000;
    for (int i = 1; i < argc; i++) {
        std::string a = argv[i], key = a.substr(0, a.find('='));
        const char* v = argv[i] + key.size() + (a.find('=') == std::string::npos ? 0 : 1);
        if (key == "mode") {
            mode = v;
        } else if (key == "quick") {
            Problems::quick() = true;
        } else if (key == "ms") {
            ms = strtoull(v, nullptr, 0);
        } else if (!set(&c, key, v)) {
            fprintf(stderr, "what is %s?\n", argv[i]);
            return 2;
        }
    }
    interrupts() = c.interrupts;
    uint32_t problems = 0;
    if (mode == "replay") {
        problems = run_replay(c);
    } else if (mode == "stress") {
        problems = run_stress(c);
    } else if (mode == "hammer") {
        problems = run_hammer(c);
    } else if (mode == "pitfalls") {
        problems = run_pitfalls() + run_fences() + run_races() + run_compaction(c.seed) + run_oldest(c.seed) + run_hand(c.seed) + run_hits(c.seed);
    } else if (mode == "random") {
        problems = run_random(c, ms);
    } else {
        return 2;
    }
    return problems == 0 ? 0 : 1;
}
