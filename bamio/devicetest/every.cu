// Kernels that instantiate every function of the device headers for a GPU: so
// that the build with clang covers them all, and small trials on a GPU.
#include "bamio.cuh"

using namespace tritier::bamio;

// every_sync does, per warp, one of the synchronous operations (what) with a
// block span per lane, the warp's first at first, and says how it ended.
extern "C" __global__ void every_sync(const Engine* engine, uint32_t what, uint64_t first, uint32_t blocks, uint4* data,
                                      uint32_t* status) {
    uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    Lanes g = Lanes::full();
    Port p = open_port(engine, queue_of(engine, 0, thread / 32));
    Medium m = open_medium(engine, 0);
    uint32_t bytes = blocks * m.block_size;
    Span s = Span{first + static_cast<uint64_t>(thread) * blocks, blocks, thread, 0};
    uint4* mine = data + static_cast<uint64_t>(thread) * (bytes / 16);
    uint32_t r = kBadArgument;
    uint32_t opcode = what % 2 == 0 ? kRead : kWrite;
    switch (what) {
    case 0: r = read_to(g, p, m, s, mine); break;
    case 1: r = write_from(g, p, m, s, mine); break;
    case 2:
    case 3: r = transfer(g, p, m, opcode, Span{first, blocks, thread / 32, 0}); break;
    case 4: r = thread % 3 == 0 ? read_thread(p, m, s) : kOk; break;
    case 5: r = thread % 3 != 0 ? write_thread(p, m, s) : kOk; break;
    case 6: r = flush_thread(p); break;
    }
    status[thread] = r;
}

// every_async reads with two commands per lane in flight and writes them back
// block for block, then flushes.
extern "C" __global__ void every_async(const Engine* engine, uint64_t first, uint32_t* status) {
    uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    Lanes g = Lanes::full();
    Port p = open_port(engine, queue_of(engine, 0, thread / 32));
    Medium m = open_medium(engine, 0);
    Span a = Span{first + 2 * thread, 1, thread, 0};
    Span b = Span{first + 2 * thread + 1, 1, thread, m.block_size};
    Handle ha, hb;
    uint32_t ra = read_async(g, p, m, a, true, &ha);
    uint32_t rb = read_async(g, p, m, b, true, &hb);
    uint32_t wa = wait(g, p, ha, ra == kOk), wb = wait(g, p, hb, rb == kOk);
    bool good = (ra | rb | wa | wb) == kOk;
    uint32_t back = write_async(g, p, m, a, good, &ha);
    back |= wait(g, p, ha, good && back == kOk);
    uint32_t flushed = flush_async(g, p, g.leads(), &hb);
    flushed |= wait(g, p, hb, g.leads() && flushed == kOk);
    status[thread] = ra | rb | wa | wb | back | flushed;
}

// every_request asks the CPU once per warp.
extern "C" __global__ void every_request(const Engine* engine, uint32_t kind, uint64_t argument, uint32_t* status) {
    uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread % 32 == 0) {
        uint64_t arguments[5] = {argument, thread, 0, 0, 0};
        status[thread / 32] = request(open_requests(engine), kind, arguments);
    }
}
