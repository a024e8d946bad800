// The device side's headers, all of them. A source that includes this builds
// three ways:
//
//   - clang-19 -x cuda --cuda-device-only -nocudainc -nocudalib, with no CUDA
//     toolkit on the machine (internal/ptxgen does this);
//   - nvcc -std=c++17 -arch=sm_90 (or any of sm_70 and up);
//   - g++ -std=c++17 -x c++, for the parts that make sense on a CPU: queue and
//     protocol code runs there with threads in the place of lanes.
//
// Everything of this project lives in namespace tritier; what CUDA itself
// names (threadIdx, __syncwarp, __shfl_sync ...) keeps CUDA's name.
#pragma once

#include "clock.cuh"
#include "memory.cuh"
#include "platform.cuh"
#include "warp.cuh"
