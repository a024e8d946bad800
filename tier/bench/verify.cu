// The kernel that reads elements of every size by full warps, parts of warps, lanes in many
// pages and indices that are none, and compares.
#include "bench.cuh"

using namespace tritier;
using namespace tritier::tier;
using namespace tritier::bench;

// ptxgen:type ArrayRef size=64 go=github.com/tritier/tritier/tier/layout.ArrayRef

// How lanes choose their elements.
enum : uint32_t { kInOrder = 0, kSomeLanes = 1, kManyPages = 2, kTwoPages = 3, kBeyond = 4 };

// word_at is what the word at a byte of the array holds: see rig.fill.
TRITIER_DEVICE uint64_t word_at(uint64_t byte, uint32_t page_shift) {
    bool first = (byte & ((1ull << page_shift) - 1)) == 0;
    return first ? byte >> page_shift : byte * 0x9e3779b97f4a7c15ull;
}

// is_right says whether v is element i.
template <class T>
TRITIER_DEVICE bool is_right(const T& v, uint64_t i, uint32_t page_shift) {
    uint64_t byte = i * sizeof(T), want[2] = {word_at(byte & ~7ull, page_shift), 0}, got[2] = {0, 0};
    __builtin_memcpy(got, &v, sizeof(T));
    if constexpr (sizeof(T) == 16) {
        want[1] = word_at(byte + 8, page_shift);
    } else if constexpr (sizeof(T) < 8) {
        want[0] = want[0] >> byte % 8 * 8 & ((1ull << sizeof(T) * 8) - 1);
    }
    return got[0] == want[0] && got[1] == want[1];
}

// is_zero says whether v is what a read that has failed returns.
template <class T>
TRITIER_DEVICE bool is_zero(const T& v) {
    uint64_t got[2] = {0, 0};
    __builtin_memcpy(got, &v, sizeof(T));
    return (got[0] | got[1]) == 0;
}

// choose is the element that a lane reads in turn k.
TRITIER_DEVICE uint64_t choose(uint32_t how, uint64_t k, uint64_t length, uint64_t each) {
    switch (how) {
    case kManyPages:
        return mix(k) % length;
    case kTwoPages:
        return (k / 32 * 32 + (lane_id() % 2) * 3 * each) % length;
    case kBeyond: // every lane 5 is one past the end, every lane 11 far beyond
        return lane_id() == 5 ? length : lane_id() == 11 ? ~k : k % length;
    default:
        return k % length;
    }
}

// check_all reads reads elements and counts in failed what is wrong. *pages is how many
// accesses that were, one for each page that a warp reads at once.
template <class T>
TRITIER_DEVICE void check_all(const ArrayRef& r, uint32_t how, uint64_t reads, uint64_t* pages, uint32_t* failed) {
    array_ref<T> a = as<T>(r);
    uint64_t each = (1ull << a.page_shift) / sizeof(T), accesses = 0;
    for (uint64_t k = thread_number(), step = thread_count(); k < reads; k += step) {
        uint64_t i = choose(how, k, a.length, each);
        if (how == kSomeLanes && lane_id() % 5 != 3) {
            continue;
        }
        uint32_t lanes = __activemask(), status;
        bool in = i < a.length;
        uint32_t mates = peers(lanes, in ? static_cast<uint32_t>(a.page_of(i)) : kNone);
        accesses += in && leader(mates) == lane_id() ? 1 : 0;
        T v = a.load(i, &status);
        bool right = in ? status == kTierOk && is_right(v, i, a.page_shift) : status == kOutOfRange && is_zero(v);
        if (!right) atomic_add_relaxed_gpu(failed, 1);
    }
    atomic_add_relaxed_gpu(pages, accesses);
}

// check_each is check_all with three elements at a time.
template <class T>
TRITIER_DEVICE void check_each(const ArrayRef& r, uint32_t how, uint64_t reads, uint64_t* pages, uint32_t* failed) {
    array_ref<T> a = as<T>(r);
    uint64_t each = (1ull << a.page_shift) / sizeof(T), accesses = 0;
    for (uint64_t k = thread_number(), step = thread_count(); k < reads; k += 3 * step) {
        uint64_t i[3] = {choose(how, k, a.length, each), choose(how, k + step, a.length, each), choose(how, k + 2 * step, a.length, each)};
        if (how == kSomeLanes && lane_id() % 5 != 3) {
            continue;
        }
        uint32_t lanes = __activemask(), beyond = 0;
        for (uint32_t n = 0; n < 3; n++) {
            bool in = i[n] < a.length;
            uint32_t mates = peers(lanes, in ? static_cast<uint32_t>(a.page_of(i[n])) : kNone);
            accesses += in && leader(mates) == lane_id() ? 1 : 0;
            beyond |= in ? 0 : 1;
        }
        T v[3];
        bool right = a.load_each(i, v) == (beyond != 0 ? kOutOfRange : kTierOk);
        for (uint32_t n = 0; n < 3; n++) {
            right = right && (i[n] < a.length ? is_right(v[n], i[n], a.page_shift) : is_zero(v[n]));
        }
        if (!right) atomic_add_relaxed_gpu(failed, 1);
    }
    atomic_add_relaxed_gpu(pages, accesses);
}

extern "C" __global__ void verify_each(const ArrayRef r, uint32_t how, uint64_t reads, uint64_t* pages, uint32_t* failed) {
    switch (r.element_shift) {
    case 0: return check_each<uint8_t>(r, how, reads, pages, failed);
    case 1: return check_each<uint16_t>(r, how, reads, pages, failed);
    case 2: return check_each<uint32_t>(r, how, reads, pages, failed);
    case 3: return check_each<uint64_t>(r, how, reads, pages, failed);
    default: return check_each<Quad>(r, how, reads, pages, failed);
    }
}

extern "C" __global__ void verify(const ArrayRef r, uint32_t how, uint64_t reads, uint64_t* pages, uint32_t* failed) {
    switch (r.element_shift) {
    case 0: return check_all<uint8_t>(r, how, reads, pages, failed);
    case 1: return check_all<uint16_t>(r, how, reads, pages, failed);
    case 2: return check_all<uint32_t>(r, how, reads, pages, failed);
    case 3: return check_all<uint64_t>(r, how, reads, pages, failed);
    default: return check_all<Quad>(r, how, reads, pages, failed);
    }
}
