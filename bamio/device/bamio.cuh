// GPU-initiated NVMe I/O, all of it. Builds like tritier.cuh (which see): with
// clang and nvcc for GPUs, and with g++, where threads stand for lanes.
#pragma once

#include "copy.cuh"
#include "group.cuh"
#include "io.cuh"
#include "layout.cuh"
#include "poll.cuh"
#include "port.cuh"
#include "request.cuh"
#include "sqe.cuh"
#include "submit.cuh"
