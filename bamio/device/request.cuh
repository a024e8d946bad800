// Requests for work that only the CPU can do: a bounded ring from GPU to CPU.
// A request is a thread's own; let one lane of a warp ask for all.
#pragma once

#include "group.cuh"
#include "layout.cuh"

namespace tritier {
namespace bamio {

// RequestPort is the ring as a thread holds it.
struct RequestPort {
    RequestRing* ring; // null: the host serves no requests
    Request* slots;
    uint32_t count;
    uint64_t deadline_ns;
    const uint32_t* stop; // or null
};

TRITIER_DEVICE RequestPort open_requests(const Engine* e) {
    RequestPort r = RequestPort{reinterpret_cast<RequestRing*>(e->requests), nullptr, 0, e->deadline_ns,
                                reinterpret_cast<const uint32_t*>(e->stop)};
    if (r.ring != nullptr) {
        r.slots = reinterpret_cast<Request*>(r.ring->slots);
        r.count = r.ring->count;
    }
    return r;
}

constexpr uint32_t kTaken = 0x80000000u; // flipped in Request.sequence

TRITIER_DEVICE Request* request_at(const RequestPort& r, uint64_t n) { return &r.slots[n & (r.count - 1)]; }

TRITIER_DEVICE uint32_t request_mark(uint64_t n) { return static_cast<uint32_t>(n) + 1; }

// request_over says why a wait that began at begun has to end, or kOk.
TRITIER_DEVICE uint32_t request_over(const RequestPort& r, uint64_t begun, uint32_t looks) {
    if (looks % 64 == 0 && r.stop != nullptr && load_relaxed_sys(r.stop) != 0) {
        return kStopped;
    }
    return globaltimer() - begun > r.deadline_ns ? kTimeout : kOk;
}

// retire_requests moves head over the requests whose slots nobody needs any
// more: the result was taken, or its owner gave up and the CPU is through. Called
// when places are short, so head lags behind. The marks carry the request's
// number: what a slot held before is no mark for the next.
TRITIER_DEVICE void retire_requests(const RequestPort& r) {
    for (uint32_t i = 0; i < r.count; i++) {
        uint64_t n = load_acquire_gpu(&r.ring->head);
        if (n == load_relaxed_gpu(&r.ring->tail)) {
            return;
        }
        Request* s = request_at(r, n);
        uint32_t mark = request_mark(n);
        bool taken = load_acquire_sys(&s->sequence) == (mark ^ kTaken);
        bool left = !taken && load_acquire_sys(&s->abandoned) == mark && load_acquire_sys(&s->done) == mark;
        if (!taken && !left) {
            return;
        }
        atomic_cas_acq_rel_gpu(&r.ring->head, n, n + 1);
    }
}

// reserve_request takes a place in the ring if there is one.
TRITIER_DEVICE bool reserve_request(const RequestPort& r, uint64_t* n) {
    TRITIER_NO_UNROLL
    for (uint32_t attempt = 0; attempt < 8; attempt++) {
        uint64_t head = load_acquire_gpu(&r.ring->head);
        *n = load_relaxed_gpu(&r.ring->tail);
        if (*n - head >= r.count) {
            retire_requests(r);
        } else if (atomic_cas_relaxed_gpu(&r.ring->tail, *n, *n + 1) == *n) {
            return true;
        }
    }
    return false;
}

// put_request writes request n, for which there is a place.
TRITIER_DEVICE void put_request(const RequestPort& r, uint32_t kind, const uint64_t* arguments, uint64_t n) {
    Request* s = request_at(r, n);
    store_relaxed_sys(&s->kind, kind);
    for (uint32_t i = 0; i < 5; i++) {
        store_relaxed_sys(&s->argument[i], arguments[i]);
    }
    store_release_sys(&s->sequence, request_mark(n));
}

// try_request is send_request without a wait. kBusy: there is no place just now.
TRITIER_DEVICE uint32_t try_request(const RequestPort& r, uint32_t kind, const uint64_t* arguments, uint64_t* n) {
    if (r.ring == nullptr) {
        return kBadArgument;
    }
    if (!reserve_request(r, n)) {
        return kBusy;
    }
    put_request(r, kind, arguments, *n);
    return kOk;
}

// send_request puts a request with five arguments into the ring, for
// wait_request(r, *n). kBusy: no place within the deadline.
TRITIER_DEVICE uint32_t send_request(const RequestPort& r, uint32_t kind, const uint64_t* arguments, uint64_t* n) {
    if (r.ring == nullptr) {
        return kBadArgument;
    }
    uint64_t begun = globaltimer();
    for (uint32_t looks = 1; !reserve_request(r, n); looks++) {
        uint32_t why = request_over(r, begun, looks);
        if (why != kOk) {
            return why == kTimeout ? kBusy : why;
        }
        relax();
    }
    put_request(r, kind, arguments, *n);
    return kOk;
}

// answered waits until request n has its answer, which it takes to *result: kOk, or
// why the wait had to end.
TRITIER_DEVICE uint32_t answered(const RequestPort& r, uint64_t n, uint32_t* result) {
    Request* s = request_at(r, n);
    uint32_t mark = request_mark(n);
    uint64_t begun = globaltimer();
    for (uint32_t looks = 1;; looks++) {
        if (load_acquire_sys(&s->done) == mark) {
            *result = load_relaxed_sys(&s->result);
            store_release_sys(&s->sequence, mark ^ kTaken);
            return kOk;
        }
        uint32_t why = request_over(r, begun, looks);
        if (why != kOk) {
            return why;
        }
        relax();
    }
}

// abandon_request gives the slot up: it may then be given to another, so not a touch more.
TRITIER_DEVICE void abandon_request(const RequestPort& r, uint64_t n) {
    store_release_sys(&request_at(r, n)->abandoned, request_mark(n));
}

// wait_request waits for the CPU's answer to request n and returns it; once. On
// kTimeout and kStopped the CPU may still do the work.
TRITIER_DEVICE uint32_t wait_request(const RequestPort& r, uint64_t n) {
    uint32_t result = kOk, why = answered(r, n, &result);
    if (why != kOk) {
        abandon_request(r, n);
        return why;
    }
    return result;
}

// settle_request waits for the answer to request n and returns it, once, so that the
// caller knows what became of it. A request that the CPU has not begun after patience_ns,
// or when the host asks kernels to end, is withdrawn: kNotBegun, and the CPU will not
// begin it. kTimeout: it has begun, and not answered within the deadline after that;
// it may still do the work, and that alone is uncertain.
//
// Neither side has a compare-and-swap on memory that both change, so each writes its
// word and then reads the other's, with a full fence between (Dekker's way): this one
// withdrawn and then done, the CPU done (kBegun) and then withdrawn. At least one of
// them sees the other's: when this one finds the request not begun, the CPU will find it
// withdrawn. When both do, the CPU leaves it and says so in its answer.
TRITIER_DEVICE uint32_t settle_request(RequestPort r, uint64_t n, uint64_t patience_ns) {
    Request* s = request_at(r, n);
    uint32_t mark = request_mark(n), result = kOk;
    uint64_t deadline = r.deadline_ns;
    r.deadline_ns = patience_ns < deadline ? patience_ns : deadline;
    if (answered(r, n, &result) == kOk) {
        return result;
    }
    store_relaxed_sys(&s->withdrawn, mark);
    fence_sys();
    uint32_t done = load_acquire_sys(&s->done);
    if (done != mark && done != (mark ^ kBegun)) {
        abandon_request(r, n);
        return kNotBegun;
    }
    r.deadline_ns = deadline;
    r.stop = nullptr; // what has begun ends soon
    if (answered(r, n, &result) == kOk) {
        return result;
    }
    abandon_request(r, n);
    return kTimeout;
}

// request sends and waits.
TRITIER_DEVICE uint32_t request(const RequestPort& r, uint32_t kind, const uint64_t* arguments) {
    uint64_t n = 0;
    uint32_t status = send_request(r, kind, arguments, &n);
    return status != kOk ? status : wait_request(r, n);
}

} // namespace bamio
} // namespace tritier
