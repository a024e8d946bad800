// Every ordered memory operation once, with the word before, its operand and
// what it returned and left behind. The same text runs as a kernel and on a
// CPU; ops_test.go lists what must come out, and which instruction each is.
#pragma once

#include "tritier.cuh"

namespace selftest {

// The words that the operations work on: the high bit of big is set, so that a
// signed comparison or a truncation gives another result.
template <class T>
constexpr T big = static_cast<T>(0xf0f1f2f3f4f5f6f7u);
template <class T>
constexpr T small = static_cast<T>(0x0102030405060708u);

#define SELFTEST_LOAD(ORDER, SCOPE)                     \
    *cell = big<T> + ++n;                               \
    *out++ = tritier::load_##ORDER##_##SCOPE(cell);

#define SELFTEST_STORE(ORDER, SCOPE)                         \
    tritier::store_##ORDER##_##SCOPE(cell, small<T> + ++n);  \
    *out++ = *cell;

#define SELFTEST_ATOMIC(OP, BEFORE, OPERAND, ORDER, SCOPE)                        \
    *cell = BEFORE;                                                               \
    *out++ = tritier::OP##_##ORDER##_##SCOPE(cell, OPERAND);                     \
    *out++ = *cell;

// Once with the word that is expected, once with another.
#define SELFTEST_CAS(ORDER, SCOPE)                                                        \
    *cell = big<T>;                                                                       \
    *out++ = tritier::atomic_cas_##ORDER##_##SCOPE(cell, big<T>, small<T>);               \
    *out++ = *cell;                                                                       \
    *out++ = tritier::atomic_cas_##ORDER##_##SCOPE(cell, big<T>, big<T>);                 \
    *out++ = *cell;

#define SELFTEST_ORDERS(OP, BEFORE, OPERAND)            \
    SELFTEST_ATOMIC(OP, BEFORE, OPERAND, relaxed, gpu)  \
    SELFTEST_ATOMIC(OP, BEFORE, OPERAND, relaxed, sys)  \
    SELFTEST_ATOMIC(OP, BEFORE, OPERAND, acquire, gpu)  \
    SELFTEST_ATOMIC(OP, BEFORE, OPERAND, acquire, sys)  \
    SELFTEST_ATOMIC(OP, BEFORE, OPERAND, release, gpu)  \
    SELFTEST_ATOMIC(OP, BEFORE, OPERAND, release, sys)  \
    SELFTEST_ATOMIC(OP, BEFORE, OPERAND, acq_rel, gpu)  \
    SELFTEST_ATOMIC(OP, BEFORE, OPERAND, acq_rel, sys)

// ordered_ops works on *cell and writes each result to out, in order; it
// returns the end.
template <class T>
TRITIER_DEVICE uint64_t* ordered_ops(T* cell, uint64_t* out) {
    T n = 0;
    SELFTEST_LOAD(relaxed, gpu)
    SELFTEST_LOAD(relaxed, sys)
    SELFTEST_LOAD(acquire, gpu)
    SELFTEST_LOAD(acquire, sys)
    SELFTEST_STORE(relaxed, gpu)
    SELFTEST_STORE(relaxed, sys)
    SELFTEST_STORE(release, gpu)
    SELFTEST_STORE(release, sys)
    SELFTEST_ORDERS(atomic_add, big<T>, big<T>)
    SELFTEST_ORDERS(atomic_exch, big<T>, small<T>)
    SELFTEST_ORDERS(atomic_or, big<T>, small<T>)
    SELFTEST_ORDERS(atomic_and, big<T>, small<T>)
    SELFTEST_ORDERS(atomic_min, big<T>, small<T>)
    SELFTEST_ORDERS(atomic_max, small<T>, big<T>)
    SELFTEST_CAS(relaxed, gpu)
    SELFTEST_CAS(relaxed, sys)
    SELFTEST_CAS(acquire, gpu)
    SELFTEST_CAS(acquire, sys)
    SELFTEST_CAS(release, gpu)
    SELFTEST_CAS(release, sys)
    SELFTEST_CAS(acq_rel, gpu)
    SELFTEST_CAS(acq_rel, sys)
    return out;
}

// other_ops runs what has no word to show, and the 16-byte accesses on v[0] and
// v[1]; it returns the end of the results.
TRITIER_DEVICE uint64_t* other_ops(uint4* v, uint64_t* out) {
    // A compiler that sees no barrier would keep the last of these stores alone.
    v[0].x = 1;
    tritier::fence_acq_rel_gpu();
    v[0].x = 2;
    tritier::fence_acq_rel_sys();
    v[0].x = 3;
    tritier::fence_sc_gpu();
    v[0].x = 4;
    tritier::fence_sc_sys();
    v[0].x = 5;
    tritier::fence_gpu();
    v[0].x = 6;
    tritier::fence_sys();
    v[0] = make_uint4(1, 2, 3, 4);
    uint4 got = tritier::load_volatile_v4(&v[0]);
    *out++ = got.x == 1 && got.y == 2 && got.z == 3 && got.w == 4;
    tritier::store_volatile_v4(&v[1], make_uint4(5, 6, 7, 8));
    *out++ = v[1].x == 5 && v[1].y == 6 && v[1].z == 7 && v[1].w == 8;
    tritier::prefetch_l1(v);
    tritier::prefetch_l2(v);
    uint64_t start = tritier::globaltimer();
    for (int i = 0; i < 100; i++) {
        tritier::nanosleep(100000);
    }
    *out++ = tritier::globaltimer() - start;
    tritier::relax();
    return out;
}

}  // namespace selftest
