// The GPU-orchestrated engine, all of it. Builds like tritier.cuh (which see):
// with clang and nvcc for GPUs, and with g++, where threads stand for lanes.
#pragma once

#include "acquire.cuh"
#include "array_ref.cuh"
#include "bulk.cuh"
#include "context.cuh"
#include "cursor.cuh"
#include "engine.cuh"
#include "entry.cuh"
#include "evict.cuh"
#include "fill.cuh"
#include "flush.cuh"
#include "hash.cuh"
#include "oldest.cuh"
#include "order.cuh"
#include "pool.cuh"
#include "record.cuh"
#include "reuse.cuh"
#include "seek.cuh"
#include "store_drive.cuh"
#include "t2copy.cuh"
#include "victim.cuh"
