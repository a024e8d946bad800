// Ordered memory operations, each named by what it does, its order and its
// scope:
//
//   load_{relaxed,acquire}_{gpu,sys}(p)
//   store_{relaxed,release}_{gpu,sys}(p, v)
//   atomic_{add,exch,or,and,min,max}_{relaxed,acquire,release,acq_rel}_{gpu,sys}(p, v)
//   atomic_cas_{relaxed,acquire,release,acq_rel}_{gpu,sys}(p, expected, desired)
//   fence_{acq_rel,sc}_{gpu,sys}(), fence_gpu(), fence_sys()
//   load_volatile_v4(p), store_volatile_v4(p, v), prefetch_l1(p), prefetch_l2(p)
//
// p points to uint32_t or uint64_t (or another unsigned type of that size),
// naturally aligned. atomic_* return the value from before. Scope gpu orders
// among the threads of one GPU; sys also with the CPU and other devices. A GPU
// reaches host memory with loads and stores; atomics on host memory need
// hardware that most machines lack (CUDA's HOST_NATIVE_ATOMIC_SUPPORTED).
//
// On a GPU each is one PTX instruction, written out: clang-19 weakens its own
// scoped atomics, so nothing here is left to the compiler. On a CPU they are
// GCC's __atomic built-ins with the same order, for any scope; the order sits
// on the access itself and not in a fence, which a thread sanitizer follows.
//
// Every operation, the relaxed ones too, is a compiler barrier ("memory"):
// the compiler cannot see which word the instruction touches, so a plain
// access of the same thread to that word must not move across it.
#pragma once

#include "platform.cuh"

#define TRITIER_WORD(T) static_assert(tritier::detail::is_word<T>, "needs an unsigned word of 4 or 8 bytes")

#if TRITIER_GPU

#define TRITIER_LOAD(ORDER, GCC, SCOPE)                                                                      \
    template <class T>                                                                                       \
    TRITIER_DEVICE T load_##ORDER##_##SCOPE(const volatile T* p) {                                           \
        TRITIER_WORD(T);                                                                                     \
        T v;                                                                                                 \
        if constexpr (sizeof(T) == 4) {                                                                      \
            asm volatile("ld." #ORDER "." #SCOPE ".u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");            \
        } else {                                                                                             \
            asm volatile("ld." #ORDER "." #SCOPE ".u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");            \
        }                                                                                                    \
        return v;                                                                                            \
    }

#define TRITIER_STORE(ORDER, GCC, SCOPE)                                                                     \
    template <class T>                                                                                       \
    TRITIER_DEVICE void store_##ORDER##_##SCOPE(volatile T* p, typename detail::same<T>::type v) {           \
        TRITIER_WORD(T);                                                                                     \
        if constexpr (sizeof(T) == 4) {                                                                      \
            asm volatile("st." #ORDER "." #SCOPE ".u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");              \
        } else {                                                                                             \
            asm volatile("st." #ORDER "." #SCOPE ".u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");              \
        }                                                                                                    \
    }

#define TRITIER_FENCE(ORDER, GCC, SCOPE) \
    TRITIER_DEVICE void fence_##ORDER##_##SCOPE() { asm volatile("fence." #ORDER "." #SCOPE ";" ::: "memory"); }

// PTX types exchanges and bit operations b32/b64, arithmetic u32/u64. The names
// are passed whole, and PTX's as strings: or and and are tokens of C++.
#define TRITIER_ATOMIC(NAME, OP, GCC_OP, ORDER, GCC, SCOPE)                                                  \
    template <class T>                                                                                       \
    TRITIER_DEVICE T NAME##_##ORDER##_##SCOPE(volatile T* p, typename detail::same<T>::type v) {             \
        TRITIER_WORD(T);                                                                                     \
        T old;                                                                                               \
        if constexpr (sizeof(T) == 4) {                                                                      \
            asm volatile("atom." #ORDER "." #SCOPE "." OP "32 %0, [%1], %2;"                                  \
                         : "=r"(old) : "l"(p), "r"(v) : "memory");                                           \
        } else {                                                                                             \
            asm volatile("atom." #ORDER "." #SCOPE "." OP "64 %0, [%1], %2;"                                  \
                         : "=l"(old) : "l"(p), "l"(v) : "memory");                                           \
        }                                                                                                    \
        return old;                                                                                          \
    }

#define TRITIER_CAS(ORDER, GCC, GCC_FAIL, SCOPE)                                                             \
    template <class T>                                                                                       \
    TRITIER_DEVICE T atomic_cas_##ORDER##_##SCOPE(volatile T* p, typename detail::same<T>::type expected,    \
                                                  typename detail::same<T>::type desired) {                  \
        TRITIER_WORD(T);                                                                                     \
        T old;                                                                                               \
        if constexpr (sizeof(T) == 4) {                                                                      \
            asm volatile("atom." #ORDER "." #SCOPE ".cas.b32 %0, [%1], %2, %3;"                              \
                         : "=r"(old) : "l"(p), "r"(expected), "r"(desired) : "memory");                      \
        } else {                                                                                             \
            asm volatile("atom." #ORDER "." #SCOPE ".cas.b64 %0, [%1], %2, %3;"                              \
                         : "=l"(old) : "l"(p), "l"(expected), "l"(desired) : "memory");                      \
        }                                                                                                    \
        return old;                                                                                          \
    }

