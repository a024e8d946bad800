// Which compiler this is, and what the other headers need from each.
//
// Three macros come from here:
//
//   TRITIER_GPU     1 where functions are compiled for a GPU, 0 on a CPU
//   TRITIER_DEVICE  before a function: callable from kernels, inlined
//   TRITIER_EXPORT_CONST(name, value)
//                   at namespace scope: makes value known to Go. ptxgen writes
//                   `const Name = value` next to the kernels' handles, so that
//                   sizes and offsets have one definition, the device's.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__NVCC__) || defined(__CLANG_CUDA_RUNTIME_WRAPPER_H__)
// A CUDA toolkit is there, with all of CUDA's own names.
#define TRITIER_GPU 1
#include <cuda_runtime.h>
#elif defined(__clang__) && defined(__CUDA__)
#define TRITIER_GPU 1
#include "clang_builtins.cuh"
#else
#define TRITIER_GPU 0
#endif

#if TRITIER_GPU
#define TRITIER_DEVICE __device__ __forceinline__
#else
#define TRITIER_DEVICE inline
#endif

// Only ptxgen's compiler emits the constant: ptxgen reads it from the PTX's
// text, and an object that nobody reads would cost constant memory elsewhere.
// The enumerator still checks that value is a constant and fits.
#if defined(TRITIER_CLANG_BUILTINS)
#define TRITIER_EXPORT_CONST(name, value) \
    extern "C" __device__ __attribute__((used)) const uint64_t ptxgen_const_##name = (value)
#else
#define TRITIER_EXPORT_CONST(name, value) \
    enum : uint64_t { ptxgen_const_##name = (value) }
#endif

// CUDA's vector type, where neither a toolkit nor clang_builtins.cuh has it.
#if !TRITIER_GPU && !defined(__VECTOR_TYPES_H__)
struct alignas(16) uint4 {
    unsigned int x, y, z, w;
};
inline uint4 make_uint4(unsigned int x, unsigned int y, unsigned int z, unsigned int w) {
    return uint4{x, y, z, w};
}
#endif

namespace tritier {
namespace detail {

// same<T>::type is T, and no argument's type is deduced from it: so a literal
// 1 can be added to a uint64_t.
template <class T>
struct same {
    using type = T;
};

// Words that one instruction loads, stores and changes: unsigned, 4 or 8 bytes.
// Signed types are refused because min and max would compare them as unsigned.
template <class T>
constexpr bool is_word = (sizeof(T) == 4 || sizeof(T) == 8) && T(-1) > T(0);

}  // namespace detail
}  // namespace tritier
