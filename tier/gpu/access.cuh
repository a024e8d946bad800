// What the host's batch calls launch: elements by index, runs of elements, pages
// to prefetch, the flush. Bodies are templates over a group, so that tests run
// them on CPU threads; the kernels are in access.cu.
#pragma once

#include "tier.cuh"

namespace tritier {
namespace tier {

// What a batch does: the numbers of tier.Op.
constexpr uint32_t kNamed = 16; // failed accesses that a report names

// Report is what a launch tells the host, in pinned memory, zeroed before.
struct alignas(128) Report {
    uint32_t failed;   // elements, or pages of a run, that were not moved
    uint32_t named;    // of them, entries of which
    uint32_t finished; // warps of a flush that have ended
    uint32_t durable;  // how the store's flush ended
    uint32_t stop;     // not 0: try nothing more; Engine.stop of batches is this word
    uint32_t begun;    // 1 once the first warp runs
    uint32_t passed;   // changes while a flush passes over pages, of which clean ones count nowhere else
    uint32_t retries;  // of an access that a drive has refused, set by the host
    uint64_t page[kNamed];
    uint32_t status[kNamed];
    uint32_t retried;  // accesses that were made again, each page of a warp's once
};

TRITIER_DEVICE void report_failure(Report* r, uint64_t page, uint32_t status) {
    atomic_add_relaxed_sys(&r->failed, 1);
    uint32_t at = atomic_add_relaxed_sys(&r->named, 1);
    if (at < kNamed) {
        r->page[at] = page;
        store_release_sys(&r->status[at], status);
    }
}

// report_begun tells a host that waits in vain that the launch was not held up before it.
template <class G>
TRITIER_DEVICE void report_begun(const G& g, uint32_t warp, Report* r) {
    if (warp == 0 && g.leads()) {
        store_release_sys(&r->begun, 1u);
    }
}

// given_up says whether the launch is to end: the host asks for it, or an access has
// waited in vain.
template <class G>
TRITIER_DEVICE bool given_up(const G& g, const Report* r) {
    uint32_t stop = 0;
    if (g.leads()) {
        stop = load_relaxed_sys(&r->stop);
    }
    return from_leader(g, stop) != 0;
}

constexpr uint32_t kDoNotRetry = 0x4000; // in the status field of a completion

// passing says whether an access that ended so may do better when it is made again: a
// drive has answered, with an error that it does not call lasting. Nothing of the access
// was done then, and no command of it is left: it read its page, or it was to write a
// victim, which is where it was. What nobody has answered is not repeated, since its
// command may still be carried out, and since each try would take the deadline.
TRITIER_DEVICE bool passing(uint32_t status) {
    status = status >= kWriteBack ? status - kWriteBack : status;
    return status != kTierOk && status < 2 * kDoNotRetry && (status & kDoNotRetry) == 0;
}

// try_again says whether the group makes accesses again, those of its lanes in again, after
// so many tries. It looks at the report only when there are any.
template <class G>
TRITIER_DEVICE bool try_again(const G& g, Report* r, uint32_t tries, uint64_t page, bool again) {
    if (!g.any(again)) {
        return false;
    }
    uint32_t more = 0;
    if (g.leads()) {
        more = tries < load_relaxed_sys(&r->retries) && load_relaxed_sys(&r->stop) == 0 ? 1 : 0;
    }
    if (from_leader(g, more) == 0) {
        return false;
    }
    uint32_t mates = same_lanes(g, again ? static_cast<uint32_t>(page) : kNone);
    uint32_t pages = count_bits(g.ballot(again && g.lane() == lowest_bit(mates)));
    if (g.leads()) {
        atomic_add_relaxed_sys(&r->retried, pages);
    }
    return true;
}

// leave_out counts as failed what a warp does not try any more: each of n from at on,
// in steps.
template <class G>
TRITIER_DEVICE void leave_out(const G& g, Report* r, uint64_t at, uint64_t n, uint64_t step, uint64_t each) {
    uint64_t out = 0;
    for (; at < n; at += step) {
        out += n - at < each ? n - at : each;
    }
    if (g.leads()) {
        atomic_add_relaxed_sys(&r->failed, static_cast<uint32_t>(out));
    }
}

// access_element reads element x of each lane in want to *mine, or writes it from there. Only
// lanes whose access has failed make it again: an element that was written is not written
// a second time, over what another kernel may have put there.
template <class T, class G>
TRITIER_DEVICE uint32_t access_element(const G& g, const Context<DriveStore>& t, const array_ref<T>& a, uint32_t op, uint64_t x, bool want, T* mine,
                                       Report* report) {
    uint32_t status = kTierOk;
    for (uint32_t tries = 0;; tries++) {
        uint32_t now = kTierOk;
        if (op == kReadOp) {
            T v = a.load(g, t, x, want, &now);
            if (want && now == kTierOk) {
                *mine = v;
            }
        } else {
            T v{};
            if (want) {
                v = *mine;
            }
            now = a.store(g, t, x, v, want);
        }
        status = want ? now : status;
        want = want && passing(now);
        if (!try_again(g, report, tries, want ? a.page_of(x) : 0, want)) {
            return status;
        }
    }
}

// access_elements reads (kReadOp) element index[i] to buffer[i], or writes it, or
// brings its page to T1. 32 indices in a row are one access of a warp.
template <class T, class G>
TRITIER_DEVICE void access_elements(const G& g, uint32_t warp, uint32_t warps, const ArrayRef& ref, uint32_t op, const uint64_t* index, uint64_t n,
                                    char* buffer, Report* report) {
    array_ref<T> a;
    static_cast<ArrayRef&>(a) = ref;
    Context<DriveStore> t = a.context(warp);
    uint64_t step = static_cast<uint64_t>(warps) * g.size();
    for (uint64_t first = static_cast<uint64_t>(warp) * g.size(); first < n; first += step) {
        if (given_up(g, report)) {
            leave_out(g, report, first, n, step, g.size());
            return;
        }
        uint64_t i = first + g.rank();
        bool want = i < n;
        uint64_t x = want ? index[i] : 0;
        if (op == kPrefetchOp) {
            a.prefetch(g, t, x, want);
            continue;
        }
        uint32_t status = access_element(g, t, a, op, x, want, reinterpret_cast<T*>(buffer) + i, report);
        if (want && status != kTierOk) {
            report_failure(report, a.page_of(x), status);
        }
    }
}

// access_run reads or writes elements first .. first+n-1, a page for each group in
// turn. Pages that a write covers are not fetched.
template <class T, class G>
TRITIER_DEVICE void access_run(const G& g, uint32_t warp, uint32_t warps, const ArrayRef& ref, uint32_t op, uint64_t first, uint64_t n, char* buffer,
                               Report* report) {
    array_ref<T> a;
    static_cast<ArrayRef&>(a) = ref;
    Context<DriveStore> t = a.context(warp);
    if (n == 0) {
        return;
    }
    uint64_t begin = a.page_of(first), pages = a.page_of(first + n - 1) - begin + 1, whole = (1ull << a.page_shift) / sizeof(T);
    for (uint64_t k = warp; k < pages; k += warps) {
        if (given_up(g, report)) {
            leave_out(g, report, k, pages, warps, 1);
            return;
        }
        uint64_t from = (begin + k - a.first_page) * whole, to = from + whole;
        from = from < first ? first : from;
        to = to > first + n ? first + n : to;
        T* at = reinterpret_cast<T*>(buffer) + (from - first);
        uint32_t status = kTierOk, tries = 0;
        do { // a page, of which nothing was moved when it fails
            status = op == kReadOp ? bulk_read(g, t, a, from, to - from, at) : bulk_write(g, t, a, from, to - from, static_cast<const T*>(at));
        } while (try_again(g, report, tries++, begin + k, passing(status)));
        if (g.leads() && status != kTierOk) {
            report_failure(report, begin + k, status);
        }
    }
}

// pin_pages pins pages, a group for each in turn, and says in frames where they are;
// or lets pages that it has pinned go (unpin 1), those with a frame.
template <class G>
TRITIER_DEVICE void pin_all(const G& g, uint32_t warp, uint32_t warps, const Engine* e, const uint64_t* pages, uint64_t n, uint32_t* frames,
                            uint32_t unpin, Report* report) {
    Context<DriveStore> t = open_context<DriveStore>(e, warp);
    report_begun(g, warp, report);
    for (uint64_t i = warp; i < n; i += warps) {
        if (unpin != 0) {
            if (frames[i] != kNone) {
                release(g, t, pages[i], false);
            }
            continue;
        }
        if (given_up(g, report)) {
            leave_out(g, report, i, n, warps, 1);
            return;
        }
        Access a{};
        uint32_t tries = 0;
        do {
            a = acquire(g, t, pages[i], kReadOp);
        } while (try_again(g, report, tries++, pages[i], passing(a.status)));
        if (g.leads()) {
            frames[i] = a.status == kTierOk ? a.frame : kNone;
            if (a.status != kTierOk) {
                report_failure(report, pages[i], a.status);
            }
        }
    }
}

// flush_all writes dirty pages back, shared out to the groups; the last of them to
// finish makes the store durable.
template <class G>
TRITIER_DEVICE void flush_all(const G& g, uint32_t warp, uint32_t warps, const Engine* e, Report* report) {
    Context<DriveStore> t = open_context<DriveStore>(e, warp);
    report_begun(g, warp, report);
    uint32_t looked = 0;
    for (uint64_t p = warp; p < e->pages && !given_up(g, report); p += warps) {
        if (g.leads() && ++looked % 1024 == 0) {
            store_release_sys(&report->passed, static_cast<uint32_t>(p));
        }
        uint32_t status = flush_page(g, t, static_cast<uint32_t>(p));
        if (status != kTierOk && g.leads()) {
            report_failure(report, p, status);
        }
    }
    uint32_t last = 0;
    if (g.leads()) {
        last = atomic_add_acq_rel_sys(&report->finished, 1) + 1 == warps ? 1 : 0;
    }
    if (from_leader(g, last) != 0) {
        for (uint32_t s = kNone; g.leads() && (s = retake_slot(t)) != kNone;) {
            push_slot(t, s); // those whose commands have ended meanwhile
        }
        g.sync();
        uint32_t durable = given_up(g, report) ? static_cast<uint32_t>(kWaitStopped) : flush_store(g, t);
        if (g.leads()) {
            report->durable = durable;
        }
    }
}

// by_size calls f with an element type of 1 << shift bytes.
struct alignas(16) Sixteen {
    uint64_t low, high;
};

template <class F>
TRITIER_DEVICE void by_size(uint32_t shift, F f) {
    switch (shift) {
    case 0: f(static_cast<uint8_t>(0)); break;
    case 1: f(static_cast<uint16_t>(0)); break;
    case 2: f(static_cast<uint32_t>(0)); break;
    case 3: f(static_cast<uint64_t>(0)); break;
    default: f(Sixteen{0, 0}); break;
    }
}

template <class G>
TRITIER_DEVICE void elements_body(const G& g, uint32_t warp, uint32_t warps, const ArrayRef& ref, uint32_t op, const uint64_t* index, uint64_t n,
                                  char* buffer, Report* report) {
    report_begun(g, warp, report);
    by_size(ref.element_shift, [&](auto t) { access_elements<decltype(t)>(g, warp, warps, ref, op, index, n, buffer, report); });
}

template <class G>
TRITIER_DEVICE void run_body(const G& g, uint32_t warp, uint32_t warps, const ArrayRef& ref, uint32_t op, uint64_t first, uint64_t n, char* buffer,
                             Report* report) {
    report_begun(g, warp, report);
    by_size(ref.element_shift, [&](auto t) { access_run<decltype(t)>(g, warp, warps, ref, op, first, n, buffer, report); });
}

} // namespace tier
} // namespace tritier
