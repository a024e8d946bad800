// placement.Hash: the stateless random source of every policy, the same in Go.
#pragma once

#include "platform.cuh"

namespace tritier {
namespace tier {

TRITIER_DEVICE uint64_t hash_mix(uint64_t x) { // splitmix64's finaliser
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

TRITIER_DEVICE uint64_t hash(uint64_t seed, uint64_t now, uint32_t page) {
    return hash_mix(hash_mix(seed + 0x9e3779b97f4a7c15ull * (now + 1)) ^ (page + 0xd1b54a32d192ed03ull));
}

// draw is a number of 53 bits, as placement's.
TRITIER_DEVICE uint64_t draw(uint64_t seed, uint64_t now, uint32_t page) { return hash(seed, now, page) >> 11; }

} // namespace tier
} // namespace tritier