#else  // a CPU

namespace tritier {
namespace detail {

// GCC 12 has no fetch-and-min. The exchange happens even when the value stays:
// the instruction that this stands for always writes, with its order.
template <class T, class Pick>
inline T update(volatile T* p, int order, int order_on_failure, Pick pick) {
    T old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(p, &old, pick(old), true, order, order_on_failure)) {
    }
    return old;
}

template <class T>
inline T fetch_min(volatile T* p, T v, int order) {
    return update(p, order, __ATOMIC_RELAXED, [v](T old) { return old < v ? old : v; });
}

template <class T>
inline T fetch_max(volatile T* p, T v, int order) {
    return update(p, order, __ATOMIC_RELAXED, [v](T old) { return old > v ? old : v; });
}

}  // namespace detail
}  // namespace tritier

#define TRITIER_LOAD(ORDER, GCC, SCOPE)                             \
    template <class T>                                              \
    inline T load_##ORDER##_##SCOPE(const volatile T* p) {          \
        TRITIER_WORD(T);                                            \
        return __atomic_load_n(p, __ATOMIC_##GCC);                  \
    }

#define TRITIER_STORE(ORDER, GCC, SCOPE)                                                            \
    template <class T>                                                                              \
    inline void store_##ORDER##_##SCOPE(volatile T* p, typename detail::same<T>::type v) {          \
        TRITIER_WORD(T);                                                                            \
        __atomic_store_n(p, v, __ATOMIC_##GCC);                                                     \
    }

#define TRITIER_FENCE(ORDER, GCC, SCOPE) \
    inline void fence_##ORDER##_##SCOPE() { __atomic_thread_fence(__ATOMIC_##GCC); }

#define TRITIER_ATOMIC(NAME, OP, GCC_OP, ORDER, GCC, SCOPE)                                              \
    template <class T>                                                                                   \
    inline T NAME##_##ORDER##_##SCOPE(volatile T* p, typename detail::same<T>::type v) {                 \
        TRITIER_WORD(T);                                                                                 \
        return GCC_OP(p, v, __ATOMIC_##GCC);                                                             \
    }

