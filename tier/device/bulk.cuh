// bulk_read and bulk_write: runs of elements by a whole group, page by page.
#pragma once

#include "array_ref.cuh"

namespace tritier {
namespace tier {

// move_elements copies n elements by the group, 16 bytes a lane where both
// sides are aligned to them.
template <class T, class G>
TRITIER_DEVICE void move_elements(const G& g, void* dst, const void* src, uint64_t n) {
    uint64_t bytes = n * sizeof(T);
    if (((reinterpret_cast<uint64_t>(dst) | reinterpret_cast<uint64_t>(src) | bytes) & 15) == 0) {
        copy_bytes(g, dst, src, bytes);
        return;
    }
    for (uint64_t i = g.rank(); i < n; i += g.size()) {
        store_element<T>(static_cast<T*>(dst) + i, load_element<T>(static_cast<const T*>(src) + i));
    }
    g.sync();
}

// bulk calls f(page pointer's element, index in the run, count) for each page of
// elements first .. first+n-1.
template <class T, class S, class G>
TRITIER_DEVICE uint32_t bulk_read(const G& g, const Context<S>& t, const array_ref<T, S>& a, uint64_t first, uint64_t n, T* dst) {
    if (first > a.length || n > a.length - first) {
        return kOutOfRange;
    }
    for (uint64_t done = 0; done < n;) {
        uint64_t i = first + done, run = ((1ull << a.page_shift) - a.offset_of(i)) / sizeof(T);
        run = run < n - done ? run : n - done;
        Access x = acquire(g, t, a.page_of(i), kReadOp);
        if (x.status != kTierOk) {
            return x.status;
        }
        move_elements<T>(g, dst + done, a.element_at(x.frame, i), run);
        release(g, t, a.page_of(i), false);
        done += run;
    }
    return kTierOk;
}

// bulk_write writes elements first .. first+n-1 from src, which all lanes see.
// Pages that it covers as a whole are not read from T3 before (src has to be
// aligned to 16 bytes for that). On an error, pages before the one that failed
// have been written.
template <class T, class S, class G>
TRITIER_DEVICE uint32_t bulk_write(const G& g, const Context<S>& t, const array_ref<T, S>& a, uint64_t first, uint64_t n, const T* src) {
    if (first > a.length || n > a.length - first) {
        return kOutOfRange;
    }
    uint64_t whole = (1ull << a.page_shift) / sizeof(T);
    for (uint64_t done = 0; done < n;) {
        uint64_t i = first + done, run = whole - a.offset_of(i) / sizeof(T);
        run = run < n - done ? run : n - done;
        bool all = run == whole && (reinterpret_cast<uint64_t>(src + done) & 15) == 0;
        Access x = acquire(g, t, a.page_of(i), all ? kOverwriteOp : kWriteOp, src + done);
        if (x.status != kTierOk) {
            return x.status;
        }
        if (!all) {
            move_elements<T>(g, a.element_at(x.frame, i), src + done, run);
        }
        release(g, t, a.page_of(i), true);
        done += run;
    }
    return kTierOk;
}

} // namespace tier

using tier::bulk_read;
using tier::bulk_write;

} // namespace tritier
