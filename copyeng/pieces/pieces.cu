// The kernel that moves pieces of any length, at any byte, between two ranges of
// memory that this GPU reaches: frames of a tier and a buffer.
//
// A warp takes 32 pieces of the list at a time, one a lane. A short piece, such as
// an array's element, is moved by its lane alone, so that 32 of them are in flight;
// a long one by the whole warp, 16 bytes a lane where both sides are aligned so.
#include "tritier.cuh"

struct Piece {
    uint64_t frame;  // bytes from the base of the frames
    uint64_t buffer; // bytes from the base of the buffer
    uint32_t bytes;
    uint32_t reserved;
};

TRITIER_EXPORT_CONST(block_threads, 256);
TRITIER_EXPORT_CONST(piece_bytes, sizeof(Piece));
constexpr uint32_t kThreads = 256, kWarps = kThreads / 32;
constexpr uint32_t kShort = 64; // bytes that a lane moves alone

// move_words moves n words of T with a stride of `lanes`.
template <class T>
TRITIER_DEVICE void move_words(char* to, const char* from, uint32_t n, uint32_t lane, uint32_t lanes) {
    const volatile T* f = reinterpret_cast<const volatile T*>(from);
    T* t = reinterpret_cast<T*>(to);
    for (uint32_t i = lane; i < n; i += lanes) {
        t[i] = f[i];
    }
}

// The same with 16-byte words, four in flight.
TRITIER_DEVICE void move_quads(char* to, const char* from, uint32_t n, uint32_t lane, uint32_t lanes) {
    const uint4* f = reinterpret_cast<const uint4*>(from);
    uint4* t = reinterpret_cast<uint4*>(to);
    uint32_t i = lane;
    for (; i + 3 * lanes < n; i += 4 * lanes) {
        uint4 r[4];
#pragma unroll
        for (uint32_t k = 0; k < 4; k++) r[k] = tritier::load_volatile_v4(f + i + k * lanes);
#pragma unroll
        for (uint32_t k = 0; k < 4; k++) t[i + k * lanes] = r[k];
    }
    for (; i < n; i += lanes) {
        t[i] = tritier::load_volatile_v4(f + i);
    }
}

// move moves bytes with the widest words that both addresses and the length allow.
TRITIER_DEVICE void move(char* to, const char* from, uint32_t bytes, uint32_t lane, uint32_t lanes) {
    uint64_t low = reinterpret_cast<uint64_t>(to) | reinterpret_cast<uint64_t>(from) | bytes;
    if ((low & 15) == 0) {
        move_quads(to, from, bytes / 16, lane, lanes);
    } else if ((low & 7) == 0) {
        move_words<uint64_t>(to, from, bytes / 8, lane, lanes);
    } else if ((low & 3) == 0) {
        move_words<uint32_t>(to, from, bytes / 4, lane, lanes);
    } else {
        move_words<uint8_t>(to, from, bytes, lane, lanes);
    }
}

TRITIER_DEVICE void move_piece(char* frames, char* buffer, const Piece& p, bool load, uint32_t lane, uint32_t lanes) {
    char* f = frames + p.frame;
    char* b = buffer + p.buffer;
    if (load) {
        move(b, f, p.bytes, lane, lanes);
    } else {
        move(f, b, p.bytes, lane, lanes);
    }
}

// move_pieces loads n pieces from frames to the buffer, or stores them.
extern "C" __global__ void __launch_bounds__(kThreads)
    move_pieces(char* frames, char* buffer, const Piece* list, uint32_t n, uint32_t load) {
    uint32_t lane = threadIdx.x & 31, step = gridDim.x * kThreads;
    for (uint32_t first = (blockIdx.x * kWarps + threadIdx.x / 32) * 32; first < n; first += step) {
        Piece mine = Piece{0, 0, 0, 0};
        if (first + lane < n) mine = list[first + lane];
        bool whole = mine.bytes > kShort;
        if (!whole) move_piece(frames, buffer, mine, load != 0, 0, 1);
        uint32_t rest = __ballot_sync(tritier::full_warp, whole);
        while (rest != 0) {
            uint32_t from = static_cast<uint32_t>(__ffs(static_cast<int>(rest)) - 1);
            rest &= rest - 1;
            Piece p;
            p.frame = tritier::broadcast(tritier::full_warp, mine.frame, from);
            p.buffer = tritier::broadcast(tritier::full_warp, mine.buffer, from);
            p.bytes = tritier::broadcast(tritier::full_warp, mine.bytes, from);
            move_piece(frames, buffer, p, load != 0, lane, 32);
        }
    }
}