#define TRITIER_CAS(ORDER, GCC, GCC_FAIL, SCOPE)                                                         \
    template <class T>                                                                                   \
    inline T atomic_cas_##ORDER##_##SCOPE(volatile T* p, typename detail::same<T>::type expected,        \
                                          typename detail::same<T>::type desired) {                      \
        TRITIER_WORD(T);                                                                                 \
        __atomic_compare_exchange_n(p, &expected, desired, false, __ATOMIC_##GCC, __ATOMIC_##GCC_FAIL);  \
        return expected;                                                                                 \
    }

#endif

namespace tritier {

#define TRITIER_SCOPES(F, ...) F(__VA_ARGS__, gpu) F(__VA_ARGS__, sys)
#define TRITIER_ORDERS(...)                                 \
    TRITIER_SCOPES(TRITIER_ATOMIC, __VA_ARGS__, relaxed, RELAXED) \
    TRITIER_SCOPES(TRITIER_ATOMIC, __VA_ARGS__, acquire, ACQUIRE) \
    TRITIER_SCOPES(TRITIER_ATOMIC, __VA_ARGS__, release, RELEASE) \
    TRITIER_SCOPES(TRITIER_ATOMIC, __VA_ARGS__, acq_rel, ACQ_REL)

TRITIER_SCOPES(TRITIER_LOAD, relaxed, RELAXED)
TRITIER_SCOPES(TRITIER_LOAD, acquire, ACQUIRE)
TRITIER_SCOPES(TRITIER_STORE, relaxed, RELAXED)
TRITIER_SCOPES(TRITIER_STORE, release, RELEASE)
TRITIER_SCOPES(TRITIER_FENCE, acq_rel, ACQ_REL)
TRITIER_SCOPES(TRITIER_FENCE, sc, SEQ_CST)
TRITIER_ORDERS(atomic_add, "add.u", __atomic_fetch_add)
TRITIER_ORDERS(atomic_exch, "exch.b", __atomic_exchange_n)
TRITIER_ORDERS(atomic_or, "or.b", __atomic_fetch_or)
TRITIER_ORDERS(atomic_and, "and.b", __atomic_fetch_and)
TRITIER_ORDERS(atomic_min, "min.u", detail::fetch_min)
TRITIER_ORDERS(atomic_max, "max.u", detail::fetch_max)
TRITIER_SCOPES(TRITIER_CAS, relaxed, RELAXED, RELAXED)
TRITIER_SCOPES(TRITIER_CAS, acquire, ACQUIRE, ACQUIRE)
TRITIER_SCOPES(TRITIER_CAS, release, RELEASE, RELAXED)
TRITIER_SCOPES(TRITIER_CAS, acq_rel, ACQ_REL, ACQUIRE)

// The strongest fences, for where store-to-load order matters; to publish or
// to take over data, a release or acquire on the flag is enough and cheaper.
TRITIER_DEVICE void fence_gpu() { fence_sc_gpu(); }
TRITIER_DEVICE void fence_sys() { fence_sc_sys(); }

// load_volatile_v4 reads 16 aligned bytes that another thread or the CPU may be
// writing. The memory model sees four reads, without order among them: check
// what was read (by a phase bit, a generation) before trusting it.
TRITIER_DEVICE uint4 load_volatile_v4(const volatile uint4* p) {
    uint4 v;
#if TRITIER_GPU
    asm volatile("ld.volatile.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
#else
    v.x = __atomic_load_n(&p->x, __ATOMIC_RELAXED);
    v.y = __atomic_load_n(&p->y, __ATOMIC_RELAXED);
    v.z = __atomic_load_n(&p->z, __ATOMIC_RELAXED);
    v.w = __atomic_load_n(&p->w, __ATOMIC_RELAXED);
#endif
    return v;
}

// store_volatile_v4 is the counterpart, with the same caution.
TRITIER_DEVICE void store_volatile_v4(volatile uint4* p, uint4 v) {
#if TRITIER_GPU
    asm volatile("st.volatile.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
#else
    __atomic_store_n(&p->x, v.x, __ATOMIC_RELAXED);
    __atomic_store_n(&p->y, v.y, __ATOMIC_RELAXED);
    __atomic_store_n(&p->z, v.z, __ATOMIC_RELAXED);
    __atomic_store_n(&p->w, v.w, __ATOMIC_RELAXED);
#endif
}

// prefetch_l1 and prefetch_l2 ask for the line at p, which need not be valid
// when nothing is loaded from it later.
TRITIER_DEVICE void prefetch_l1(const volatile void* p) {
#if TRITIER_GPU
    asm volatile("prefetch.L1 [%0];" ::"l"(p));
#else
    __builtin_prefetch(const_cast<const void*>(p), 0, 3);
#endif
}

TRITIER_DEVICE void prefetch_l2(const volatile void* p) {
#if TRITIER_GPU
    asm volatile("prefetch.L2 [%0];" ::"l"(p));
#else
    __builtin_prefetch(const_cast<const void*>(p), 0, 2);
#endif
}

}  // namespace tritier

#undef TRITIER_WORD
#undef TRITIER_LOAD
#undef TRITIER_STORE
#undef TRITIER_FENCE
#undef TRITIER_ATOMIC
#undef TRITIER_CAS
#undef TRITIER_SCOPES
#undef TRITIER_ORDERS
