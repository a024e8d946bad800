// What the host sets up and device code uses: plain structs without pointers to
// anything but what their names say, of the same layout under nvcc, clang, g++
// and in Go (package bamio), which is checked against the exported constants.
//
// Addresses are 64-bit numbers as the GPU uses them. What the controller sees
// is an IOVA. Memory of the rings, doorbells and payload is pinned host memory
// (or, where a platform allows, GPU memory); everything else here lies in GPU
// memory, which the host fills before the first kernel and reads for a dump.
#pragma once

#include "tritier.cuh"

namespace tritier {
namespace bamio {

constexpr uint32_t kLayoutVersion = 1;

// The states of a command id. A cid is free only when its completion has been
// consumed: a command that timed out keeps it until the completion comes late
// or the controller was reset.
enum : uint32_t {
    kFree = 0,
    kInFlight = 1,
    kDone = 2,      // the completion has come, its owner has not looked yet
    kAbandoned = 3, // its owner gave up; nobody will look
};

// Cid is a command id's word in GPU memory: state in bits 0-1, and once done the
// status field of the completion (SC, SCT, CRD, M, DNR: 15 bits) in bits 16-30.
// dword0 is the completion's command-specific dword, of failed commands only. Bits
// 2-15 are the generation: what the id on the wire carries above the index, so
// that a completion that comes twice or very late does not fit the next command.
struct Cid {
    uint32_t word;
    uint32_t dword0;
};

// Queue is one I/O queue pair, shared by any number of warps. Counters are
// monotonic 64-bit numbers: the slot of entry n is n % depth, its phase tag
// follows from n / depth. Lines of 128 bytes keep what different warps write
// apart.
struct alignas(128) Queue {
    // Set by the host, not changed after.
    uint64_t sq;          // submission entries, 64 bytes each
    uint64_t cq;          // completion entries, 16 bytes each
    uint64_t sq_doorbell; // 32-bit registers
    uint64_t cq_doorbell;
    uint64_t ready; // uint32_t[depth] in GPU memory: low half of entry number + 1, once written
    uint64_t cids;  // Cid[cid_count]
    uint32_t depth;
    uint32_t cq_depth;
    uint32_t cid_count; // at most cq_depth - 1, so that completions always have room
    uint32_t id;        // the controller's queue number
    uint32_t nsid;
    uint32_t drive; // index in Engine.drives
    uint32_t reserved[12];

    alignas(128) uint64_t tickets; // entries reserved
    uint64_t next_cid;             // where the search for a free cid goes on
    alignas(128) uint64_t rung;    // entries told to the controller
    uint32_t ring_lock;            // one ringer at a time
    uint32_t failed;               // not 0: a Status that every later command gets
    alignas(128) uint64_t freed;   // entries that the controller has fetched, by SQHD
    alignas(128) uint64_t cq_head; // completions consumed
    uint32_t cq_lock;              // one consumer at a time
    uint32_t spurious;             // completions for a cid that was not in flight
    uint64_t doorbells;            // SQ doorbell writes, for reports
    uint64_t completions;          // completions delivered
};

// Drive is a namespace behind one controller.
struct alignas(64) Drive {
    uint64_t blocks;     // size in logical blocks
    uint32_t block_size; // bytes
    uint32_t max_blocks; // of one command (MDTS)
    uint32_t first_queue;
    uint32_t queue_count;
    uint32_t id;
    uint32_t reserved0;
    uint64_t iova;  // of payload buffer 0 in this drive's address space, and
    uint64_t lists; // of its PRP list: what commands to this drive must use
    uint32_t reserved[4];
};

// Payload is a set of equal buffers for data. Buffer i is at base + i * bytes
// for the GPU and at Drive.iova + i * bytes for a controller; its PRP list, for
// commands of more than two pages, is at Drive.lists + i * list_bytes (an IOVA),
// made by the host once: entry k is the address of the buffer's page k + 1.
// iova and lists here are drive 0's.
struct alignas(64) Payload {
    uint64_t base;
    uint64_t iova;
    uint64_t lists;
    uint32_t bytes; // of one buffer, a multiple of 4096
    uint32_t list_bytes;
    uint32_t count;
    uint32_t reserved[5];
};

// Engine is what kernels get, by address.
struct alignas(64) Engine {
    uint32_t version; // kLayoutVersion
    uint32_t drive_count;
    uint32_t queue_count;
    uint32_t reserved0;
    uint64_t drives;      // Drive[drive_count]
    uint64_t queues;      // Queue[queue_count]
    uint64_t requests;    // RequestRing, or 0
    uint64_t deadline_ns; // of one wait, measured by globaltimer
    uint64_t stop;        // uint32_t in pinned host memory: not 0 asks kernels to end; or 0
    Payload payload;
};

// What a command or a wait ends with, beside the 15-bit status of a completion.
enum : uint32_t {
    kOk = 0,
    kTimeout = 0x10000,      // no completion within the deadline; the cid is abandoned
    kQueueFailed = 0x20000,  // the queue had failed before
    kDeviceGone = 0x30000,   // the doorbell or a register reads as ones
    kBadArgument = 0x40000,  // outside the drive, the buffer, or the command's limits
    kStopped = 0x50000,      // the host asked kernels to end
    kNoCompletion = 0x60000, // a completion for another generation: protocol broken
    kRequestFailed = 0x70000, // the CPU could not do what a request of the RequestRing asked for
    kBusy = 0x80000,          // no place in the queue or ring within the deadline; nothing was sent
    kNotBegun = 0x90000,      // the request was withdrawn: the CPU has not begun what it asks for, and will not
};

constexpr uint32_t kBegun = 0x80000000u; // flipped in Request.done

// RequestRing carries requests for work that only the CPU can do from GPU to
// CPU: many producers, one consumer, bounded. Entry n is in slot n % slots.
// Slots are in pinned host memory, the tail in GPU memory.
struct alignas(64) Request {
    uint32_t sequence; // low half of n + 1 once the request is whole, release; top bit flipped once the result is taken
    uint32_t kind;
    uint64_t argument[5];
    uint32_t done;   // written by the CPU: low half of n + 1, release, after result; top bit flipped once it has begun
    uint32_t result; // a status
    uint32_t abandoned; // by the producer, who gave up: low half of n + 1
    uint32_t withdrawn; // by the producer, who asks the CPU not to begin: low half of n + 1
};

struct alignas(128) RequestRing {
    uint64_t slots; // Request[count] in pinned host memory
    uint32_t count; // a power of two
    uint32_t reserved[29];
    alignas(128) uint64_t tail; // requests reserved
    alignas(128) uint64_t head; // results taken: slot n may be used again when n - head < count
};

} // namespace bamio
} // namespace tritier

// Additions since the first version (the host sets both, package bamio):
// - Drive.iova and Drive.lists: controllers have address spaces of their own, so
//   PRPs come from the command's drive, not from Engine.payload.
// - kRequestFailed: how the CPU answers a request whose handler failed.
// - kBusy: nothing was sent, the caller may try again; Request.abandoned; the
//   generation of command ids. The host need not set any of them.
// - Request.withdrawn and kNotBegun: who sends a request can learn that nothing came of
//   it. The CPU says in Request.done that it has begun, and looks at withdrawn after.
