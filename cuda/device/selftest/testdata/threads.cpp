// Threads in the place of lanes: messages, a lock and contended words, over the
// same operations as selftest.cu. Prints what is wrong; built with a thread
// sanitizer too, which sees an order that is too weak even where the processor
// happens to keep it.
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tritier.cuh"

namespace {

constexpr uint64_t patience = 20000000000u;  // ns

template <class Ready>
void wait(const char* what, Ready ready) {
    for (uint64_t start = tritier::globaltimer(); !ready(); tritier::relax()) {
        if (tritier::globaltimer() - start > patience) {
            std::printf("waited too long for %s\n", what);
            std::exit(1);
        }
        std::this_thread::yield();  // there may be fewer processors than threads
    }
}

void check(const char* what, uint64_t got, uint64_t want) {
    if (got == want) return;
    std::printf("%s: got %llu, want %llu\n", what, static_cast<unsigned long long>(got), static_cast<unsigned long long>(want));
    std::exit(1);
}

struct Mailbox {
    uint32_t flag[2] = {};
    uint64_t words[32] = {};
};

// Load and store pass the words there and back: the reader writes the next.
template <class Load, class Store>
void messages(const char* what, Load load, Store store) {
    constexpr uint32_t rounds = 2000;
    Mailbox box;
    std::thread writer([&] {
        for (uint32_t round = 1; round <= rounds; round++) {
            for (uint64_t& w : box.words) w += round;
            store(&box.flag[0], round);
            wait(what, [&] { return load(&box.flag[1]) == round; });
        }
    });
    for (uint32_t round = 1; round <= rounds; round++) {
        wait(what, [&] { return load(&box.flag[0]) == round; });
        for (uint64_t w : box.words) check(what, w, uint64_t(round) * (round + 1) / 2);
        store(&box.flag[1], round);
    }
    writer.join();
}

template <class Body>
void in_threads(Body body) {
    std::vector<std::thread> all;
    for (uint32_t i = 0; i < 4; i++) all.emplace_back([=] { body(i); });
    for (std::thread& t : all) t.join();
}

// acquire takes the word from 0 to 1 and release gives it back.
template <class Acquire, class Release>
void lock(const char* what, Acquire acquire, Release release) {
    constexpr uint32_t times = 2000;
    uint32_t word = 0;
    uint64_t plain = 0;
    in_threads([&, acquire, release](uint32_t) {
        for (uint32_t i = 0; i < times; i++) {
            wait(what, [&] { return acquire(&word) == 0; });
            plain++;
            release(&word);
        }
    });
    check(what, plain, 4 * times);
}

void contended_words() {
    uint64_t sum = 0, least = ~uint64_t(0), most = 0, bits = 0, last = 0;
    uint32_t kept = ~0u;
    in_threads([&](uint32_t me) {
        for (uint64_t i = 0; i < 5000; i++) {
            tritier::atomic_add_relaxed_gpu(&sum, 1);
            tritier::atomic_min_relaxed_sys(&least, 1000000 - 4 * i - me);
            tritier::atomic_max_acq_rel_gpu(&most, 4 * i + me);
            tritier::atomic_or_release_sys(&bits, uint64_t(1) << (16 * me + i % 16));
            tritier::atomic_and_acquire_gpu(&kept, ~(1u << (8 * me + i % 8)));
            tritier::atomic_exch_acq_rel_sys(&last, i);
        }
    });
    check("add", sum, 20000);
    check("min", least, 1000000 - 4 * 4999 - 3);
    check("max", most, 4 * 4999 + 3);
    check("or", bits, ~uint64_t(0));
    check("and", kept, 0);
    check("exch", last, 4999);
}

}  // namespace

int main() {
    messages("acquire and release, gpu", [](const uint32_t* p) { return tritier::load_acquire_gpu(p); },
             [](uint32_t* p, uint32_t v) { tritier::store_release_gpu(p, v); });
    messages("acquire and release, sys", [](const uint32_t* p) { return tritier::load_acquire_sys(p); },
             [](uint32_t* p, uint32_t v) { tritier::store_release_sys(p, v); });
    messages("atomics", [](uint32_t* p) { return tritier::atomic_or_acquire_gpu(p, 0); },
             [](uint32_t* p, uint32_t v) { tritier::atomic_max_release_gpu(p, v); });
    messages("both ways", [](uint32_t* p) { return tritier::atomic_min_acq_rel_sys(p, ~0u); },
             [](uint32_t* p, uint32_t v) { tritier::atomic_exch_acq_rel_sys(p, v); });
    lock("compare and swap", [](uint32_t* p) { return tritier::atomic_cas_acquire_gpu(p, 0, 1); },
         [](uint32_t* p) { tritier::store_release_gpu(p, 0); });
    lock("compare and swap, both ways", [](uint32_t* p) { return tritier::atomic_cas_acq_rel_sys(p, 0, 1); },
         [](uint32_t* p) { tritier::atomic_cas_release_sys(p, 1, 0); });
    lock("exchange", [](uint32_t* p) { return tritier::atomic_exch_acquire_sys(p, 1); },
         [](uint32_t* p) { tritier::atomic_and_release_sys(p, 0); });
    contended_words();
    std::printf("ok\n");
}
