// What a CUDA toolkit's headers define and kernels use, for clang without a
// toolkit (-nocudainc). Included by platform.cuh only; the names and meanings
// are those of the CUDA C++ Programming Guide.
//
// Left out on purpose: atomicAdd and its family, and clang's
// __scoped_atomic_*. clang-19 lowers the latter to relaxed gpu-scope
// instructions whatever they ask for; memory.cuh names scope and order.
#pragma once
#define TRITIER_CLANG_BUILTINS 1

#include <stddef.h>
#include <stdint.h>

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __align__(n) __attribute__((aligned(n)))

// __noinline__ is a keyword of clang already. The file below is clang's own,
// from its resource folder: threadIdx, blockIdx, blockDim, gridDim, warpSize.
#include <__clang_cuda_builtin_vars.h>

struct uint2 {
    unsigned int x, y;
} __align__(8);
struct uint3 {
    unsigned int x, y, z;
};
struct uint4 {
    unsigned int x, y, z, w;
} __align__(16);
struct ulonglong2 {
    unsigned long long x, y;
} __align__(16);
struct dim3 {
    unsigned int x, y, z;
};

__device__ __forceinline__ uint2 make_uint2(unsigned int x, unsigned int y) { return uint2{x, y}; }
__device__ __forceinline__ uint4 make_uint4(unsigned int x, unsigned int y, unsigned int z, unsigned int w) {
    return uint4{x, y, z, w};
}
__device__ __forceinline__ ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) {
    return ulonglong2{x, y};
}

// --- barriers and fences; __syncthreads is clang's own

__device__ __forceinline__ int __syncthreads_count(int p) { return __nvvm_bar0_popc(p); }
__device__ __forceinline__ int __syncthreads_and(int p) { return __nvvm_bar0_and(p); }
__device__ __forceinline__ int __syncthreads_or(int p) { return __nvvm_bar0_or(p); }
__device__ __forceinline__ void __syncwarp(unsigned int mask = 0xffffffffu) { __nvvm_bar_warp_sync(mask); }
__device__ __forceinline__ void __threadfence_block() { __nvvm_membar_cta(); }
__device__ __forceinline__ void __threadfence() { __nvvm_membar_gl(); }
__device__ __forceinline__ void __threadfence_system() { __nvvm_membar_sys(); }

// --- votes and matches

__device__ __forceinline__ unsigned int __ballot_sync(unsigned int mask, int p) { return __nvvm_vote_ballot_sync(mask, p); }
__device__ __forceinline__ int __any_sync(unsigned int mask, int p) { return __nvvm_vote_any_sync(mask, p); }
__device__ __forceinline__ int __all_sync(unsigned int mask, int p) { return __nvvm_vote_all_sync(mask, p); }
__device__ __forceinline__ unsigned int __activemask() {
    unsigned int m;
    // volatile: which lanes are active depends on where the instruction stands.
    asm volatile("activemask.b32 %0;" : "=r"(m)::"memory");
    return m;
}

template <class T>
__device__ __forceinline__ unsigned int __match_any_sync(unsigned int mask, T v) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "match compares 4 or 8 bytes");
    if constexpr (sizeof(T) == 4) {
        return __nvvm_match_any_sync_i32(mask, __builtin_bit_cast(unsigned int, v));
    } else {
        return __nvvm_match_any_sync_i64(mask, __builtin_bit_cast(unsigned long long, v));
    }
}

// --- shuffles: 4-byte values in one instruction, 8-byte values in two

// The instruction's last operand: the segment's mask above, the clamp below.
#define TRITIER_SHFL(NAME, OP, ARG, CLAMP)                                                               \
    template <class T>                                                                                   \
    __device__ __forceinline__ T NAME(unsigned int mask, T v, ARG by, int width = 32) {                  \
        static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");                   \
        int c = ((32 - width) << 8) | CLAMP;                                                             \
        if constexpr (sizeof(T) == 4) {                                                                  \
            return __builtin_bit_cast(T, OP(mask, __builtin_bit_cast(int, v), by, c));                   \
        } else {                                                                                         \
            unsigned long long w = __builtin_bit_cast(unsigned long long, v);                            \
            unsigned int lo = OP(mask, static_cast<int>(w), by, c);                                      \
            unsigned int hi = OP(mask, static_cast<int>(w >> 32), by, c);                                \
            return __builtin_bit_cast(T, static_cast<unsigned long long>(hi) << 32 | lo);                \
        }                                                                                                \
    }
TRITIER_SHFL(__shfl_sync, __nvvm_shfl_sync_idx_i32, int, 0x1f)
TRITIER_SHFL(__shfl_up_sync, __nvvm_shfl_sync_up_i32, unsigned int, 0)
TRITIER_SHFL(__shfl_down_sync, __nvvm_shfl_sync_down_i32, unsigned int, 0x1f)
TRITIER_SHFL(__shfl_xor_sync, __nvvm_shfl_sync_bfly_i32, int, 0x1f)
#undef TRITIER_SHFL

// --- bits and clocks

__device__ __forceinline__ int __ffs(int v) { return __builtin_ffs(v); }
__device__ __forceinline__ int __ffsll(long long v) { return __builtin_ffsll(v); }
__device__ __forceinline__ int __popc(unsigned int v) { return __builtin_popcount(v); }
__device__ __forceinline__ int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
// __builtin_clz of 0 is undefined, CUDA's is the width; this is one clz.b32.
__device__ __forceinline__ int __clz(int v) { return v == 0 ? 32 : __builtin_clz(static_cast<unsigned int>(v)); }
__device__ __forceinline__ int __clzll(long long v) {
    return v == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(v));
}
__device__ __forceinline__ unsigned int __brev(unsigned int v) { return __builtin_bitreverse32(v); }
__device__ __forceinline__ long long clock64() { return __nvvm_read_ptx_sreg_clock64(); }
__device__ __forceinline__ void __nanosleep(unsigned int ns) { asm volatile("nanosleep.u32 %0;" ::"r"(ns) : "memory"); }
__device__ __forceinline__ void __trap() { asm volatile("trap;" ::: "memory"); }
